# Everything sets itself up in .venv; all it needs is make and Python 3.11 or newer with its headers.

VENV := .venv
BIN := $(VENV)/bin
# Where stderr is a terminal pip shows how far it is.
PIP := $(BIN)/pip --disable-pip-version-check $(shell test -t 2 || echo --quiet)
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
LOCKED := install --require-hashes --only-binary :all:
RUN := $(VENV)/.stamp-run
SPARK := $(VENV)/.stamp-spark
DEPS := $(VENV)/.stamp-dependencies
BUILT := $(VENV)/.stamp-built
# Hundreds of processes start in the tests: each reads the bytecode that the first one kept, whatever the caller's
# environment says about keeping it.
export PYTHONDONTWRITEBYTECODE :=
KERNELS := $(wildcard $(foreach kind,pyx pxd h,formats/kernels/*.$(kind) formats/kernels/*/*.$(kind) kcli/streams/kernels/*.$(kind)))

.PHONY: help demo test ready check lint types style compiled bench soak sanitize chaos wheel lock clean

help:
	@echo "make demo    the commands on the samples, a broker, a cluster that loses a node, an Iceberg table whose job is killed"
	@echo "make test    ruff, mypy, import-linter and every test"
	@echo "make check   between two edits: make lint, then the tests near what changed since main, in under 2 minutes"
	@echo "make lint    ruff, mypy, import-linter, and no ring of imports"
	@echo "make bench   time kcli beside Kafka (needs Java and Maven for Kafka's side)"
	@echo "make soak    the randomized proofs in full: properties, damage beside real Kafka, 100,000 hostile frames, 200 kills with a tier, 50 of a registry, 100,000 changes of PostgreSQL, 120 of a Connect worker, its Spark, broker and database, 120 of Spark, its broker and its registry, 120 of a streams application, make sanitize"
	@echo "make sanitize  1,000,000 damaged inputs into the kernels under bounds checks and sanitizers, and 10,000,000 Produce requests (INPUTS=..., FRAME_INPUTS=..., SEED=...)"
	@echo "make chaos   30 minutes of a cluster whose nodes, disks and network fail while clients work (as root)"
	@echo "make wheel   dist/*.whl and dist/*.tar.gz"
	@echo "make lock    resolve the dependencies anew into .ci/*.lock"
	@echo "make clean   remove what was built; make clean-all removes .venv too"

demo:
	@$(MAKE) --no-print-directory -j2 $(BUILT) $(SPARK)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash samples/demo.sh

test: ready
	@$(MAKE) --no-print-directory -j2 types style compiled
	$(BIN)/pytest -n auto --dist loadfile

check: lint
	$(BIN)/python -m tests.check

# One core fetches and unpacks while the other compiles.
ready:
	@$(MAKE) --no-print-directory -j2 $(DEPS) $(BUILT)

lint: ready
	@$(MAKE) --no-print-directory -j2 types style

# The parts of lint, side by side: mypy takes as long as all else.
types:
	$(BIN)/mypy

style:
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/python .ci/rings.py

# Once, while mypy runs, what each of pytest's processes would do by itself: asserts rewritten, tests compiled.
compiled:
	@$(BIN)/pytest --collect-only --quiet > $(VENV)/.collected || { cat $(VENV)/.collected; exit 1; }

bench: $(DEPS) $(BUILT)
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.serve
	$(BIN)/python -m tests.bench.cores
	$(BIN)/python -m tests.bench.lanes
	$(BIN)/python -m tests.bench.secured
	$(BIN)/python -m tests.bench.cluster
	$(BIN)/python -m tests.bench.groups
	$(BIN)/python -m tests.bench.waits
	$(BIN)/python -m tests.bench.tier
	$(BIN)/python -m tests.bench.registry
	$(BIN)/python -m tests.bench.decoding
	$(BIN)/python -m tests.bench.export --why
	$(BIN)/python -m tests.bench.pipelines
	$(BIN)/python -m tests.bench.streams
	$(BIN)/python -m tests.bench.connect

soak: $(DEPS) $(BUILT)
	$(BIN)/pytest -n auto -m hypothesis --hypothesis-profile=soak
	$(BIN)/pytest -n 2 --hypothesis-profile=soak tests/interop/test_random_damage_kafka.py
	$(BIN)/python -m tests.broker.quorum_fuzz --frames 100000
	$(BIN)/python -m tests.broker.tiering.lives --kills 200
	$(BIN)/python -m tests.registry.kills --kills 50
	$(BIN)/python -m tests.connect.postgres_kills --changes 100000
	$(BIN)/python -m tests.connect.kills --kills 100
	$(BIN)/python -m tests.connect.kills --kills 20 --master 'local-cluster[2,8,1024]'
	$(BIN)/python -m tests.pipelines.kills --kills 100
	$(BIN)/python -m tests.pipelines.kills --kills 20 --master 'local[2]'
	$(BIN)/python -m tests.streams.kills --kills 100
	$(BIN)/python -m tests.streams.kills --kills 20 --master 'local-cluster[2,1,1024]'
	$(MAKE) sanitize

sanitize: $(BUILT)
	$(BIN)/python -m tests.sanitize $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m tests.sanitize --kind frames --inputs $(or $(FRAME_INPUTS),20000) $(if $(SEED),--seed $(SEED))

chaos: $(DEPS) $(BUILT)
	$(BIN)/python -m tests.chaos

wheel: $(DEPS) $(BUILT)
	rm -rf dist build
	.ci/with-compiler $(VENV) $(BIN)/python -m build --no-isolation
	.ci/check-wheel

lock: $(DEPS)
	$(PIP) install uv
	$(COMPILE) --upgrade --extra dev --extra postgres --extra spark --extra tier --extra registry --extra tables -o .ci/dev.lock pyproject.toml
	printf 'cython\nduckdb\nobstore\npyiceberg\nsetuptools\nsqlalchemy\n' | $(COMPILE) --extra spark --extra registry --no-emit-package pyspark --no-emit-package py4j -c .ci/dev.lock -o .ci/run.lock pyproject.toml -
	printf 'pyspark\n' | $(COMPILE) -c .ci/dev.lock -o .ci/spark.lock -
	printf 'ziglang>=0.13\n' | $(COMPILE) --upgrade -o .ci/zig.lock -

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find formats/kernels kcli/streams/kernels \( -name "*.c" -o -name "*.so" \) -delete; rm -f $(BUILT)
	find formats kcli samples tests -name __pycache__ -prune -exec rm -rf {} +

.PHONY: clean-all
clean-all: clean
	rm -rf $(VENV) tests/bench/.work

$(VENV)/pyvenv.cfg:
	@python=$$(PYTHON="$(PYTHON)" .ci/find-python) && echo "Setting up $(VENV) with $$python" && "$$python" -m venv $(VENV)

# In the order in which the demo needs them, and what it does not need last.
$(RUN): .ci/run.lock | $(VENV)/pyvenv.cfg
	@echo "Fetching what kcli runs on and is built with: 61 packages, 192 MB"
	@$(PIP) $(LOCKED) -r .ci/run.lock
	@touch $@

$(SPARK): .ci/spark.lock $(RUN)
	@echo "Fetching Spark: 456 MB; PyPI has no wheel of it, so pip packs one, half a minute of one core"
	@$(PIP) $(LOCKED) --no-binary pyspark --no-build-isolation -r .ci/spark.lock
	@touch $@

$(DEPS): .ci/dev.lock $(SPARK)
	@echo "Fetching what the tests need besides: 68 packages, 90 MB"
	@$(PIP) $(LOCKED) --no-binary pyspark -r .ci/dev.lock
	@touch $@

# Plain path entry (compat): kcli starts 15 ms sooner than through setuptools' import hook.
$(BUILT): $(RUN) pyproject.toml setup.py $(KERNELS)
	@echo "Compiling the kernels: half a minute of one core, less of several"
	@.ci/with-compiler $(VENV) $(PIP) install --no-build-isolation --no-deps --config-settings editable_mode=compat --editable .
	@touch $@
