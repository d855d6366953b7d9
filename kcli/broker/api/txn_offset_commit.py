"""TxnOffsetCommit (28): write a group's offsets as part of a transaction; they become the group's committed offsets
when the transaction is committed.

v1 as v0. v2 leader epochs (KIP-320). v3 flexible; member and generation (KIP-447). v4 TRANSACTION_ABORTABLE (KIP-890).
v5 transactions without AddOffsetsToTxn (KIP-890). KIP-98.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import ask_group, id_text
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transaction_check import Producer, committing, unverified, verify
from kcli.broker.partition.partitions import Partition
from kcli.group.records import TOPIC as GROUPS
from kcli.group.requests import CommitAnswer, CommitOffsets, OffsetToCommit
from kcli.log.live.partition_log import LogFailed
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import txn_offset_commit as types

NO_SEQUENCE = -1
LOADING_SINCE = 2
"""The first version of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
TRANSLATED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


async def txn_offset_commit(broker: Broker, call: types.TxnOffsetCommitCall) -> types.TxnOffsetCommitResponse:
    """Errors of partitions: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE; of all partitions: INVALID_GROUP_ID,
    INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_ABORTABLE,
    CONCURRENT_TRANSACTIONS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, and any code of
    CoordinatorError."""
    request = call.request
    requested = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    if not broker.access.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id):
        return _refuse_all(call, requested, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.access.allows(call, Operation.READ, ResourceType.GROUP, request.group_id):
        return _refuse_all(call, requested, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    readable = broker.access.among(call, Operation.READ, ResourceType.TOPIC)
    denied = {topic.name for topic in request.topics if topic.name not in readable}
    codes = [_code(broker, topic, each.partition_index, denied) for topic, each in requested]
    known = [place for place, code in enumerate(codes) if not code]
    if known:
        try:
            errors = await _commit(broker, call, tuple(_offset(broker, *requested[place]) for place in known))
        except CoordinatorError as error:
            code = TRANSLATED.get(error.code, error.code)
            if call.version < LOADING_SINCE and code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            errors = dict.fromkeys(range(len(known)), code)
        for number, code in errors.items():
            codes[known[number]] = code
    return _answer(call, codes)


def _refuse_all(
    call: types.TxnOffsetCommitCall,
    requested: Sequence[tuple[str, types.TxnOffsetCommitRequestPartition]],
    code: ErrorCode,
) -> types.TxnOffsetCommitResponse:
    return _answer(call, [code] * len(requested))


def _code(broker: Broker, name: str, number: int, denied: Container[str]) -> ErrorCode:
    if name in denied:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = broker.image.topic(name)
    return ErrorCode.NONE if topic and number in topic.partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _offset(broker: Broker, name: str, partition: types.TxnOffsetCommitRequestPartition) -> OffsetToCommit:
    topic = broker.image.topic(name)
    return OffsetToCommit(
        topic=name,
        topic_id=id_text(None if topic is None else topic.id),
        partition=partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=getattr(partition, "committed_leader_epoch", -1),
        metadata=partition.committed_metadata,
    )


async def _commit(
    broker: Broker, call: types.TxnOffsetCommitCall, offsets: tuple[OffsetToCommit, ...]
) -> Mapping[int, ErrorCode]:
    """Write the offsets to the group's partition of __consumer_offsets. Return the errors of single offsets, by their
    place. Raises CoordinatorError for an error of the whole request."""
    request = call.request
    if not request.group_id:
        raise CoordinatorError(ErrorCode.INVALID_GROUP_ID)
    await _verify(broker, call)
    answer: CommitAnswer = await ask_group(
        broker.groups,
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
        raise CoordinatorError(answer.error)
    return answer.errors


async def _verify(broker: Broker, call: types.TxnOffsetCommitCall) -> None:
    """Let the transaction coordinator verify that the group's partition of __consumer_offsets is part of the
    transaction; from version 5 on, add the partition instead. Do nothing if the transaction is already open in the
    partition, or, below version 5, if transaction.partition.verification.enable is false. Raises CoordinatorError if
    the transaction coordinator refuses the partition."""
    request, client = call.request, committing(call.version)
    if not client.adds and not broker.config.get("transaction.partition.verification.enable"):
        return
    waiting = unverified(
        [(_partition(broker, call), Producer(request.producer_id, request.producer_epoch, NO_SEQUENCE))]
    )
    if not waiting:
        return
    try:
        wrong = await verify(broker.transactions, request.transactional_id, client, waiting)
    except LogFailed as error:
        raise CoordinatorError(ErrorCode.NOT_COORDINATOR) from error
    for code in wrong.values():
        raise CoordinatorError(code)


def _partition(broker: Broker, call: types.TxnOffsetCommitCall) -> Partition:
    number = broker.groups.partition_of(call.request.group_id)
    partition = broker.partitions.get(GROUPS, number)
    if partition is None or partition.check_leader_epoch() is not None:
        raise CoordinatorError(ErrorCode.NOT_COORDINATOR)
    return partition


def _answer(call: types.TxnOffsetCommitCall, errors: Iterable[ErrorCode]) -> types.TxnOffsetCommitResponse:
    """Return the response. errors: an error code for each partition of the request."""
    codes = iter(errors)
    return call.respond(
        topics=tuple(
            call.new(
                "TxnOffsetCommitResponseTopic",
                name=topic.name,
                partitions=tuple(
                    call.new(
                        "TxnOffsetCommitResponsePartition",
                        partition_index=each.partition_index,
                        error_code=next(codes),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in call.request.topics
        )
    )
