"""kcli tier verify and orphans on golden/tiered: nothing where all is sound; of each damage the cause, once."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from formats.checkpoint import EpochEntry, build_leader_epochs
from formats.file_name import FileKind
from kcli.inspector.tier import Orphans, TierVerification
from kcli.inspector.verify import Verification
from kcli.inspector.verify.tier_objects import of_object
from kcli.log.stored_batches import read_batches
from kcli.tier.layout import Inventory, SegmentObjects, object_name
from kcli.tier.local import LocalStore
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import PartitionDeleteState, TieredPartition
from kcli.tier.store import StoredObject
from kcli.tier.tier import LocalLog, PartitionTier, Tier
from tests.damage import mended
from tests.tier.records import PARTITION, deleted, started, updated, uuid
from tests.tier.stores import SHORT, TIERED, Copy, changed
from tests.tier.worlds import write_metadata

OTHER = TieredPartition("orders", 0, uuid(5))
"""A partition of a topic that golden/tiered does not have."""


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


@pytest.mark.parametrize("is_alone", [False, True])
def test_golden_is_sound(is_alone: bool) -> None:
    tier = Tier.read(LocalStore(TIERED / "remote"), None if is_alone else TIERED / "data")
    verification = TierVerification(tier)
    assert list(verification.findings()) == []
    assert (verification.files, verification.unreadable) == (114, [])


def test_golden_has_no_orphans() -> None:
    orphans = Orphans(Tier.read(LocalStore(TIERED / "remote"), TIERED / "data"))
    assert list(orphans.findings()) == []
    assert orphans.files == 114


def remove(suffix: str) -> Callable[[Copy], None]:
    return lambda copy: copy.object(172, suffix).unlink()


def cut(suffix: str, size: int) -> Callable[[Copy], None]:
    return lambda copy: os.truncate(copy.object(172, suffix), size)


def flip(suffix: str, at: int) -> Callable[[Copy], None]:
    def change(copy: Copy) -> None:
        with changed(copy.object(172, suffix)) as data:
            data[at] ^= 0x10

    return change


def take(suffix: str, other: int) -> Callable[[Copy], None]:
    return lambda copy: _copy(copy.object(other, suffix), copy.object(172, suffix))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def write(suffix: str, data: bytes) -> Callable[[Copy], None]:
    return lambda copy: _write(copy.object(172, suffix), data)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def other_leader_epoch(copy: Copy) -> None:
    with changed(copy.object(172, ".log")) as data:
        data[12:16] = (7).to_bytes(4)


def all_of_one_segment(copy: Copy) -> None:
    for path in copy.object(172, ".log").parent.glob("00000000000000000172-*"):
        path.unlink()


DAMAGE = {
    "no log": (remove(".log"), "tier-object-missing", ".log", "offsets 172..252 are lost"),
    "no index": (remove(".index"), "tier-object-missing", ".index", "no .index"),
    "no time index": (remove(".timeindex"), "tier-object-missing", ".timeindex", "no .timeindex"),
    "no transaction index": (remove(".txnindex"), "txnindex-missing", ".txnindex", "no such file"),
    "no snapshot": (remove(".snapshot"), "tier-object-missing", ".snapshot", "no .snapshot"),
    "no epochs": (remove(".leader_epoch_checkpoint"), "tier-object-missing", ".leader_epoch_checkpoint", "no .leader"),
    "no object": (all_of_one_segment, "tier-object-missing", ".log", "none of its objects"),
    "flipped byte": (flip(".log", 5000), "batch-crc", ".log", "the bytes give"),
    "flipped base offset": (flip(".log", 1), "offset-range", ".log", "4,503,599,627,370,6"),
    "cut": (cut(".log", 6000), "tier-segment-cut", ".log", "offsets 210..252 are lost"),
    "cut between batches": (cut(".log", 5932), "tier-segment-cut", ".log", "offsets 210..252 are lost"),
    "empty": (cut(".log", 0), "tier-segment-cut", ".log", "0 bytes of 11,962"),
    "another segment": (
        take(".log", 90),
        "tier-segment-foreign",
        ".log",
        "segment zicdGxhTS9eRyYf5kB55EQ of r-short-0",
    ),
    "another index": (take(".index", 90), "index-foreign", ".index", "fit none"),
    "a cut index": (cut(".index", 117), "index-length", ".index", "117 bytes"),
    "a cut snapshot": (cut(".snapshot", 20), "snapshot-truncated", ".snapshot", "82 are missing"),
    "garbage": (write(".leader_epoch_checkpoint", b"x"), "tier-epochs", ".leader_epoch_checkpoint", "malformed"),
    "a huge count": (
        write(".leader_epoch_checkpoint", b"0\n2147483647\n0 0\n"),
        "tier-epochs",
        ".leader_epoch_checkpoint",
        "2,147,483,647",
    ),
    "other epochs": (
        write(".leader_epoch_checkpoint", build_leader_epochs([EpochEntry(0, 0), EpochEntry(3, 200)])),
        "tier-epochs",
        ".leader_epoch_checkpoint",
        "3 from 200",
    ),
    "a large checkpoint": (
        write(".leader_epoch_checkpoint", bytes(5 << 20)),
        "tier-epochs",
        ".leader_epoch_checkpoint",
        "5,242,880 bytes are more",
    ),
    "a batch's leader epoch": (other_leader_epoch, "tier-segment-epochs", ".log", "leader epoch 7"),
}


FOLLOWING = ("leader-epoch", "txnindex-missing-entry")
"""What `kcli verify`, too, tells beside the cause."""


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_once(copy: Copy, name: str) -> None:
    damage, kind, suffix, words = DAMAGE[name]
    damage(copy)
    found = [each for each in copy.verified() if each.kind not in FOLLOWING]
    assert [each.kind for each in found] == [kind]
    assert found[0].path.endswith(suffix)
    assert Path(found[0].path).name.startswith("00000000000000000172-")
    assert words in f"{found[0].found}"
    assert "recover --dry-run" not in f"{found[0].command}", "no broker recovers an object"


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_without_metadata_is_no_crash(copy: Copy, name: str) -> None:
    DAMAGE[name][0](copy)
    copy.verified(is_alone=True)


def test_objects_without_a_log_and_without_metadata(copy: Copy) -> None:
    remove(".log")(copy)
    (found,) = copy.verified(is_alone=True)
    assert (found.kind, found.offset, found.found) == ("tier-object-missing", 172, "no .log; offsets 172..252 are lost")
    assert found.consequences == {"tier-gap": 1}


@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize("what", ["a symbolic link, which is not followed", "a named pipe", "a directory"])
def test_what_is_in_place_of_a_log_is_named(copy: Copy, what: str, is_alone: bool) -> None:
    path = copy.object(172, ".log")
    path.rename(copy.remote / "moved")
    if what == "a named pipe":
        os.mkfifo(path)
    elif what == "a directory":
        path.mkdir()
    else:
        path.symlink_to(copy.remote / "moved")
    (found,) = copy.verified(is_alone=is_alone)
    assert found.kind == "tier-object-missing"
    assert f"{found.found}".startswith(f"no .log; .log is {what}")
    assert found.command == f"ls -ld -- {path}"
    if not is_alone:
        results = copy.fetched(copy.data.with_name("new"))
        assert [each.reason for fetched in results for each in fetched.missing] == [f"{path}: no object, but {what}"]


def test_consequences_are_counted(copy: Copy) -> None:
    cut(".log", 6000)(copy)
    (found,) = copy.verified()
    assert found.consequences["truncated"] == 1
    assert (found.lost_first_offset, found.lost_last_offset) == (210, 252)


def test_what_is_local_too_is_not_lost(copy: Copy) -> None:
    copy.object(101, ".log", "r-keep-0-AfZIDr-ETkKHqZArICDNNw").unlink()
    (found,) = copy.verified()
    assert found.action == f"the local log has these offsets: {copy.data / 'r-keep-0'}"


def test_a_gap_before_the_local_log(copy: Copy) -> None:
    for path in (copy.data / "r-short-0").glob("*254.*"):
        path.unlink()
    _copy(TIERED / "data/r-short-0/00000000000000000254.log", copy.data / "r-short-0/00000000000000000280.log")
    (found,) = copy.verified()
    assert (found.kind, found.lost_first_offset, found.lost_last_offset) == ("tier-gap", 254, 279)


def metadata_log(copy: Copy) -> Path:
    return copy.data / "__remote_log_metadata-0/00000000000000000000.log"


def test_a_torn_metadata_log(copy: Copy) -> None:
    os.truncate(metadata_log(copy), 5000)
    (found,) = copy.verified()
    assert (found.kind, found.path) == ("tier-metadata-damaged", str(metadata_log(copy).parent))
    assert found.consequences == {}, "the cluster does not have r-gone, whose segments the lost records say are deleted"


def test_a_metadata_log_that_lost_whole_batches(copy: Copy) -> None:
    os.truncate(metadata_log(copy), 4803)
    (found,) = copy.verified()
    assert found.kind == "tier-metadata-damaged"
    assert "below the high watermark" in f"{found.found}"


def test_a_metadata_log_that_lost_its_begin(copy: Copy) -> None:
    data = metadata_log(copy).read_bytes()
    metadata_log(copy).rename(metadata_log(copy).with_name("00000000000000000004.log"))
    metadata_log(copy).with_name("00000000000000000004.log").write_bytes(data[504:])
    assert {each.kind for each in copy.verified()} == {"tier-metadata-damaged"}
    assert {each.command for each in copy.orphans() if each.kind == "tier-orphan"} == {None}


def test_metadata_of_an_unknown_version(copy: Copy) -> None:
    """The last record's version is the third byte of its value: after the frame and the type."""
    with changed(metadata_log(copy)) as data:
        value = data.rindex(b"\x01\x01\x00")  # the frame, an update record, version 0
        data[value + 2] = 9
        data[:] = mended(data)
    (found,) = copy.verified()
    assert found.kind == "tier-metadata-version"
    assert "RemoteLogSegmentMetadataUpdateRecord has no version 9" in f"{found.found}"


