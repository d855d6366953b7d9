"""A dry run names the offsets between two segments that no file has, in topics that were never compacted."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames

PARTITION = "java-none-0"
GAP = "no file has offsets 108..201, behind 00000000000000000000.log: Kafka starts without them"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(GOLDEN / "codecs/data", tmp_path / "data", copy_function=shutil.copyfile))


def told(data: Path, *options: str | Path) -> list[tuple[str, str]]:
    """The file and the reason of each gap that a dry run tells."""
    ended = kcli("recover", "--format", "jsonl", *options, data)
    rows = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "passed-over"]
    assert ended.status == 1 or not rows
    return [(row["file"], row["reason"]) for row in rows if row["reason"].startswith(("no file has", "no log has"))]


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


@pytest.mark.parametrize("content", [b"", b"Dumping segment\n"])
def test_a_log_without_a_batch(data: Path, content: bytes) -> None:
    (data / PARTITION / f"{108:020}.log").write_bytes(content)
    reason = f"no file has offsets 108..201, in {108:020}.log: Kafka starts without them"
    assert told(data) == [(f"{202:020}.log", reason)]


def test_logs_that_a_rotation_has_emptied_and_compressed(data: Path) -> None:
    """One row for all of them, with the files that have the batches; at the end of the log, too."""
    logs = sorted((data / PARTITION).glob("*.log"))
    for log in logs:
        log.with_name(f"{log.name}-20261129.gz").write_bytes(gzip.compress(log.read_bytes()))
        log.write_bytes(b"")
    beside = f"{0:020}.log-20261129.gz, {108:020}.log-20261129.gz and 1 more, beside it, have batches of them"
    reason = f"no log has offsets 0..{int(logs[-1].stem) - 1}, in {0:020}.log; {beside}: Kafka starts without them"
    assert told(data) == [(logs[-1].name, reason)]
    ended = kcli("recover", "--format", "jsonl", data)
    rows = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "end-missing"]
    assert [row["unread"] for row in rows] == [[f"{PARTITION}/{logs[-1].name}-20261129.gz"]]


def test_the_lost_begin_of_a_log(data: Path) -> None:
    """The leader epochs begin there, and retention has no cause to have deleted it."""
    (data / PARTITION / f"{0:020}.log").unlink()
    for each in (data / PARTITION).glob(f"{0:020}.*index"):
        each.unlink()
    config = data.with_name("server.properties")
    for retention_ms, is_told in ((-1, True), (1, True)):
        config.write_text(f"node.id=1\nlog.dirs={data}\nlog.retention.ms={retention_ms}\n")
        assert bool(told(data, "--config", config)) == is_told
    config.write_text(f"node.id=1\nlog.dirs={data}\nlog.retention.bytes=1\n")
    assert told(data, "--config", config) == []
    config.write_text(f"node.id=1\nlog.dirs={data}\nlog.retention.ms=-1\n")
    begins = "where its leader epochs begin: Kafka starts without them"
    reason = f"no file has offsets 0..107, before {108:020}.log, {begins}"
    assert told(data, "--config", config) == [(f"{108:020}.log", reason)]


def of(data: Path, log: Path) -> list[str]:
    """The reasons of the rows that a dry run has for damage in a .log file with which Kafka starts."""
    rows = map(json.loads, kcli("recover", "--format", "jsonl", data).stdout.splitlines())
    return [row["reason"] for row in rows if row["kind"] == "passed-over" and row["file"] == log.name]


def test_damage_up_to_the_end_of_a_segment(data: Path) -> None:
    """Kafka 4.3 sent it, and consumers stopped at it: 554 records were not served, 120 of them in the damage."""
    log = data / PARTITION / f"{108:020}.log"
    content = log.read_bytes()
    position, _ = frames(content)[-1]
    first = int.from_bytes(content[position : position + 8])
    for end in (content[position:-1] + bytes([content[-1] ^ 1]), bytes(len(content) - position)):
        log.write_bytes(content[:position] + end)
        assert told(data) == []
        (reason,) = of(data, log)
        damage = f"the file is damaged from byte {position:,} on. Kafka starts, and consumers stop at offset {first}"
        assert reason == f"no sound batch has offsets {first}..201: {damage}; salvage keeps what can be read"
    log.write_bytes(bytes(len(content)))
    (reason,) = of(data, log)
    assert reason.startswith("no sound batch has offsets 108..201: the file is damaged from byte 0 on. ")
    log.write_bytes(content)
    assert of(data, log) == []


def test_a_segment_whose_offsets_the_one_before_has(data: Path) -> None:
    """As after a cleaning. From such a segment on, Kafka 4.3 did not send the last values of seven keys, which the
    segment before had behind its end."""
    before = data / PARTITION / f"{0:020}.log"
    content = before.read_bytes()
    position, _ = frames(content)[-2]
    first = int.from_bytes(content[position : position + 8])
    log = before.with_name(f"{first:020}.log")
    log.write_bytes(content[position:])
    (reason,) = of(data, log)
    reads = f"a Fetch at offset {first} or above reads this file, and no record of that one"
    found = f"the offsets of {before.name} go up to 107, beyond the begin of this file"
    assert reason == f"{found}: Kafka starts, and {reads}"
    assert kcli("recover", data).status == 1
    for index in before.parent.glob(f"{0:020}.*index"):  # the start makes them anew
        index.unlink()
    assert of(data, log) == [reason]


@pytest.mark.parametrize("name", ["codecs/data", "groups/data", "txn/data", "compact/before", "compact/after"])
def test_no_segments_of_kafka_overlap(name: str) -> None:
    ended = kcli("recover", "--format", "jsonl", GOLDEN / name)
    assert "beyond the begin of this file" not in ended.stdout
