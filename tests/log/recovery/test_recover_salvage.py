"""Salvage keeps sound batches, also of a log with a wrong name."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from kcli.log.live.partition_log import PartitionLog
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery import readable
from kcli.log.recovery.apply import apply_in_place, write_copy
from kcli.log.recovery.batch_epochs import RightEpoch, leader_epochs, wrong_epochs
from kcli.log.recovery.batch_magic import RightMagic
from kcli.log.recovery.loader import EventKind, LoadOptions
from kcli.log.recovery.plan import plan
from kcli.log.recovery.readable import Room
from kcli.log.recovery.salvage import (
    Checked,
    LeftOut,
    LogStart,
    PutBack,
    Refilled,
    Renamed,
    RightCount,
    RightLength,
    exchanged_within,
)
from kcli.log.recovery.segment import OFFSET_MAX
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from tests.conftest import GOLDEN
from tests.damage import frames, mended
from tests.log.batches import NOW_MS
from tests.log.batches import keyed as keyed_batch
from tests.log.crash_disk import Crash, CrashDisk
from tests.log.live.test_compaction import keyed
from tests.log.live.test_partition_log import open_log
from tests.log.live.test_partition_log_crash import batches_of
from tests.log.live.test_partition_log_lifecycle import SMALL, filled

OPTIONS = LoadOptions(0, max_index_bytes=4096, index_interval_bytes=100)


def made(directory: Path) -> list[tuple[int, bytes]]:
    """Make a log of seven segments. Returns its batches."""
    log = filled(directory, SMALL)
    found = batches_of(log)
    log.close(0)
    return found


def misname(directory: Path, base: int, name: int) -> None:
    """Rename a segment's log and its indexes."""
    for path in directory.glob(f"{base:020}.*"):
        path.rename(directory / path.name.replace(f"{base:020}", f"{name:020}"))


def reopened(directory: Path) -> PartitionLog:
    return open_log(directory, SMALL, clean=False)


def leaves_after_any_crash(directory: Path, batches: list[tuple[int, bytes]]) -> None:
    """Check that salvage in place leaves these batches, undisturbed and after a crash at any of its operations on the
    disk."""
    calm, undisturbed = CrashDisk(), directory.with_name("calm-0")
    shutil.copytree(directory, undisturbed)
    apply_in_place(plan(undisturbed, OPTIONS, with_salvage=True).view, calm)
    assert batches_of(reopened(undisturbed)) == batches
    for dies_at in range(1, calm.operations + 1):
        crashed = directory.with_name(f"crash-{dies_at}")
        shutil.copytree(directory, crashed)
        with pytest.raises(Crash):
            apply_in_place(plan(crashed, OPTIONS, with_salvage=True).view, CrashDisk(dies_at))
        apply_in_place(plan(crashed, OPTIONS, with_salvage=True).view, CrashDisk())
        assert batches_of(reopened(crashed)) == batches
        shutil.rmtree(crashed)


@pytest.mark.parametrize(
    ("damaged", "missing"),
    [([1], []), ([0], []), ([2], []), ([0, 2], []), ([0, 1, 2], []), ([0, 1], [1]), ([2], [2])],
    ids=["one", "the first", "the last", "two", "all", "one of which no file has", "the last one in both"],
)
def test_damaged_batches_are_taken_from_the_segment_before_it_was_cleaned(
    tmp_path: Path, damaged: list[int], missing: list[int]
) -> None:
    """Kafka 4.3 serves these batches again, with older records of the same keys. damaged: numbers of batches of one
    segment; missing: those that are damaged in the .deleted file, too."""
    made(tmp_path)
    log, older = tmp_path / f"{6:020}.log", tmp_path / f"{6:020}.log.deleted"
    whole = log.read_bytes()
    batches = frames(whole)

    def broken(numbers: list[int]) -> bytes:
        data = bytearray(whole)
        for number in numbers:
            start, size = batches[number]
            data[start + size - 1] ^= 1
        return bytes(data)

    log.write_bytes(broken(damaged))
    older.write_bytes(broken(missing))
    planned = plan(tmp_path, OPTIONS, with_salvage=True)
    kept = [each for number, each in enumerate(batches) if number not in missing]
    write_copy(planned.view.files, CrashDisk(), tmp_path / "new")
    sound = b"".join(whole[start : start + size] for start, size in kept)
    assert (tmp_path / "new" / log.name).read_bytes() == sound
    assert sum(each.batches for each in planned.saved.refilled) == len(damaged) - len(missing)
    if damaged == [1]:
        assert planned.saved.refilled == [Refilled(log.name, older.name, 1, 8, 9)]
    gaps = [(each.first_offset, each.last_offset) for each in planned.saved.gaps]
    assert len([each for each in gaps if each[1] is None or each[1] >= each[0]]) == len(missing)


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
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


