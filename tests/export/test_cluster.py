"""Executors in processes of their own (local-cluster), with a Python that Spark hands out; exports that are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kcli.export.check import check_export
from kcli.export.session import QUICK_JAVA
from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN, examples
from tests.export.logs import append
from tests.export.processes import below
from tests.export.test_job import expected_rows, with_duckdb, with_pyarrow
from tests.export.test_kill import offsets

KILLS = examples(4, soak=50).max_examples
WORKER = b".daemon"
VICTIMS = {"java": b"SparkSubmit", "worker": WORKER, "executor": b"CoarseGrainedExecutorBackend"}
QUICK_EXECUTORS = {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}
MASTERS = {"executor": "local-cluster[1,1,1024]"}


def test_executors_with_a_packed_python(tmp_path: Path) -> None:
    """A real venv-pack archive is large; here bin/python only leads to this Python."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport KCLI_PACKED=1\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(python, "bin/python")
    out = tmp_path / "out"
    mixed = str(GOLDEN / "codecs/data/mixed-0")
    where = ["--out", str(out), "--master", "local-cluster[1,1,1024]", "--environment", str(archive)]
    command = [*KCLI, "export-to-parquet", mixed, *where, "--debug"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=QUICK_EXECUTORS)
    assert (done.returncode, done.stderr) == (0, "")
    assert with_pyarrow(out) == with_duckdb(out) == expected_rows("codecs/expected/truth/mixed.jsonl.gz")


@pytest.mark.hypothesis  # for make soak
def test_kill_of_driver_and_of_spark(tmp_path: Path) -> None:
    """Run incremental exports, and kill some processes of each; the last one runs undisturbed.

    A kill may come after the end of its run: then there are more runs.
    """
    log = tmp_path / "logs" / "t-0"
    log.mkdir(parents=True)
    out, state = tmp_path / "out", tmp_path / "state"
    written = hits = 0
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    for number in range(3 * KILLS):
        if number >= KILLS and hits > KILLS // 2:
            break
        for _ in range(4):
            append(log, list(range(written, written + 500)))
            written += 500
        victim = ("java", "worker", "driver", "executor")[number % 4]
        options = ["--out", str(out), "--incremental", str(state), "--master", MASTERS.get(victim, "local[1]")]
        command = [*KCLI, "export-to-parquet", str(log), *options]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=QUICK_EXECUTORS
        ) as process:
            hits += _kill(process, victim, draw.uniform(0, 0.6))
        if out.exists():
            seen = offsets(out)
            assert len(set(seen)) == len(seen)
    assert hits > KILLS // 2, "they are killed before they are done"
    done = kcli("export-to-parquet", log, "--out", out, "--incremental", state, "--master", "local[1]", timeout=600)
    assert (done.status, done.stderr) == (0, "")
    assert sorted(ds.dataset(out).to_table(columns=["offset"])["offset"].to_pylist()) == list(range(written))
    assert check_export(out).findings == []


def _kill(process: subprocess.Popen[bytes], victim: str, delay_s: float) -> bool:
    """Kill processes of an export, some time after its first Python worker started. Returns whether there was one to
    kill."""
    while process.poll() is None and not any(WORKER in command for _, command in below(process.pid)):
        time.sleep(0.02)
    time.sleep(delay_s)
    is_hit = victim == "driver" and process.poll() is None
    if is_hit:
        process.kill()
    for pid, command in below(process.pid) if victim in VICTIMS else ():
        if VICTIMS[victim] in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                is_hit = True
    process.wait()
    return is_hit
