"""OffsetCommit (8): a group's offsets, by its members, or by anyone while it has none.

v2 to v4 a retention of their own. v6 leader epochs (KIP-320). v7 static members (KIP-345). v8 flexible. v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

from datetime import timedelta

from kcli.broker.coordinators import CoordinatorError
from kcli.broker.groups import ONE_MS, id_text, milliseconds
from kcli.broker.messages import Call, Entity, ErrorCode
from kcli.group.requests import CommitOffsets, OffsetsAnswer, OffsetToCommit
from kcli.metadata.partition import Topic

IDS_SINCE = 10


async def offset_commit(call: Call) -> Entity:
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
    code, answer = ErrorCode.none, OffsetsAnswer(errors={})
    if offsets:
        code, answer = await _commit(call, offsets)
    topics.sort(key=lambda each: all(_exists(each[0], partition) for partition in each[1].partitions))
    return call.respond(topics=tuple(_answer(call, asked, topic, code, answer) for topic, asked in topics))


def _topic(call: Call, asked: Entity) -> Topic | None:
    image = call.broker.image
    if call.version >= IDS_SINCE:
        return None if asked.topic_id is None else image.topic_by_id(asked.topic_id)
    return image.topic(asked.name)


def _exists(topic: Topic | None, partition: Entity) -> bool:
    """What does not exist is answered first, as Kafka does."""
    return topic is not None and partition.partition_index in topic.partitions


async def _commit(call: Call, offsets: tuple[OffsetToCommit, ...]) -> tuple[ErrorCode, OffsetsAnswer]:
    request = call.request
    retention: timedelta = call.get("retention_time", -ONE_MS)
    try:
        answer: OffsetsAnswer = await call.broker.groups.ask(
            request.group_id,
            CommitOffsets(
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=call.get("group_instance_id", None),
                generation=request.generation_id_or_member_epoch,
                offsets=offsets,
                version=call.version,
                retention_ms=milliseconds(retention),
            ),
        )
    except CoordinatorError as error:
        return error.code, OffsetsAnswer(errors={})
    return ErrorCode(answer.error), answer


def _answer(call: Call, asked: Entity, topic: Topic | None, code: ErrorCode, answer: OffsetsAnswer) -> Entity:
    def code_of(number: int) -> ErrorCode:
        if topic is None:
            return ErrorCode.unknown_topic_id if call.version >= IDS_SINCE else ErrorCode.unknown_topic_or_partition
        if number not in topic.partitions:
            return ErrorCode.unknown_topic_or_partition
        return code or ErrorCode(answer.errors.get((topic.name, number), ErrorCode.none))

    return call.new(
        "OffsetCommitResponseTopic",
        name=getattr(asked, "name", None),
        topic_id=getattr(asked, "topic_id", None),
        partitions=tuple(
            call.new(
                "OffsetCommitResponsePartition",
                partition_index=each.partition_index,
                error_code=code_of(each.partition_index),
            )
            for each in sorted(asked.partitions, key=lambda each: _exists(topic, each))
        ),
    )
