"""DescribeQuorum (55): who leads the metadata log, and how far its replicas are.

v1 when each replica fetched last (KIP-836). v2 error messages, directory ids, the nodes' endpoints (KIP-853). Flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable

from kcli.broker.metadata.quorum_view import ReplicaView
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.turns import STEPS_AT_ONCE, apart
from kcli.metadata.partition import to_uuid
from kcli.metadata.topic_names import CLUSTER_METADATA

THE_ONE = [(CLUSTER_METADATA, [0])]
UNKNOWN = "This server does not host this topic-partition."


def describe_quorum(call: Call) -> Entity | Awaitable[Entity]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION for anything but partition 0 of __cluster_metadata."""
    topics = call.request.topics
    if sum(len(topic.partitions) for topic in topics) > STEPS_AT_ONCE:
        return apart(_nothing, call)
    if [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in topics] == THE_ONE:
        return _quorum(call)
    return _nothing(call)


def _nothing(call: Call) -> Entity:
    return call.respond(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(
            _topic(call, topic.topic_name, [_unknown(call, each.partition_index) for each in topic.partitions])
            for topic in call.request.topics
        ),
        nodes=(),
    )


def _quorum(call: Call) -> Entity:
    view = call.broker.metadata.view
    partition = call.new(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=view.leader_id,
        leader_epoch=view.epoch,
        high_watermark=view.high_watermark,
        current_voters=tuple(_replica(call, each, view.leader_id) for each in view.voters),
        observers=tuple(_replica(call, each, view.leader_id) for each in view.observers),
    )
    topics = (_topic(call, CLUSTER_METADATA, [partition]),)
    return call.respond(error_code=ErrorCode.none, error_message="", topics=topics, nodes=_nodes(call))


def _replica(call: Call, replica: ReplicaView, leader_id: int) -> Entity:
    is_leader = replica.id == leader_id
    return call.new(
        "ReplicaState",
        replica_id=replica.id,
        replica_directory_id=None if replica.directory_id is None else to_uuid(replica.directory_id),
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=call.now_ms if is_leader else replica.last_fetch_ms,
        last_caught_up_timestamp=call.now_ms if is_leader else replica.last_caught_up_ms,
    )


def _nodes(call: Call) -> tuple[Entity, ...]:
    if not call.has("DescribeQuorumResponse", "nodes"):
        return ()
    controllers = call.broker.image.controllers.values()
    return tuple(
        call.new(
            "Node",
            node_id=each.id,
            listeners=tuple(
                call.new("Listener", name=listener.name, host=listener.host, port=listener.port)
                for listener in each.endpoints.values()
            ),
        )
        for each in controllers
    )


def _topic(call: Call, name: str, partitions: list[Entity]) -> Entity:
    return call.new("TopicData", topic_name=name, partitions=tuple(partitions))


def _unknown(call: Call, number: int) -> Entity:
    return call.new(
        "PartitionData",
        partition_index=number,
        error_code=ErrorCode.unknown_topic_or_partition,
        error_message=UNKNOWN,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )
