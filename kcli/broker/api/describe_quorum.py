"""DescribeQuorum (55): who leads the metadata log, and how far its replicas are.

v1 when each replica fetched last (KIP-836). v2 error messages, directory ids, the nodes' endpoints (KIP-853). Flexible.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.partition import to_uuid
from kcli.metadata.topic_names import CLUSTER_METADATA

UNKNOWN = "This server does not host this topic-partition."


def describe_quorum(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION for anything but partition 0 of __cluster_metadata."""
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in call.request.topics]
    if asked == [(CLUSTER_METADATA, [0])]:
        return _quorum(call)
    return call.respond(
        error_code=ErrorCode.none,
        error_message="",
        topics=tuple(_topic(call, name, [_unknown(call, each) for each in numbers]) for name, numbers in asked),
        nodes=(),
    )


def _quorum(call: Call) -> Entity:
    broker, metadata, quorum = call.broker, call.broker.metadata, call.broker.metadata.quorum
    voter = call.new(
        "ReplicaState",
        replica_id=broker.node_id,
        replica_directory_id=to_uuid(quorum.directory_id) if quorum.kraft_version else None,
        log_end_offset=metadata.next_offset,
        last_fetch_timestamp=call.now_ms,
        last_caught_up_timestamp=call.now_ms,
    )
    partition = call.new(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.none,
        error_message="",
        leader_id=broker.node_id,
        leader_epoch=metadata.epoch,
        high_watermark=metadata.high_watermark,
        current_voters=(voter,),
        observers=(),
    )
    topics = (_topic(call, CLUSTER_METADATA, [partition]),)
    return call.respond(error_code=ErrorCode.none, error_message="", topics=topics, nodes=_nodes(call))


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
