"""OffsetForLeaderEpoch (23): the end offset of a leader epoch in the leader's log, by which followers and
consumers detect truncated records.

v2 the current leader epoch, as the client knows it. v3 the replica id. v4 flexible. KIP-101, KIP-320.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.partition.partitions import PartitionError
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import offset_for_leader_epoch as types


def offset_for_leader_epoch(broker: Broker, call: types.OffsetForLeaderEpochCall) -> types.OffsetForLeaderEpochResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR. For an unknown epoch, epoch and end offset are -1, without an error."""
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    if broker.access.allows(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER, log_denied=False):
        describable = EVERYTHING
    return call.respond(
        topics=tuple(
            call.new(
                "OffsetForLeaderTopicResult",
                topic=topic.topic,
                partitions=tuple(
                    _end(broker, call, topic.topic, requested)
                    if topic.topic in describable
                    else _failed(call, requested.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                    for requested in topic.partitions
                ),
            )
            for topic in call.request.topics
        )
    )


def _failed(call: types.OffsetForLeaderEpochCall, number: int, code: ErrorCode) -> types.EpochEndOffset:
    return call.new("EpochEndOffset", partition=number, error_code=code, leader_epoch=-1, end_offset=-1)


def _end(
    broker: Broker, call: types.OffsetForLeaderEpochCall, topic: str, requested: types.OffsetForLeaderPartition
) -> types.EpochEndOffset:
    code, epoch, offset = ErrorCode.NONE, -1, -1
    try:
        log = broker.partitions.find(topic, requested.partition).log_for(requested.current_leader_epoch)
        epoch, offset = log.offset_for_leader_epoch(requested.leader_epoch)
    except PartitionError as error:
        code = error.code
    return call.new(
        "EpochEndOffset", partition=requested.partition, error_code=code, leader_epoch=epoch, end_offset=offset
    )