@pytest.mark.parametrize(("base", "name"), [(0, 1), (6, 7), (36, 37)])
def test_a_log_named_within_its_first_batch(tmp_path: Path, base: int, name: int) -> None:
    """Kafka starts, and serves the whole batch; salvage names no gap, and gives the log its name."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    misname(directory, base, name)
    (directory / f"{base:020}.index").touch()
    kafkas = plan(directory, OPTIONS)
    assert (kafkas.refused, kafkas.has_losses) == (None, False)
    passed = [event.reason for event in kafkas.events if event.kind is EventKind.PASSED_OVER]
    assert passed == [f"its indexes are here, and it has the name {name:020}.log"]
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.renamed == [Renamed(f"{name:020}.log", f"{base:020}.log")]
    assert done.saved.gaps == []
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_no_room_below_its_name(tmp_path: Path) -> None:
    """Its first batches repeat those of the log before it: they are left out."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    shutil.copyfile(directory / f"{0:020}.log", directory / f"{3:020}.log")
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.renamed == []
    apply_in_place(done.view, CrashDisk())
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
    leaves_after_any_crash(directory, left)


@pytest.mark.parametrize("name", ["-0000000000000000001.log", "6.log"])
def test_a_log_that_kafka_does_not_read_by_its_name(tmp_path: Path, name: str) -> None:
    """Kafka takes the offset from the name, and opens the file with that offset's usual name."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    shutil.copyfile(directory / f"{6:020}.log", directory / name)
    done = plan(directory, OPTIONS)
    assert done.refused is None
    assert [(event.kind, event.file) for event in done.events] == [(EventKind.PASSED_OVER, name)]
    assert batches_of(reopened(directory)) == batches


def test_only_a_log_with_a_short_name(tmp_path: Path) -> None:
    """Kafka creates an empty log with a name of 20 digits in its place."""
    directory = tmp_path / "p-0"
    made(directory)
    (directory / f"{6:020}.log").rename(directory / "6.log")
    done = plan(directory, OPTIONS)
    assert done.refused is None
    assert done.view.size(f"{6:020}.log") == 0


@pytest.mark.parametrize("name", [f"{'9' * 20}.log", f"{6:020}-FdvqFlEzS6CffFHW3hB8VQ.log", "abc.log"])
def test_salvage_leaves_out_a_log_whose_name_is_no_offset(tmp_path: Path, name: str) -> None:
    """A name of tiered storage is no local log's name either."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    shutil.copyfile(directory / f"{6:020}.log", directory / name)
    refused = plan(directory, OPTIONS).refused
    assert refused is not None
    assert refused.file == name
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.refused is None
    assert name in done.view.removed()
    assert [each.file for each in done.saved.left_out] == [name]
    apply_in_place(done.view, CrashDisk())
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
    apply_in_place(kafkas.view, CrashDisk())
    left = batches_of(reopened(directory))
    shutil.rmtree(directory)
    assert batches == made(directory)
    log.with_name(f"{log.name}.swap").write_bytes(log.read_bytes()[: log.stat().st_size * 2 // 3 - 20])
    lost = {each[0] for each in batches} - {each[0] for each in left}
    firsts = [each.first_offset for each in kafkas.lost if each.first_offset is not None]
    assert min(firsts) == min(lost)
    assert sum(each.batches for each in kafkas.lost) == len(lost)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [gap.last_offset == gap.first_offset - 1 for gap in done.saved.gaps] == [True]
    leaves_after_any_crash(directory, batches)


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
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] < 36]
    misname(owner, 36, 38)  # now it is nobody else's
    assert plan(owner, OPTIONS, with_salvage=True).saved.left_out == []


