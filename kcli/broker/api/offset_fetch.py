"""OffsetFetch (9): the offsets that groups have committed.

v2 all topics of a group, an error for all of it. v5 leader epochs (KIP-320). v6 flexible. v7 only stable offsets
(KIP-447). v8 many groups (KIP-709). v9 member id and epoch (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

from kcli.broker.coordinators.groups import id_text, id_value
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.requests import FetchAnswer, FetchedOffset, FetchOffsets, FetchTopic

GROUP_ERROR_SINCE = 2
GROUPS_SINCE = 8
IDS_SINCE = 10
Topics = tuple[tuple[FetchTopic, tuple[tuple[FetchedOffset, ErrorCode], ...]], ...]
"""Topics with their partitions, and each partition's error."""


async def offset_fetch(call: Call) -> Entity:
    """Errors of partitions: UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_ID; of a group: UNKNOWN_MEMBER_ID,
    STALE_MEMBER_EPOCH, ILLEGAL_GENERATION, and the coordinator's."""
    request = call.request
    if call.version < GROUPS_SINCE:
        code, topics = await _fetch(call, request.group_id, request.topics)
        return call.respond(error_code=code, topics=_topics(call, topics))
    groups = []
    for each in request.groups:
        member_id, epoch = getattr(each, "member_id", None), getattr(each, "member_epoch", -1)
        code, topics = await _fetch(call, each.group_id, each.topics, member_id, epoch)
        answers = _topics(call, topics)
        groups.append(call.new("OffsetFetchResponseGroup", group_id=each.group_id, topics=answers, error_code=code))
    return call.respond(groups=tuple(groups))


async def _fetch(
    call: Call, group_id: str, topics: tuple[Entity, ...] | None, member_id: str | None = None, epoch: int = -1
) -> tuple[ErrorCode, Topics]:
    """What one group has; topics that are not there by their id come last."""
    asked = None if topics is None else [_asked(call, each) for each in topics]
    known = None if asked is None else tuple(each for each in asked if each.name)
    request = FetchOffsets(
        group_id=group_id,
        topics=known,
        require_stable=call.get("require_stable", False),
        member_id=member_id,
        epoch=epoch,
    )
    try:
        answer: FetchAnswer = await call.broker.groups.ask(group_id, request)
    except CoordinatorError as error:
        if call.version >= GROUP_ERROR_SINCE:
            return error.code, ()
        return ErrorCode.none, tuple(_failed(each, error.code) for each in known or ())
    if answer.error:
        return ErrorCode(answer.error), ()
    found = [
        (topic, tuple((offset, ErrorCode(offset.error)) for offset in offsets)) for topic, offsets in answer.topics
    ]
    if call.version >= IDS_SINCE:
        found = [(_named(call, topic), offsets) for topic, offsets in found]
        found = [(topic, offsets) for topic, offsets in found if topic.topic_id != id_text(None)]
    missing = (each for each in asked or () if not each.name)
    return ErrorCode.none, (*found, *(_failed(each, ErrorCode.unknown_topic_id) for each in missing))


def _asked(call: Call, topic: Entity) -> FetchTopic:
    if call.version < IDS_SINCE:
        return FetchTopic(name=topic.name, topic_id=id_text(None), partitions=topic.partition_indexes)
    known = None if topic.topic_id is None else call.broker.image.topic_by_id(topic.topic_id)
    name = "" if known is None else known.name
    return FetchTopic(name=name, topic_id=id_text(topic.topic_id), partitions=topic.partition_indexes)


def _named(call: Call, topic: FetchTopic) -> FetchTopic:
    """With the id that it has now, where it was found by its name."""
    known = call.broker.image.topic(topic.name)
    if topic.topic_id != id_text(None) or known is None:
        return topic
    return FetchTopic(name=topic.name, topic_id=id_text(known.id), partitions=topic.partitions)


def _failed(topic: FetchTopic, code: ErrorCode) -> tuple[FetchTopic, tuple[tuple[FetchedOffset, ErrorCode], ...]]:
    return topic, tuple((FetchedOffset(partition=number), code) for number in topic.partitions)


def _topics(call: Call, topics: Topics) -> tuple[Entity, ...]:
    of_group = call.version >= GROUPS_SINCE
    suffix = "s" if of_group else ""
    return tuple(
        call.new(
            f"OffsetFetchResponseTopic{suffix}",
            name=topic.name,
            **({"topic_id": id_value(topic.topic_id)} if of_group else {}),
            partitions=tuple(
                call.new(
                    f"OffsetFetchResponsePartition{suffix}",
                    partition_index=offset.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    metadata=offset.metadata,
                    error_code=code,
                )
                for offset, code in offsets
            ),
        )
        for topic, offsets in topics
    )
