"""Which segments of the tier are deleted, and what a leader finds there: by the rules of Kafka's RemoteLogManager."""

from __future__ import annotations

from dataclasses import replace

import pytest

from formats.checkpoint import EpochEntry
from kcli.tier.cache import SegmentCache
from kcli.tier.copying import first_tiered, last_tiered
from kcli.tier.expiry import DANGLING_MS, Expired, LogState, expired, is_of_lineage, with_records
from kcli.tier.records import update_value
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from tests.tier.records import uuid

WHOSE = TieredPartition("orders", 0, uuid(9))
STARTED, FINISHED = SegmentState.COPY_SEGMENT_STARTED, SegmentState.COPY_SEGMENT_FINISHED
GOING = SegmentState.DELETE_SEGMENT_STARTED
NOW = 10_000_000
LOG = LogState(
    lineage=(EpochEntry(0, 0),),
    log_start_offset=0,
    log_end_offset=1000,
    local_bytes=100,
    retention_ms=-1,
    retention_bytes=-1,
)


def segment(
    number: int, epochs: dict[int, int] | None = None, state: SegmentState = FINISHED, broker_id: int = 1, end: int = 9
) -> RemoteSegment:
    """A segment of ten offsets and 100 bytes, whose records are of the millisecond of its number."""
    entries = tuple(EpochEntry(*each) for each in (epochs or {0: number * 10}).items())
    return RemoteSegment(
        partition=WHOSE,
        id=uuid(number + 1),
        start_offset=number * 10,
        end_offset=number * 10 + end,
        size=100,
        leader_epochs=entries,
        has_txn_index=False,
        state=state,
        max_timestamp_ms=number,
        event_timestamp_ms=NOW,
        broker_id=broker_id,
    )


def found(*segments: RemoteSegment, log: LogState = LOG, now_ms: int = NOW, **more: set[str]) -> Expired:
    return expired(segments, log, now_ms, broker_id=1, **more)