BEYOND = replace(OPTIONS, log_start_offset=10**6)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("tail", [b"", bytes(4096)])
def test_a_log_start_offset_beyond_the_end(tmp_path: Path, clean: bool, tail: bytes) -> None:
    """Kafka deletes the whole log. With zeros at the log's end it does not start, and deletes the log once they are
    gone."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes() + tail)
    options = replace(BEYOND, clean=clean)
    end = plan(directory, OPTIONS).offsets.log_end_offset  # type: ignore[union-attr]
    kafkas = plan(directory, options)
    if kafkas.refused is not None:
        assert "once Kafka starts, it deletes all of the log" in kafkas.events[-1].reason
    else:
        assert kafkas.offsets is not None
        assert kafkas.offsets.log_end_offset == 10**6
        assert kafkas.has_losses
    done = plan(directory, options, with_salvage=True)
    assert done.saved.log_start == LogStart(10**6, 0, end)
    assert done.saved.records == end
    assert done.is_changed()
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_a_log_start_offset_within_what_is_kept_stays(tmp_path: Path) -> None:
    """Damage cuts the log below its log start offset, which is right for the log that includes the batches behind the
    damage."""
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    options = replace(OPTIONS, log_start_offset=20)
    assert plan(directory, options).has_losses
    done = plan(directory, options, with_salvage=True)
    assert done.saved.log_start is None
    assert done.offsets is not None
    assert done.offsets.log_start_offset == 20


def rows_of(path: Path) -> list[BatchRow]:
    source = FileSource(path)
    parts = [part for part in read_segment(source) if isinstance(part, Window)]
    source.close()
    return [BatchRow._make(part.batches.row(i)) for part in parts for i in range(part.batches.count)]


@pytest.mark.parametrize("offset", [2**63 - 3, 2**63 - 4, 2**62 + 2**61])
def test_a_batch_that_leaves_no_offsets(tmp_path: Path, offset: int) -> None:
    """Kafka splits the segment and starts; where the log then ends near the largest offset, producers can send no
    more."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = max(directory.glob("*.log"))
    last = rows_of(path)[-1]
    data = bytearray(path.read_bytes())
    struct.pack_into(">q", data, last.position, offset)
    path.write_bytes(data)
    kafkas = plan(directory, OPTIONS)
    assert kafkas.offsets is not None
    told = [(event.kind, event.file) for event in kafkas.events if event.kind is EventKind.OFFSETS_USED_UP]
    done = plan(directory, OPTIONS, with_salvage=True)
    if offset < OFFSET_MAX:
        assert told == []
        found = [(gap.length, gap.first_offset, gap.last_offset) for gap in done.saved.gaps]
        assert found == [(0, last.base_offset, offset - 1)]  # between the segments that the split makes
        return
    assert told == [(EventKind.OFFSETS_USED_UP, path.name)]
    assert [(gap.file, gap.position, gap.length) for gap in done.saved.gaps] == [(path.name, last.position, last.size)]
    assert done.saved.records == 0
    apply_in_place(kafkas.view, CrashDisk())  # the batch now has a segment of its own
    again = plan(directory, OPTIONS, with_salvage=True)
    assert again.offsets is not None
    assert again.offsets.log_end_offset == last.base_offset
    apply_in_place(again.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches[:-1]


def test_a_batch_that_claims_offsets_of_those_behind_it(tmp_path: Path) -> None:
    """Its last offset delta is too large, and its CRC is correct: its records tell the right one."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    often = replace(OPTIONS, index_interval_bytes=1)
    path = directory / f"{0:020}.log"
    row = rows_of(path)[1]
    data = bytearray(path.read_bytes())
    delta = row.last_offset - row.base_offset
    struct.pack_into(">i", data, row.position + 23, delta + 3)
    struct.pack_into(">I", data, row.position + 17, crc32c(bytes(data[row.position + 21 : row.position + row.size])))
    path.write_bytes(data)
    assert plan(directory, often).has_losses
    done = plan(directory, often, with_salvage=True)
    assert not done.saved.gaps
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


@pytest.mark.parametrize("keys", [5, 1000])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_sound_swap_that_no_cleaner_made(tmp_path: Path, keys: int, is_last: bool) -> None:
    """It lacks the last values of keys. A cleaner leaves out only records whose keys have later ones."""
    directory = tmp_path / "p-0"
    log = open_log(directory, SMALL)
    for i in range(60):
        log.append_as_leader(keyed(i % keys, i), 0, NOW_MS + i)
    batches = batches_of(log)
    log.close(0)
    path = sorted(directory.glob("*.log"))[-1 if is_last else 1]
    rows = rows_of(path)
    swap = path.with_name(f"{path.name}.swap")
    swap.write_bytes(path.read_bytes()[: rows[1].position])  # the first batch is left
    kafkas = plan(directory, OPTIONS)
    done = plan(directory, OPTIONS, with_salvage=True)
    if keys == 5 and not is_last:
        assert not kafkas.has_losses
        assert path.name in done.view.files
        assert done.view.size(path.name) == rows[1].position
        return
    assert [event.file for event in kafkas.events if event.is_loss] == [path.name]
    assert sum(lost.records for lost in kafkas.lost) == len(rows) - 1
    assert done.saved.records == len(rows) - 1
    assert [each.file for each in done.saved.left_out] == [swap.name]
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("is_damaged", [False, True])
def test_logs_with_each_others_names(tmp_path: Path, order: tuple[int, ...], is_damaged: bool) -> None:
    """Each log gets its own name, by its first batch; nothing is lost, also after a crash during the exchange in
    place."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    logs = sorted(directory.glob("*.log"))[2 : 2 + len(order)]
    contents = [log.read_bytes() for log in logs]
    left = batches
    if is_damaged:
        start, size = frames(contents[0])[1]
        contents[0] = contents[0][: start + size - 1] + b"!" + contents[0][start + size :]
        left = [each for each in batches if each[0] != int(logs[0].stem) + 2]
    for log, at in zip(logs, order, strict=True):
        log.write_bytes(contents[at])
    done = plan(directory, OPTIONS, with_salvage=True)
    assert {(each.file, each.name) for each in done.saved.renamed} == {
        (log.name, logs[at].name) for log, at in zip(logs, order, strict=True)
    }
    copied = tmp_path / "copy"
    copied.mkdir()
    write_copy(done.view.files, CrashDisk(), copied / "p-0")
    assert batches_of(reopened(copied / "p-0")) == left
    for dies_at in range(200):
        crashed = tmp_path / f"crash-{dies_at}" / "p-0"
        shutil.copytree(directory, crashed)
        disk = CrashDisk(dies_at)
        try:
            apply_in_place(plan(crashed, OPTIONS, with_salvage=True).view, disk)
        except Crash:
            stored = b"".join(path.read_bytes() for path in crashed.iterdir() if not path.name.endswith(".cleaned"))
            assert all(data in stored for _, data in left), dies_at
        else:
            assert dies_at == 0 or disk.operations < dies_at
            break
        finally:
            if dies_at:
                shutil.rmtree(crashed)
    disk = CrashDisk()
    apply_in_place(plan(directory, OPTIONS, with_salvage=True).view, disk)
    assert batches_of(reopened(directory)) == left


def test_a_first_batch_with_the_offset_of_another_log(tmp_path: Path) -> None:
    """One log alone is not exchanged: no other log begins with its offset."""
    directory = tmp_path / "p-0"
    made(directory)
    logs = sorted(directory.glob("*.log"))
    logs[2].write_bytes(logs[4].read_bytes())
    assert exchanged_within(plan(directory, OPTIONS, with_salvage=True).view) == []


@pytest.mark.parametrize("is_last", [False, True])
def test_a_swap_of_a_topic_that_was_never_compacted(tmp_path: Path, is_last: bool) -> None:
    """A swap file of a split has all batches: one that lacks some is wrong, also where their records have no keys, or
    keys with later values."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = sorted(directory.glob("*.log"))[-1 if is_last else 1]
    swap = path.with_name(f"{path.name}.swap")
    rows = rows_of(path)
    options = replace(OPTIONS, keeps_all=True)
    swap.write_bytes(path.read_bytes())
    assert not plan(directory, options).has_losses
    swap.write_bytes(path.read_bytes()[rows[1].position :])
    kafkas = plan(directory, options)
    assert [event.file for event in kafkas.events if event.is_loss] == [path.name]
    assert [(lost.batches, lost.first_offset) for lost in kafkas.lost if lost.batches] == [(1, rows[0].base_offset)]
    done = plan(directory, options, with_salvage=True)
    assert [each.file for each in done.saved.left_out] == [swap.name]
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_a_swap_that_has_what_is_gone_replaces_what_is_there(tmp_path: Path) -> None:
    """Some of the logs from which it was made are deleted already, so it is used."""
    directory = tmp_path / "p-0"
    log = open_log(directory, SMALL)
    for i in range(60):
        log.append_as_leader(keyed(i, i), 0, NOW_MS + i)
    log.close(0)
    first, second = sorted(directory.glob("*.log"))[:2]
    data = second.read_bytes()
    swap = first.with_name(f"{first.name}.swap")
    swap.write_bytes(first.read_bytes() + data[: rows_of(second)[1].position])
    first.unlink()
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.left_out == []
    assert done.offsets is not None
    assert done.offsets.log_start_offset == 0


KEEPS_ALL = replace(OPTIONS, recovery_point=10**6, clean=True)
"""After a clean shutdown Kafka reads no batch below the recovery point."""


def exchanged(found: list[bytes]) -> list[bytes]:
    return [found[0], found[2], found[1]]


def moved(found: list[bytes]) -> list[bytes]:
    return [found[1], found[2], found[0]]


def rotated(found: list[bytes]) -> list[bytes]:
    return [found[2], found[0], found[1]]


def repeated(found: list[bytes]) -> list[bytes]:
    return [found[0], found[1], found[0], found[1], found[2]]


def repeated_at_the_end(found: list[bytes]) -> list[bytes]:
    return [*found, found[1]]


def frames_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[start : start + size] for start, size in frames(data)]


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("base", [6, 12])
@pytest.mark.parametrize("change", [exchanged, moved, rotated, repeated, repeated_at_the_end])
def test_batches_out_of_order_are_put_in_order(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], base: int, options: LoadOptions
) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{base:020}.log"
    found = frames_of(path)
    changed = change(found)
    path.write_bytes(b"".join(changed))
    done = plan(directory, options, with_salvage=True)
    is_copy = len(changed) > len(found)
    assert [each.file for each in done.saved.reordered] == ([] if is_copy else [path.name])
    assert sum(gap.length for gap in done.saved.gaps) == len(b"".join(changed)) - len(b"".join(found))
    assert all(gap.last_offset == gap.first_offset - 1 for gap in done.saved.gaps)
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize(("one", "other"), [(1, 3), (2, 5), (0, 2), (4, 7)])
def test_each_of_two_exchanged_batches_fits_into_the_place_of_the_other(
    tmp_path: Path, one: int, other: int, options: LoadOptions
) -> None:
    """Neither has a wrong base offset, although 1 and 3 differ in one bit."""
    directory = tmp_path / "p-0"
    directory.mkdir()
    path = directory / f"{0:020}.log"
    found = [bytes(keyed_batch(b"k", b"%d" % at, base_offset=at)) for at in range(8)]
    changed = list(found)
    changed[one], changed[other] = found[other], found[one]
    path.write_bytes(b"".join(changed))
    done = plan(directory, options, with_salvage=True)
    assert [each.file for each in done.saved.reordered] == [path.name]
    assert (done.saved.gaps, done.saved.put_back) == ([], [])
    apply_in_place(done.view, CrashDisk())
    assert path.read_bytes() == b"".join(found)


def test_a_block_written_over_another_is_accounted_for(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    first, _, last = frames_of(path)
    path.write_bytes(first + first + last)
    done = plan(directory, KEEPS_ALL, with_salvage=True)
    assert [(gap.first_offset, gap.last_offset) for gap in done.saved.gaps] == [(8, 9)]
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] != 8]


def with_bit_flipped(directory: Path, number: int, byte: int) -> tuple[int, int]:
    """Flip a bit in the base offset of a batch of the second log. Returns where it begins, and its base offset then."""
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    start = frames(data)[number][0]
    data[start + byte] ^= 1
    path.write_bytes(data)
    return start, int.from_bytes(data[start : start + 8])


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("byte", [4, 6])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_flipped_bit_of_a_base_offset_is_put_back(
    tmp_path: Path, number: int, byte: int, options: LoadOptions
) -> None:
    """No CRC covers the base offset. The neighbours, or the logs around, show which one the batch had."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    row = rows_of(directory / f"{6:020}.log")[number]
    start, before = with_bit_flipped(directory, number, byte)
    done = plan(directory, options, with_salvage=True)
    assert done.saved.put_back == [PutBack(f"{6:020}.log", start, before, row.base_offset, row.last_offset)]
    assert done.saved.gaps == []
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("bit", [0, 4, 24, 31])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_flipped_bit_of_a_leader_epoch_is_put_right(
    tmp_path: Path, number: int, bit: int, options: LoadOptions
) -> None:
    """No CRC covers it. Not that of the first or the last batch of the whole log, which has one neighbour."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    whole = path.read_bytes()
    start, _ = frames(whole)[number]
    right = int.from_bytes(whole[start + 12 : start + 16], signed=True)
    wrong = int.from_bytes((right & 0xFFFFFFFF ^ 1 << bit).to_bytes(4), signed=True)
    path.write_bytes(whole[: start + 12] + wrong.to_bytes(4, signed=True) + whole[start + 16 :])
    done = plan(directory, options, with_salvage=True)
    assert done.saved.epochs == [RightEpoch(path.name, start, wrong, right)]
    assert done.saved.gaps == []
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches
    assert path.read_bytes() == whole


def test_a_batch_that_was_moved_keeps_its_leader_epoch(tmp_path: Path) -> None:
    """Sectors that a disk has exchanged put it between batches of a later epoch, with higher offsets."""
    log = tmp_path / f"{0:020}.log"
    log.write_bytes(b"".join(keyed_batch(b"k", b"x", base_offset=at, leader_epoch=epoch) for at, epoch in MOVED))
    assert wrong_epochs([(log.name, Content((FileRange(log, 0, log.stat().st_size),)))]) == []


MOVED = [(0, 8), (1, 8), (3, 10), (2, 8), (4, 10), (5, 10)]


def test_a_leader_epoch_that_differs_in_two_bits_stays(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    data[frames(data)[1][0] + 15] ^= 3
    path.write_bytes(data)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.epochs == []
    assert done.view.files[path.name] == done.view.original[path.name]


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("bit", [0, 4, 8, 20, 31])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_wrong_length_is_put_right_where_the_crc_is(
    tmp_path: Path, number: int, bit: int, options: LoadOptions
) -> None:
    """No CRC covers the length, and the CRC shows it: also beside a wrong base offset, which its neighbours show."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    whole = path.read_bytes()
    start, size = frames(whole)[number]
    right = size - 12
    wrong = int.from_bytes((right ^ 1 << bit).to_bytes(4), signed=True)
    for byte in (start + 8, start):  # the second time the base offset is wrong as well
        data = bytearray(whole)
        data[start + 8 : start + 12] = wrong.to_bytes(4, signed=True)
        data[start + 6] ^= byte == start
        path.write_bytes(data)
        done = plan(directory, options, with_salvage=True)
        assert done.saved.resized == [RightLength(path.name, start, wrong, right)]
        assert len(done.saved.put_back) == (byte == start)
        assert done.saved.gaps == []
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches
    assert path.read_bytes() == whole


def test_a_wrong_length_is_not_put_right_where_a_byte_of_the_batch_is_wrong_too(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    start, size = frames(data)[1]
    data[start + 9] ^= 1
    data[start + size - 1] ^= 1
    path.write_bytes(data)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.resized == []
    assert [(gap.position, gap.length) for gap in done.saved.gaps] == [(start, size)]


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("magic", [0, 1, 3, 6, 18, 127, -128, -1])
@pytest.mark.parametrize("numbers", [(0,), (1,), (-1,), (0, 1), (0, 1, 2)], ids=str)
def test_a_wrong_magic_is_put_right_where_the_crc_is(
    tmp_path: Path, numbers: tuple[int, ...], magic: int, options: LoadOptions
) -> None:
    """No CRC covers the magic, and the CRC shows it."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    whole = path.read_bytes()
    data, changed = bytearray(whole), [frames(whole)[number] for number in numbers]
    for start, _ in changed:
        data[start + 16] = magic & 0xFF
    path.write_bytes(data)
    done = plan(directory, options, with_salvage=True)
    assert done.saved.magics == [RightMagic(path.name, start, magic, size) for start, size in changed]
    assert (done.saved.gaps, done.saved.put_back, done.saved.resized) == ([], [], [])
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches
    assert path.read_bytes() == whole


@pytest.mark.parametrize("magic", [0, 3])
def test_a_wrong_magic_beside_other_damage_is_put_right(tmp_path: Path, magic: int) -> None:
    """The length in the header after the batch leads nowhere, so that the framing does not show where the batch
    ends."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    (start, size), (after, after_size), _ = frames(data)
    data[start + 16] = magic
    data[after : after + after_size] = bytes(after_size)
    path.write_bytes(data)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.magics == [RightMagic(path.name, start, magic, size)]
    assert [(gap.position, gap.length) for gap in done.saved.gaps] == [(after, after_size)]
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] != 8]


