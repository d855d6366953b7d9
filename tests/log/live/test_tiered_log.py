"""A log whose old segments are in tiered storage: its two starts, local retention, what is copied, where a follower
begins. tests/interop/test_tiered_log_kafka.py compares the same with a running Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.file_name import NEVER_TIERED
from formats.producer_snapshot import parse as parse_snapshot
from kcli.log.config import LogConfig
from kcli.log.live.partition_log import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    Isolation,
    OffsetOutOfRange,
    OffsetTiered,
    PartitionLog,
)
from kcli.log.live.validator import Origin
from tests.log.batches import NOW_MS, batch, marker
from tests.log.live.test_partition_log import open_log

HOUR_MS = 3_600_000
VALUE = bytes(100)
SMALL = {"internal.segment.bytes": "1000", "index.interval.bytes": "100", "segment.index.bytes": "4096"}
TIERED = SMALL | {"remote.storage.enable": "true", "retention.ms": "-1"}
KEPT = {"local.retention.bytes": "-1", "local.retention.ms": "-1"}


def tiered(directory: Path, config: dict[str, str] | None = None, *, count: int = 20, tier: int = -1) -> PartitionLog:
    """Return a log of `count` batches of two records, an hour apart, all replicated; a leader epoch begins at every
    tenth offset. tier: the last offset in remote storage."""
    log = open_log(directory, TIERED | (KEPT if config is None else config), may_be_tiered=True)
    for i in range(count):
        time_ms = NOW_MS + i * HOUR_MS
        log.append_as_leader(batch(VALUE, VALUE, timestamp_ms=time_ms), i // 5, time_ms)
    log.update_high_watermark(log.log_end_offset)
    log.update_highest_tiered(tier)
    return log


def starts(log: PartitionLog) -> tuple[int, int, int]:
    """The log start offset, the local one, and the base offset of the first segment."""
    return log.log_start_offset, log.local_log_start_offset, log.first_base_offset


@pytest.mark.parametrize(
    ("config", "options", "is_tiered"),
    [
        ({"remote.storage.enable": "true"}, {"may_be_tiered": True}, True),
        ({"remote.storage.enable": "true"}, {}, False),
        ({}, {"may_be_tiered": True}, False),
        ({"remote.storage.enable": "true", "cleanup.policy": "compact"}, {"may_be_tiered": True}, False),
        ({"remote.storage.enable": "true", "cleanup.policy": ""}, {"may_be_tiered": True}, True),
    ],
)
def test_which_logs_are_tiered(
    tmp_path: Path, config: dict[str, str], options: dict[str, bool], is_tiered: bool
) -> None:
    assert open_log(tmp_path / "p-0", config, **options).is_tiered is is_tiered
    assert {"__remote_log_metadata", "__cluster_metadata", "__consumer_offsets"} <= NEVER_TIERED


def test_nothing_is_known_to_be_tiered_in_a_log_that_is_not(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", SMALL)
    log.update_highest_tiered(5)
    assert log.highest_tiered_offset == -1
    assert not log.advance_log_start(0)


@pytest.mark.parametrize(
    ("config", "highest", "begins"),
    [
        ({}, 17, 0),  # -2: as retention.ms, retention.bytes, which are unlimited
        ({"local.retention.bytes": "1"}, -1, 0),
        ({"local.retention.bytes": "1"}, 4, 0),
        ({"local.retention.bytes": "1"}, 5, 6),
        ({"local.retention.bytes": "1"}, 16, 12),
        ({"local.retention.bytes": "1"}, 17, 18),
        ({"local.retention.bytes": "1500", "retention.bytes": "100000"}, 35, 24),
        ({"local.retention.bytes": "-2", "retention.bytes": "1500"}, 35, 24),
        ({"local.retention.ms": str(8 * HOUR_MS)}, 35, 24),
        ({"local.retention.ms": "-2", "retention.ms": str(8 * HOUR_MS)}, 35, 24),
        ({"local.retention.bytes": "1", "cleanup.policy": ""}, 17, 18),
        ({"local.retention.bytes": "1", "remote.log.copy.disable": "true"}, 17, 0),
    ],
)
def test_local_retention_deletes_what_is_in_remote_storage(
    tmp_path: Path, config: dict[str, str], highest: int, begins: int
) -> None:
    log = tiered(tmp_path / "p-0", config, tier=highest)
    removals = log.delete_old_segments(NOW_MS + 20 * HOUR_MS)
    assert starts(log) == (0, begins, begins)
    assert log.leader_epochs[0] == EpochEntry(0, 0), "they are kept from the log start offset on"
    assert sorted(removal.segments[0].base_offset for removal in removals) == [0][: bool(begins)]
    assert not {path.name[:20] for path in log.directory.glob("*.snapshot")} & {f"{each:020}" for each in range(begins)}
    for removal in removals:
        removal.run()
    log.close(NOW_MS)

    again = open_log(log.directory, TIERED | config, may_be_tiered=True, log_start_offset=0)
    assert starts(again) == (0, begins, begins)
    assert again.leader_epochs == log.leader_epochs
    assert (again.high_watermark, again.recovery_point) >= (begins, begins)
    again.close(NOW_MS)
    plain = open_log(log.directory, SMALL)  # as on a broker without tiered storage
    assert starts(plain) == (begins, begins, begins)


def test_without_copies_retention_is_that_of_the_whole_log(tmp_path: Path) -> None:
    config = {"remote.log.copy.disable": "true", "retention.bytes": "1500", "local.retention.bytes": "-2"}
    log = tiered(tmp_path / "p-0", config, tier=17)
    log.delete_old_segments(NOW_MS)
    assert starts(log) == (24, 24, 24)
    assert log.leader_epochs[0] == EpochEntry(2, 24)


def test_retention_rolls_an_active_segment_that_is_to_be_copied(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.ms": "1"}, count=18, tier=29)
    assert log.base_offsets == [0, 6, 12, 18, 24, 30]
    log.delete_old_segments(NOW_MS + 99 * HOUR_MS)
    assert log.base_offsets == [30, 36]
    assert log.delete_old_segments(NOW_MS + 99 * HOUR_MS) == []
    assert log.base_offsets == [30, 36], "an empty segment is not rolled again"
    log.update_highest_tiered(35)
    log.delete_old_segments(NOW_MS + 99 * HOUR_MS)
    assert (log.base_offsets, starts(log)) == ([36], (0, 36, 36))
    log.append_as_leader(batch(VALUE), 7, NOW_MS)
    assert log.log_end_offset == 37


def test_the_high_watermark_holds_local_retention_back(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", TIERED | {"local.retention.bytes": "1"}, may_be_tiered=True)
    for _ in range(20):
        log.append_as_leader(batch(VALUE, VALUE), 0, NOW_MS)
    log.update_high_watermark(13)
    log.update_highest_tiered(35)
    log.delete_old_segments(NOW_MS)
    assert starts(log) == (0, 12, 12)


def test_reads_below_the_local_log_start_offset(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    log.delete_records(4)
    for offset in (4, 5, 17):
        for isolation in Isolation:
            with pytest.raises(OffsetTiered) as found:
                log.read(offset, 1, isolation)
            assert (found.value.log_start_offset, found.value.local_log_start_offset) == (4, 18)
    for offset in (0, 3, 41):
        with pytest.raises(OffsetOutOfRange) as refused:
            log.read(offset, 1)
        assert type(refused.value) is OffsetOutOfRange
    region = log.read(18, 1).region
    assert region is not None
    assert int.from_bytes(os.pread(region.fd, 8, region.position)) == 18


def test_deleted_records_below_and_above_the_local_start(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    assert log.delete_records(7)
    assert starts(log) == (7, 18, 18)
    assert log.leader_epochs[:2] == (EpochEntry(0, 7), EpochEntry(1, 10))
    assert not log.advance_log_start(6)
    assert log.advance_log_start(12)
    assert starts(log) == (12, 18, 18)
    assert log.delete_records(25)
    assert starts(log) == (25, 25, 18)
    log.delete_old_segments(NOW_MS)
    assert starts(log) == (25, 25, 24), "a segment below the log start offset need not be copied"
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(41)


def test_a_topic_that_is_no_longer_tiered(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    local = log.local_log_start_offset
    log.set_config(LogConfig(SMALL))
    log.delete_records(local)  # as the broker does for a partition that it leads
    assert starts(log) == (18, 18, 18)
    assert not log.is_tiered


def test_special_timestamps(tmp_path: Path) -> None:
    def asked(log: PartitionLog) -> list[tuple[int, int]]:
        kinds = EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, EARLIEST_PENDING_UPLOAD
        found = [log.offset_for_timestamp(each) for each in kinds]
        return [(each.offset, each.leader_epoch) for each in found if each is not None]

    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"})
    assert asked(log) == [(0, 0), (0, 0), (40, 3), (-1, -1), (0, 0)]
    log.update_highest_tiered(17)
    assert asked(log) == [(0, 0), (0, 0), (40, 3), (17, 1), (18, 1)]
    log.delete_old_segments(NOW_MS)
    assert asked(log) == [(0, 0), (18, 1), (40, 3), (17, 1), (18, 1)]
    log.delete_records(33)
    assert asked(log) == [(33, 3), (33, 3), (40, 3), (17, -1), (33, 3)]
    log.close(NOW_MS)
    log = open_log(log.directory, TIERED, may_be_tiered=True, log_start_offset=3)
    assert asked(log) == [(3, -1), (18, -1), (40, 3), (-1, -1), (-1, -1)], "it is not known yet what is tiered"
    log.close(NOW_MS)
    log = open_log(log.directory, SMALL, log_start_offset=33)
    log.update_highest_tiered(35)
    assert asked(log) == [(33, 3), (33, 3), (40, 3), (-1, -1), (-1, -1)]


def test_a_search_by_time_begins_at_the_local_start(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    found = log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert (found.offset, found.timestamp) == (18, NOW_MS + 9 * HOUR_MS)


def test_closed_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "p-0", TIERED | KEPT, may_be_tiered=True)
    for i in range(8):
        log.append_as_leader(batch(VALUE, VALUE, timestamp_ms=NOW_MS + i), 3, NOW_MS)
    log.append_as_leader(batch(VALUE, producer=(7, 0), sequence=0, transactional=True), 4, NOW_MS)
    log.append_as_leader(marker((7, 0), commit=False), 4, NOW_MS, origin=Origin.COORDINATOR)
    for _ in range(3):
        log.append_as_leader(batch(VALUE, VALUE), 5, NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    assert log.base_offsets == [0, 6, 12, 18]
    assert [each.base_offset for each in log.closed_segments(0, 24)] == [0, 6, 12]
    assert [each.base_offset for each in log.closed_segments(6, 24)] == [6, 12]
    assert [each.base_offset for each in log.closed_segments(7, 24)] == [6, 12], "a segment is copied whole"
    assert [each.base_offset for each in log.closed_segments(0, 17)] == [0, 6]
    assert [each.base_offset for each in log.closed_segments(0, 24, count_max=1)] == [0]
    assert log.closed_segments(18, 24) == log.closed_segments(24, 24) == []

    first, second, third = log.closed_segments(0, 24)
    assert [(each.next_offset, each.max_timestamp_ms) for each in (first, second)] == [
        (6, NOW_MS + 3),
        (12, NOW_MS + 6),
    ]
    assert (first.txn_index_path, second.txn_index_path) == (None, None)
    assert third.txn_index_path is not None
    for each in (first, second, third):
        assert each.size == each.log_path.stat().st_size
        assert each.offset_index_path.stat().st_size % 8 == 0 < each.time_index_path.stat().st_size
        assert each.producer_snapshot_path is not None
        assert each.producer_snapshot_path.name == f"{each.next_offset:020}.snapshot"
    with third.open() as files:
        log.truncate_fully_and_start_at(99, NOW_MS)
        assert len(files.log.read()) == third.size
        assert files.txn_index is not None
        assert len(files.txn_index.read()) == 34
        assert files.producer_snapshot is not None
        assert [each.producer_id for each in parse_snapshot(files.producer_snapshot.read()).entries] == [7]
    assert files.log.closed
    with pytest.raises(FileNotFoundError):
        third.open()


def test_the_leader_epochs_of_a_segment(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0")
    assert log.leader_epochs == tuple(EpochEntry(each, each * 10) for each in range(4))
    assert log.epoch_starts(0, 6) == (EpochEntry(0, 0),)
    assert log.epoch_starts(6, 12) == (EpochEntry(0, 6), EpochEntry(1, 10))
    assert log.epoch_starts(12, 30) == (EpochEntry(1, 12), EpochEntry(2, 20)), "an epoch that begins behind is none"
    assert tuple(parse_leader_epochs(log.epochs_to(20))) == log.leader_epochs[:2]
    assert tuple(parse_leader_epochs(log.epochs_to(21))) == log.leader_epochs[:3]
    assert len(log.leader_epochs) == 4, "they are only read"


def test_a_follower_begins_where_the_local_log_of_its_leader_does(tmp_path: Path) -> None:
    leader = tiered(tmp_path / "p-0", count=8)
    leader.append_as_leader(batch(VALUE, producer=(7, 2), sequence=0, transactional=True), 4, NOW_MS)
    leader.roll(NOW_MS)
    (*_, last) = leader.closed_segments(0, 17)
    assert last.producer_snapshot_path is not None
    snapshot = last.producer_snapshot_path.read_bytes()
    epochs = parse_leader_epochs(leader.epochs_to(17))

    log = tiered(tmp_path / "q-0", count=3)
    log.append_as_leader(batch(VALUE, producer=(9, 0), sequence=0), 0, NOW_MS)
    removals = log.start_from_tier(17, 4, epochs, snapshot, NOW_MS)
    assert starts(log) == (4, 17, 17)
    assert (log.log_end_offset, log.high_watermark) == (17, 17)
    assert log.leader_epochs == (EpochEntry(0, 4), EpochEntry(1, 10), EpochEntry(4, 16))
    assert log.producers.first_unstable_offset == 16, "the transaction that is open in the snapshot"
    assert log.last_stable_offset == 16
    assert [path.name for path in log.directory.glob("*.snapshot")] == [f"{17:020}.snapshot"]
    log.append_as_follower(marker((7, 2), commit=True, base_offset=17, leader_epoch=4), 4, NOW_MS)
    log.update_high_watermark(18)
    assert log.last_stable_offset == 18
    for removal in removals:
        removal.run()
    log.close(NOW_MS)
    again = open_log(log.directory, TIERED, may_be_tiered=True, log_start_offset=4, high_watermark=18)
    assert (starts(again), again.leader_epochs) == ((4, 17, 17), log.leader_epochs)
    with pytest.raises(OffsetTiered):
        again.read(5, 1)


@pytest.mark.parametrize("snapshot", [None, b"", b"\0" * 40])
def test_a_follower_begins_without_a_sound_snapshot(tmp_path: Path, snapshot: bytes | None) -> None:
    log = tiered(tmp_path / "p-0", count=3)
    log.start_from_tier(17, 4, [EpochEntry(2, 0), EpochEntry(5, 20)], snapshot, NOW_MS)
    assert (starts(log), log.leader_epochs) == ((4, 17, 17), (EpochEntry(2, 4),))
    log.append_as_follower(batch(VALUE, base_offset=17, leader_epoch=5), 5, NOW_MS)
    assert log.log_end_offset == 18


def test_truncation_below_the_local_start_empties_the_log(tmp_path: Path) -> None:
    """As in Kafka, which then begins anew at the offset."""
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    log.truncate_to(20, NOW_MS)
    assert (starts(log), log.log_end_offset) == ((0, 18, 18), 20)
    log.truncate_to(9, NOW_MS)
    assert (starts(log), log.log_end_offset) == ((9, 9, 9), 9)


def test_a_crash_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = tiered(tmp_path / "p-0", {"local.retention.bytes": "1"}, tier=17)
    log.delete_old_segments(NOW_MS)
    log.write_stale_epochs()
    log.close_handles()
    again = open_log(log.directory, TIERED, may_be_tiered=True, clean=False, recovery_point=0, log_start_offset=0)
    assert (starts(again), again.log_end_offset) == ((0, 18, 18), 40)
    assert again.leader_epochs == log.leader_epochs
