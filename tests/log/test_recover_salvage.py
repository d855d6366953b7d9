"""Salvage: what is sound stays, also where the name of a log is wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kcli.log.loader import EventKind, LoadOptions
from kcli.log.partition_log import PartitionLog
from kcli.log.recovery import apply_in_place, plan
from kcli.log.recovery_salvage import LeftOut, Renamed
from tests.log.crash_disk import Crash, CrashDisk
from tests.log.test_partition_log import open_log
from tests.log.test_partition_log_crash import batches_of
from tests.log.test_partition_log_lifecycle import SMALL, filled

OPTIONS = LoadOptions(0, max_index_bytes=4096, index_interval_bytes=100)


def made(directory: Path) -> list[tuple[int, bytes]]:
    """A log of seven segments. Returns its batches."""
    log = filled(directory, SMALL)
    found = batches_of(log)
    log.close(0)
    return found


def misname(directory: Path, base: int, name: int) -> None:
    """Give the log of a segment another name; the indexes with it."""
    for path in directory.glob(f"{base:020}.*"):
        path.rename(directory / path.name.replace(f"{base:020}", f"{name:020}"))


def reopened(directory: Path) -> PartitionLog:
    return open_log(directory, SMALL, clean=False)


@pytest.mark.parametrize(("base", "name"), [(6, 8), (6, 11), (0, 3), (36, 38), (36, 10**6)])
def test_a_log_named_above_its_first_batch(tmp_path: Path, base: int, name: int) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    misname(directory, base, name)
    kafkas = plan(directory, OPTIONS)
    assert kafkas.refused or kafkas.has_losses
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.renamed == [Renamed(f"{name:020}.log", f"{base:020}.log")]
    assert done.saved.gaps == []
    apply_in_place(done, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_no_room_below_its_name(tmp_path: Path) -> None:
    """Its first batches repeat those of the log before it: they stay out."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    shutil.copyfile(directory / f"{0:020}.log", directory / f"{3:020}.log")
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.renamed == []
    apply_in_place(done, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_damage_too(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    misname(directory, 12, 17)
    path = directory / f"{17:020}.log"
    data = bytearray(path.read_bytes())
    data[len(batches[0][1]) + 70] ^= 1
    path.write_bytes(data)
    left = [each for each in batches if each[0] != 14]
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [(gap.first_offset, gap.last_offset) for gap in done.saved.gaps] == [(14, 15)]
    calm = CrashDisk()
    shutil.copytree(directory, tmp_path / "calm-0")
    apply_in_place(plan(tmp_path / "calm-0", OPTIONS, with_salvage=True), calm)
    assert batches_of(reopened(tmp_path / "calm-0")) == left
    for dies_at in range(1, calm.operations + 1):
        often = tmp_path / f"crash-{dies_at}"
        shutil.copytree(directory, often)
        with pytest.raises(Crash):
            apply_in_place(plan(often, OPTIONS, with_salvage=True), CrashDisk(dies_at))
        apply_in_place(plan(often, OPTIONS, with_salvage=True), CrashDisk())
        assert batches_of(reopened(often)) == left
        shutil.rmtree(often)


@pytest.mark.parametrize("name", ["-0000000000000000001.log", "6.log"])
def test_a_log_that_kafka_does_not_read_by_its_name(tmp_path: Path, name: str) -> None:
    """Kafka takes the offset of the name, and opens the file that it would name by it."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    shutil.copyfile(directory / f"{6:020}.log", directory / name)
    done = plan(directory, OPTIONS)
    assert done.refused is None
    assert [(event.kind, event.file) for event in done.events] == [(EventKind.PASSED_OVER, name)]
    assert batches_of(reopened(directory)) == batches


def test_only_a_log_with_a_short_name(tmp_path: Path) -> None:
    """Kafka makes an empty one of 20 digits in its place."""
    directory = tmp_path / "p-0"
    made(directory)
    (directory / f"{6:020}.log").rename(directory / "6.log")
    done = plan(directory, OPTIONS)
    assert done.refused is None
    assert done.view.size(f"{6:020}.log") == 0


def test_salvage_leaves_out_a_log_whose_name_is_no_offset(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    name = f"{'9' * 20}.log"
    shutil.copyfile(directory / f"{6:020}.log", directory / name)
    refused = plan(directory, OPTIONS).refused
    assert refused is not None
    assert refused.file == name
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.refused is None
    assert name in done.view.removed()
    assert [each.file for each in done.saved.left_out] == [name]
    apply_in_place(done, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_a_swap_file_with_a_short_name(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    shutil.copyfile(directory / f"{6:020}.log", directory / "6.log.swap")
    refused = plan(directory, OPTIONS).refused
    assert refused is not None
    assert refused.file == "6.log.swap"


@pytest.mark.parametrize("base", [6, 36])
def test_a_swap_that_has_fewer_than_what_it_replaces(tmp_path: Path, base: int) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    log = directory / f"{base:020}.log"
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3 - 20])
    kafkas = plan(directory, OPTIONS)
    apply_in_place(kafkas, CrashDisk())
    left = batches_of(reopened(directory))
    shutil.rmtree(directory)
    assert batches == made(directory)
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3 - 20])
    lost = {each[0] for each in batches} - {each[0] for each in left}
    firsts = [each.first_offset for each in kafkas.lost if each.first_offset is not None]
    assert min(firsts) == min(lost)
    assert sum(each.batches for each in kafkas.lost) == len(lost)
    calm = CrashDisk()
    shutil.copytree(directory, tmp_path / "calm-0")
    done = plan(tmp_path / "calm-0", OPTIONS, with_salvage=True)
    assert [gap.last_offset == gap.first_offset - 1 for gap in done.saved.gaps] == [True]
    apply_in_place(done, calm)
    assert batches_of(reopened(tmp_path / "calm-0")) == batches
    for dies_at in range(1, calm.operations + 1):
        often = tmp_path / f"crash-{dies_at}"
        shutil.copytree(directory, often)
        with pytest.raises(Crash):
            apply_in_place(plan(often, OPTIONS, with_salvage=True), CrashDisk(dies_at))
        apply_in_place(plan(often, OPTIONS, with_salvage=True), CrashDisk())
        assert batches_of(reopened(often)) == batches
        shutil.rmtree(often)


def test_a_sound_swap_replaces_more_than_it_has(tmp_path: Path) -> None:
    """Compaction leaves fewer: that is no loss."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    log = directory / f"{6:020}.log"
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[: len(batches[0][1]) * 2])
    done = plan(directory, OPTIONS, with_salvage=True)
    assert not done.has_losses
    assert done.view.size(log.name) == len(batches[0][1]) * 2


def test_a_log_of_another_partition_stays_out(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    owner, directory = tmp_path / "p-0", tmp_path / "q-0"
    batches = made(owner)
    made(directory)
    for path in directory.glob(f"{36:020}.*"):
        path.unlink()
    shutil.copyfile(owner / f"{36:020}.log", directory / f"{38:020}.log")
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.left_out == [LeftOut(f"{38:020}.log", f"its batches are those of p-0/{36:020}.log")]
    apply_in_place(done, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] < 36]
    misname(owner, 36, 38)  # now it is nobody else's
    assert plan(owner, OPTIONS, with_salvage=True).saved.left_out == []