@pytest.mark.parametrize("magic", [0, 3])
def test_a_wrong_magic_is_not_put_right_where_a_byte_of_the_batch_is_wrong_too(tmp_path: Path, magic: int) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    start, size = frames(data)[1]
    data[start + 16] = magic
    data[start + size - 1] ^= 1
    path.write_bytes(data)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.magics == []
    assert [(gap.position, gap.length) for gap in done.saved.gaps] == [(start, size)]


def test_the_records_of_a_batch_with_a_wrong_magic_count_as_lost_and_as_kept(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    sound = plan(directory, OPTIONS)
    assert not sound.has_losses
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    lost_records = 0
    for log in sorted(directory.glob("*.log")):
        lost_records += sum(row.count for row in rows_of(log)) if log >= path else 0
    data[16] = 0
    path.write_bytes(data)
    assert sum(lost.records for lost in plan(directory, OPTIONS).lost) == lost_records
    assert plan(directory, OPTIONS, with_salvage=True).saved.records == lost_records


def with_count(log: Path, start: int, size: int, count: int) -> int:
    """Write a record count, and the CRC of it, into the batch at byte `start` of a .log file. Returns the count of
    before."""
    data = bytearray(log.read_bytes())
    before = int.from_bytes(data[start + 57 : start + 61], signed=True)
    data[start + 57 : start + 61] = count.to_bytes(4, signed=True)
    data[start + 17 : start + 21] = crc32c(data[start + 21 : start + size]).to_bytes(4)
    log.write_bytes(data)
    return before


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("change", [1, -1, 1 << 20, -(1 << 30)])
@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_wrong_record_count_is_put_right(tmp_path: Path, number: int, change: int, options: LoadOptions) -> None:
    """The CRC covers the count, and is right for the wrong one: the count changed before the CRC was computed."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    whole = path.read_bytes()
    start, size = frames(whole)[number]
    count = rows_of(path)[number].count
    with_count(path, start, size, count + change)
    done = plan(directory, options, with_salvage=True)
    assert done.saved.recounted == [RightCount(path.name, start, count + change, count)]
    assert (done.saved.gaps, done.saved.resized) == ([], [])
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches
    assert path.read_bytes() == whole


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "snappy"])
def test_a_wrong_record_count_of_kafkas_batches_is_put_right(tmp_path: Path, codec: str) -> None:
    directory = Path(shutil.copytree(GOLDEN / f"codecs/data/java-{codec}-0", tmp_path / "p-0"))
    log = max(directory.glob("*.log"))
    whole = log.read_bytes()
    start, size = frames(whole)[0]
    count = rows_of(log)[0].count
    with_count(log, start, size, count + 1)
    done = plan(directory, LoadOptions(0), with_salvage=True)
    assert done.saved.recounted == [RightCount(log.name, start, count + 1, count)]
    assert done.saved.gaps == []
    write_copy(done.view.files, CrashDisk(), tmp_path / "new")
    assert (tmp_path / "new" / log.name).read_bytes() == whole


def test_a_wrong_record_count_is_not_put_right_where_a_record_is_wrong_too(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    data = bytearray(path.read_bytes())
    start, size = frames(data)[1]
    data[start + 61] ^= 2  # the length of the first record
    path.write_bytes(data)
    with_count(path, start, size, 100)
    done = plan(directory, OPTIONS, with_salvage=True)
    assert done.saved.recounted == []
    assert [(gap.position, gap.length) for gap in done.saved.gaps] == [(start, size)]


@pytest.mark.parametrize("partition", ["v0-none-0", "v0-gzip-0", "v1-none-0", "v1-gzip-0", "v1-snappy-0"])
def test_messages_of_magic_0_and_1_keep_their_magic(tmp_path: Path, partition: str) -> None:
    """The last one is damaged: it is left out, and no magic is changed."""
    directory = Path(shutil.copytree(GOLDEN / "legacy/data" / partition, tmp_path / "p-0"))
    log = max(directory.glob("*.log"))
    data = bytearray(log.read_bytes())
    assert data[16] in {0, 1}
    start, _ = frames(data)[-1]
    data[-1] ^= 1
    log.write_bytes(data)
    done = plan(directory, LoadOptions(0), with_salvage=True)
    assert done.saved.magics == []
    write_copy(done.view.files, CrashDisk(), tmp_path / "new")
    assert (tmp_path / "new" / log.name).read_bytes() == data[:start]


@pytest.mark.parametrize("options", [OPTIONS, replace(OPTIONS, clean=True)], ids=["unclean", "clean"])
@pytest.mark.parametrize("bit", [*range(8), 10, 24, 33])
def test_that_of_the_last_batch_where_the_checkpoints_tell_the_end(
    tmp_path: Path, bit: int, options: LoadOptions
) -> None:
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = max(directory.glob("*.log"))
    data = bytearray(path.read_bytes())
    start, _ = frames(data)[-1]
    expected, last = rows_of(path)[-1].base_offset, rows_of(path)[-1].last_offset
    data[start : start + 8] = (expected ^ 1 << bit).to_bytes(8)
    path.write_bytes(data)
    right = PutBack(path.name, start, expected ^ 1 << bit, expected, last)
    for reached, put_back in ((last + 1, [right]), (last, [])):
        done = plan(directory, replace(options, reached=reached, recovery_point=reached), with_salvage=True)
        assert done.saved.put_back == put_back
    done = plan(directory, replace(options, reached=last + 1, recovery_point=last + 1), with_salvage=True)
    assert done.offsets is not None
    assert done.offsets.log_end_offset == last + 1
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == batches


def test_a_wrong_base_offset_beside_a_gap_is_put_right(tmp_path: Path) -> None:
    """Of the offsets between its neighbours one alone differs in one bit."""
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    path.write_bytes(path.read_bytes()[frames(path.read_bytes())[1][0] :])
    with_bit_flipped(directory, 0, 6)
    right = [(each.before, each.base_offset) for each in plan(directory, OPTIONS, with_salvage=True).saved.put_back]
    assert right == [(264, 8)]


def test_a_wrong_base_offset_for_which_two_would_do_stays_out(tmp_path: Path) -> None:
    """Offsets 5 and 6 both differ from 4 in one bit."""
    directory = tmp_path / "p-0"
    made(directory)
    row = rows_of(directory / f"{6:020}.log")[0]._replace(base_offset=4, last_offset=4)
    assert readable._put_back(None, row, row.size, Room(begin=5, end=7)) is None
    found = readable._put_back(None, row, row.size, Room(begin=5, end=6))
    assert found is not None
    assert (found.base_offset, found.last_offset) == (5, 5)


def test_a_copy_of_another_batch_is_not_put_into_its_place(tmp_path: Path) -> None:
    """The base offsets 8 and 10 differ in one bit."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    first, _, last = frames_of(path)
    path.write_bytes(first + last + last)
    done = plan(directory, KEEPS_ALL, with_salvage=True)
    assert done.saved.put_back == []
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] != 8]


