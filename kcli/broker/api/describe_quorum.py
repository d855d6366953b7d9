"""DescribeQuorum (55): the leader of the metadata log, and the log end offset of each voter and observer.

v1 when each replica fetched last (KIP-836). v2 error messages, directory ids, the nodes' endpoints (KIP-853). All
versions are flexible.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.metadata.quorum_view import ReplicaView
from kcli.broker.process.turns import STEPS_AT_ONCE, apart
from kcli.metadata.partition import to_uuid
from kcli.metadata.topic_names import CLUSTER_METADATA
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_quorum as types

THE_ONE = [(CLUSTER_METADATA, [0])]
UNKNOWN = "This server does not host this topic-partition."


def describe_quorum(
    broker: Broker, call: types.DescribeQuorumCall
) -> types.DescribeQuorumResponse | Awaitable[types.DescribeQuorumResponse]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION for every partition but partition 0 of __cluster_metadata."""
    broker.access.require(call, Operation.DESCRIBE, ResourceType.CLUSTER)
    topics = call.request.topics
    if sum(len(topic.partitions) for topic in topics) > STEPS_AT_ONCE:
        return apart(_nothing, call)
    if [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in topics] == THE_ONE:
        return _quorum(broker, call)
    return _nothing(call)


def _nothing(call: types.DescribeQuorumCall) -> types.DescribeQuorumResponse:
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=tuple(
            _topic(call, topic.topic_name, [_unknown(call, each.partition_index) for each in topic.partitions])
            for topic in call.request.topics
        ),
        nodes=(),
    )


def _quorum(broker: Broker, call: types.DescribeQuorumCall) -> types.DescribeQuorumResponse:
    view = broker.metadata.view
    partition = call.new(
        "PartitionData",
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=view.leader_id,
        leader_epoch=view.epoch,
        high_watermark=view.high_watermark,
        current_voters=tuple(_replica(call, each, view.leader_id) for each in view.voters),
        observers=tuple(_replica(call, each, view.leader_id) for each in view.observers),
    )
    topics = (_topic(call, CLUSTER_METADATA, [partition]),)
    return call.respond(error_code=ErrorCode.NONE, error_message="", topics=topics, nodes=_nodes(broker, call))


def _replica(call: types.DescribeQuorumCall, replica: ReplicaView, leader_id: int) -> types.ReplicaState:
    is_leader = replica.id == leader_id
    return call.new(
        "ReplicaState",
        replica_id=replica.id,
        replica_directory_id=None if replica.directory_id is None else to_uuid(replica.directory_id),
        log_end_offset=replica.log_end_offset,
        last_fetch_timestamp=call.now_ms if is_leader else replica.last_fetch_ms,
        last_caught_up_timestamp=call.now_ms if is_leader else replica.last_caught_up_ms,
    )


def _nodes(broker: Broker, call: types.DescribeQuorumCall) -> tuple[types.Node, ...]:
    if not call.has("DescribeQuorumResponse", "nodes"):
        return ()
    controllers = broker.image.controllers.values()
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


def _topic(call: types.DescribeQuorumCall, name: str, partitions: list[types.PartitionData]) -> types.TopicData:
    return call.new("TopicData", topic_name=name, partitions=tuple(partitions))


def _unknown(call: types.DescribeQuorumCall, number: int) -> types.PartitionData:
    return call.new(
        "PartitionData",
        partition_index=number,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=UNKNOWN,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )
