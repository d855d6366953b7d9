"""A segment's .log file that is another partition's, in logs that have batches of their own before it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import loud
from tests.log.batches import NOW_MS, batch
from tests.metadata_damage import rows_of

FIRST, SECOND = (f"{base:020}.log" for base in (0, 10))
PROPERTIES = "version=1\nnode.id=1\ncluster.id=5L6g3nShT-eMCtK--X86sw\ndirectory.id=AAAAAAAAAAEAAAAAAAAAAQ\n"
PRODUCER = (7, 0)


def written(value: bytes, begin: int, end: int, *, sequence: int = 0, epoch: int = 0) -> bytes:
    """The batches of one record each of PRODUCER, at the offsets from `begin` on and below `end`."""
    return b"".join(
        batch(
            value,
            producer=PRODUCER,
            sequence=sequence + offset - begin,
            base_offset=offset,
            timestamp_ms=NOW_MS + offset,
            leader_epoch=epoch,
        )
        for offset in range(begin, end)
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a log directory with two partitions of two segments each."""
    home = tmp_path / "data"
    for number in range(2):
        (home / f"t-{number}").mkdir(parents=True)
        (home / f"t-{number}" / FIRST).write_bytes(written(b"%d" % number, 0, 10))
        (home / f"t-{number}" / SECOND).write_bytes(written(b"%d" % number, 10, 15, sequence=10))
    (home / "meta.properties").write_text(PROPERTIES)
    return home


def foreign(data: Path) -> list[Any]:
    return [each for each in loud(data) if each.kind == "log-foreign"]


def passed_over(data: Path) -> list[str]:
    ended = kcli("recover", "--format", "jsonl", data)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    found = [row["file"] for row in rows if row["kind"] == "passed-over" and "the batches of" in row["reason"]]
    assert ended.status == int(bool(found))
    return found


@pytest.mark.parametrize("copy_file", [shutil.copyfile, os.link])
@pytest.mark.parametrize("is_longer", [False, True])
def test_both_are_named_where_it_is_not_known_which_one_is_the_copy(
    data: Path, copy_file: Callable[..., object], *, is_longer: bool
) -> None:
    assert not foreign(data)
    source, target = data / "t-0" / SECOND, data / "t-1" / SECOND
    target.unlink()
    copy_file(source, target)
    if is_longer and copy_file is shutil.copyfile:  # Kafka has appended to its own log since then
        with source.open("ab") as log:
            log.write(written(b"0", 15, 17, sequence=15))
    (finding,) = foreign(data)
    assert finding.severity == "error"
    assert f"the batches of t-0/{SECOND}, byte for byte" in finding.found
    assert "the records of t-1 or of t-0 at offsets 10..14 are not here" in finding.found
    assert f"t-1/{SECOND}" in passed_over(data)


@pytest.mark.parametrize("is_longer", [False, True])
def test_a_copy_to_which_kafka_has_appended_is_named(data: Path, *, is_longer: bool) -> None:
    source, target = data / "t-0" / SECOND, data / "t-1" / SECOND
    shutil.copyfile(source, target)
    for path, value in [(target, b"1"), *([(source, b"0")] if is_longer else [])]:
        with path.open("ab") as log:
            log.write(written(value, 15, 18, sequence=15))
    (finding,) = foreign(data)
    assert "the records of t-1 or of t-0 at offsets 10..14 are not here" in finding.found
    assert (" up to offset 14, byte for byte" in finding.found) == is_longer
    assert f"t-1/{SECOND}" in passed_over(data)


@pytest.mark.parametrize(
    "own",
    [
        {"end": 10, "sequence": 5},  # its next sequence is 15
        {"end": 10, "epoch": 2},  # and the leader epoch of the copy is 0
    ],
)
def test_the_log_before_tells_the_copy(data: Path, own: dict[str, int]) -> None:
    (data / "t-0" / FIRST).write_bytes(written(b"0", 0, **own))
    (data / "t-0" / SECOND).write_bytes((data / "t-1" / SECOND).read_bytes())
    (finding,) = foreign(data)
    assert finding.path == str(data / "t-0" / SECOND)
    assert f"a copy of t-1/{SECOND}, another partition's log" in finding.found
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert not foreign(data)


@pytest.mark.parametrize("is_same_before", [False, True])
def test_equal_batches_alone_are_no_evidence(data: Path, *, is_same_before: bool) -> None:
    """Two timestamps; or a producer has written the same records to both all the time."""
    same = written(b"same", 10, 15 if is_same_before else 12, sequence=10)
    for number in range(2):
        (data / f"t-{number}" / SECOND).write_bytes(same)
        if is_same_before:
            own = written(b"%d" % number, 0, 5) + written(b"same", 5, 10, sequence=5)
            (data / f"t-{number}" / FIRST).write_bytes(own)
    assert not foreign(data)


def test_the_keys_of_a_coordinators_records_tell_the_copy(tmp_path: Path) -> None:
    data = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data", copy_function=shutil.copyfile))
    name, other = "__consumer_offsets-1", "__consumer_offsets-3"
    base = 10**6
    for directory in (name, other):
        (data / directory / f"{base:020}.log").write_bytes(moved_by((data / other / FIRST).read_bytes(), base))
    (finding,) = [each for each in foreign(data) if "a copy of" in str(each.found)]
    assert finding.path == str(data / name / f"{base:020}.log")
    assert f"a copy of {other}/{base:020}.log, another partition's log" in finding.found


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_coordinators_log_with_the_keys_of_another_partition(tmp_path: Path, *, is_behind: bool) -> None:
    """No other log has its batches: the log of the partition to which the keys belong went on, or was cleaned."""
    data = Path(shutil.copytree(GOLDEN / "groups/data", tmp_path / "data", copy_function=shutil.copyfile))
    name, other = "__consumer_offsets-1", "__consumer_offsets-3"
    own = (data / name / FIRST).read_bytes()
    end = rows_of(data / name / FIRST)[-1].last_offset + 1
    wrong = data / name / f"{end:020}.log"
    wrong.write_bytes(moved_by((data / other / FIRST).read_bytes(), end))
    if is_behind:
        (data / name / f"{10**6:020}.log").write_bytes(moved_by(own, 10**6))
    (finding,) = [each for each in loud(data) if each.kind == "records-foreign"]
    assert (finding.path, finding.offset) == (str(wrong), end)
    assert f"of {other}, by key" in str(finding.found)
    rows = [json.loads(line) for line in kcli("recover", "--format", "jsonl", data).stdout.splitlines()]
    (row,) = [each for each in rows if each["kind"] == "records-foreign"]
    assert (row["partition"], row["file"], row["owner"]) == (name, wrong.name, other)
    new = tmp_path / "new"
    kcli("recover", "--salvage", "--out", new, data)
    assert "records-foreign" not in {each.kind for each in loud(new)}


def moved_by(log: bytes, offsets: int) -> bytes:
    """The batches of a log at higher offsets, which no CRC covers."""
    moved, at = bytearray(log), 0
    while at < len(moved):
        moved[at : at + 8] = (int.from_bytes(moved[at : at + 8]) + offsets).to_bytes(8)
        at += 12 + int.from_bytes(moved[at + 8 : at + 12])
    return bytes(moved)
