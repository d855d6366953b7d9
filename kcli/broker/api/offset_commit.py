"""OffsetCommit (8): commit a group's offsets, as one of its members, or as any client while the group is empty.

v2 to v4 a retention time. v6 leader epochs (KIP-320). v7 static members (KIP-345). v8 flexible. v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848). v10 topic ids instead of names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

from formats.kernels.group_requests import read_offset_commit
from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import TOPICS_KEPT, id_text, milliseconds, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.wire.answers import Encoded, Laid
from kcli.broker.wire.call import Client
from kcli.broker.wire.offset_commit_layout import Answered, lay_out
from kcli.group.requests import CommitAnswer, CommitOffsets, OffsetToCommit
from kcli.metadata.partition import Topic
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import offset_commit as types

EPOCHS_SINCE, IDS_SINCE = 6, 10
NO_EPOCH = NO_RETENTION = -1
NONE = int(ErrorCode.NONE)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
MISSING, UNKNOWN_ID = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), int(ErrorCode.UNKNOWN_TOPIC_ID)
Topics = list[tuple[Topic | int, "types.OffsetCommitRequestTopic"]]
"""For each topic of the request: the topic in the metadata image, or the error code of all its partitions; and the
topic's part of the request."""


def offset_commit(broker: Broker, call: types.OffsetCommitCall) -> Laid | Awaitable[Laid]:
    """Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE; of all partitions:
    GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION (of the consumer protocol STALE_MEMBER_EPOCH), UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and any code of CoordinatorError."""
    if not broker.access.allows(call, Operation.READ, ResourceType.GROUP, call.request.group_id):
        return _refused(call, int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    has_epoch = call.version >= EPOCHS_SINCE
    topics: Topics = []
    offsets: list[OffsetToCommit] = []
    for requested in call.request.topics:
        topic = _topic(broker, call, requested)
        topics.append((topic, requested))
        if isinstance(topic, int):
            continue
        name, topic_id, known = topic.name, id_text(topic.id), topic.partitions
        for each in requested.partitions:
            number, epoch = each.partition_index, each.committed_leader_epoch if has_epoch else NO_EPOCH
            if number in known:
                offset, metadata = each.committed_offset, each.committed_metadata
                offsets.append(OffsetToCommit(name, topic_id, number, offset, epoch, metadata))
    if not offsets:
        return _answer(call, topics, NONE, {})
    try:
        answer = broker.groups.send(call.request.group_id, _request(call, tuple(offsets)))
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return when_answered(answer, lambda answer: _finished(call, topics, answer))


def answer_plain(broker: Broker, frame: memoryview, client: Client, _now_ms: int) -> Laid | None:
    """Return the response to a plain OffsetCommit: one that commits all its offsets without waiting for other replicas,
    and needs no line in the audit log. It is handled from its bytes, without being decoded into kio's objects. Return
    None, and commit nothing, for any other OffsetCommit, which the caller then decodes and handles."""
    image, access = broker.image, broker.access
    if access.allows_all:
        repeated = broker.groups.kept_commits().answer(frame)
        if repeated is not None:
            return Encoded([repeated])
    read = read_offset_commit(frame)
    if read is None:
        return None
    version, group_id, generation, member_id, instance_id, topics, answer = read
    if not access.allows_unaudited(client, Operation.READ, ResourceType.GROUP, group_id):
        return None
    offsets: list[OffsetToCommit] = []
    for key, partitions in topics:
        topic = image.topic(key) if isinstance(key, str) else image.topic_by_id(_uuid(key))
        if topic is None or not access.allows_unaudited(client, Operation.READ, ResourceType.TOPIC, topic.name):
            return None
        name, topic_id, known = topic.name, id_text(topic.id), topic.partitions
        for number, offset, epoch, metadata in partitions:
            if number not in known:
                return None
            offsets.append(OffsetToCommit(name, topic_id, number, offset, epoch, metadata))
    request = CommitOffsets(group_id, member_id, instance_id, generation, tuple(offsets), version)
    form = (frame, answer) if access.allows_all else None
    return Encoded([answer]) if offsets and broker.groups.at_once(group_id, request, form) else None


@lru_cache(maxsize=TOPICS_KEPT)
def _uuid(value: bytes) -> UUID:
    return UUID(bytes=value)


def _finished(call: types.OffsetCommitCall, topics: Topics, answer: asyncio.Future[CommitAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, topics, error.code, {})
    return _answer(call, topics, result.error, result.errors)


def _topic(broker: Broker, call: types.OffsetCommitCall, requested: types.OffsetCommitRequestTopic) -> Topic | int:
    image, by_id = broker.image, call.version >= IDS_SINCE
    if by_id:
        topic = None if requested.topic_id is None else image.topic_by_id(requested.topic_id)
        if topic is None:
            return UNKNOWN_ID
        name = topic.name
    else:
        name = requested.name
        topic = image.topic(name)
    if not broker.access.allows(call, Operation.READ, ResourceType.TOPIC, name):
        return DENIED
    return MISSING if topic is None else topic


def _refused(call: types.OffsetCommitCall, code: int) -> Laid:
    """The response that has the error `code` for every partition."""
    by_id = call.version >= IDS_SINCE
    return lay_out(
        call.messages,
        call.header.correlation_id,
        [
            (each.topic_id if by_id else each.name, tuple([(part.partition_index, code) for part in each.partitions]))
            for each in call.request.topics
        ],
    )


def _request(call: types.OffsetCommitCall, offsets: tuple[OffsetToCommit, ...]) -> CommitOffsets:
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


def _answer(call: types.OffsetCommitCall, topics: Topics, code: int, errors: Mapping[int, int]) -> Laid:
    """Return the response. Topics and partitions that do not exist come first, as in Kafka's response.

    code: the error code of every partition that exists; NONE if `errors` has the error codes. errors: error codes by
    the place among the partitions that exist; one that is not in `errors` has no error.
    """
    by_id = call.version >= IDS_SINCE
    first: list[Answered] = []
    others: list[Answered] = []
    places = count()
    for topic, requested in topics:
        numbers = [each.partition_index for each in requested.partitions]
        name = requested.topic_id if by_id else requested.name
        if isinstance(topic, int):
            first.append((name, tuple([(number, topic) for number in numbers])))
            continue
        missing = [(number, MISSING) for number in numbers if number not in topic.partitions]
        if missing:
            numbers = [number for number in numbers if number in topic.partitions]
        codes = [(number, code) for number in numbers]
        if errors and not code:
            codes = [(number, errors.get(place, NONE)) for number, place in zip(numbers, places, strict=False)]
        codes = missing + codes
        (first if missing else others).append((name, tuple(codes)))
    return lay_out(call.messages, call.header.correlation_id, first + others)
