"""Exports on a real Spark: what only it can do (order, the latest by key), and workers that are killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kcli.errors import KcliError
from kcli.export.check import check_export
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.options import SourceOptions
from kcli.export.outcome import dead_letter_directory
from kcli.export.steps import JobProgress
from kcli.export.table_writer import TableFormat
from tests.conftest import GOLDEN
from tests.export.logs import append
from tests.export.test_job import expected_rows, source, with_duckdb, with_pyarrow

KILLS = 2


def test_export_equals_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[JobProgress] = []
    Job(ExportOptions(source(GOLDEN / "codecs/data/mixed-0"), out), spark.sparkContext, seen.append).run()
    expected = expected_rows("codecs/expected/truth/mixed.jsonl.gz")
    assert with_pyarrow(out) == with_duckdb(out) == expected
    assert all(each.bytes <= each.bytes_total for each in seen)


def test_sorted(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ExportOptions(source(GOLDEN / "codecs/data"), out, TableFormat(("topic",)), sort=("-timestamp", "offset"))
    outcome = Job(options, spark.sparkContext).run()
    for path in out.rglob("*.parquet"):
        table = pq.ParquetFile(path).read()
        order = [(-time_us, offset) for time_us, offset in zip(table["timestamp"].cast("int64").to_pylist(),
                                                               table["offset"].to_pylist(), strict=True)]  # fmt: skip
        assert order == sorted(order)
    assert outcome.records == 5425
    assert check_export(out).findings == []


def test_latest_by_key(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, list(range(8)))
    append(log, [8, 9, 10], [b"last", None, b"keyless"], [b"k0", b"k1", None])
    out = tmp_path / "out"
    outcome = Job(
        ExportOptions(source(log), out, latest_by_key=True, value=DecoderSpec(format="string")), spark.sparkContext
    ).run()
    table = ds.dataset(out).to_table().sort_by("offset")
    rows = list(zip(*(table[name].to_pylist() for name in ("key", "value", "offset")), strict=True))
    assert rows == [(b"k2", "v6", 6), (b"k3", "v7", 7), (b"k0", "last", 8)]
    (dead,) = ds.dataset(dead_letter_directory(out)).to_table().to_pylist()
    assert (dead["offset"], dead["keyReason"]) == (10, "no key, so no place in a table by key")
    assert outcome.superseded == 7
    assert check_export(out).findings == []


def test_errors_of_tasks_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    given = source(GOLDEN / "corrupt/cases/crc-field-flip")
    with pytest.raises(KcliError, match=r"CRC is .*; onCorruption") as told:
        Job(ExportOptions(given, tmp_path / "out"), spark.sparkContext).run()
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == []


def test_killed_workers_are_replaced(spark: SparkSession, tmp_path: Path) -> None:
    """Python workers die while tasks run: Spark runs these again, and the files of the dead ones do not count."""
    log = tmp_path / "t-0"
    log.mkdir()
    for first in range(0, 20_000, 1000):
        append(log, list(range(first, first + 1000)))
    out = tmp_path / "out"
    ended = threading.Event()
    killed: list[int] = []
    killer = threading.Thread(target=_kill_workers, args=(ended, killed))
    killer.start()
    try:
        Job(ExportOptions(SourceOptions.parse({"path": str(log)}), out), spark.sparkContext).run()
    finally:
        ended.set()
        killer.join()
    assert killed
    assert sorted(ds.dataset(out).to_table(columns=["offset"])["offset"].to_pylist()) == list(range(20_000))
    assert check_export(out).findings == []


def _kill_workers(ended: threading.Event, killed: list[int]) -> None:
    while len(killed) < KILLS and not ended.wait(0.05):
        daemons = _daemons()
        for pid in _descendants(os.getpid()):
            if _parent(pid) in daemons:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                time.sleep(0.1)
                break


def _daemons() -> set[int]:
    return {pid for pid in _descendants(os.getpid()) if b"kcli.export.daemon" in _command(pid)}


def _descendants(pid: int) -> list[int]:
    found = [
        child
        for child in map(int, filter(str.isdecimal, (path.name for path in Path("/proc").iterdir())))
        if _parent(child) == pid
    ]
    return [*found, *(below for child in found for below in _descendants(child))]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