def test_metadata_that_contradicts_itself(tmp_path: Path) -> None:
    records = [started(uuid(1), 0, 9), updated(uuid(1), 3), updated(uuid(2), 1), started(uuid(3), 9, 0)]
    write_metadata(tmp_path / "data", records)
    (tmp_path / "tier").mkdir()
    found = list(TierVerification(Tier.read(LocalStore(tmp_path / "tier"), tmp_path / "data")).findings())
    refused = [each for each in found if each.kind == "tier-metadata-state"]
    assert [(each.offset, each.severity) for each in refused] == [(1, "warning"), (2, "warning"), (3, "warning")]
    assert [each.kind for each in found if each not in refused] == ["tier-copy-unfinished"]


def test_metadata_of_another_broker(copy: Copy) -> None:
    shutil.rmtree(copy.data / "__remote_log_metadata-0")
    found = [each for each in TierVerification(copy.tier()).findings() if each.kind == "tier-metadata-elsewhere"]
    assert [Path(each.path).name.rpartition("-")[0][:9] for each in found] == ["r-short-0", "r-short-1"]
    assert {each.kind for each in copy.orphans()} == {"tier-metadata-elsewhere"}, "nothing is an orphan for certain"


@pytest.mark.parametrize(("is_deleted", "gaps"), [(True, []), (False, [(0, 9)])])
def test_segments_that_expired_before_a_crash_are_no_gap(is_deleted: bool, gaps: list[tuple[int, int]]) -> None:
    """The log start offset, 10, and the cut leader epochs were not in the broker's files yet."""
    first = [started(uuid(1), 0, 9), updated(uuid(1), 1), updated(uuid(1), 2), updated(uuid(1), 3)]
    metadata = RemoteLogMetadata()
    for each in [*(first if is_deleted else ()), started(uuid(2), 10, 19), updated(uuid(2), 1)]:
        metadata.replay(each)
    epochs = (EpochEntry(0, 0),)
    local = LocalLog(Path("t-0"), [(20, Path("t-0/20.log"))], epochs)
    tier = PartitionTier(PARTITION, metadata.caches[PARTITION], has_metadata=True, local=local, lineage=epochs)
    tier.log_start_offset = 0
    assert tier.plan().gaps == gaps


