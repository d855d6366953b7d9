"""kcli recover --tier: what the tier has of a log that has lost a part is not lost, and salvage takes it from there.
tests/interop/test_recover_tier_kafka.py holds the same cases beside real Kafka."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import Ended, kcli
from tests.conftest import truth
from tests.tier.stores import Copy, changed

KEEP = "r-keep-0"
GOLDEN_URL = "s3://golden/a/tier"


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """golden/tiered after a crash, so that a start checks what is above the recovery points: all of r-keep."""
    copy = Copy.of_golden(tmp_path)
    (copy.data / ".kafka_cleanshutdown").unlink()
    points = copy.data / "recovery-point-offset-checkpoint"
    points.write_text(points.read_text().replace("r-keep 0 289", "r-keep 0 0"))
    return copy


def remove(copy: Copy, *bases: int, partition: str = KEEP) -> None:
    """Remove all files of segments."""
    for base in bases:
        for path in (copy.data / partition).glob(f"{base:020}.*"):
            path.unlink()


def lose_beginning(copy: Copy) -> None:
    remove(copy, 0)
    (copy.data / KEEP / f"{36:020}.log").unlink()  # its indexes are left


def lose_middle(copy: Copy) -> None:
    remove(copy, 93, 101)


def flip(copy: Copy) -> None:
    with changed(copy.data / KEEP / f"{101:020}.log") as data:
        data[1200] ^= 1


def lose_end(copy: Copy) -> None:
    remove(copy, 148, 160, 220, 224, 289)


def lose_all(copy: Copy) -> None:
    remove(copy, 254, 296, partition="r-short-0")


Harm = Callable[[Copy], None]
HARMS: dict[str, tuple[Harm, dict[str, list[tuple[int, int]]], int]] = {
    "beginning": (lose_beginning, {"tier-served": [(0, 92)]}, 289),
    "middle": (lose_middle, {"in-tier": [(93, 147)]}, 289),
    "flip": (flip, {"in-tier": [(102, 223)]}, 102),
    "end": (lose_end, {"in-tier": [(148, 223)]}, 148),
    "all": (lose_all, {"in-tier": [(0, 253)]}, 0),
}
"""What is lost of a log; the rows about the tier that a dry run shows of it; where the log then ends with Kafka."""


def recover(copy: Copy, *arguments: str | Path, tier: str | Path | None = None) -> Ended:
    return kcli("recover", copy.data, "--tier", copy.remote if tier is None else tier, *arguments)


def rows(ended: Ended, partition: str, *kinds: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return [row for row in found if row["partition"] == partition and (not kinds or row["kind"] in kinds)]


def about_tier(ended: Ended, partition: str) -> dict[str, list[tuple[int, int]]]:
    """The ranges of offsets in the rows about the tier, by kind."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows(ended, partition, "tier-served", "in-tier", "tier-gap"):
        found.setdefault(row["kind"], []).append((row["first_offset"], row["last_offset"]))
    return found


def partition_of(name: str) -> str:
    return "r-short-0" if name == "all" else KEEP


@pytest.mark.parametrize("name", HARMS)
def test_a_dry_run(copy: Copy, name: str) -> None:
    """It shows what a start does, and what of it is no loss, or need be none."""
    harm, expected, end = HARMS[name]
    harm(copy)
    ended = recover(copy, "--format", "jsonl")
    partition = partition_of(name)
    assert about_tier(ended, partition) == expected
    (last,) = rows(ended, partition, "partition")
    assert (last["log_start_offset"], last["log_end_offset"]) == (0, end)
    assert ended.status == (0 if name == "beginning" else 1)
    text = recover(copy).stdout
    assert "lost: offsets 0" not in text
    command = f"kcli recover --salvage --tier {copy.remote} --out NEW {copy.data}"
    assert (command in text) == (name != "beginning")
    if name == "beginning":
        assert "passed-over" not in text
        assert "if they are there (--tier tells)" in kcli("recover", copy.data).stdout


