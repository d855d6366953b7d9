"""The segments of one partition: states, epochs, offsets. tests/interop/test_tier_kafka.py compares it with Kafka's."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import FormatError
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.metadata import RemoteLogMetadata, metadata_partition
from kcli.tier.segment import TRANSITIONS, PartitionDeleteState, SegmentState, TieredPartition
from tests.tier.records import PARTITION, deleted, life, started, updated, uuid

A, B, C = map(uuid, range(1, 4))
COPIED, DELETING, GONE = 1, 2, 3


def replayed(*records: bytes) -> SegmentCache:
    metadata = RemoteLogMetadata()
    for each in records:
        metadata.replay(each)
    return metadata.caches[PARTITION]


def id_at(cache: SegmentCache, epoch: int, offset: int) -> str | None:
    found = cache.segment_at(epoch, offset)
    return None if found is None else found.id


def test_a_segment_is_read_only_while_it_is_copied() -> None:
    records = [started(A, 0, 9), updated(A, COPIED), updated(A, DELETING), updated(A, GONE)]
    read = [id_at(replayed(*records[:count]), 0, 5) for count in range(1, 5)]
    assert read == [None, A, None, None]
    assert [len(replayed(*records[:count]).segments()) for count in range(1, 5)] == [1, 1, 1, 0]
    assert replayed(*records).highest_offset(0) == 9


def test_epochs_divide_a_segment() -> None:
    cache = replayed(started(A, 10, 29, [(3, 10), (5, 20)]), updated(A, COPIED))
    assert [id_at(cache, 3, offset) for offset in (9, 10, 19, 20)] == [None, A, A, None]
    assert [id_at(cache, 5, offset) for offset in (19, 20, 29, 30)] == [None, A, A, None]
    assert (cache.highest_offset(3), cache.highest_offset(5), cache.highest_offset(4)) == (19, 29, None)


def test_a_longer_copy_supersedes() -> None:
    cache = replayed(started(A, 10, 90), updated(A, COPIED), started(B, 5, 100), updated(B, COPIED))
    assert id_at(cache, 0, 50) == B
    assert [each.id for each in cache.segments_of(0)] == [B, A]


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([updated(A, COPIED)], "no earlier record"),
        ([started(A, 0, 9), updated(A, GONE)], "COPY_SEGMENT_STARTED does not become DELETE_SEGMENT_FINISHED"),
        ([started(A, 0, 9), updated(A, COPIED), started(A, 0, 9)], "COPY_SEGMENT_FINISHED does not become"),
        ([started(A, 0, 9, state=COPIED)], "begins with the state COPY_SEGMENT_FINISHED"),
        ([started(A, 0, 9), updated(A, 7)], "no state of a segment has the number 7"),
        ([started(A, 9, 0)], "end offset 0 is below the start offset 9"),
        ([started(A, -1, 0)], "start offset -1"),
        ([deleted(2), started(A, 0, 9)], "is deleted"),
        ([deleted(9)], "no state of a partition's deletion has the number 9"),
    ],
)
def test_kafka_refuses(records: list[bytes], reason: str) -> None:
    metadata = RemoteLogMetadata()
    for each in records[:-1]:
        metadata.replay(each)
    with pytest.raises(Refused, match=reason):
        metadata.replay(records[-1])


def test_a_partition_is_deleted() -> None:
    metadata = RemoteLogMetadata()
    for each in (started(A, 0, 9), deleted(0), deleted(1)):
        metadata.replay(each)
    assert (len(metadata.caches), metadata.deleting[PARTITION]) == (1, PartitionDeleteState.DELETE_PARTITION_STARTED)
    metadata.replay(deleted(2))
    assert metadata.caches == {}


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_or_read(value: bytes) -> None:
    with suppress(Refused, FormatError):
        RemoteLogMetadata().replay(value)


@given(st.integers(0, 10**9))
def test_what_is_read_is_copied_and_has_the_offset(seed: int) -> None:
    metadata = RemoteLogMetadata()
    states: dict[str, SegmentState] = {}
    for each in life(seed):
        cache = metadata.caches.get(PARTITION, SegmentCache())
        states = {segment.id: SegmentState(segment.state or 0) for segment in cache.segments()}
        try:
            metadata.replay(each)
        except Refused:
            continue
        for segment in metadata.caches[PARTITION].segments():
            assert segment.state in TRANSITIONS[states.get(segment.id)]
    cache = metadata.caches.get(PARTITION, SegmentCache())
    for epoch in range(6):
        for offset in range(0, 300, 11):
            found = cache.segment_at(epoch, offset)
            if found is not None:
                assert found.state is SegmentState.COPY_SEGMENT_FINISHED
                assert found.start_offset <= offset <= found.last_offset_of(epoch) <= (cache.highest_offset(epoch) or 0)
                assert found in cache.segments_of(epoch)


def test_partition_of_golden_records() -> None:
    """As Kafka wrote them: r-short's records are in partition 0 of two."""
    assert metadata_partition(TieredPartition("r-short", 0, "KlEWaF5xTFCF8vBhf0Z2Xg"), 2) == 0