@pytest.mark.parametrize(("first_epoch", "is_sound"), [(35, True), (36, True), (40, False)])
def test_a_segment_that_was_copied_with_the_log_start_offset_within_it(first_epoch: int, is_sound: bool) -> None:
    """Its metadata has no leader epoch below the log start offset of that time. Its batches: epoch 6 to 39, then 7."""
    segment = started(uuid(1), 30, 49, [(6, first_epoch), (7, 40)] if is_sound else [(6, first_epoch)])
    metadata = RemoteLogMetadata()
    metadata.replay(segment)
    (known,) = metadata.caches[PARTITION].segments()
    verification = TierVerification(Tier(LocalStore(TIERED / "remote"), Inventory()))
    found = list(verification._wrong_epochs(known, SegmentObjects(PARTITION, 30, uuid(1)), [(6, 30), (7, 40)]))
    assert [each.offset for each in found] == ([] if is_sound else [40])


# orphans


@pytest.fixture
def deleted_topic(copy: Copy, tmp_path: Path) -> Callable[..., Tier]:
    """A tier with a segment of a topic that the cluster does not have. more: further metadata records."""

    def read(*more: bytes) -> Tier:
        data, remote = tmp_path / "deleted/data", tmp_path / "deleted/remote"
        shutil.copytree(copy.data / "__cluster_metadata-0", data / "__cluster_metadata-0")
        write_metadata(data, [started(uuid(1), 0, 9, partition=OTHER), updated(uuid(1), 1, partition=OTHER), *more])
        path = remote / object_name(OTHER, 0, uuid(1), FileKind.LOG)
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        return Tier.read(LocalStore(remote), data)

    return read