def test_what_the_tier_has_is_not_called_lost(copy: Copy) -> None:
    flip(copy)
    cut, *removed = rows(recover(copy, "--format", "jsonl"), KEEP, "cut", "segment-removed")
    assert cut["in_tier"] == [[102, 147]]
    assert [row.get("in_tier") for row in removed] == [[[148, 159]], [[160, 219]], [[220, 223]], None]
    text = recover(copy).stdout
    assert "the tier has what the log lacks then: offsets 102..147, with 39 records in 13 sound batches" in text
    assert text.count("; lost: offsets ") == 1
    assert "; lost: offsets 224..288" in text


def test_the_end_of_a_log(copy: Copy) -> None:
    lose_end(copy)
    (row,) = rows(recover(copy, "--format", "jsonl"), KEEP, "end-missing")
    assert (row["in_tier"], row["lost_offsets"]) == ([[148, 223]], 65)
    text = recover(copy).stdout
    assert "the log lacks offsets 148..288; the tier has offsets 148..223, the others are lost" in text


@pytest.mark.parametrize("where", ["directory", "bucket"])
@pytest.mark.parametrize("name", HARMS)
def test_salvage(copy: Copy, name: str, where: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The copy has all that the log or the tier has, byte for byte, and Kafka's start finds nothing to do in it."""
    if where == "bucket":
        request.getfixturevalue("s3")
    whole = copy.data.parent / "whole"
    shutil.copytree(copy.data, whole)
    HARMS[name][0](copy)
    new = tmp_path / "new"
    tier = GOLDEN_URL if where == "bucket" else copy.remote
    ended = recover(copy, "--salvage", "--out", new, "--format", "jsonl", tier=tier)
    assert (ended.status, ended.stderr) == (0, "")
    partition = partition_of(name)
    assert "in-tier" not in about_tier(ended, partition)
    gone = {0, 36} if name == "beginning" else {224} if name == "end" else {254} if name == "all" else set()
    logs = {path.name: path.read_bytes() for path in (whole / partition).glob("*.log") if int(path.stem) not in gone}
    if name == "all":
        logs = {f"{253:020}.log": copy.object(253, ".log").read_bytes()}
    assert {path.name: path.read_bytes() for path in (new / partition).glob("*.log")} == logs
    taken = rows(ended, partition, "restored")
    assert all(row["object"].startswith(f"{tier}/kafka-tiered-storage/{partition}-") for row in taken)
    assert [row["kind"] for row in rows(ended, partition, "gap")] == []
    again = kcli("recover", new, "--tier", copy.remote, "--format", "jsonl")
    changes = {row["kind"] for row in rows(again, partition)} - {"tier-served", "partition", "end-missing"}
    assert changes <= {"transaction-open"}
    assert kcli("tier", "verify", new, "--tier", copy.remote).status == 0


def test_each_record_is_there(copy: Copy, tmp_path: Path) -> None:
    """What lies in the copy and in the tier is what a consumer read before."""
    lose_middle(copy)
    assert recover(copy, "--salvage", "--out", tmp_path / "new").status == 0
    shown = kcli("dump-segment", "--format", "jsonl", tmp_path / "new" / KEEP).stdout.splitlines()
    offsets = [each["offset"] for each in map(json.loads, shown) if not each["is_control"]]
    assert offsets == [each["offset"] for each in truth("tiered/expected/truth/r-keep.jsonl.gz")]


def test_one_partition(copy: Copy, tmp_path: Path) -> None:
    lose_middle(copy)
    directory = copy.data / KEEP
    ended = kcli("recover", directory, "--tier", copy.remote, "--salvage", "--out", tmp_path / "new")
    assert ended.status == 0
    assert (tmp_path / "new" / f"{93:020}.log").is_file()
    shutil.copytree(directory, tmp_path / "apart" / KEEP)
    ended = kcli("recover", tmp_path / "apart" / KEEP, "--tier", copy.remote)
    assert (ended.status, ended.stdout) == (2, "")
    assert ended.complaint.startswith("kcli: --tier needs the log directory that the partition is in")


def test_a_gap_of_the_tier(copy: Copy) -> None:
    """Below the local log, offsets that the tier lacks as well are lost."""
    copy.object(86, ".log").unlink()
    ended = recover(copy, "--format", "jsonl")
    assert about_tier(ended, "r-short-0") == {"tier-served": [(0, 85), (90, 253)], "tier-gap": [(86, 89)]}
    assert ended.status == 1
    assert f"lost (kcli tier verify {copy.data} --tier {copy.remote})" in recover(copy).stdout


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_object(copy: Copy, tmp_path: Path, damage: str) -> None:
    """Nothing is taken from it that the log has, and it is no cause to fail."""
    lose_middle(copy)
    path = copy.object(101, ".log", "r-keep-0-AfZIDr-ETkKHqZArICDNNw")
    if damage == "gone":
        path.unlink()
    else:
        with changed(path) as data:
            if damage == "cut":
                del data[2000:]
            else:
                data[1200] ^= 1
    ended = recover(copy, "--salvage", "--out", tmp_path / "new", "--format", "jsonl")
    assert ended.stderr == ""
    assert (tmp_path / "new" / KEEP / f"{93:020}.log").is_file()
    first, last = rows(ended, KEEP, "gap")[-1]["first_offset"], rows(ended, KEEP, "gap")[-1]["last_offset"]
    assert 101 <= first <= last <= 147


def test_a_partition_without_a_directory(copy: Copy) -> None:
    shutil.rmtree(copy.data / "r-short-0")
    (row,) = rows(recover(copy, "--format", "jsonl"), "r-short-0", "partition-missing")
    assert row["in_tier"] == [[0, 253]]
    assert "; the tier has offsets 0..253: kcli tier fetch " in recover(copy).stdout


def test_segments_of_another_leader(copy: Copy, tmp_path: Path) -> None:
    """Local segments that begin elsewhere than those of the tier: none is taken, and the command that joins them is
    shown."""
    lose_middle(copy)
    directory = copy.remote / "kafka-tiered-storage/r-keep-0-AfZIDr-ETkKHqZArICDNNw"
    for path in directory.glob(f"{148:020}-*"):
        path.unlink()
    logs = copy.data / KEEP
    data = (logs / f"{148:020}.log").read_bytes()
    size = 12 + int.from_bytes(data[8:12], "big")
    remove(copy, 148)
    (logs / f"{140:020}.log").write_bytes(b"")
    (logs / f"{148:020}.log").write_bytes(data[:size])
    ended = recover(copy, "--salvage", "--format", "jsonl")
    assert about_tier(ended, KEEP)["in-tier"] == [(101, 147)]
    text = recover(copy, "--salvage").stdout
    assert f"kcli tier fetch {copy.data} --tier {copy.remote} --topic r-keep --partition 0" in text


def test_in_place(copy: Copy) -> None:
    """No file is brought into a directory that is recovered in place: the command that does it is shown."""
    lose_middle(copy)
    text = recover(copy, "--salvage", "--in-place").stdout
    assert "no batch for offsets 93..147: the tier has offsets 93..147" in text
    assert "the log lacks offsets 93..147, and the tier has them: kcli tier fetch " in text
    assert "it is 00000000000000000093.log: salvage with --out takes it" in text
    assert "no file has them" not in text


def test_a_tier_that_is_not_there(copy: Copy) -> None:
    ended = recover(copy, tier=copy.remote / "nowhere")
    assert (ended.status, ended.stdout) == (2, "")
    assert "nowhere" in ended.complaint
    assert recover(copy, tier="").status == 2


def test_a_sound_directory(copy: Copy) -> None:
    """A healthy log that is mostly in the tier: told in one line, and the exit status is 0."""
    ended = kcli("recover", copy.data, "--tier", copy.remote)
    assert ended.status == 0
    assert about_tier(recover(copy, "--format", "jsonl"), "r-short-0") == {"tier-served": [(0, 253)]}
