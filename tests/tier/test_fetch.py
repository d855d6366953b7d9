"""kcli tier fetch: the fetched log directory has the records that a consumer of Kafka read, each once, in order."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formats.checkpoint import EpochEntry, build_leader_epochs, parse_leader_epochs
from formats.file_name import FileKind
from kcli.errors import UnreadableInput, UsageError
from kcli.inspector.verify import Verification
from kcli.log.disk import Disk
from kcli.log.log_directory import LogDirectory, read_meta_properties
from kcli.log.new_directory import TargetExists
from kcli.log.partition_directory import topic_id_of
from kcli.log.stored_batches import read_batches
from kcli.tier.fetch import LocalLogChanged, fetch
from kcli.tier.layout import object_name
from kcli.tier.local import LocalStore
from kcli.tier.segment import TieredPartition
from kcli.tier.store import ObjectMissing
from kcli.tier.tier import Tier, chosen
from tests.cli.run import kcli
from tests.conftest import Json, truth
from tests.inspector.jsonl import as_truth, committed
from tests.log.batches import keyed
from tests.log.crash_disk import DurableDisk
from tests.tier.records import PARTITION, uuid
from tests.tier.stores import TIERED, Copy, changed

GOLDEN_COPY = Copy(TIERED / "data", TIERED / "remote")


def records(directory: Path) -> list[Json]:
    """The records in a partition's directory, as dump-segment shows them."""
    ended = kcli("dump-segment", "--format", "jsonl", directory)
    assert (ended.status, ended.stderr) == (0, "")
    return [json.loads(line) for line in ended.stdout.splitlines()]


def consumed(found: list[Json]) -> list[Json]:
    return [as_truth(each) for each in found if not each["is_control"]]


def expected(topic: str, partition: int, suffix: str = "", below: int = 2**63) -> list[Json]:
    found = truth(f"tiered/expected/truth/{topic}{suffix}.jsonl.gz")
    mine = [each for each in found if each["partition"] == partition and each["offset"] < below]
    return sorted(mine, key=lambda each: each["offset"])


def is_sound(directory: Path) -> bool:
    return [each for each in Verification([directory]).findings() if each.severity != "info"] == []


@pytest.mark.parametrize(("topic", "partitions"), [("r-short", 2), ("r-keep", 1)])
@pytest.mark.parametrize("is_alone", [False, True])
def test_the_records_are_those_of_the_consumer(tmp_path: Path, topic: str, partitions: int, is_alone: bool) -> None:
    results = GOLDEN_COPY.fetched(tmp_path / "new", topic, is_alone=is_alone)
    assert [(each.missing, each.troubles, each.cut, each.first_offset) for each in results] == [
        ([], [], 0, 0)
    ] * partitions
    assert is_sound(tmp_path / "new")
    tiered = {("r-short", 0): 254, ("r-short", 1): 282, ("r-keep", 0): 224}
    for partition in range(partitions):
        directory = tmp_path / f"new/{topic}-{partition}"
        below = tiered[topic, partition] if is_alone else 2**63
        found = records(directory)
        assert [each["offset"] for each in found] == list(range(found[-1]["offset"] + 1)), "each offset once"
        assert consumed(found) == expected(topic, partition, below=below)
        if not is_alone:  # transactions that end behind the tier are open in it
            stable = json.loads((TIERED / "expected/offsets.json").read_text())[topic]["latest_read_committed"]
            seen = committed(found, stable[partition])
            assert consumed(seen) == expected(topic, partition, ".read_committed")
        assert topic_id_of(directory) == topic_id_of(TIERED / f"data/{topic}-{partition}")


def test_files_are_those_that_kafka_had(tmp_path: Path) -> None:
    GOLDEN_COPY.fetched(tmp_path / "new", "r-keep")
    new, old = tmp_path / "new/r-keep-0", TIERED / "data/r-keep-0"
    assert {each.name: each.read_bytes() for each in new.iterdir()} == {
        each.name: each.read_bytes() for each in old.iterdir()
    }


