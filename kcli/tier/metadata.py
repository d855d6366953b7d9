"""What `__remote_log_metadata` says of all partitions in the tier: its records, replayed in their order.

    RemoteLogSegmentMetadataRecord, -UpdateRecord    a segment and its next state: see kcli.tier.cache
    RemotePartitionDeleteMetadataRecord              a partition is being deleted, or is deleted with all its segments
    RemoteLogSegmentMetadataSnapshotRecord           is in no log, only in a file of older releases

All records of one partition are in one partition of the topic. Source: RemotePartitionMetadataStore,
RemoteLogMetadataTopicPartitioner.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from formats.errors import FormatError
from formats.internal_topic import DecodedRecord, decode
from formats.message import uuid_bytes
from kcli.java.hashing import list_hash, long_hash, murmur2
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, TieredPartition, partition_of

TOPIC = "__remote_log_metadata"


class RemoteLogMetadata:
    """The segments of all partitions. deleting: partitions whose deletion has begun or is finished."""

    def __init__(self) -> None:
        self.caches: dict[TieredPartition, SegmentCache] = {}
        self.deleting: dict[TieredPartition, PartitionDeleteState] = {}

    def replay(self, value: bytes | None) -> None:
        """Apply a record, given its value. Raises Refused for a record that Kafka drops, FormatError for one that it
        cannot read."""
        record = decode(TOPIC, None, value)
        assert record.value is not None, "a metadata record has a value"
        try:
            self._apply(record, record.value)
        except FormatError as error:
            raise Refused(f"{record.value_name}: {error.reason}") from None

    def _apply(self, record: DecodedRecord, value: dict[str, Any]) -> None:
        if record.value_name == "RemoteLogSegmentMetadataRecord":
            segment = RemoteSegment.of_record(value)
            self._cache(segment.partition).add(segment)
        elif record.value_name == "RemoteLogSegmentMetadataUpdateRecord":
            entry = value["remoteLogSegmentId"]
            self._cache(partition_of(entry["topicIdPartition"])).update(entry["id"], value)
        elif record.value_name == "RemotePartitionDeleteMetadataRecord":
            self._delete(partition_of(value["topicIdPartition"]), value["remotePartitionDeleteState"])
        else:
            raise Refused(f"{record.value_name}: no record of this topic")

    def _cache(self, partition: TieredPartition) -> SegmentCache:
        if self.deleting.get(partition) is PartitionDeleteState.DELETE_PARTITION_FINISHED:
            raise Refused(f"{partition} with topic id {partition.topic_id} is deleted")
        return self.caches.setdefault(partition, SegmentCache())

    def _delete(self, partition: TieredPartition, number: int) -> None:
        if not 0 <= number < len(PartitionDeleteState):
            raise Refused(f"no state of a partition's deletion has the number {number}")
        self.deleting[partition] = PartitionDeleteState(number)
        if self.deleting[partition] is PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self.caches.pop(partition, None)


def metadata_partition(partition: TieredPartition, count: int) -> int:
    """Return the partition of `__remote_log_metadata` that has the records of a partition. count: the number of
    partitions that the topic has."""
    topic_id = UUID(bytes=uuid_bytes(partition.topic_id)).int
    halves = topic_id & (1 << 64) - 1, topic_id >> 64
    value = list_hash((*map(long_hash, halves), partition.partition))
    return (murmur2(value.to_bytes(4)) & 0x7FFFFFFF) % count
