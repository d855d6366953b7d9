"""Which segment each offset is read from: by the lineage of leader epochs, each offset once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from formats.checkpoint import EpochEntry
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.copying import last_tiered
from kcli.tier.lineage import (
    Part,
    behind_older,
    from_segment_start,
    is_within,
    last_readable,
    plan,
    segment_at,
    segment_from,
    segments_with_txn_index,
)
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import RemoteSegment
from tests.tier.records import PARTITION, Epochs, life, started, updated, uuid

A, B, C = map(uuid, range(1, 4))


def lineage(*entries: tuple[int, int]) -> list[EpochEntry]:
    return [EpochEntry(*each) for each in entries]


def copied(*segments: tuple[str, int, int, Epochs]) -> SegmentCache:
    metadata = RemoteLogMetadata()
    for segment_id, start, end, epochs in segments:
        metadata.replay(started(segment_id, start, end, epochs))
        metadata.replay(updated(segment_id, 1))
    return metadata.caches[PARTITION]


def ranges(parts: Sequence[Part]) -> list[tuple[str, int, int]]:
    return [(each.segment.id, each.first, each.last) for each in parts]


def test_segments_follow_each_other() -> None:
    cache = copied((A, 0, 9, [(0, 0)]), (B, 10, 19, [(0, 10), (1, 15)]))
    found = plan(cache, lineage((0, 0), (1, 15)), None, None)
    assert (ranges(found.parts), found.gaps) == ([(A, 0, 9), (B, 10, 19)], [])
    assert all(each.is_whole for each in found.parts)


def test_an_epoch_that_lost_its_end_is_read_up_to_there() -> None:
    """The leader of epoch 0 copied up to 29; the next leader had the log only up to 19."""
    cache = copied((A, 0, 29, [(0, 0)]), (B, 20, 39, [(1, 20)]))
    found = plan(cache, lineage((0, 0), (1, 20)), None, None)
    assert (ranges(found.parts), found.gaps) == ([(A, 0, 19), (B, 20, 39)], [])
    assert [is_within(each, lineage((0, 0), (1, 20))) for each in cache.segments()] == [False, True]


def test_a_segment_of_a_lost_epoch_is_not_read() -> None:
    cache = copied((A, 0, 9, [(0, 0)]), (B, 10, 19, [(1, 10)]), (C, 10, 29, [(2, 10)]))
    assert ranges(plan(cache, lineage((0, 0), (2, 10)), None, None).parts) == [(A, 0, 9), (C, 10, 29)]


def test_gaps() -> None:
    cache = copied((A, 10, 19, [(0, 10)]), (B, 30, 39, [(0, 30)]))
    assert plan(cache, lineage((0, 0)), 0, 50).gaps == [(0, 9), (20, 29), (40, 49)]
    assert plan(cache, lineage((0, 0)), None, None).gaps == [(20, 29)]


def test_the_local_log_cuts_the_last_segment() -> None:
    cache = copied((A, 0, 9, [(0, 0)]), (B, 10, 29, [(0, 10)]))
    assert ranges(plan(cache, lineage((0, 0)), 0, 15).parts) == [(A, 0, 9), (B, 10, 14)]


def test_the_segment_of_the_log_start_offset_is_read_from_its_begin() -> None:
    cache = copied((A, 0, 29, [(0, 0), (1, 10)]))
    for entries, first in ((lineage((1, 15)), 10), (lineage((0, 0), (1, 12)), 12)):
        part = plan(cache, entries, 15, None).parts[0]
        assert (part.first, from_segment_start(part, entries).first) == (15, first)


def test_the_largest_offsets() -> None:
    last = 2**63 - 1
    cache = copied((A, 0, last, [(0, 0)]))
    assert ranges(plan(cache, lineage((0, 0)), 5, None).parts) == [(A, 5, last - 1)]


@given(st.integers(0, 10**9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 200)), max_size=6))
def test_each_offset_once_and_of_the_epoch_that_the_lineage_has(seed: int, entries: list[tuple[int, int]]) -> None:
    metadata = RemoteLogMetadata()
    for each in life(seed):
        try:
            metadata.replay(each)
        except Refused:
            continue
    cache = metadata.caches.get(PARTITION, SegmentCache())
    epochs: list[EpochEntry] = []
    for epoch, start in sorted(set(entries)):
        if not epochs or (epoch > epochs[-1].epoch and start > epochs[-1].start_offset):
            epochs.append(EpochEntry(epoch, start))
    found = plan(cache, epochs, 0, 250)
    sources: dict[int, RemoteSegment | None] = {
        offset: None for first, last in found.gaps for offset in range(first, last + 1)
    }
    assert len(sources) == sum(last - first + 1 for first, last in found.gaps)
    for part in found.parts:
        for offset in range(part.first, part.last + 1):
            assert offset not in sources
            sources[offset] = part.segment
    assert sorted(sources) == list(range(250))
    for offset, segment in sources.items():
        below = [each.epoch for each in epochs if each.start_offset <= offset]
        if segment is None:
            assert not below or cache.segment_at(below[-1], offset) is None
        else:
            assert segment.start_offset <= offset <= segment.last_offset_of(below[-1])


@given(st.integers(0, 10**9), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 200)), max_size=6))
def test_reads_one_after_the_other(seed: int, entries: list[tuple[int, int]]) -> None:
    """Whoever reads each segment up to `last_readable`, and then the next one, gets all that the plan of the whole has,
    each offset once and of the epoch that the lineage has there."""
    metadata = RemoteLogMetadata()
    for each in life(seed):
        with suppress(Refused):
            metadata.replay(each)
    cache = metadata.caches.get(PARTITION, SegmentCache())
    epochs: list[EpochEntry] = []
    for epoch, start in sorted(set(entries)):
        if not epochs or (epoch > epochs[-1].epoch and start > epochs[-1].start_offset):
            epochs.append(EpochEntry(epoch, start))
    sources: dict[int, RemoteSegment] = {}
    offset = 0
    while (found := segment_from(cache, epochs, offset)) is not None:
        segment, first = found
        assert first >= offset
        assert segment_at(cache, epochs, first) is segment
        offset = last_readable(segment, epochs, first) + 1
        assert offset > first
        sources |= dict.fromkeys(range(first, offset), segment)
    for part in plan(cache, epochs, 0, 250).parts:
        assert sources.keys() >= set(range(part.first, part.last + 1))
    for at, segment in sources.items():
        wanted = [each.epoch for each in epochs if each.start_offset <= at][-1]
        assert [each.epoch for each in segment.leader_epochs if each.start_offset <= at][-1] == wanted
        assert at <= segment.end_offset


@given(
    st.integers(0, 10**9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 200)), max_size=6),
    st.integers(0, 250),
    st.integers(0, 9),
)
def test_only_older_segments_are_passed_over(
    seed: int, entries: list[tuple[int, int]], offset: int, timestamp: int
) -> None:
    metadata = RemoteLogMetadata()
    for each in life(seed):
        with suppress(Refused):
            metadata.replay(each)
    cache = metadata.caches.get(PARTITION, SegmentCache())
    newest = random.Random(seed)
    for known in cache.unsorted():
        cache._segments[known.id] = replace(known, max_timestamp_ms=newest.choice([None, *range(9)]))
    epochs: list[EpochEntry] = []
    for epoch, start in sorted(set(entries)):
        if not epochs or (epoch > epochs[-1].epoch and start > epochs[-1].start_offset):
            epochs.append(EpochEntry(epoch, start))
    behind = behind_older(cache, epochs, offset, timestamp)
    assert behind >= offset
    for at in range(offset, min(behind, 300)):
        passed = segment_at(cache, epochs, at)
        assert passed is None or (passed.max_timestamp_ms is not None and passed.max_timestamp_ms < timestamp)


def test_segments_with_a_transaction_index() -> None:
    metadata = RemoteLogMetadata()
    for segment_id, start, has in ((A, 0, True), (B, 10, False), (C, 20, True)):
        metadata.replay(started(segment_id, start, start + 9, [(0, start)], has_txn_index=has))
        metadata.replay(updated(segment_id, 1))
    cache, entries = metadata.caches[PARTITION], lineage((0, 0))

    def found(offset: int, entries: Sequence[EpochEntry] = entries) -> list[str]:
        return [each.id for each in segments_with_txn_index(cache, entries, offset)]

    assert [found(at) for at in (0, 5, 9, 10, 20, 29, 30)] == [[A, C], [A, C], [A, C], [C], [C], [C], []]
    assert found(0, lineage((1, 0))) == []
    assert found(0, lineage((0, 0), (1, 15))) == [A]
    metadata.replay(updated(C, 2))
    assert found(0) == [A]
    metadata.replay(started(uuid(9), 30, 39, [(0, 30)], has_txn_index=True))
    assert found(0) == [A], "it is not copied yet"
    metadata.replay(updated(uuid(9), 1))
    assert found(0) == [A, uuid(9)]


def test_a_log_without_leader_epochs_has_nothing_in_the_tier() -> None:
    assert last_tiered(copied((A, 0, 9, [(0, 0)])), (), 10) == -1
    assert last_tiered(copied((A, 0, 9, [(0, 0)])), lineage((0, 0)), 20) == 9
