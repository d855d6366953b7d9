"""The records that a broker appends to `__remote_log_metadata`, which kcli.tier.metadata replays: values and bytes.

    SEGMENT            api key 0   RemoteLogSegmentMetadataRecord        a segment whose copy begins
    SEGMENT_UPDATE     api key 1   RemoteLogSegmentMetadataUpdateRecord  the segment's next state
    PARTITION_DELETE   api key 2   RemotePartitionDeleteMetadataRecord   the next state of a partition's deletion

    bytes   frame version 1, api key and version 0 as unsigned varints, then the message

A value is a dict with the fields of formats/schemas/remote_log_metadata.json. The bytes are those of Kafka's
RemoteLogMetadataSerde for the same metadata, which lists leader epochs in their order. The records have no key.
Source: RemoteLogMetadataSerde, RemoteLogSegmentMetadataTransform, RemoteLogSegmentMetadataUpdateTransform,
RemotePartitionDeleteMetadataTransform.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from formats.errors import BadValue
from formats.internal_topic import FRAME_VERSION
from formats.message_writer import writer
from formats.varint import uvarint
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState, TieredPartition

SEGMENT: Final = "RemoteLogSegmentMetadataRecord"
SEGMENT_UPDATE: Final = "RemoteLogSegmentMetadataUpdateRecord"
PARTITION_DELETE: Final = "RemotePartitionDeleteMetadataRecord"
API_KEYS: Final = {SEGMENT: 0, SEGMENT_UPDATE: 1, PARTITION_DELETE: 2}
_VERSION: Final = 0


def segment_value(segment: RemoteSegment) -> dict[str, Any]:
    """Return the value of a SEGMENT record. Raises BadValue for a segment that lacks what the record needs: broker id,
    greatest timestamp, time of the event, or a leader epoch.

    The state is that of the segment, by default COPY_SEGMENT_STARTED, the only one with which Kafka takes the record.
    """
    if segment.broker_id is None or segment.max_timestamp_ms is None or segment.event_timestamp_ms is None:
        raise BadValue(f"segment {segment.id} has no broker id, no greatest timestamp or no time of the event")
    if not segment.leader_epochs:
        raise BadValue(f"segment {segment.id} has no leader epoch")
    return {
        "remoteLogSegmentId": _segment_id(segment),
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "brokerId": segment.broker_id,
        "maxTimestampMs": segment.max_timestamp_ms,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": [
            {"leaderEpoch": epoch, "offset": offset} for epoch, offset in sorted(segment.leader_epochs)
        ],
        "segmentSizeInBytes": segment.size,
        "customMetadata": segment.custom_metadata,
        "remoteLogSegmentState": int(segment.state or SegmentState.COPY_SEGMENT_STARTED),
        "txnIndexEmpty": not segment.has_txn_index,
    }


def update_value(
    segment: RemoteSegment, state: SegmentState, broker_id: int, now_ms: int, custom_metadata: bytes | None = None
) -> dict[str, Any]:
    """Return the value of a SEGMENT_UPDATE record: `state` is the segment's next state from `now_ms` on, written by the
    broker `broker_id`. custom_metadata: the bytes that the store has returned for a copy; None in any other update."""
    return {
        "remoteLogSegmentId": _segment_id(segment),
        "brokerId": broker_id,
        "eventTimestampMs": now_ms,
        "customMetadata": custom_metadata,
        "remoteLogSegmentState": int(state),
    }


def partition_delete_value(
    partition: TieredPartition, state: PartitionDeleteState, broker_id: int, now_ms: int
) -> dict[str, Any]:
    """Return the value of a PARTITION_DELETE record: the deletion of the partition is in `state` from `now_ms` on."""
    return {
        "topicIdPartition": _topic_id_partition(partition),
        "brokerId": broker_id,
        "eventTimestampMs": now_ms,
        "remotePartitionDeleteState": int(state),
    }


def record_bytes(kind: str, value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record's value. kind: SEGMENT, SEGMENT_UPDATE or PARTITION_DELETE. Raises BadValue or
    BadLength for a value that the schema does not allow, such as a segment of 2 GiB."""
    if kind not in API_KEYS:
        raise BadValue(f"{kind} is no record of a broker")
    out = bytearray(b"".join(map(uvarint, (FRAME_VERSION, API_KEYS[kind], _VERSION))))
    writer(kind, _VERSION)(out, dict(value))
    return bytes(out)


def _segment_id(segment: RemoteSegment) -> dict[str, Any]:
    return {"topicIdPartition": _topic_id_partition(segment.partition), "id": segment.id}


def _topic_id_partition(partition: TieredPartition) -> dict[str, Any]:
    return {"name": partition.topic, "id": partition.topic_id, "partition": partition.partition}
