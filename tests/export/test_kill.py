"""kill -9 of incremental exports at any time: no record is in the table twice, and in the end each is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
import pytest

from kcli.export.check import check_export
from kcli.export.commit import INTENT, Busy, Staging
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.manifest import MANIFEST
from kcli.export.options import SourceOptions
from kcli.export.table_writer import TableFormat
from kcli.log.disk import Disk
from tests.conftest import examples
from tests.export.in_process import InProcess
from tests.export.logs import append

KILLS = examples(6, soak=50).max_examples


def offsets(out: Path) -> list[tuple[int, int]]:
    """Return partition and offset of each row, as pyarrow and as DuckDB read the directory."""
    if not any(out.rglob("*.parquet")):
        return []
    table = ds.dataset(out, partitioning="hive").to_table(columns=["partition", "offset"])
    seen = sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
    query = f"""select partition, "offset" from read_parquet('{out}/**/*.parquet', hive_partitioning = true)"""
    assert sorted(duckdb.execute(query).fetchall()) == seen
    return seen


@pytest.mark.hypothesis  # for make soak
def test_kill_at_any_moment(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    draw = random.Random(seed)
    logs = [tmp_path / "logs" / f"t-{number}" for number in range(2)]
    for log in logs:
        log.mkdir(parents=True)
    out, state = tmp_path / "out", tmp_path / "state"
    written = 0
    took_s = 0.3
    for _ in range(KILLS):
        for log in logs:
            append(log, list(range(written, written + 50)))
        written += 50
        command = [sys.executable, "-m", "tests.export.exporting", str(tmp_path / "logs"), str(out), str(state)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n"
            began = time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            try:
                process.wait(draw.uniform(0, took_s))
            except subprocess.TimeoutExpired:
                process.kill()
            else:
                took_s = 1.2 * (time.monotonic() - began)
        seen = offsets(out)
        assert len(set(seen)) == len(seen), "no record twice, at any moment"
    given = SourceOptions.parse(
        {"path": str(tmp_path / "logs"), "columns": "key,value,topic,partition,offset,timestamp"}
    )
    Job(ExportOptions(given, out, TableFormat(("partition",)), state=state), InProcess()).run()  # type: ignore[arg-type]
    assert offsets(out) == [(partition, offset) for partition in range(2) for offset in range(written)]
    assert check_export(out).findings == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "out", "state"]


class Killed(BaseException):
    """Where the process would have ended."""


class DyingDisk(Disk):
    """A disk that ends the process at the n-th change of names or files."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        self._step()

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def write_file(self, path: Path, data: bytes) -> None:
        self._step()
        super().write_file(path, data)

    def sync_directory(self, path: Path) -> None:
        self._step()
        super().sync_directory(path)


@pytest.mark.parametrize("steps", range(24))
def test_commit_is_all_or_nothing(steps: int, tmp_path: Path) -> None:
    """A kill before the intent is written leaves no change; after a later kill the next run completes the commit."""
    out, state = tmp_path / "out", tmp_path / "state"
    staging = Staging(out, DyingDisk(10**9))
    staging.__enter__()
    names = [f"{number}.parquet" for number in range(3)]
    for name in names:
        (staging.run / name).write_text(name)
    staging._disk = DyingDisk(steps)
    renames = {staging.run / name: out / "p=1" / name for name in names}
    whole = False
    try:
        staging.commit(renames, {out / MANIFEST: b"manifest", state: b"state"})
        whole = True
    except Killed:
        pass
    stood = whole or (out / INTENT).exists() or state.exists()
    interrupted = (out / INTENT).exists()
    os.close(staging._lock)
    with Staging(out) as following:
        assert following.finished_earlier is interrupted
        found = sorted(path.name for path in (out / "p=1").glob("*")) if (out / "p=1").exists() else []
        assert found == (names if stood else [])
        assert (out / MANIFEST).exists() is stood
        assert state.exists() is stood
        assert not (out / INTENT).exists()
    assert not list(tmp_path.glob(".*.kcli"))


def test_one_at_a_time(tmp_path: Path) -> None:
    with Staging(tmp_path / "out"), pytest.raises(Busy, match="another export"), Staging(tmp_path / "out"):
        pass
