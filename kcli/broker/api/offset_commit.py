"""OffsetCommit (8): a group's offsets, by its members, or by anyone while it has none.

v2 to v4 a retention of their own. v6 leader epochs (KIP-320). v7 static members (KIP-345). v8 flexible. v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from kcli.broker.coordinators.groups import ONE_MS, id_text, milliseconds, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.connection import Laid
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.network.offset_commit_layout import Answered, lay_out
from kcli.group.requests import CommitOffsets, OffsetsAnswer, OffsetToCommit, Partition
from kcli.metadata.partition import Topic

IDS_SINCE = 10
MISSING = int(ErrorCode.unknown_topic_or_partition)
Topics = list[tuple[Topic | None, Entity]]
"""What is there of each topic that is asked for."""


def offset_commit(call: Call) -> Laid | Awaitable[Laid]:
    """Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE; the same for all:
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and the
    coordinator's."""
    topics = [(_topic(call, asked), asked) for asked in call.request.topics]
    offsets = tuple(
        OffsetToCommit(
            topic=topic.name,
            topic_id=id_text(topic.id),
            partition=each.partition_index,
            offset=each.committed_offset,
            leader_epoch=getattr(each, "committed_leader_epoch", -1),
            metadata=each.committed_metadata,
        )
        for topic, asked in topics
        if topic is not None
        for each in asked.partitions
        if each.partition_index in topic.partitions
    )
    if not offsets:
        return _answer(call, topics, ErrorCode.none, {})
    try:
        answer = call.broker.groups.send(call.request.group_id, _request(call, offsets))
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return when_answered(answer, lambda answer: _finished(call, topics, answer))


def _finished(call: Call, topics: Topics, answer: asyncio.Future[OffsetsAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return _answer(call, topics, ErrorCode(result.error), result.errors)


def _topic(call: Call, asked: Entity) -> Topic | None:
    image = call.broker.image
    if call.version >= IDS_SINCE:
        return None if asked.topic_id is None else image.topic_by_id(asked.topic_id)
    return image.topic(asked.name)


def _request(call: Call, offsets: tuple[OffsetToCommit, ...]) -> CommitOffsets:
    request = call.request
    return CommitOffsets(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=call.get("group_instance_id", None),
        generation=request.generation_id_or_member_epoch,
        offsets=offsets,
        version=call.version,
        retention_ms=milliseconds(call.get("retention_time", -ONE_MS)),
    )


def _answer(call: Call, topics: Topics, code: ErrorCode, errors: Mapping[Partition, int]) -> Laid:
    """code: of all that exist. What does not exist is answered first, as Kafka does."""
    by_id = call.version >= IDS_SINCE
    unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    first: list[Answered] = []
    others: list[Answered] = []
    for topic, asked in topics:
        numbers = [each.partition_index for each in asked.partitions]
        name = asked.topic_id if by_id else asked.name
        if topic is None:
            first.append((name, [(number, int(unknown)) for number in numbers]))
            continue
        missing = [(number, MISSING) for number in numbers if number not in topic.partitions]
        codes = [
            (number, int(code) or int(errors.get((topic.name, number), 0)))
            for number in numbers
            if number in topic.partitions
        ]
        (first if missing else others).append((name, missing + codes))
    return lay_out(call.messages, call.header.correlation_id, first + others)