def test_segments_of_a_topic_that_was_deleted_without_a_record(deleted_topic: Callable[..., Tier]) -> None:
    """Its leader crashed before it had appended one: no broker goes on."""
    tier = deleted_topic()
    (found,) = Orphans(tier).findings()
    assert (found.kind, found.severity, found.offset, found.command) == ("tier-orphan", "warning", 0, None)
    assert "whose topic the cluster's metadata does not have" in f"{found.found}"
    Path(found.path).unlink()
    assert tier.log_directory is not None
    tier = Tier.read(tier.store, tier.log_directory)
    assert list(Orphans(tier).findings()) == []
    assert [each for each in TierVerification(tier).findings() if each.severity != "info"] == []


def test_brokers_go_on_with_a_deletion_that_a_record_tells(deleted_topic: Callable[..., Tier]) -> None:
    assert (
        list(Orphans(deleted_topic(deleted(PartitionDeleteState.DELETE_PARTITION_MARKED, partition=OTHER))).findings())
        == []
    )


def test_without_the_metadata_of_the_cluster_no_topic_counts_as_deleted(deleted_topic: Callable[..., Tier]) -> None:
    tier = deleted_topic()
    assert tier.log_directory is not None
    shutil.rmtree(tier.log_directory / "__cluster_metadata-0")
    assert list(Orphans(Tier.read(tier.store, tier.log_directory)).findings()) == []


def test_objects_that_nothing_names(copy: Copy) -> None:
    names = []
    for path in copy.object(253, ".log").parent.glob("00000000000000000253-*"):
        target = path.with_name(path.name.replace("253-tm8", "300-tX8"))
        shutil.copyfile(path, target)
        names.append(target)
    (found,) = copy.orphans()
    assert (found.kind, found.severity, found.offset) == ("tier-orphan", "warning", 300)
    assert found.command is not None
    assert set(shlex.split(found.command)) == {"rm", "--", *map(str, names)}
    subprocess.run(found.command, shell=True, check=True)
    assert copy.orphans() == []
    assert copy.verified() == []


def test_a_damaged_metadata_log_proves_nothing(copy: Copy) -> None:
    shutil.copyfile(copy.object(253, ".log"), copy.object(253, ".log").with_name(f"{300:020}-{'A' * 22}.log"))
    os.truncate(metadata_log(copy), 5000)
    found = copy.orphans()
    assert [each.kind for each in found] == ["tier-metadata-damaged", "tier-orphan"]
    assert found[1].command is None


def test_metadata_that_names_nothing(copy: Copy) -> None:
    all_of_one_segment(copy)
    (found,) = copy.orphans()
    assert (found.kind, found.severity, found.offset) == ("tier-no-objects", "error", 172)