UNREAD: dict[str, Callable[[bytearray], object]] = {
    "magic and codec": lambda data: (data.__setitem__(16, 3), data.__setitem__(22, 5)),
    "codec": lambda data: data.__setitem__(22, 5),
    "payload that does not decompress": lambda data: data.__setitem__(22, 4),
    "length of a record": lambda data: data.__setitem__(61, 0x7E),
}
"""Changes of a batch, after which its CRC is corrected."""


@pytest.mark.parametrize("options", [OPTIONS, KEEPS_ALL], ids=["unclean", "clean"])
@pytest.mark.parametrize("change", UNREAD.values(), ids=list(UNREAD))
def test_a_batch_that_no_consumer_reads_is_left_out(
    tmp_path: Path, change: Callable[[bytearray], object], options: LoadOptions
) -> None:
    """Kafka keeps it, since its CRC is correct. A consumer cannot get past it."""
    directory = tmp_path / "p-0"
    batches = made(directory)
    path = directory / f"{6:020}.log"
    first, second, third = map(bytearray, frames_of(path))
    change(second)
    path.write_bytes(first + mended(second) + third)
    assert not plan(directory, options).has_losses
    done = plan(directory, options, with_salvage=True)
    (gap,) = done.saved.gaps
    assert (gap.position, gap.length, gap.first_offset, gap.last_offset) == (len(first), len(second), 8, 9)
    apply_in_place(done.view, CrashDisk())
    assert batches_of(reopened(directory)) == [each for each in batches if each[0] != 8]


