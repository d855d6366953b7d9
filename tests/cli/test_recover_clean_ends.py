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


def test_nothing_is_told_of_sound_logs(directory: Path) -> None:
    assert passed("--clean", directory) == {}