def numbers(result: Expired) -> list[int]:
    return [each.start_offset // 10 for each in result.segments]


FIVE = [segment(i) for i in range(5)]


def test_without_limits_all_stay() -> None:
    assert found(*FIVE) == Expired()


def test_retention_ms_ends_at_the_first_segment_that_is_young() -> None:
    log = replace(LOG, retention_ms=NOW - 2)
    result = found(*FIVE, log=log)
    assert numbers(result) == [0, 1]
    assert result.log_start_offset == 20
    assert found(*FIVE, log=log, now_ms=NOW - 5).segments == []


@pytest.mark.parametrize(("most", "expected"), [(600, 0), (599, 0), (501, 0), (500, 1), (399, 2), (0, 5)])
def test_retention_bytes_counts_both_tiers_and_never_falls_below_the_limit(most: int, expected: int) -> None:
    result = found(*FIVE, log=replace(LOG, retention_bytes=most))
    assert numbers(result) == list(range(expected))
    assert result.log_start_offset == (expected * 10 or None)


def test_what_lies_below_the_log_start_offset_goes() -> None:
    log = replace(LOG, log_start_offset=25, lineage=(EpochEntry(0, 25),))
    result = found(*FIVE, log=log)
    assert numbers(result) == [0, 1]
    assert result.log_start_offset is None


def test_what_lies_below_the_log_start_offset_does_not_count() -> None:
    """Kafka's RemoteLogManager counts it, and deletes as many bytes more: records above the limit would be lost."""
    log = replace(LOG, log_start_offset=30, lineage=(EpochEntry(0, 30),), retention_bytes=200)
    result = found(*FIVE, log=log)
    assert numbers(result) == [0, 1, 2, 3]
    assert result.log_start_offset == 40
    assert numbers(found(*FIVE, log=replace(log, retention_bytes=201))) == [0, 1, 2]


def test_a_segment_outside_of_the_lineage_stays_and_the_next_ones_are_looked_at() -> None:
    diverged = segment(1, {0: 10, 3: 15})
    log = replace(LOG, retention_ms=0)
    assert numbers(found(segment(0), diverged, segment(2), log=log)) == [0, 2]


def test_segments_of_epochs_before_the_first_one_go() -> None:
    log = replace(LOG, lineage=(EpochEntry(4, 0),))
    assert numbers(found(segment(0, {3: 0}), segment(1, {4: 10}), log=log)) == [0]


def test_a_segment_that_is_being_copied_ends_the_search() -> None:
    copying = segment(1, state=STARTED)
    log = replace(LOG, retention_ms=0)
    assert numbers(found(segment(0), copying, segment(2), log=log, being_copied={copying.id})) == [0]


def test_dangling_copies() -> None:
    own, other = segment(1, state=STARTED), segment(2, state=STARTED, broker_id=2)
    assert numbers(found(segment(0), own, other)) == [1]
    assert numbers(found(segment(0), own, other, unsettled={own.id})) == []
    assert numbers(found(segment(0), own, other, now_ms=NOW + DANGLING_MS + 1)) == [1, 2]
    assert numbers(found(segment(0), segment(3, state=GOING, broker_id=2))) == [3]


def test_no_lineage_deletes_nothing() -> None:
    assert found(*FIVE, log=replace(LOG, lineage=(), retention_ms=0)) == Expired()


def test_lineages() -> None:
    lineage = with_records([EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 10), EpochEntry(3, 15)])
    assert list(lineage) == [0, 2, 3]
    assert is_of_lineage(segment(1, {2: 10, 3: 15}), lineage, 100)
    assert is_of_lineage(segment(1, {1: 10, 2: 10, 3: 15}), lineage, 100)
    assert not is_of_lineage(segment(1, {2: 10, 3: 16}), lineage, 100)
    assert not is_of_lineage(segment(1, {2: 10}), lineage, 100)
    assert not is_of_lineage(segment(1, {2: 10, 3: 15}), lineage, 19)
    assert not is_of_lineage(segment(1, {2: 10, 4: 15}), lineage, 100)


# what a leader finds


def cache_of(*segments: RemoteSegment) -> SegmentCache:
    cache = SegmentCache()
    for each in segments:
        cache.add(replace(each, state=STARTED))
        for state in range(1, (each.state or STARTED) + 1):
            cache.update(each.id, update_value(each, SegmentState(state), 1, NOW))
    return cache


def test_what_the_tier_has() -> None:
    lineage = [EpochEntry(0, 0), EpochEntry(2, 20)]
    assert last_tiered(SegmentCache(), lineage, 100) == -1
    assert first_tiered(SegmentCache(), lineage, 0) is None
    cache = cache_of(segment(0), segment(1, {0: 10}))
    assert (first_tiered(cache, lineage, 0), last_tiered(cache, lineage, 100)) == (0, 19)
    assert first_tiered(cache, lineage, 15) == 15
    cache = cache_of(segment(0), segment(1), segment(2, {2: 20}))
    assert last_tiered(cache, lineage, 100) == 29
    assert last_tiered(cache, [EpochEntry(0, 0), EpochEntry(3, 25)], 100) == 19


def test_records_that_this_leader_does_not_have_are_not_taken_for_copied() -> None:
    cache = cache_of(segment(0), segment(1), segment(2))
    assert last_tiered(cache, [EpochEntry(0, 0), EpochEntry(1, 15)], 100) == 14
    assert last_tiered(cache, [EpochEntry(0, 0)], 17) == 16


def test_what_is_deleted_is_not_taken_for_copied() -> None:
    cache = cache_of(segment(0, state=GOING), segment(1, state=GOING), segment(2, state=STARTED))
    assert (first_tiered(cache, [EpochEntry(0, 0)], 0), last_tiered(cache, [EpochEntry(0, 0)], 100)) == (None, -1)
