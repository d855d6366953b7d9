"""AddPartitionsToTxn (24): add partitions to a transaction, before a producer writes to them.

v1 as v0. v2 PRODUCER_FENCED. v3 flexible. v4 is for brokers alone: many transactions in a request, whose partitions are
added or only verified (KIP-890). v5 TRANSACTION_ABORTABLE. Clients of transaction version 2 do not send this request:
Produce adds the partitions. KIP-98.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import for_version
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType
from kcli.txn.requests import AddPartitions, VerifyPartitions
from kcli.txn.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from kcli.broker.wire.types import add_partitions_to_txn as types

FENCED_SINCE = 2
BATCHED_SINCE = 4


class _Addition(NamedTuple):
    """The partitions to add to one transaction, or to verify as part of it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    verify_only: bool


async def add_partitions_to_txn(broker: Broker, call: types.AddPartitionsToTxnCall) -> types.AddPartitionsToTxnResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, and OPERATION_NOT_ATTEMPTED for the transaction's other partitions;
    INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE, and
    any code of CoordinatorError."""
    request = call.request
    if call.version >= BATCHED_SINCE:
        broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    if call.version < BATCHED_SINCE:
        addition = _Addition(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            await apart_if(_is_long(request.v3_and_below_topics), _partitions, request.v3_and_below_topics),
            verify_only=False,
        )
        return call.respond(results_by_topic_v3_and_below=await _answer(broker, call, addition))
    results = []
    for each in request.transactions:
        partitions = await apart_if(_is_long(each.topics), _partitions, each.topics)
        addition = _Addition(each.transactional_id, each.producer_id, each.producer_epoch, partitions, each.verify_only)
        topics = await _answer(broker, call, addition)
        results.append(
            call.new("AddPartitionsToTxnResult", transactional_id=each.transactional_id, topic_results=topics)
        )
    return call.respond(error_code=ErrorCode.NONE, results_by_transaction=tuple(results))


def _is_long(topics: Sequence[types.AddPartitionsToTxnTopic]) -> bool:
    return len(topics) > STEPS_AT_ONCE or sum(len(topic.partitions) for topic in topics) > STEPS_AT_ONCE


async def _answer(
    broker: Broker, call: types.AddPartitionsToTxnCall, addition: _Addition
) -> tuple[types.AddPartitionsToTxnTopicResult, ...]:
    codes = await _result(broker, call, addition)
    return await apart_if(len(codes) > STEPS_AT_ONCE, _topics, call, codes)


def _partitions(topics: Iterable[types.AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


async def _result(
    broker: Broker, call: types.AddPartitionsToTxnCall, addition: _Addition
) -> Mapping[TopicPartition, ErrorCode]:
    counts = partial(_counts, addition.partitions)
    writable = broker.access.among(call, Operation.WRITE, ResourceType.TOPIC, counts)
    refused: dict[TopicPartition, ErrorCode] = {}
    if call.version < BATCHED_SINCE:
        transactional_id = addition.transactional_id
        if not broker.access.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return dict.fromkeys(addition.partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    async for each in broker.turns.over(addition.partitions):
        if call.version < BATCHED_SINCE and (each.topic in INTERNAL_TOPICS or each.topic not in writable):
            refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif not _exists(broker, each):
            refused[each] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        return await apart_if(len(addition.partitions) > STEPS_AT_ONCE, _not_attempted, addition.partitions, refused)
    transactional_id, producer_id, epoch, partitions, verify_only = addition
    if not transactional_id:
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    try:
        if verify_only:
            verify = VerifyPartitions(transactional_id, producer_id, epoch, partitions)
            verified: dict[TopicPartition, ErrorCode] = await broker.transactions.handle(transactional_id, verify)
            return verified
        version = EPOCH_BUMP_VERSION if call.version >= BATCHED_SINCE else 0
        add = AddPartitions(transactional_id, producer_id, epoch, partitions, version)
        code = await broker.transactions.handle(transactional_id, add)
    except CoordinatorError as error:
        code = error.code
    return dict.fromkeys(partitions, for_version(code, call.version, FENCED_SINCE))


def _counts(partitions: Iterable[TopicPartition]) -> Counter[str]:
    """Topic name -> how many of the partitions belong to the topic."""
    return Counter(each.topic for each in partitions)


def _not_attempted(
    partitions: frozenset[TopicPartition], refused: Mapping[TopicPartition, ErrorCode]
) -> dict[TopicPartition, ErrorCode]:
    return {each: refused.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED) for each in partitions}


def _exists(broker: Broker, partition: TopicPartition) -> bool:
    topic = broker.image.topic(partition.topic)
    return topic is not None and partition.partition in topic.partitions


def _topics(
    call: types.AddPartitionsToTxnCall, codes: Mapping[TopicPartition, ErrorCode]
) -> tuple[types.AddPartitionsToTxnTopicResult, ...]:
    numbers: dict[str, list[int]] = {}
    for name, number in codes:
        numbers.setdefault(name, []).append(number)
    return tuple(
        call.new(
            "AddPartitionsToTxnTopicResult",
            name=name,
            results_by_partition=tuple(
                call.new(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=each,
                    partition_error_code=codes[TopicPartition(name, each)],
                )
                for each in sorted(numbers[name])
            ),
        )
        for name in sorted(numbers)  # a sort of all partitions at once would hold the GIL for too long
    )
