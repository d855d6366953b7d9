"""TxnOffsetCommit (28): a group's offsets as part of a transaction: they count when it is committed.

v1 the same. v2 leader epochs (KIP-320). v3 flexible; member and generation (KIP-447). v4 abortable errors (KIP-890). v5
transactions without AddOffsetsToTxn (KIP-890). KIP-98.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.broker.coordinators.groups import ask_group, id_text
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transaction_check import Producer, committing, unverified, verify
from kcli.broker.logs.partitions import Partition
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.records import TOPIC as GROUPS
from kcli.group.requests import CommitOffsets, OffsetsAnswer, OffsetToCommit
from kcli.log.partition_log import LogFailed

NO_SEQUENCE = -1
LOADING_SINCE = 2
"""Older clients do not know COORDINATOR_LOAD_IN_PROGRESS."""
TRANSLATED = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}
Errors = Mapping[tuple[str, int], ErrorCode]


async def txn_offset_commit(call: Call) -> Entity:
    """Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE; the same for all: INVALID_GROUP_ID,
    INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE,
    CONCURRENT_TRANSACTIONS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, and the coordinators'."""
    asked = [(topic.name, each) for topic in call.request.topics for each in topic.partitions]
    offsets = tuple(_offset(call, topic, each) for topic, each in asked if _exists(call, topic, each.partition_index))
    errors = dict.fromkeys(
        ((topic, each.partition_index) for topic, each in asked), ErrorCode.unknown_topic_or_partition
    )
    errors |= dict.fromkeys(((each.topic, each.partition) for each in offsets), ErrorCode.none)
    if offsets:
        try:
            errors |= await _commit(call, offsets)
        except CoordinatorError as error:
            code = TRANSLATED.get(error.code, error.code)
            if call.version < LOADING_SINCE and code is ErrorCode.coordinator_load_in_progress:
                code = ErrorCode.coordinator_not_available
            errors |= dict.fromkeys(((each.topic, each.partition) for each in offsets), code)
    return _answer(call, errors)


def _exists(call: Call, name: str, number: int) -> bool:
    topic = call.broker.image.topic(name)
    return topic is not None and number in topic.partitions


def _offset(call: Call, name: str, asked: Entity) -> OffsetToCommit:
    topic = call.broker.image.topic(name)
    return OffsetToCommit(
        topic=name,
        topic_id=id_text(None if topic is None else topic.id),
        partition=asked.partition_index,
        offset=asked.committed_offset,
        leader_epoch=getattr(asked, "committed_leader_epoch", -1),
        metadata=asked.committed_metadata,
    )


async def _commit(call: Call, offsets: tuple[OffsetToCommit, ...]) -> Errors:
    """Errors of single partitions. Raises CoordinatorError."""
    request = call.request
    if not request.group_id:
        raise CoordinatorError(ErrorCode.invalid_group_id)
    await _verify(call)
    answer: OffsetsAnswer = await ask_group(
        call,
        request.group_id,
        CommitOffsets(
            group_id=request.group_id,
            member_id=call.get("member_id", ""),
            instance_id=call.get("group_instance_id", None),
            generation=call.get("generation_id", -1),
            offsets=offsets,
            version=call.version,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        ),
    )
    if answer.error:
        raise CoordinatorError(ErrorCode(answer.error))
    return {partition: ErrorCode(code) for partition, code in answer.errors.items()}


async def _verify(call: Call) -> None:
    """Raises CoordinatorError where the group's offsets are not part of the transaction."""
    request, client = call.request, committing(call.version)
    if not client.adds and not call.broker.config.get("transaction.partition.verification.enable"):
        return
    waiting = unverified([(_partition(call), Producer(request.producer_id, request.producer_epoch, NO_SEQUENCE))])
    if not waiting:
        return
    try:
        wrong = await verify(call.broker, request.transactional_id, client, waiting)
    except LogFailed as error:
        raise CoordinatorError(ErrorCode.not_coordinator) from error
    for code in wrong.values():
        raise CoordinatorError(code)


def _partition(call: Call) -> Partition:
    number = call.broker.groups.partition_of(call.request.group_id)
    partition = call.broker.partitions.get(GROUPS, number)
    if partition is None or partition.check_leader_epoch() is not None:
        raise CoordinatorError(ErrorCode.not_coordinator)
    return partition


def _answer(call: Call, errors: Errors) -> Entity:
    return call.respond(
        topics=tuple(
            call.new(
                "TxnOffsetCommitResponseTopic",
                name=topic.name,
                partitions=tuple(
                    call.new(
                        "TxnOffsetCommitResponsePartition",
                        partition_index=each.partition_index,
                        error_code=errors[topic.name, each.partition_index],
                    )
                    for each in topic.partitions
                ),
            )
            for topic in call.request.topics
        )
    )
