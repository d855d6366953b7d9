"""OffsetDelete (47): forget offsets of topics that the group's members do not read. KIP-496."""

from __future__ import annotations

from kcli.broker.coordinators.groups import ask_group
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.requests import DeleteOffsets, OffsetsAnswer


async def offset_delete(call: Call) -> Entity:
    """Errors: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and the coordinator's; of partitions:
    UNKNOWN_TOPIC_OR_PARTITION, GROUP_SUBSCRIBED_TO_TOPIC."""
    request = call.request
    asked = {(topic.name, each.partition_index): topic for topic in request.topics for each in topic.partitions}
    known = tuple(partition for partition in asked if _exists(call, *partition))
    try:
        answer: OffsetsAnswer = await ask_group(
            call, request.group_id, DeleteOffsets(group_id=request.group_id, partitions=known)
        )
    except CoordinatorError as error:
        return call.respond(error_code=error.code, topics=())
    if answer.error:
        return call.respond(error_code=ErrorCode(answer.error), topics=())
    missing = dict.fromkeys(asked.keys() - set(known), ErrorCode.unknown_topic_or_partition)
    codes: dict[tuple[str, int], int] = {**answer.errors, **missing}
    results: dict[str, list[Entity]] = {}
    for name, number in sorted(asked, key=lambda partition: partition not in missing):
        result = call.new(
            "OffsetDeleteResponsePartition",
            partition_index=number,
            error_code=ErrorCode(codes.get((name, number), ErrorCode.none)),
        )
        results.setdefault(name, []).append(result)
    return call.respond(
        error_code=ErrorCode.none,
        topics=tuple(
            call.new("OffsetDeleteResponseTopic", name=name, partitions=tuple(each)) for name, each in results.items()
        ),
    )


def _exists(call: Call, name: str, number: int) -> bool:
    topic = call.broker.image.topic(name)
    return topic is not None and number in topic.partitions
