"""OffsetCommit (8): a group's offsets, by its members, or by anyone while it has none.

v2 to v4 a retention of their own. v6 leader epochs (KIP-320). v7 static members (KIP-345). v8 flexible. v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from kcli.broker.coordinators.groups import id_text, milliseconds, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.connection import Laid
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.network.offset_commit_layout import Answered, lay_out
from kcli.group.requests import CommitOffsets, OffsetsAnswer, OffsetToCommit, Partition
from kcli.metadata.partition import Topic

EPOCHS_SINCE, IDS_SINCE = 6, 10
NO_EPOCH = NO_RETENTION = -1
NONE = int(ErrorCode.none)
MISSING, UNKNOWN_ID = int(ErrorCode.unknown_topic_or_partition), int(ErrorCode.unknown_topic_id)
Topics = list[tuple[Topic | None, Entity]]
"""What is there of each topic that is asked for."""


def offset_commit(call: Call) -> Laid | Awaitable[Laid]:
    """Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE; the same for all:
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and the
    coordinator's."""
    has_epoch = call.version >= EPOCHS_SINCE
    topics: Topics = []
    offsets: list[OffsetToCommit] = []
    for asked in call.request.topics:
        topic = _topic(call, asked)
        topics.append((topic, asked))
        if topic is None:
            continue
        name, topic_id, known = topic.name, id_text(topic.id), topic.partitions
        for each in asked.partitions:
            number, epoch = each.partition_index, each.committed_leader_epoch if has_epoch else NO_EPOCH
            if number in known:
                offset, metadata = each.committed_offset, each.committed_metadata
                offsets.append(OffsetToCommit(name, topic_id, number, offset, epoch, metadata))
    if not offsets:
        return _answer(call, topics, NONE, {})
    try:
        answer = call.broker.groups.send(call.request.group_id, _request(call, tuple(offsets)))
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return when_answered(answer, lambda answer: _finished(call, topics, answer))


def _finished(call: Call, topics: Topics, answer: asyncio.Future[OffsetsAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return _answer(call, topics, result.error, result.errors)


def _topic(call: Call, asked: Entity) -> Topic | None:
    image = call.broker.image
    if call.version >= IDS_SINCE:
        return None if asked.topic_id is None else image.topic_by_id(asked.topic_id)
    return image.topic(asked.name)


def _request(call: Call, offsets: tuple[OffsetToCommit, ...]) -> CommitOffsets:
    request = call.request
    retention = call.get("retention_time", None)
    return CommitOffsets(
        request.group_id,
        request.member_id,
        call.get("group_instance_id", None),
        request.generation_id_or_member_epoch,
        offsets,
        call.version,
        NO_RETENTION if retention is None else milliseconds(retention),
    )


def _answer(call: Call, topics: Topics, code: int, errors: Mapping[Partition, int]) -> Laid:
    """code: of all that exist. What does not exist is answered first, as Kafka does."""
    by_id = call.version >= IDS_SINCE
    unknown = UNKNOWN_ID if by_id else MISSING
    first: list[Answered] = []
    others: list[Answered] = []
    for topic, asked in topics:
        numbers = [each.partition_index for each in asked.partitions]
        name = asked.topic_id if by_id else asked.name
        if topic is None:
            first.append((name, tuple([(number, unknown) for number in numbers])))
            continue
        codes = [(number, code or errors.get((topic.name, number), NONE)) for number in numbers]
        missing = [(number, MISSING) for number in numbers if number not in topic.partitions]
        if missing:
            codes = missing + [each for each in codes if each[0] in topic.partitions]
        (first if missing else others).append((name, tuple(codes)))
    return lay_out(call.messages, call.header.correlation_id, first + others)
