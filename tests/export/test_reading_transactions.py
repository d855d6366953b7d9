"""Aborted transactions are recognised by their markers, by the transaction index where markers are damaged, and never
by a wrong index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from formats import txn_index
from formats.txn_index import AbortedTxn
from kcli.export.splits import MAX_OFFSET
from tests.conftest import GOLDEN, truth
from tests.export.tables import load

TOPIC = "t-mix"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    shutil.copytree(GOLDEN / f"txn/data/{TOPIC}-0", tmp_path / f"{TOPIC}-0")
    return tmp_path / f"{TOPIC}-0"


def committed(log: Path, **options: str) -> list[int]:
    table = load(log, columns="offset", isolation="read_committed", **options)
    found: list[int] = table["offset"].to_pylist()
    return found


WANTED = [row["offset"] for row in truth(f"txn/expected/data/{TOPIC}.read_committed.jsonl.gz")]


@pytest.mark.parametrize("split", [{}, {"minPartitions": "1000"}, {"maxRecordsPerPartition": "1"}])
def test_markers_tell_without_an_index(log: Path, split: dict[str, str]) -> None:
    assert committed(log, **split) == WANTED
    for path in log.glob("*.txnindex"):
        path.unlink()
    assert committed(log, **split) == WANTED


def test_the_index_tells_where_markers_are_damaged(log: Path) -> None:
    markers = load(log, columns="segment,batchPosition,decoded", includeControl="true").to_pylist()
    aborts = [row for row in markers if row["decoded"] and '"ABORT"' in row["decoded"]]
    assert aborts
    for row in aborts:
        path = log / row["segment"]
        data = bytearray(path.read_bytes())
        data[row["batchPosition"] + 17] ^= 1  # the CRC
        path.write_bytes(data)
    assert committed(log, onCorruption="skip") == WANTED
    for path in log.glob("*.txnindex"):
        path.unlink()
    assert committed(log, onCorruption="skip") != WANTED


@pytest.mark.parametrize(("first", "last"), [(0, MAX_OFFSET - 1), (0, 100), (50, 60), (70, 10)])
def test_an_index_that_lies_takes_nothing_away(log: Path, first: int, last: int) -> None:
    producers = set(load(log, columns="producerId")["producerId"].to_pylist())
    for path in log.glob("*.txnindex"):
        path.write_bytes(txn_index.build(tuple(AbortedTxn(0, each, first, last, last) for each in producers)))
    assert committed(log) == WANTED


def test_damaged_indexes_are_as_good_as_none(log: Path) -> None:
    for path in log.glob("*.txnindex"):
        path.write_bytes(b"\0\5" + path.read_bytes()[2:])
    for path in log.glob("*.snapshot"):
        path.write_bytes(b"\xff" * 100)
    assert committed(log) == WANTED


def test_an_index_that_lies_ends_no_transaction(tmp_path: Path) -> None:
    log = tmp_path / "t-hang-0"
    shutil.copytree(GOLDEN / "txn/data/t-hang-0", log)
    wanted = [row["offset"] for row in truth("txn/expected/data/t-hang.read_committed.jsonl.gz")]
    producers = set(load(log, columns="producerId")["producerId"].to_pylist())
    entries = tuple(AbortedTxn(0, each, 0, 20, 20) for each in producers)
    (log / f"{0:020}.txnindex").write_bytes(txn_index.build(entries))
    assert committed(log) == wanted
