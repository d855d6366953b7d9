"""The records that a broker appends: their bytes, and that what is replayed is what was written.

tests/interop/test_tier_kafka.py holds the same bytes against Kafka's RemoteLogMetadataSerde.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.checkpoint import EpochEntry
from formats.errors import BadValue, FormatError
from kcli.metadata.topic_names import fault
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.records import (
    PARTITION_DELETE,
    SEGMENT,
    SEGMENT_UPDATE,
    partition_delete_value,
    record_bytes,
    segment_value,
    update_value,
)
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState, TieredPartition
from tests.tier.records import PARTITION, deleted, record, started, updated, uuid

KINDS = [SEGMENT, SEGMENT_UPDATE, PARTITION_DELETE]
int31, int63 = st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)
partitions = st.builds(
    TieredPartition,
    topic=st.text("abcdefghijklmnopqrstuvwxyz-._0", min_size=1, max_size=249).filter(lambda name: fault(name) is None),
    partition=int31,
    topic_id=st.integers(2, 2**128 - 1).map(uuid),
)


@st.composite
def segments(draw: st.DrawFn) -> RemoteSegment:
    """Any segment whose copy begins."""
    start, end = sorted((draw(int63), draw(int63)))
    epochs = draw(st.sets(int31, min_size=1, max_size=5))
    starts = sorted(draw(st.lists(st.integers(start, end), min_size=len(epochs), max_size=len(epochs))))
    return RemoteSegment(
        partition=draw(partitions),
        id=draw(st.integers(1, 2**128 - 1).map(uuid)),
        start_offset=start,
        end_offset=end,
        size=draw(int31),
        leader_epochs=tuple(map(EpochEntry, sorted(epochs), starts)),
        has_txn_index=draw(st.booleans()),
        state=SegmentState.COPY_SEGMENT_STARTED,
        max_timestamp_ms=draw(st.integers(-1, 2**63 - 1)),
        event_timestamp_ms=draw(int63),
        broker_id=draw(int31),
        custom_metadata=draw(st.none() | st.binary(max_size=300)),
    )


def values(segment: RemoteSegment) -> list[tuple[str, dict[str, Any]]]:
    """A record of each kind about a segment or its partition."""
    return [
        (SEGMENT, segment_value(segment)),
        *((SEGMENT_UPDATE, update_value(segment, state, 7, 99, segment.custom_metadata)) for state in SegmentState),
        *((PARTITION_DELETE, partition_delete_value(segment.partition, each, 7, 99)) for each in PartitionDeleteState),
    ]


@given(segments())
def test_bytes_are_those_of_the_schema(segment: RemoteSegment) -> None:
    for kind, value in values(segment):
        assert record_bytes(kind, value) == record(kind, KINDS.index(kind), value)


@given(segments())
def test_what_is_replayed_is_what_was_written(segment: RemoteSegment) -> None:
    metadata = RemoteLogMetadata()
    metadata.replay(record_bytes(SEGMENT, segment_value(segment)))
    assert metadata.caches[segment.partition].segments() == [segment]
    update = update_value(segment, SegmentState.COPY_SEGMENT_FINISHED, 3, 12, b"where")
    metadata.replay(record_bytes(SEGMENT_UPDATE, update))
    (found,) = metadata.caches[segment.partition].segments()
    assert (found.state, found.broker_id, found.event_timestamp_ms) == (SegmentState.COPY_SEGMENT_FINISHED, 3, 12)
    assert (found.custom_metadata, found.leader_epochs) == (b"where", segment.leader_epochs)
    gone = partition_delete_value(segment.partition, PartitionDeleteState.DELETE_PARTITION_FINISHED, 3, 13)
    metadata.replay(record_bytes(PARTITION_DELETE, gone))
    assert metadata.caches == {}


def test_bytes_of_the_tests_own_records() -> None:
    segment = RemoteSegment(
        partition=PARTITION,
        id=uuid(5),
        start_offset=10,
        end_offset=29,
        size=100,
        leader_epochs=(EpochEntry(3, 10), EpochEntry(5, 20)),
        has_txn_index=True,
        max_timestamp_ms=1_700_000_000_000,
        event_timestamp_ms=1_700_000_000_001,
        broker_id=1,
    )
    theirs = started(uuid(5), 10, 29, [(3, 10), (5, 20)], has_txn_index=True)
    assert record_bytes(SEGMENT, segment_value(segment)) == theirs
    assert record_bytes(SEGMENT_UPDATE, update_value(segment, SegmentState(1), 2, 2)) == updated(uuid(5), 1)
    delete = partition_delete_value(PARTITION, PartitionDeleteState(1), 1, 3)
    assert record_bytes(PARTITION_DELETE, delete) == deleted(1)


@pytest.mark.parametrize("missing", ["broker_id", "max_timestamp_ms", "event_timestamp_ms", "leader_epochs"])
def test_a_segment_lacks_what_the_record_needs(missing: str) -> None:
    whole: dict[str, Any] = {
        "partition": PARTITION, "id": uuid(5), "start_offset": 0, "end_offset": 9, "size": 1,
        "leader_epochs": (EpochEntry(0, 0),), "has_txn_index": False, "max_timestamp_ms": 1, "event_timestamp_ms": 1,
        "broker_id": 1,
    }  # fmt: skip
    record_bytes(SEGMENT, segment_value(RemoteSegment(**whole)))
    with pytest.raises(BadValue, match="segment"):
        segment_value(RemoteSegment(**whole | {missing: () if missing == "leader_epochs" else None}))


def test_values_that_the_schema_does_not_allow() -> None:
    with pytest.raises(BadValue, match="no record of a broker"):
        record_bytes("RemoteLogSegmentMetadataSnapshotRecord", {})
    with pytest.raises(FormatError):
        record_bytes(PARTITION_DELETE, partition_delete_value(PARTITION, PartitionDeleteState(0), 2**31, 1))
