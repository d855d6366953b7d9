"""OffsetForLeaderEpoch (23): where a leader's records end, so that a reader sees whether what it has was cut off.

v2 the leader epoch that the asker knows. v3 the replica that asks. v4 flexible. KIP-101, KIP-320.
"""

from __future__ import annotations

from kcli.broker.logs.partitions import PartitionError
from kcli.broker.network.messages import Call, Entity, ErrorCode


def offset_for_leader_epoch(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR. An epoch of which nothing is known: epoch and offset -1, no error."""
    return call.respond(
        topics=tuple(
            call.new(
                "OffsetForLeaderTopicResult",
                topic=topic.topic,
                partitions=tuple(_end(call, topic.topic, asked) for asked in topic.partitions),
            )
            for topic in call.request.topics
        )
    )


def _end(call: Call, topic: str, asked: Entity) -> Entity:
    code, epoch, offset = ErrorCode.none, -1, -1
    try:
        log = call.broker.partitions.find(topic, asked.partition).log_for(asked.current_leader_epoch)
        epoch, offset = log.offset_for_leader_epoch(asked.leader_epoch)
    except PartitionError as error:
        code = error.code
    return call.new("EpochEndOffset", partition=asked.partition, error_code=code, leader_epoch=epoch, end_offset=offset)