def test_segments_of_the_tier_are_those_that_kafka_had(tmp_path: Path) -> None:
    """r-keep from the tier alone is what its local log still has of it."""
    GOLDEN_COPY.fetched(tmp_path / "new", "r-keep", is_alone=True)
    old = TIERED / "data/r-keep-0"
    for each in (tmp_path / "new/r-keep-0").iterdir():
        assert each.read_bytes() == (old / each.name).read_bytes(), each.name


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    for name in ("new", "new.part"):
        (tmp_path / name).mkdir()
        with pytest.raises(TargetExists):
            GOLDEN_COPY.fetched(tmp_path / "new")
        assert list((tmp_path / name).iterdir()) == []
        (tmp_path / name).rmdir()


class FailingDisk(Disk):
    """A disk on which the n-th rename, write of a file or sync of a directory fails, as does all after it."""

    def __init__(self, works: int) -> None:
        self.works = works

    def open(self, path: Path, **options: Any) -> Any:
        self._count(path)
        return super().open(path, **options)

    def rename(self, source: Path, target: Path) -> None:
        self._count(source)
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._count(path)
        super().sync_directory(path)

    def _count(self, path: Path) -> None:
        self.works -= 1
        if self.works < 0:
            raise OSError(28, "No space left on device", str(path))


def test_the_directory_is_whole_or_not_there(tmp_path: Path) -> None:
    tier = GOLDEN_COPY.tier()
    partitions = chosen(tier.partitions, "r-keep", None)
    for works in (*range(0, 100, 7), 10_000):
        try:
            fetch(tier, partitions, tmp_path / "new", disk=FailingDisk(works))
        except OSError:
            assert not (tmp_path / "new").exists() or is_sound(tmp_path / "new")
            shutil.rmtree(tmp_path / "new", ignore_errors=True)
            shutil.rmtree(tmp_path / "new.part", ignore_errors=True)
        else:
            assert works > 35
            assert is_sound(tmp_path / "new")
            return


def test_all_bytes_are_durable_before_the_directory_has_its_name(tmp_path: Path) -> None:
    tier = GOLDEN_COPY.tier()
    fetch(tier, tier.partitions, tmp_path / "new", disk=DurableDisk())
    assert len(list((tmp_path / "new").rglob("*"))) > 100


# a local log that begins inside a segment, a log start offset, missing and damaged objects


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


def local_from(copy: Copy, first: int) -> None:
    """Let the local log of r-keep begin at one of its segments, and lack the tier's objects behind it."""
    for path in (copy.data / "r-keep-0").iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) < first:
            path.unlink()


def test_of_a_segment_only_what_the_local_log_lacks(copy: Copy, tmp_path: Path) -> None:
    """The tier's segment 160..219 reaches into the local log, which begins at a batch in it."""
    local_from(copy, 220)
    cut = _local_segment(copy, 200)
    results = copy.fetched(tmp_path / "new", "r-keep")
    assert [(each.cut, each.missing, each.troubles) for each in results] == [(1, [], [])]
    assert is_sound(tmp_path / "new")
    assert consumed(records(tmp_path / "new/r-keep-0")) == expected("r-keep", 0)
    assert (tmp_path / f"new/r-keep-0/{cut:020}.log").exists()


def _local_segment(copy: Copy, at_least: int) -> int:
    """Make a local segment of the batches of segment 160 from an offset on. Returns its base offset."""
    source = TIERED / "data/r-keep-0/00000000000000000160.log"
    base, position = next(
        (row.base_offset, row.position) for row, _ in read_batches(source) if row.base_offset >= at_least
    )
    (copy.data / f"r-keep-0/{base:020}.log").write_bytes(source.read_bytes()[position:])
    assert kcli("recover", "--unclean", "--in-place", copy.data / "r-keep-0").status == 0
    return base


def test_a_log_start_offset_in_the_tier(copy: Copy, tmp_path: Path) -> None:
    (copy.data / "log-start-offset-checkpoint").write_text("0\n3\nr-short 1 0\nr-keep 0 0\nr-short 0 100\n")
    results = copy.fetched(tmp_path / "new")
    assert [(each.tiered, each.first_offset, each.missing) for each in results] == [(4, 100, []), (7, 0, [])]
    starts = LogDirectory(tmp_path / "new").offsets(FileKind.LOG_START_OFFSETS)
    assert starts == {("r-short", 0): 100}
    epochs = parse_leader_epochs((tmp_path / "new/r-short-0/leader-epoch-checkpoint").read_bytes())
    assert epochs == (EpochEntry(0, 100),)
    found = consumed(records(tmp_path / "new/r-short-0"))
    assert found == [each for each in expected("r-short", 0) if each["offset"] >= 90], (
        "the segment of offset 100 is whole"
    )


