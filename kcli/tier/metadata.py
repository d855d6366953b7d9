"""The state of all partitions in the tier by the records of `__remote_log_metadata`, replayed in their order.

    RemoteLogSegmentMetadataRecord, -UpdateRecord    a segment and its next state: see kcli.tier.cache
    RemotePartitionDeleteMetadataRecord              a partition is being deleted, or is deleted with all its segments
    RemoteLogSegmentMetadataSnapshotRecord           is in no log, only in a file of older releases

All records of one partition are in one partition of the topic. It is an ordinary topic: whoever may write to it can
append any record. Records that Kafka drops, or at which its reader fails, are refused; so are some that Kafka takes and
no broker writes (Implausible): the deletion of a partition whose topic exists, after which Kafka's brokers forget its
segments, and segments with leader epochs outside of their offsets. Source: RemotePartitionMetadataStore,
RemoteLogMetadataTopicPartitioner.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from formats.errors import FormatError
from formats.internal_topic import DecodedRecord, decode
from formats.message import uuid_bytes
from kcli.java.hashing import list_hash, long_hash, murmur2
from kcli.tier.cache import Implausible, Refused, SegmentCache
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, TieredPartition, partition_of

TOPIC = "__remote_log_metadata"
VALUE_BYTES_MAX: Final = 1 << 20
"""The size of the largest record: no more is in a request of Kafka's brokers, which do not compress these records."""
LEADER_EPOCHS_MAX: Final = 10_000
"""The greatest number of leader epochs in a segment, each of which costs a look-up at each change of its state."""


class RemoteLogMetadata:
    """The segments of all partitions. deleting: partitions whose deletion has begun or is finished. topic_name: returns
    the name of the topic with a given id; None if the cluster has no such topic, or if its topics are not known."""

    def __init__(self, topic_name: Callable[[str], str | None] = lambda _: None) -> None:
        self._topic_name = topic_name
        self.caches: dict[TieredPartition, SegmentCache] = {}
        self.deleting: dict[TieredPartition, PartitionDeleteState] = {}

    def replay(self, value: bytes | None) -> None:
        """Apply a record, given its value. Raises Refused for a record that Kafka drops, Implausible for one that no
        broker writes, FormatError for one that Kafka cannot read."""
        if value is not None and len(value) > VALUE_BYTES_MAX:
            raise Implausible(f"a record of {len(value):,} bytes")
        record = decode(TOPIC, None, value)
        assert record.value is not None, "a metadata record has a value"
        try:
            self._apply(record, record.value)
        except FormatError as error:
            raise Refused(f"{record.value_name}: {error.reason}") from None

    def _apply(self, record: DecodedRecord, value: dict[str, Any]) -> None:
        if record.value_name == "RemoteLogSegmentMetadataRecord":
            segment = RemoteSegment.of_record(value)
            cache = self._cache(segment.partition)
            _check(segment)
            cache.add(segment)
        elif record.value_name == "RemoteLogSegmentMetadataUpdateRecord":
            entry = value["remoteLogSegmentId"]
            self._cache(partition_of(entry["topicIdPartition"])).update(entry["id"], value)
        elif record.value_name == "RemotePartitionDeleteMetadataRecord":
            self._delete(partition_of(value["topicIdPartition"]), value["remotePartitionDeleteState"])
        else:
            raise Refused(f"{record.value_name}: no record of this topic")

    def _cache(self, partition: TieredPartition) -> SegmentCache:
        self._check_name(partition)
        if self.deleting.get(partition) is PartitionDeleteState.DELETE_PARTITION_FINISHED:
            raise Refused(f"{partition} with topic id {partition.topic_id} is deleted")
        return self.caches.setdefault(partition, SegmentCache())

    def _delete(self, partition: TieredPartition, number: int) -> None:
        if not 0 <= number < len(PartitionDeleteState):
            raise Refused(f"no state of a partition's deletion has the number {number}")
        state = PartitionDeleteState(number)
        self._check_name(partition)
        if self._topic_name(partition.topic_id) is not None:
            raise Implausible(f"{partition} is in {state.name}, and the cluster has its topic")
        self.deleting[partition] = state
        if state is PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self.caches.pop(partition, None)

    def _check_name(self, partition: TieredPartition) -> None:
        name = self._topic_name(partition.topic_id)
        if name not in (None, partition.topic):
            raise Refused(f"{partition} has topic id {partition.topic_id}, which is that of the topic {name}")


def _check(segment: RemoteSegment) -> None:
    """Raise Implausible for a segment with a size or leader epochs that no broker writes: a reader might not get past
    such leader epochs."""
    epochs, whose = segment.leader_epochs, f"segment {segment.id}"
    if len(epochs) > LEADER_EPOCHS_MAX:
        raise Implausible(f"{whose} has {len(epochs):,} leader epochs")
    if segment.size < 0:
        raise Implausible(f"{whose} has {segment.size:,} bytes")
    if epochs[0].epoch < 0:
        raise Implausible(f"{whose} has the leader epoch {epochs[0].epoch:,}")
    for epoch, start in epochs:
        if not segment.start_offset <= start <= segment.end_offset:
            offsets = f"{segment.start_offset:,}..{segment.end_offset:,}"
            raise Implausible(f"{whose} has offsets {offsets}, and leader epoch {epoch:,} from {start:,} on")
    for before, behind in pairwise(epochs):
        if behind.start_offset < before.start_offset:
            raise Implausible(f"{whose}: leader epoch {behind.epoch:,} begins before epoch {before.epoch:,}")


def metadata_partition(partition: TieredPartition, count: int) -> int:
    """Return the partition of `__remote_log_metadata` that has the records of a partition. count: the number of
    partitions that the topic has."""
    topic_id = UUID(bytes=uuid_bytes(partition.topic_id)).int
    halves = topic_id & (1 << 64) - 1, topic_id >> 64
    value = list_hash((*map(long_hash, halves), partition.partition))
    return (murmur2(value.to_bytes(4)) & 0x7FFFFFFF) % count
