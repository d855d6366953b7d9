"""OffsetFetch (9): the offsets that groups have committed.

v2 all topics of a group, a top-level error code. v5 leader epochs (KIP-320). v6 flexible. v7 only stable offsets
(KIP-447). v8 many groups (KIP-709). v9 member id and epoch (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import id_text, id_value
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import FetchAnswer, FetchedOffset, FetchOffsets, FetchTopic
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.wire.types import offset_fetch as types

    RequestTopic = types.OffsetFetchRequestTopic | types.OffsetFetchRequestTopics

GROUP_ERROR_SINCE = 2
GROUPS_SINCE = 8
IDS_SINCE = 10
Topics = tuple[tuple[FetchTopic, tuple[tuple[FetchedOffset, ErrorCode], ...]], ...]
"""Topics, each with the committed offsets of its partitions and their errors."""


async def offset_fetch(broker: Broker, call: types.OffsetFetchCall) -> types.OffsetFetchResponse:
    """Errors of partitions: UNSTABLE_OFFSET_COMMIT, UNKNOWN_TOPIC_ID; of a group: UNKNOWN_MEMBER_ID,
    STALE_MEMBER_EPOCH, ILLEGAL_GENERATION, and any code of CoordinatorError."""
    request = call.request
    if call.version < GROUPS_SINCE:
        code, topics = await _fetch(broker, call, request.group_id, request.topics)
        return call.respond(error_code=code, topics=_topics(call, topics))
    groups = []
    for each in request.groups:
        member_id, epoch = getattr(each, "member_id", None), getattr(each, "member_epoch", -1)
        code, topics = await _fetch(broker, call, each.group_id, each.topics, member_id, epoch)
        answers = _topics_of_group(call, topics)
        groups.append(call.new("OffsetFetchResponseGroup", group_id=each.group_id, topics=answers, error_code=code))
    return call.respond(groups=tuple(groups))


async def _fetch(
    broker: Broker,
    call: types.OffsetFetchCall,
    group_id: str,
    topics: Sequence[RequestTopic] | None,
    member_id: str | None = None,
    epoch: int = -1,
) -> tuple[ErrorCode, Topics]:
    """Return the error of a group, and its committed offsets, by topic. With an error there are no topics. In versions
    without an error field for the group, the error is NONE, and each requested partition has the group's error. Topics
    with an unknown id come after the others, and topics that the client is not allowed to describe come last. topics:
    None for all topics. member_id, epoch: the id and the member epoch of a member of the group; None and -1 for other
    clients."""
    requested = None if topics is None else [_fetch_topic(broker, call, each) for each in topics]
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    try:
        _check_allowed(broker, call, group_id)
        named = None if requested is None else (each for each in requested if each.name)
        request = FetchOffsets(
            group_id=group_id,
            topics=None if named is None else tuple(each for each in named if each.name in describable),
            require_stable=call.get("require_stable", False),
            member_id=member_id,
            epoch=epoch,
        )
        answer: FetchAnswer = await broker.groups.handle(group_id, request)
    except CoordinatorError as error:
        if call.version >= GROUP_ERROR_SINCE:
            return error.code, ()
        return ErrorCode.NONE, tuple(_failed(each, error.code) for each in requested or ())
    if answer.error:
        return answer.error, ()
    found = [
        (topic, tuple((offset, offset.error) for offset in offsets))
        async for topic, offsets in broker.turns.over(answer.topics)
        if topic.name in describable
    ]
    if call.version >= IDS_SINCE:
        found = [(_named(broker, topic), offsets) for topic, offsets in found]
        found = [(topic, offsets) for topic, offsets in found if topic.topic_id != id_text(None)]
    missing = (_failed(each, ErrorCode.UNKNOWN_TOPIC_ID) for each in requested or () if not each.name)
    denied = (each for each in requested or () if each.name and each.name not in describable)
    return ErrorCode.NONE, (*found, *missing, *(_failed(each, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for each in denied))


def _check_allowed(broker: Broker, call: types.OffsetFetchCall, group_id: str) -> None:
    """Raise CoordinatorError with GROUP_AUTHORIZATION_FAILED unless the client may describe the group."""
    if not broker.access.allows(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        raise CoordinatorError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _fetch_topic(broker: Broker, call: types.OffsetFetchCall, topic: RequestTopic) -> FetchTopic:
    if call.version < IDS_SINCE:
        return FetchTopic(name=topic.name, topic_id=id_text(None), partitions=topic.partition_indexes)
    topic_id = getattr(topic, "topic_id", None)
    known = None if topic_id is None else broker.image.topic_by_id(topic_id)
    name = "" if known is None else known.name
    return FetchTopic(name=name, topic_id=id_text(topic_id), partitions=topic.partition_indexes)


def _named(broker: Broker, topic: FetchTopic) -> FetchTopic:
    """Return the topic with its current topic id if its offsets were committed without a topic id. Return it unchanged
    if it has an id, or if no topic of this name exists any more."""
    known = broker.image.topic(topic.name)
    if topic.topic_id != id_text(None) or known is None:
        return topic
    return FetchTopic(name=topic.name, topic_id=id_text(known.id), partitions=topic.partitions)


def _failed(topic: FetchTopic, code: ErrorCode) -> tuple[FetchTopic, tuple[tuple[FetchedOffset, ErrorCode], ...]]:
    return topic, tuple((FetchedOffset(partition=number), code) for number in topic.partitions)


def _topics(call: types.OffsetFetchCall, topics: Topics) -> tuple[types.OffsetFetchResponseTopic, ...]:
    return tuple(
        call.new(
            "OffsetFetchResponseTopic",
            name=topic.name,
            partitions=tuple(
                call.new(
                    "OffsetFetchResponsePartition",
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


def _topics_of_group(call: types.OffsetFetchCall, topics: Topics) -> tuple[types.OffsetFetchResponseTopics, ...]:
    return tuple(
        call.new(
            "OffsetFetchResponseTopics",
            name=topic.name,
            topic_id=id_value(topic.topic_id),
            partitions=tuple(
                call.new(
                    "OffsetFetchResponsePartitions",
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
