"""An open log over time: segments are rolled and deleted, the log is truncated at either end, flushed, closed and
opened again."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.log.config import LogConfig
from kcli.log.disk import Disk, DiskFile
from kcli.log.live.partition_log import (
    Isolation,
    LogFailed,
    OffsetOutOfRange,
    OpenOptions,
    PartitionLog,
    UnexpectedOffsets,
)
from kcli.log.live.validator import AppendRefused
from kcli.protocol.error_code import ErrorCode
from tests.log.batches import NOW_MS, batch, marker
from tests.log.live.test_partition_log import open_log

HOUR_MS = 3_600_000
VALUE = bytes(100)
SMALL = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "segment.index.bytes": "4096"}


def filled(directory: Path, config: dict[str, str], count: int = 20, **more: int) -> PartitionLog:
    """Return a log of `count` batches of two records, an hour apart, all replicated."""
    log = open_log(directory, config)
    for i in range(count):
        time_ms = NOW_MS + i * HOUR_MS
        log.append_as_leader(batch(VALUE, VALUE, timestamp_ms=time_ms), more.get("epoch", 0), time_ms)
    log.update_high_watermark(log.log_end_offset)
    return log


def all_bytes(log: PartitionLog) -> bytes:
    """Everything from the log start on."""
    data, offset = b"", log.log_start_offset
    while (region := log.read(offset, 1, Isolation.LOG_END).region) is not None:
        data += (found := os.pread(region.fd, region.length, region.position))
        offset = int.from_bytes(found[:8]) + int.from_bytes(found[23:27]) + 1
    return data


def test_segments_are_rolled_by_size(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL)
    assert log.base_offsets == [0, 6, 12, 18, 24, 30, 36]
    sizes = [(tmp_path / "p-0" / f"{base:020}.log").stat().st_size for base in log.base_offsets]
    assert max(sizes) <= 1000
    assert sum(sizes) == log.size
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_leader(batch(bytes(1000)), 0, NOW_MS)
    assert refusal.value.error == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(("jitter", "bases"), [(0, [0, 8, 16]), (HOUR_MS, [0, 6, 12, 18])])
def test_segments_are_rolled_by_time_and_jitter(tmp_path: Path, jitter: int, bases: list[int]) -> None:
    directory = tmp_path / "p-0"
    directory.mkdir()
    config = LogConfig({"segment.ms": str(3 * HOUR_MS), "segment.jitter.ms": str(HOUR_MS + 1)})
    options = OpenOptions(jitter=lambda most: min(jitter, most - 1))
    log = PartitionLog(directory, Disk(), config, NOW_MS, options)
    for i in range(10):
        log.append_as_leader(batch(VALUE, VALUE, timestamp_ms=NOW_MS + i * HOUR_MS), 0, NOW_MS + i * HOUR_MS)
    assert log.base_offsets == bases


def test_a_segment_without_timestamps_is_rolled_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", {"segment.ms": "1000"})
    for now_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        log.append_as_leader(batch(VALUE, timestamp_ms=-1), 0, now_ms)
    assert log.base_offsets == [0, 2]


def test_a_segment_is_rolled_where_an_offset_does_not_fit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", {})
    for offset in (5, 5 + 2**31, 2**40):
        log.append_as_follower(batch(VALUE, base_offset=offset), 0, NOW_MS)
    assert log.base_offsets == [0, 5 + 2**31, 2**40]
    log.close(NOW_MS)
    assert open_log(log.directory, {}).log_end_offset == 2**40 + 1


def test_preallocated_segments_are_trimmed(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL | {"preallocate": "true"})
    data = all_bytes(log)
    assert (log.directory / f"{log.base_offsets[-1]:020}.log").stat().st_size == 1000
    log.close(NOW_MS)
    assert sum(path.stat().st_size for path in log.directory.glob("*.log")) == len(data)
    assert all_bytes(open_log(log.directory, SMALL)) == data


@pytest.mark.parametrize("offset", [0, 5, 6, 7, 24, 38, 39, 40, 99])
def test_truncation_cuts_the_batch_with_the_offset_and_all_behind(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path / "p-0", SMALL)
    data = all_bytes(log)
    log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=0), 3, NOW_MS)
    removals = log.truncate_to(offset, NOW_MS)
    kept = min(offset, 41)
    assert log.log_end_offset == kept
    expected = log_of(tmp_path / "q-0", kept)
    assert all_bytes(log).startswith(expected)
    assert len(all_bytes(log)) - len(expected) == (0 if kept < 41 else len(all_bytes(log)) - len(data))
    assert log.latest_epoch == (None if kept == 0 else 0 if kept <= 40 else 3)
    assert log.recovery_point <= kept
    for removal in removals:
        assert all(path.name.endswith(".deleted") for path in removal.paths)
        removal.run()
    assert not list(log.directory.glob("*.deleted"))
    log.append_as_leader(batch(VALUE), 4, NOW_MS)
    log.close(NOW_MS)
    again = open_log(log.directory, SMALL)
    assert again.log_end_offset == kept + 1


def log_of(directory: Path, end_offset: int) -> bytes:
    """Return a log that ends at the batch with that offset."""
    log = filled(directory, SMALL, min(20, end_offset // 2))
    data = all_bytes(log)
    log.close_handles()
    return data


def test_no_offset_index_without_a_time_index_while_a_log_is_in_use(tmp_path: Path) -> None:
    """kcli verify reports such a log as damaged. A read writes the pending entries of the offset index."""
    log = filled(tmp_path / "p-0", {"index.interval.bytes": "100"}, count=40)
    paths = [tmp_path / "p-0" / f"{0:020}{suffix}" for suffix in (".index", ".timeindex")]
    assert not any(any(path.read_bytes()) for path in paths)
    log.read(20, 1)
    offsets, times = (path.read_bytes() for path in paths)
    assert struct.unpack_from(">ii", offsets, 38 * 8) == (79, log.size * 39 // 40)
    assert struct.unpack_from(">qi", times, 38 * 12) == (NOW_MS + 39 * HOUR_MS + 1, 79)


def test_truncation_opens_transactions_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", {})
    log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=0, transactional=True), 0, NOW_MS)
    before = log.producers.table.entries()
    log.append_as_follower(marker((7, 0), commit=False, base_offset=1), 0, NOW_MS)
    assert log.aborted_transactions(0, 2)
    log.truncate_to(1, NOW_MS)
    log.update_high_watermark(1)
    assert log.producers.table.entries() == before
    assert log.aborted_transactions(0, 2) == []
    assert log.last_stable_offset == 0


def test_a_log_begins_anew_at_an_offset(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL)
    for removal in log.truncate_fully_and_start_at(1000, NOW_MS):
        removal.run()
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.base_offsets) == (
        1000,
        1000,
        1000,
        [1000],
    )
    log.append_as_leader(batch(VALUE), 1, NOW_MS)
    log.close(NOW_MS)
    names = {path.name for path in log.directory.iterdir()}
    segment = {f"{1000:020}{suffix}" for suffix in (".log", ".index", ".timeindex")}
    assert names == segment | {f"{1001:020}.snapshot", "leader-epoch-checkpoint"}


def test_deleting_records_moves_the_start_and_retention_removes_segments(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL | {"retention.ms": "-1"})
    log.update_high_watermark(20)
    with pytest.raises(OffsetOutOfRange):
        log.delete_records(21)
    assert log.delete_records(13)
    assert not log.delete_records(12)
    (removal,) = log.delete_old_segments(NOW_MS)
    assert removal.delay_ms == 60_000
    assert log.base_offsets == [12, 18, 24, 30, 36]
    assert log.log_start_offset == 13
    removal.run()
    names = {path.name for path in log.directory.iterdir()}
    assert min(names) == f"{12:020}.index"
    assert f"{12:020}.snapshot" in names
    assert log.offset_for_leader_epoch(0) == (0, 40)


@pytest.mark.parametrize(
    ("config", "now_ms", "bases"),
    [
        ({"retention.ms": "-1", "retention.bytes": "2500"}, NOW_MS, [18, 24, 30, 36]),
        ({"retention.ms": str(5 * HOUR_MS)}, NOW_MS + 13 * HOUR_MS + 2, [18, 24, 30, 36]),
        ({"retention.ms": str(5 * HOUR_MS)}, NOW_MS + 13 * HOUR_MS + 1, [12, 18, 24, 30, 36]),
        ({"retention.ms": "1"}, NOW_MS + 1000 * HOUR_MS, [40]),
        ({"retention.ms": "1", "cleanup.policy": "compact"}, NOW_MS + 1000 * HOUR_MS, [0, 6, 12, 18, 24, 30, 36]),
    ],
)
def test_retention_by_size_and_by_time(tmp_path: Path, config: dict[str, str], now_ms: int, bases: list[int]) -> None:
    log = filled(tmp_path / "p-0", SMALL | config)
    region = log.read(0, 1).region
    removals = log.delete_old_segments(now_ms)
    assert log.base_offsets == bases
    assert log.log_start_offset == bases[0]
    assert log.log_end_offset == 40
    assert region is not None
    assert len(os.pread(region.fd, region.length, region.position)) == region.length, "readers are not disturbed"
    for removal in removals:
        removal.run()
    assert len(list(log.directory.glob("*.log"))) == len(bases)


def test_retention_waits_for_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL | {"retention.ms": "1"})
    log.update_high_watermark(13)
    log.delete_old_segments(NOW_MS + 1000 * HOUR_MS)
    assert log.base_offsets[0] == 12


def test_flushes_are_due_by_messages_by_time_and_after_a_roll(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", {"flush.messages": "10"}, 7)
    assert log.recovery_point == 10
    log = filled(tmp_path / "q-0", {"flush.ms": "1000"}, 1)
    assert not log.flush_due(NOW_MS + 999)
    assert log.flush_due(NOW_MS + 1000)
    assert (log.recovery_point, log.flush_due(NOW_MS + 9999)) == (2, False)
    log = filled(tmp_path / "r-0", SMALL, 7)
    assert log.flush_due(NOW_MS)
    assert (log.recovery_point, log.flush_due(NOW_MS)) == (12, False)


class FullDisk(Disk):
    """A disk without room for logs once it is `full`."""

    full = False

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return FullFile(self, path, file.fd)


class FullFile(DiskFile):
    """A file on it."""

    def __init__(self, disk: FullDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self.disk = disk

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        if self.disk.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(buffers, position)


def test_a_failed_write_is_never_taken_for_a_duplicate(tmp_path: Path) -> None:
    directory = tmp_path / "p-0"
    directory.mkdir()
    disk = FullDisk()
    log = PartitionLog(directory, disk, LogConfig(), NOW_MS)
    log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=0), 0, NOW_MS)
    disk.full = True
    with pytest.raises(OSError, match="No space"):
        log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=1), 0, NOW_MS)
    disk.full = False
    for sequence in (1, 2):
        with pytest.raises(LogFailed):
            log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=sequence), 0, NOW_MS)
    log.close_handles()
    again = PartitionLog(directory, Disk(), LogConfig(), NOW_MS, OpenOptions(clean=False))
    assert not again.append_as_leader(batch(VALUE, producer=(7, 0), sequence=1), 0, NOW_MS).duplicate


def test_leader_epochs_are_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", {})
    for epoch in (0, 0, 2, 5):
        log.append_as_leader(batch(VALUE), epoch, NOW_MS)
    ends = [(0, 2), (0, 2), (2, 3), (2, 3), (2, 3), (5, 4), (-1, -1)]
    assert [log.offset_for_leader_epoch(epoch) for epoch in range(7)] == ends
    log.close(NOW_MS)
    again = open_log(log.directory, {})
    assert [again.offset_for_leader_epoch(epoch) for epoch in range(7)] == ends


def test_a_clean_start_does_not_write_for_epochs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "p-0", {})
    log.append_as_leader(batch(VALUE), 0, NOW_MS)
    log.close(NOW_MS)
    epochs = log.directory / FileKind.LEADER_EPOCHS
    stale = b"0\n2\n0 0\n3 1\n"
    epochs.write_bytes(stale)
    with monkeypatch.context() as patched:
        patched.setattr(Disk, "write_file", None)
        patched.setattr(DiskFile, "sync", None)
        again = open_log(log.directory, {})
    assert (again.latest_epoch, epochs.read_bytes()) == (0, stale)
    again.close(NOW_MS)
    assert epochs.read_bytes() == b"0\n1\n0 0\n"
    epochs.write_bytes(stale)
    open_log(log.directory, {}, clean=False)
    assert epochs.read_bytes() == b"0\n1\n0 0\n"


def append_twice(log: PartitionLog) -> None:
    log.append_as_follower(batch(VALUE), 0, NOW_MS)


def append_back(log: PartitionLog) -> None:
    log.append_as_follower(batch(VALUE, base_offset=9) + batch(VALUE, base_offset=8), 0, NOW_MS)


@pytest.mark.parametrize("append", [append_twice, append_back])
def test_a_follower_takes_offsets_in_order_only(tmp_path: Path, append: Callable[[PartitionLog], None]) -> None:
    log = open_log(tmp_path / "p-0", {})
    log.append_as_follower(batch(VALUE), 0, NOW_MS)
    with pytest.raises(UnexpectedOffsets):
        append(log)
    assert log.log_end_offset == 1


def test_a_follower_refuses_batches_that_no_segment_can_hold(tmp_path: Path) -> None:
    """A flipped bit of a base offset, which no CRC covers."""
    log = open_log(tmp_path / "p-0", {})
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_follower(batch(VALUE) + batch(VALUE, base_offset=1 + (1 << 40)), 0, NOW_MS)
    assert refusal.value.error == ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_follower(batch(VALUE, base_offset=2**63 - 1), 0, NOW_MS)
    assert refusal.value.error == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == log.size == 0
    assert log.append_as_follower(batch(VALUE), 0, NOW_MS).last_offset == 0


def test_a_follower_leaves_out_torn_batches_and_later_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", {})
    data = batch(VALUE, leader_epoch=1) + batch(VALUE, base_offset=1, leader_epoch=2)
    assert log.append_as_follower(data[:-1], 2, NOW_MS).last_offset == 0
    assert log.append_as_follower(data[len(data) // 2 :], 1, NOW_MS).last_offset == -1
    data[-1] ^= 1
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_follower(data[len(data) // 2 :], 2, NOW_MS)
    assert refusal.value.error == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 1


def test_a_log_stays_in_use_when_its_directory_is_renamed_until_it_is_deleted(tmp_path: Path) -> None:
    log = filled(tmp_path / "p-0", SMALL, 10)
    data = all_bytes(log)
    log.rename(tmp_path / "p-0.0123456789abcdef-delete")
    assert all_bytes(log) == data
    for i in range(10):
        log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=i), 1, NOW_MS)
    log.truncate_to(25, NOW_MS)
    log.flush(NOW_MS)
    assert [path.name for path in tmp_path.iterdir()] == [log.directory.name]
    assert log.log_end_offset == 25
    assert log.producers.table.last_batches(7)[-1][:2] == (4, 24)
    log.delete()
    assert list(tmp_path.iterdir()) == []
