"""OffsetDelete (47): delete a group's committed offsets, of topics to which the group is not subscribed. KIP-496."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import ask_group
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import DeleteOffsets, OffsetsAnswer
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import offset_delete as types


async def offset_delete(broker: Broker, call: types.OffsetDeleteCall) -> types.OffsetDeleteResponse:
    """Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and any code of CoordinatorError; of partitions:
    UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC."""
    request = call.request
    broker.access.require(call, Operation.DELETE, ResourceType.GROUP, request.group_id)
    readable = broker.access.among(call, Operation.READ, ResourceType.TOPIC)
    denied = {topic.name for topic in request.topics if topic.name not in readable}
    requested = dict.fromkeys(
        TopicPartition(topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
    )
    known = tuple(each for each in requested if each.topic not in denied and _exists(broker, *each))
    try:
        answer: OffsetsAnswer = await ask_group(
            broker.groups, request.group_id, DeleteOffsets(group_id=request.group_id, partitions=known)
        )
    except CoordinatorError as error:
        return call.respond(error_code=error.code, topics=())
    if answer.error:
        return call.respond(error_code=answer.error, topics=())
    missing = {
        each: ErrorCode.TOPIC_AUTHORIZATION_FAILED if each.topic in denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for each in requested.keys() - set(known)
    }
    codes: dict[TopicPartition, ErrorCode] = {**answer.errors, **missing}
    results: dict[str, list[types.OffsetDeleteResponsePartition]] = {}
    for partition in sorted(requested, key=lambda partition: partition not in missing):
        result = call.new(
            "OffsetDeleteResponsePartition",
            partition_index=partition.partition,
            error_code=codes.get(partition, ErrorCode.NONE),
        )
        results.setdefault(partition.topic, []).append(result)
    return call.respond(
        error_code=ErrorCode.NONE,
        topics=tuple(
            call.new("OffsetDeleteResponseTopic", name=name, partitions=tuple(each)) for name, each in results.items()
        ),
    )


def _exists(broker: Broker, name: str, number: int) -> bool:
    topic = broker.image.topic(name)
    return topic is not None and number in topic.partitions
