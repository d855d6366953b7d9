"""Bytes that are no batch at the end of a log, after a clean stop: Kafka cuts nothing, and appends behind them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN

LOG = f"t-txn-2/{76:020}.log"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))


def passed(*args: str | Path) -> dict[str, Any]:
    rows = map(json.loads, kcli("recover", "--format", "jsonl", *args).stdout.splitlines())
    return {f"{row['partition']}/{row['file']}": row["reason"] for row in rows if row["kind"] == "passed-over"}


@pytest.mark.parametrize(("tail", "what"), [(b"\n", "a byte that is"), (b"text", "4 bytes that are")])
def test_kafka_appends_behind_them(directory: Path, tmp_path: Path, tail: bytes, what: str) -> None:
    before = (directory / LOG).read_bytes()
    (directory / LOG).write_bytes(before + tail)
    told = passed("--clean", directory)
    assert told == {
        LOG: f"it ends with {what} no batch: Kafka appends behind, and consumers do not get past it",
    }
    kcli("recover", "--salvage", "--out", tmp_path / "new", directory)
    assert (tmp_path / "new" / LOG).read_bytes() == before


@pytest.mark.parametrize(("tail", "how"), [(5, "pass over it"), (None, "do not get past it")])
def test_a_full_index_begins_a_new_segment(directory: Path, tail: int | None, how: str) -> None:
    """After a crash the index has its full size, with zeros that a clean start takes for entries: real Kafka's first
    append then goes to a new segment, and consumers pass over a torn batch."""
    log = directory / LOG
    whole = log.read_bytes()
    index = log.with_suffix(".index")
    entries = index.read_bytes()
    log.write_bytes(whole + (b"text" * 9 if tail is None else whole[:40]))
    index.write_bytes(entries + bytes(65_536 - len(entries)))
    (reason,) = passed("--clean", "-o", "segment.index.bytes=65536", directory).values()
    assert reason.endswith(f"Kafka appends to a new segment, and consumers {how}")
    (reason,) = passed("--clean", directory).values()
    assert "with segment.index.bytes=65536, the size of its index, Kafka appends to a new segment" in reason
    (reason,) = passed("--clean", "-o", "segment.index.bytes=1048576", directory).values()
    assert reason.endswith("Kafka appends behind, and consumers do not get past it")


def test_nothing_is_told_of_sound_logs(directory: Path) -> None:
    assert passed("--clean", directory) == {}
