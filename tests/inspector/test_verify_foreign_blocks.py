"""Blocks of another partition's log in a log: verify names them by that partition's log, recover calls no offset lost
that the log never had, and salvage leaves them out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kcli.log.partition_view import Content
from kcli.log.recovery.foreign_blocks import runs_of_others
from kcli.log.recovery.partition_copies import sound_offsets
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import flip, loud

OWN, OTHER = "t-txn-2", "t-txn-1"
CLOSED, ACTIVE = f"{5:020}.log", f"{76:020}.log"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory of real Kafka, with the metadata log of its topics, after a crash."""
    home = Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (home / name).unlink(missing_ok=True)
    return home


class Write(NamedTuple):
    """Bytes [position, position + size) of OWN/log, overwritten by those of `source` from byte `begin` on."""

    log: str
    position: int
    size: int
    source: str
    begin: int


PAGE = Write(ACTIVE, 2048, 4096, f"{OTHER}/{69:020}.log", 2048)
BEGIN = Write(CLOSED, 0, 4096, f"{OTHER}/{2:020}.log", 0)
ELSEWHERE = Write(CLOSED, 2048, 4096, f"t-mix-0/{3:020}.log", 1024)
TAIL = Write(ACTIVE, 4096, 4734, f"{OTHER}/{69:020}.log", 3584)
WRITES = [PAGE, BEGIN, ELSEWHERE, TAIL]


def overwrite(directory: Path, write: Write) -> Path:
    log = directory / OWN / write.log
    data = bytearray(log.read_bytes())
    begin = write.position
    data[begin : begin + write.size] = (directory / write.source).read_bytes()[write.begin : write.begin + write.size]
    log.write_bytes(data)
    return log


def rows(*args: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kcli("recover", "--format", "jsonl", *args).stdout.splitlines()]


def offsets(directory: Path) -> set[int]:
    return {each for first, last in sound_offsets(directory) for each in range(first, last + 1)}


def whole_behind(log: Path, write: Write) -> set[int]:
    """Return the offsets of the batches of a sound log that the write leaves whole."""
    data, found = log.read_bytes(), set()
    for start, size in frames(data):
        if start + size <= write.position or start >= write.position + write.size:
            first = int.from_bytes(data[start : start + 8])
            found |= set(range(first, first + int.from_bytes(data[start + 23 : start + 27]) + 1))
    return found


@pytest.mark.parametrize("write", WRITES)
def test_blocks_of_another_partition_are_one_finding(directory: Path, write: Write) -> None:
    log = overwrite(directory, write)
    (finding,) = [each for each in loud(directory) if each.severity == "error"]
    owner = write.source.partition("/")[0]
    assert (finding.kind, finding.path) == ("records-foreign", str(log))
    assert write.position <= (finding.position or 0) < write.position + write.size
    assert f" of {owner}" in str(finding.found)
    assert write.source in str(finding.found)
    assert sum(finding.consequences.values()) >= 1
    assert "when it starts" in finding.action or finding.refuses_start
    assert finding.command == f"kcli recover --unclean --salvage --dry-run {directory / OWN}"


@pytest.mark.parametrize("write", WRITES)
def test_salvage_leaves_them_out_and_keeps_all_else(directory: Path, tmp_path: Path, write: Write) -> None:
    whole = offsets(directory / OWN)
    own = whole_behind(directory / OWN / write.log, write)
    others = whole - whole_behind(directory / OWN / write.log, write._replace(position=0, size=0))
    overwrite(directory, write)
    told = rows("--salvage", "--out", tmp_path / "new", directory)
    (left,) = [row for row in told if row["kind"] == "records-foreign"]
    assert (left["owner"], left["left_out"]) == (write.source.partition("/")[0], True)
    kept = offsets(tmp_path / "new" / OWN)
    assert kept >= own | others
    assert kept <= whole
    assert not [each for each in loud(tmp_path / "new") if each.severity == "error" and each.kind != "offset-gap"]


def test_no_offset_is_lost_that_the_log_never_had(directory: Path) -> None:
    end = max(offsets(directory / OWN)) + 1
    overwrite(directory, TAIL)
    found = rows(directory)
    (cut,) = [row for row in found if row["kind"] == "cut"]
    (foreign,) = [row for row in found if row["kind"] == "records-foreign"]
    assert (cut["lost_batches"], cut["lost_records"], cut["reached_offset"]) == (0, 0, end)
    assert (foreign["owner"], foreign["owner_log"], foreign["cut"]) == (OTHER, f"{69:020}.log", True)
    told = kcli("recover", directory).stdout
    assert f"lost: offsets {cut['log_end_offset']}..{end - 1}, which no sound batch has, by the checkpoints" in told
    assert "Kafka cuts them off, and loses nothing" in told


def test_what_two_partitions_both_have_is_no_foreign_block(directory: Path) -> None:
    shutil.copyfile(directory / OTHER / f"{2:020}.log", directory / OWN / CLOSED)
    log = directory / OWN / CLOSED
    starts = [start for start, _ in frames(log.read_bytes())]
    for start in (starts[3], starts[8]):
        flip(log, start + 70)
    assert not runs_of_others(log.parent, log.name, Content((log.read_bytes(),)))


def test_a_flipped_bit_shows_no_foreign_block(directory: Path) -> None:
    log = directory / OWN / CLOSED
    flip(log, frames(log.read_bytes())[2][0] + 70)
    assert not runs_of_others(log.parent, log.name, Content((log.read_bytes(),)))