def test_a_sound_partition_is_not_changed(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    saved = plan(directory, KEEPS_ALL, with_salvage=True).saved
    assert (saved.gaps, saved.reordered, saved.left_out) == ([], [], [])


def test_a_gap_at_the_end_of_a_log_ends_where_the_next_log_begins(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{6:020}.log"
    path.write_bytes(path.read_bytes()[:-20])
    done = plan(directory, OPTIONS, with_salvage=True)
    assert [(gap.first_offset, gap.last_offset) for gap in done.saved.gaps] == [(10, 11)]


FLUSHED = replace(OPTIONS, recovery_point=10**6)
"""Everything lies below the recovery point, so a start reads nothing of it."""


def test_files_that_contradict_the_batches_are_rebuilt_after_any_crash(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    whole = {name: (directory / name).read_bytes() for name in (f"{6:020}.index", f"{6:020}.timeindex")}
    for name in (*whole, "leader-epoch-checkpoint"):
        (directory / name).write_bytes(b"0\n0\n")
    contradicted = [*whole, "leader-epoch-checkpoint"]
    calm, undisturbed = CrashDisk(), directory.with_name("calm-0")
    shutil.copytree(directory, undisturbed)
    done = plan(undisturbed, FLUSHED, with_salvage=True, checked=Checked(contradicted))
    assert (done.saved.rebuilt, done.events) == (sorted(contradicted), [])
    apply_in_place(done.view, calm)
    after = {path.name: path.read_bytes() for path in undisturbed.iterdir()}
    assert {name: after[name] for name in whole} == whole
    assert after["leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
    for dies_at in range(1, calm.operations + 1):
        crashed = directory.with_name(f"crash-{dies_at}")
        shutil.copytree(directory, crashed)
        with pytest.raises(Crash):
            apply_in_place(
                plan(crashed, FLUSHED, with_salvage=True, checked=Checked(contradicted)).view, CrashDisk(dies_at)
            )
        apply_in_place(plan(crashed, FLUSHED, with_salvage=True, checked=Checked(contradicted)).view, CrashDisk())
        assert {path.name: path.read_bytes() for path in crashed.iterdir()} == after
        shutil.rmtree(crashed)


def test_a_leader_epoch_checkpoint_that_kafka_refuses_is_rebuilt_from_all_batches(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    made(directory)
    (directory / "leader-epoch-checkpoint").write_bytes(b"broken")
    assert plan(directory, FLUSHED).refused
    apply_in_place(plan(directory, FLUSHED, with_salvage=True).view, CrashDisk())
    assert (directory / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n0 0\n"


def test_an_index_that_kafka_cannot_rebuild_stays(tmp_path: Path) -> None:
    """A rebuilt index has an entry for each interval, and may not have room for all; appended batches share entries."""
    directory = Path(shutil.copytree(GOLDEN / "codecs/data/java-none-0", tmp_path / "p-0"))
    options = LoadOptions(0, recovery_point=298, index_interval_bytes=256, max_index_bytes=180)
    index = f"{108:020}.timeindex"
    done = plan(directory, options, with_salvage=True, checked=Checked([index]))
    assert (done.refused, done.saved.rebuilt) == (None, [])
    assert [(event.kind, event.file) for event in done.events] == [(EventKind.PASSED_OVER, index)]
    assert "the time index is full" in done.events[0].reason


def test_indexes_that_fit_the_salvaged_log_stay(tmp_path: Path) -> None:
    """The log lacks a batch afterwards, and its transaction index is unchanged."""
    directory = Path(shutil.copytree(GOLDEN / "txn/data/t-txn-0", tmp_path / "p-0", copy_function=shutil.copyfile))
    log = directory / f"{4:020}.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    done = plan(directory, FLUSHED, with_salvage=True)
    assert len(done.view.files[log.name].parts) > 1
    assert f"{4:020}.txnindex" not in done.view.changed()
    apply_in_place(done.view, CrashDisk())
    assert {each.name for each in directory.iterdir()} == set(done.view.files)


def test_offsets_that_two_batches_have_are_lost_once(tmp_path: Path) -> None:
    """A sector that is written twice repeats batches before and behind the damage; here also in the next log."""
    made(tmp_path)
    log, following = sorted(tmp_path.glob("*.log"))[-2:]
    one, two, three = (log.read_bytes()[start : start + size] for start, size in frames(log.read_bytes()))
    log.write_bytes(b"".join([one, two[:-40], one, two, two, three]))
    following.write_bytes(three + following.read_bytes())
    planned = plan(tmp_path, OPTIONS)
    lost = [
        (event.kind, each.records, each.first_offset, each.last_offset)
        for event, each in zip(planned.events, planned.lost, strict=True)
        if event.is_loss
    ]
    assert lost == [(EventKind.CUT, 4, 32, 35), (EventKind.SEGMENT_REMOVED, 4, 36, 39)]


@pytest.mark.parametrize("contradicted", [(), (f"{12:020}.index",)])
def test_all_records_behind_a_cut_log_count_as_kept(tmp_path: Path, contradicted: tuple[str, ...]) -> None:
    """A start that rebuilds the cut log's index cuts it before it reads the logs behind, and keeps these."""
    directory = tmp_path / "p-0"
    made(directory)
    path = directory / f"{12:020}.log"
    path.write_bytes(path.read_bytes()[:-5])
    kafkas = plan(directory, OPTIONS)
    lost = sum(each.records for each in kafkas.lost)
    assert lost
    done = plan(directory, OPTIONS, with_salvage=True, checked=Checked(contradicted=contradicted))
    assert done.saved.records == lost


@pytest.mark.parametrize(
    ("epochs", "kept"),
    [
        ([0, 0, 2, 2, 4_194_306, 2, 2], [(0, 0), (2, 2)]),
        ([4, 4, 5, 4, 4], [(4, 0)]),
        ([4, 5, 4, 5, 5], [(4, 0), (5, 1)]),  # the third has the flipped bit
        ([5, 4, 5], [(5, 0)]),
        ([0, 1, 2, 3], [(0, 0), (1, 1), (2, 2), (3, 3)]),
    ],
)
def test_a_flipped_bit_of_a_leader_epoch_is_no_epoch(
    tmp_path: Path, epochs: list[int], kept: list[tuple[int, int]]
) -> None:
    """No CRC covers it."""
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(keyed_batch(b"k", b"v", base_offset=i, leader_epoch=e) for i, e in enumerate(epochs)))
    found = leader_epochs([(path.name, Content((FileRange(path, 0, path.stat().st_size),)))])
    assert [(entry.epoch, entry.start_offset) for entry in found.entries] == kept