def test_a_log_start_offset_that_only_the_leader_epochs_have(copy: Copy, tmp_path: Path) -> None:
    """A running broker writes the checkpoint once a minute, the leader epochs at once."""
    (copy.data / "r-short-0/leader-epoch-checkpoint").write_bytes(build_leader_epochs([EpochEntry(0, 101)]))
    assert [each for each in copy.verified() if each.kind != "checkpoint-epoch"] == []
    results = copy.fetched(tmp_path / "new")
    assert (results[0].first_offset, results[0].cut, results[0].missing) == (101, 0, [])
    assert LogDirectory(tmp_path / "new").offsets(FileKind.LOG_START_OFFSETS) == {("r-short", 0): 101}


def test_the_directory_is_one_of_the_same_node(tmp_path: Path) -> None:
    GOLDEN_COPY.fetched(tmp_path / "new")
    old, new = (read_meta_properties(each) for each in (TIERED / "data", tmp_path / "new"))
    assert old is not None
    assert new == replace(old, directory_id=None)
    GOLDEN_COPY.fetched(tmp_path / "alone", is_alone=True)
    assert not (tmp_path / "alone/meta.properties").exists()


def test_indexes_of_a_running_broker(copy: Copy, tmp_path: Path) -> None:
    """Kafka has no index yet for an active segment, or one that is all zeros behind its entries."""
    (copy.data / "r-short-0/00000000000000000254.index").unlink()
    with (copy.data / "r-short-0/00000000000000000254.timeindex").open("ab") as file:
        file.write(bytes(1200))
    copy.fetched(tmp_path / "new")
    assert list(Verification([tmp_path / "new/r-short-0"]).findings()) == []
    assert (tmp_path / "new/r-short-0/00000000000000000254.timeindex").stat().st_size < 100


def test_a_broker_deletes_what_is_being_read(copy: Copy, tmp_path: Path) -> None:
    tier = copy.tier()
    local = copy.data / "r-short-0/00000000000000000254.log"
    local.rename(local.with_name(f"{local.name}.deleted"))
    with pytest.raises(LocalLogChanged):
        fetch(tier, chosen(tier.partitions, "r-short", None), tmp_path / "new", disk=Disk())
    copy.object(90, ".log").unlink()
    tier = copy.tier()
    copy.object(166, ".log").unlink()
    with pytest.raises(ObjectMissing):
        fetch(tier, chosen(tier.partitions, "r-short", None), tmp_path / "new", disk=Disk())
    assert not (tmp_path / "new").exists()


def test_leader_epochs_of_the_local_log_that_cannot_be_read(copy: Copy, tmp_path: Path) -> None:
    (copy.data / "r-short-0/leader-epoch-checkpoint").write_bytes(b"x")
    results = copy.fetched(tmp_path / "new")
    assert "leader-epoch-checkpoint: cannot be read" in results[0].troubles[0]
    assert consumed(records(tmp_path / "new/r-short-0")) == expected("r-short", 0)


def test_a_topic_that_would_lead_out_of_the_directory(tmp_path: Path) -> None:
    """The names of the store say so; metadata with such a name are refused (tests/tier/test_hostile.py)."""
    whose = TieredPartition("..", 0, PARTITION.topic_id)
    (tmp_path / "tier").mkdir()
    LocalStore(tmp_path / "tier").write(object_name(whose, 0, uuid(1), FileKind.LOG), [keyed(None, b"value")])
    tier = Tier.read(LocalStore(tmp_path / "tier"))
    with pytest.raises(UsageError, match="Topic name is invalid"):
        fetch(tier, tier.partitions, tmp_path / "a/b/new", disk=Disk())
    assert {each.name for each in tmp_path.iterdir()} == {"tier"}


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"])
def test_a_missing_index_is_made(copy: Copy, tmp_path: Path, kind: str) -> None:
    copy.object(172, kind).unlink()
    results = copy.fetched(tmp_path / "new")
    assert [(each.missing, each.troubles) for each in results] == [([], [])] * 2
    assert is_sound(tmp_path / "new")


