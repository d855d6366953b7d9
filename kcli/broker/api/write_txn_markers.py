"""WriteTxnMarkers (27): a transaction coordinator, or an administrator, ends transactions in partitions.

v1 flexible. v2 the transaction version, which says how epochs are compared (KIP-1228). KIP-98, KIP-664.
"""

from __future__ import annotations

from kcli.broker.coordinators.transactions import Marker, write_marker
from kcli.broker.network.messages import Call, Entity, ErrorCode

NONE = -1


def write_txn_markers(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR,
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; everywhere UNKNOWN_SERVER_ERROR where one is nobody's."""
    markers = call.request.markers
    nobody = any(NONE in (each.producer_id, each.producer_epoch) for each in markers)
    code = ErrorCode.unknown_server_error if nobody else None
    return call.respond(markers=tuple(_result(call, each, code) for each in markers))


def _result(call: Call, asked: Entity, code: ErrorCode | None) -> Entity:
    marker = Marker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        commit=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
        transaction_version=getattr(asked, "transaction_version", 0),
    )
    topics = tuple(
        call.new(
            "WritableTxnMarkerTopicResult",
            name=topic.name,
            partitions=tuple(
                call.new(
                    "WritableTxnMarkerPartitionResult",
                    partition_index=number,
                    error_code=code or write_marker(call.broker, topic.name, number, marker),
                )
                for number in topic.partition_indexes
            ),
        )
        for topic in asked.topics
    )
    return call.new("WritableTxnMarkerResult", producer_id=asked.producer_id, topics=topics)
