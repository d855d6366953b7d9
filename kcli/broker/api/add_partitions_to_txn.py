"""AddPartitionsToTxn (24): partitions become part of a transaction, before a producer writes to them.

v1 the same. v2 PRODUCER_FENCED. v3 flexible. v4 many transactions, from brokers, also only to verify (KIP-890). v5
abortable errors. Clients of transaction version 2 leave the request out: Produce adds. KIP-98.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.coordinators.transactions import for_version
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.turns import STEPS_AT_ONCE, apart_if
from kcli.txn.requests import AddPartitions, VerifyPartitions
from kcli.txn.transaction import EPOCH_BUMP_VERSION, Partition

FENCED_SINCE = 2
BATCHED_SINCE = 4


class _Asked(NamedTuple):
    """What one transaction is to hold."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[Partition]
    verify_only: bool


async def add_partitions_to_txn(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION and, for the partitions beside it, OPERATION_NOT_ATTEMPTED; INVALID_REQUEST,
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, TRANSACTION_ABORTABLE, the coordinator's."""
    request = call.request
    if call.version < BATCHED_SINCE:
        asked = _Asked(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            await apart_if(_is_long(request.v3_and_below_topics), _partitions, request.v3_and_below_topics),
            verify_only=False,
        )
        return call.respond(results_by_topic_v3_and_below=await _answer(call, asked))
    results = []
    for each in request.transactions:
        partitions = await apart_if(_is_long(each.topics), _partitions, each.topics)
        asked = _Asked(each.transactional_id, each.producer_id, each.producer_epoch, partitions, each.verify_only)
        topics = await _answer(call, asked)
        results.append(
            call.new("AddPartitionsToTxnResult", transactional_id=each.transactional_id, topic_results=topics)
        )
    return call.respond(error_code=ErrorCode.none, results_by_transaction=tuple(results))


def _is_long(topics: Any) -> bool:
    return len(topics) > STEPS_AT_ONCE or sum(len(topic.partitions) for topic in topics) > STEPS_AT_ONCE


async def _answer(call: Call, asked: _Asked) -> tuple[Entity, ...]:
    codes = await _result(call, asked)
    return await apart_if(len(codes) > STEPS_AT_ONCE, _topics, call, codes)


def _partitions(topics: Any) -> frozenset[Partition]:
    return frozenset((topic.name, number) for topic in topics for number in topic.partitions)


async def _result(call: Call, asked: _Asked) -> Mapping[Partition, ErrorCode]:
    unknown = {each async for each in call.broker.turns.over(asked.partitions) if not _exists(call, each)}
    if unknown:
        return await apart_if(len(asked.partitions) > STEPS_AT_ONCE, _not_attempted, asked.partitions, unknown)
    transactional_id, producer_id, epoch, partitions, verify_only = asked
    if not transactional_id:
        return dict.fromkeys(partitions, ErrorCode.invalid_request)
    try:
        if verify_only:
            verify = VerifyPartitions(transactional_id, producer_id, epoch, partitions)
            verified = await call.broker.transactions.ask(transactional_id, verify)
            return {each: ErrorCode(code.value) for each, code in verified.items()}
        version = EPOCH_BUMP_VERSION if call.version >= BATCHED_SINCE else 0
        add = AddPartitions(transactional_id, producer_id, epoch, partitions, version)
        code = ErrorCode((await call.broker.transactions.ask(transactional_id, add)).value)
    except CoordinatorError as error:
        code = error.code
    return dict.fromkeys(partitions, for_version(code, call.version, FENCED_SINCE))


def _not_attempted(partitions: frozenset[Partition], unknown: set[Partition]) -> dict[Partition, ErrorCode]:
    return {
        each: ErrorCode.unknown_topic_or_partition if each in unknown else ErrorCode.operation_not_attempted
        for each in partitions
    }


def _exists(call: Call, partition: Partition) -> bool:
    topic = call.broker.image.topic(partition[0])
    return topic is not None and partition[1] in topic.partitions


def _topics(call: Call, codes: Mapping[Partition, ErrorCode]) -> tuple[Entity, ...]:
    numbers: dict[str, list[int]] = {}
    for name, number in codes:
        numbers.setdefault(name, []).append(number)
    return tuple(
        call.new(
            "AddPartitionsToTxnTopicResult",
            name=name,
            results_by_partition=tuple(
                call.new(
                    "AddPartitionsToTxnPartitionResult", partition_index=each, partition_error_code=codes[name, each]
                )
                for each in sorted(numbers[name])
            ),
        )
        for name in sorted(numbers)  # not all pairs at once: a thread that sorts lets nobody in
    )
