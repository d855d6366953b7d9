# Everything sets itself up in .venv; all it needs is make and Python 3.11 or newer with its headers.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
DEPS := $(VENV)/.stamp-dependencies
BUILT := $(VENV)/.stamp-built
KERNELS := $(wildcard formats/kernels/*.pyx formats/kernels/*.pxi formats/kernels/*.pxd formats/kernels/*.h)

.PHONY: help demo test lint bench soak sanitize chaos wheel lock clean

help:
	@echo "make demo    the commands on the samples, a broker, and a cluster that loses a node"
	@echo "make test    ruff, mypy, import-linter and every test"
	@echo "make lint    ruff, mypy and import-linter"
	@echo "make bench   time kcli beside Kafka (needs Java and Maven for Kafka's side)"
	@echo "make soak    the property tests with many more examples, and make sanitize: 1,000,000 damaged inputs into the"
	@echo "             kernels under bounds checks and sanitizers (INPUTS=..., SEED=...)"
	@echo "make chaos   30 minutes of a cluster whose nodes, disks and network fail while clients work (as root)"
	@echo "make wheel   dist/*.whl and dist/*.tar.gz"
	@echo "make lock    resolve the dependencies anew into .ci/*.lock"
	@echo "make clean   remove what was built; make clean-all removes .venv too"

demo: $(BUILT)
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash samples/demo.sh

test: lint
	$(BIN)/pytest -n auto --dist worksteal

lint: $(BUILT)
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(BUILT)
	$(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.serve
	$(BIN)/python -m tests.bench.cluster
	$(BIN)/python -m tests.bench.groups
	$(BIN)/python -m tests.bench.decoding
	$(BIN)/python -m tests.bench.export --why

soak: $(BUILT)
	$(BIN)/pytest -n auto -m hypothesis --hypothesis-profile=soak
	$(MAKE) sanitize

sanitize: $(BUILT)
	$(BIN)/python -m tests.sanitize $(if $(INPUTS),--inputs $(INPUTS)) $(if $(SEED),--seed $(SEED))

chaos: $(BUILT)
	$(BIN)/python -m tests.chaos

wheel: $(BUILT)
	rm -rf dist build
	.ci/with-compiler $(VENV) $(BIN)/python -m build --no-isolation
	.ci/check-wheel

lock: $(DEPS)
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --extra dev --extra spark -o .ci/dev.lock pyproject.toml
	printf 'ziglang>=0.13\n' | $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header -o .ci/zig.lock -

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f formats/kernels/*.c formats/kernels/*.so $(BUILT)
	find formats kcli samples tests -name __pycache__ -prune -exec rm -rf {} +

.PHONY: clean-all
clean-all: clean
	rm -rf $(VENV) tests/bench/.work

$(DEPS): .ci/dev.lock
	@python=$$(PYTHON="$(PYTHON)" .ci/find-python) && echo "Setting up $(VENV) with $$python" && "$$python" -m venv $(VENV)
	$(PIP) install --require-hashes --only-binary :all: --no-binary pyspark -r .ci/dev.lock
	@touch $@

# Plain path entry (compat): kcli starts 15 ms sooner than through setuptools' import hook.
$(BUILT): $(DEPS) pyproject.toml setup.py $(KERNELS)
	.ci/with-compiler $(VENV) $(PIP) install --no-build-isolation --no-deps --config-settings editable_mode=compat --editable .
	@touch $@