def test_files_that_are_no_objects(copy: Copy) -> None:
    home = copy.object(172, ".log").parent
    (home / "README").write_text("x")
    (home / f"{5:020}-{'A' * 22}.log").symlink_to("/etc/passwd")
    (home.parent / "linked").symlink_to(home)
    (home.parent / "-rf").write_text("x")
    found = copy.orphans()
    assert {each.kind for each in found} == {"tier-foreign-file"}
    assert {Path(each.path).name for each in found} == {"README", f"{5:020}-{'A' * 22}.log", "linked", "-rf"}
    assert all(each.command is not None and each.command.startswith("ls -ld -- ") for each in found)


# kcli verify on a tier's directory


def test_verify_of_a_read_only_tier(copy: Copy) -> None:
    for path in copy.remote.rglob("*.*"):
        path.chmod(0o444)
    assert list(Verification([copy.remote]).findings()) == []


def test_verify_of_a_damaged_tier_has_the_tiers_next_steps(copy: Copy) -> None:
    cut(".log", 6000)(copy)
    os.truncate(copy.object(5, ".index"), 5)
    copy.object(90, ".log").unlink()
    found = [each for each in Verification([copy.remote]).findings() if each.severity != "info"]
    assert {each.kind for each in found} >= {"truncated", "index-length", "orphan-file"}
    assert [each for each in found if "recover" in f"{each.command}" or "stop the broker" in each.action] == []
    assert [each for each in found if of_object(each) != each] == []
    assert SHORT in found[0].path


# a broker that copies and deletes meanwhile


class ChangingStore(LocalStore):
    """A store in which a broker copies and deletes behind the first list of objects."""

    def __init__(self, directory: Path, change: Callable[[], object]) -> None:
        super().__init__(directory)
        self._change: Callable[[], object] | None = change

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        listed = list(super().list_objects(prefix))
        if self._change is not None:
            self._change()
            self._change = None
        yield from listed


@pytest.mark.parametrize("topic", [None, "r-short"])
def test_a_segment_that_is_copied_meanwhile(copy: Copy, tmp_path: Path, topic: str | None) -> None:
    away = tmp_path / "away"
    away.mkdir()
    home = copy.object(253, ".log").parent
    for path in home.glob("00000000000000000253-*"):
        path.rename(away / path.name)
    back = ChangingStore(copy.remote, lambda: [path.rename(home / path.name) for path in away.iterdir()])
    tier = Tier.read(back, copy.data, topic)
    assert list(TierVerification(tier).findings()) == []
    assert list(Orphans(tier).findings()) == []


def test_a_segment_that_is_deleted_meanwhile(copy: Copy) -> None:
    """The metadata, read behind the deletion, does not name it any more."""
    log = copy.object(253, ".log").with_name(f"{300:020}-{uuid(1)}.log")
    shutil.copyfile(copy.object(253, ".log"), log)
    assert [each.kind for each in Orphans(copy.tier()).findings()] == ["tier-orphan"]
    tier = Tier.read(ChangingStore(copy.remote, log.unlink), copy.data)
    assert list(Orphans(tier).findings()) == []


def test_objects_that_are_gone_once_they_were_listed(copy: Copy) -> None:
    """Each with its path, once."""
    tier = copy.tier()
    gone = copy.object(172, ".log"), copy.object(166, ".leader_epoch_checkpoint")
    for path in gone:
        path.unlink()
    verification = TierVerification(tier)
    assert [each for each in verification.findings() if each.severity != "info"] == []
    assert sorted(map(str, verification.unreadable)) == sorted(f"{path}: no such object" for path in gone)


def test_what_lies_behind_the_local_log_is_not_local(copy: Copy) -> None:
    """The metadata may name offsets that the log never had, or has lost."""
    (each,) = (each for each in copy.tier().partitions if str(each.partition) == "r-short-0")
    assert each.local is not None
    (last_row,) = [row for row, _ in read_batches(each.local.logs[-1][1])][-1:]
    base, last = each.local.logs[-1][0], last_row.last_offset
    segment = each.cache.segments()[-1]
    for first, end, local in (
        (base - 1, base - 1, "no"),
        (base - 1, base, "part"),
        (base - 1, last + 1, "part"),
        (base, last, "yes"),
        (last, last + 1, "part"),
        (last + 1, last + 6, "no"),
        (1_000_000, 1_000_005, "no"),
    ):
        assert each.local_part(replace(segment, start_offset=first, end_offset=end)) == local, (first, end)