def test_a_missing_transaction_index_is_told(copy: Copy, tmp_path: Path) -> None:
    copy.object(172, ".txnindex").unlink()
    results = copy.fetched(tmp_path / "new")
    assert ".txnindex: no such object" in results[0].troubles[0]
    assert kcli("recover", "--unclean", "--in-place", tmp_path / "new/r-short-0").status == 0
    assert is_sound(tmp_path / "new")


def test_missing_offsets_are_told(copy: Copy, tmp_path: Path) -> None:
    copy.object(172, ".log").unlink()
    results = copy.fetched(tmp_path / "new")
    assert [(each.first, each.last) for each in results[0].missing] == [(172, 252)]
    found = consumed(records(tmp_path / "new/r-short-0"))
    assert found == [each for each in expected("r-short", 0) if not 172 <= each["offset"] <= 252]


@pytest.mark.parametrize("damage", [lambda log: os.truncate(log, 50), lambda log: os.truncate(log, 0), Path.unlink])
def test_last_segments_without_a_batch_are_told(copy: Copy, tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """Their names alone tell that there were offsets."""
    damage(copy.object(253, ".log"))
    results = copy.fetched(tmp_path / "new", is_alone=True)
    assert [(each.first, each.last) for each in results[0].missing] == [(253, None)]
    assert copy.object(253, ".index").stem in results[0].missing[0].reason
    damage(copy.object(172, ".log"))
    ended = kcli("tier", "fetch", "--tier", copy.remote, "--topic", "r-short", "--out", tmp_path / "more")
    assert ended.status == 1
    assert [line.split(": ")[0] for line in ended.stdout.splitlines() if "missing" in line] == [
        "  missing  offsets 172..252", "  missing  offsets 253..?"
    ]  # fmt: skip
    listed = kcli("tier", "list", "--tier", copy.remote, "--topic", "r-short").stdout.splitlines()
    assert [row.split()[2] for row in listed if row.split()[1] == "0"][-2:] == ["172..?", "253..?"]
    listed = kcli("tier", "list", "--tier", copy.remote, "--format", "jsonl").stdout.splitlines()
    found = [json.loads(line) for line in listed]
    assert [each["start_offset"] for each in found if each["end_offset"] is None] == [172, 253]


def test_a_partition_of_which_no_batch_is_left(copy: Copy, tmp_path: Path) -> None:
    for log in (copy.remote / "kafka-tiered-storage").glob("r-short-0-*/*.log"):
        log.unlink()
    results = copy.fetched(tmp_path / "new", is_alone=True)
    assert [(each.first, each.last) for each in results[0].missing][::6] == [(0, 4), (253, None)]
    assert [each.missing for each in results[1:]] == [[]]


def test_a_last_segment_that_is_cut_between_batches(copy: Copy, tmp_path: Path) -> None:
    log = copy.object(269, ".log", "r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg")
    rows = [row for row, _ in read_batches(log)]
    os.truncate(log, rows[2].position)
    results = copy.fetched(tmp_path / "new", is_alone=True)
    assert [(each.first, each.last) for each in results[1].missing] == [(rows[2].base_offset, None)]
    assert "the end is cut off: its indexes have offset" in results[1].missing[0].reason


def test_a_lost_segment_whose_offsets_others_have(copy: Copy, tmp_path: Path) -> None:
    """What a failed copy has left: the next one has another id."""
    whose = TieredPartition("r-short", 0, PARTITION.topic_id)
    LocalStore(copy.remote).write(object_name(whose, 172, uuid(1), FileKind.OFFSET_INDEX), [b""])
    assert copy.fetched(tmp_path / "new", is_alone=True)[0].missing == []


@pytest.mark.parametrize("entries", [[(2**31 - 1, 0)], [(5, 0)], [(0, 0), (1, 100)], [(0, 1_000)], []])
def test_a_checkpoint_that_contradicts_the_batches(copy: Copy, tmp_path: Path, entries: list[tuple[int, int]]) -> None:
    """It does not say which segments are of the lineage."""
    data = build_leader_epochs([EpochEntry(*each) for each in entries])
    copy.object(253, ".leader_epoch_checkpoint").write_bytes(data)
    results = copy.fetched(tmp_path / "new", is_alone=True)
    assert [(each.tiered, each.first_offset, each.missing, each.troubles) for each in results] == [(7, 0, [], [])] * 2
    assert consumed(records(tmp_path / "new/r-short-0")) == expected("r-short", 0, below=254)
    found = [each for each in copy.verified(is_alone=True) if "253-" in each.path]
    assert [each.kind for each in found] == ["tier-epochs"]
    assert "as the batches have" in f"{found[0].expected}"


@pytest.mark.parametrize("epoch", [0, 5])
def test_segments_below_the_lineage_are_told(copy: Copy, tmp_path: Path, epoch: int) -> None:
    """The last segment has another epoch than the others, or the leader epochs begin with it."""
    with changed(copy.object(253, ".log")) as data:
        data[12:16] = epoch.to_bytes(4)
    checkpoint = build_leader_epochs([EpochEntry(epoch, 253 if epoch == 0 else 0)])
    copy.object(253, ".leader_epoch_checkpoint").write_bytes(checkpoint)
    results = copy.fetched(tmp_path / "new", is_alone=True)
    ranges = [(each.first, each.last) for each in results[0].missing]
    assert ranges == [(0, 4), (5, 85), (86, 89), (90, 165), (166, 171), (172, 252)]
    assert "its leader epochs are 0 from 172; those that are read begin with" in results[0].missing[-1].reason


def test_the_segment_of_other_offsets_is_not_taken(copy: Copy, tmp_path: Path) -> None:
    shutil.copyfile(copy.object(90, ".log"), copy.object(172, ".log"))
    results = copy.fetched(tmp_path / "new")
    assert [(each.first, each.last) for each in results[0].missing] == [(172, 252)]


@pytest.mark.parametrize(("size", "reason"), [(6000, "byte 5,932"), (5932, "ends with offset 209, not 252")])
def test_damage_is_copied_and_told(copy: Copy, tmp_path: Path, size: int, reason: str) -> None:
    os.truncate(copy.object(172, ".log"), size)
    results = copy.fetched(tmp_path / "new")
    assert reason in results[0].troubles[0]
    assert (tmp_path / "new/r-short-0/00000000000000000172.log").stat().st_size == size


def test_two_topics_of_one_name(copy: Copy, tmp_path: Path) -> None:
    home = copy.object(172, ".log").parent
    other = home.with_name(f"r-short-0-{'A' * 21}Q")
    shutil.copytree(home, other)
    assert len(copy.fetched(tmp_path / "new")) == 2, "that of the local log"
    tier = copy.tier(is_alone=True)
    with pytest.raises(UnreadableInput, match="2 topics of this name; give --topic-id"):
        chosen(tier.partitions, "r-short", None)
    assert len(chosen(tier.partitions, "r-short", f"{'A' * 21}Q")) == 1


def test_no_such_topic() -> None:
    with pytest.raises(UnreadableInput, match="no such topic"):
        GOLDEN_COPY.fetched(Path("new"), "r-gone")


@pytest.mark.parametrize(("size", "limit_s"), [(3 << 30, 3), (3 << 40, 3)])
def test_an_object_that_no_segment_is_as_large_as(copy: Copy, tmp_path: Path, size: int, limit_s: float) -> None:
    """Its batches are copied; the zeros behind them are neither searched nor copied."""
    log = copy.object(172, ".log")
    whole = log.read_bytes()
    os.truncate(log, size)
    begin = time.process_time()
    results = copy.fetched(tmp_path / "new", is_alone=True)
    assert time.process_time() - begin < limit_s
    assert [(each.tiered, each.missing) for each in results] == [(7, [])] * 2
    reason = f"{log}: {size:,} bytes, and Kafka opens no segment of more than 2,147,483,647: its batches are copied"
    assert [each.troubles for each in results] == [[reason], []]
    assert (tmp_path / "new/r-short-0/00000000000000000172.log").read_bytes() == whole
    assert is_sound(tmp_path / "new")


def test_an_object_that_has_grown(tmp_path: Path) -> None:
    """What is behind the segment's bytes is not copied: a terabyte of zeros would fill the disk."""
    copy = Copy.of_golden(tmp_path)
    (log,) = copy.remote.glob("*/r-short-0-*/00000000000000000005-*.log")
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.truncate(1 << 40)
    ended = kcli("tier", "fetch", copy.data, "--tier", copy.remote, "--topic", "r-short", "--out", tmp_path / "out")
    assert ended.status == 1
    assert f"{1 << 40:,} bytes; those behind {size:,}, the segment's, are left out" in ended.stdout
    assert (tmp_path / "out/r-short-0/00000000000000000005.log").stat().st_size == size
