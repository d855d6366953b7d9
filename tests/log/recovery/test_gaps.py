"""A dry run names the offsets between two segments that no file has, in topics that were never compacted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN

PARTITION = "java-none-0"
GAP = "no file has offsets 108..201, behind 00000000000000000000.log: Kafka starts without them"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))


def told(data: Path) -> list[tuple[str, str]]:
    """The file and the reason of each gap that a dry run tells."""
    ended = kcli("recover", "--format", "jsonl", data)
    rows = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "passed-over"]
    assert ended.status == 1 or not rows
    return [(row["file"], row["reason"]) for row in rows if row["reason"].startswith("no file has")]


def segment(data: Path) -> list[Path]:
    return sorted((data / PARTITION).glob(f"{108:020}.*"))


def without_index(data: Path) -> None:
    (data / PARTITION / f"{0:020}.index").unlink()


def with_zeros(data: Path) -> None:
    """As a crash leaves the index: with room for more entries."""
    path = data / PARTITION / f"{0:020}.index"
    path.write_bytes(path.read_bytes() + bytes(4096))


def with_a_wrong_entry(data: Path) -> None:
    path = data / PARTITION / f"{0:020}.index"
    path.write_bytes(path.read_bytes() + bytes.fromhex("0000006a 00000007"))


@pytest.mark.parametrize("change", [lambda _: None, without_index, with_zeros, with_a_wrong_entry])
def test_a_lost_segment(data: Path, change: Callable[[Path], None]) -> None:
    assert told(data) == []
    for each in segment(data):
        each.unlink()
    change(data)
    assert told(data) == [(f"{202:020}.log", GAP)]


def test_the_lost_end_of_a_segment(data: Path) -> None:
    log = data / PARTITION / f"{108:020}.log"
    log.write_bytes(log.read_bytes()[:-10])
    ((file, reason),) = told(data)
    assert file == f"{202:020}.log"
    assert reason.endswith(f"..201, behind {log.name}: Kafka starts without them")


def test_below_the_log_start_offset_nothing_is_lost(data: Path) -> None:
    for each in segment(data):
        each.unlink()
    (data / "log-start-offset-checkpoint").write_text(f"0\n1\njava-none 0 {202}\n")
    assert told(data) == []


def test_what_lies_under_another_name_is_not_told_twice(data: Path) -> None:
    log = data / PARTITION / f"{108:020}.log"
    log.rename(f"{log}.deleted")
    assert told(data) == []
