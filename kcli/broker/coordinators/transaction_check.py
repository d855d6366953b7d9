"""May a producer's batches be the first of its transaction in their partitions? Asked before they are appended.

    Produce 3 to 11, TxnOffsetCommit 0 to 4   AddPartitionsToTxn, or AddOffsetsToTxn, must have named the partition: the
                                              coordinator verifies it
    Produce 12, TxnOffsetCommit 5             the coordinator adds it (KIP-890)

The coordinator may be another broker: that is asked with AddPartitionsToTxn, as only brokers do (version 4 and later).

Once a batch is in the log, its transaction is open there until its marker comes, and nobody asks again. What the
coordinator says is translated for the producer: what passes becomes NOT_ENOUGH_REPLICAS, on which old clients try
again. Source: ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager, ProducerAppendInfo.checkSequence.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import ErrorCode
from kcli.broker.network.peers import Unanswered
from kcli.log.partition_log import LogFailed
from kcli.log.validator import TRANSACTIONAL
from kcli.txn.requests import AddPartitions, VerifyPartitions
from kcli.txn.transaction import EPOCH_BUMP_VERSION
from kcli.txn.transaction import Partition as Place

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.partitions import Partition

ATTRIBUTES_AT: Final = 22  # the low byte
PRODUCER: Final = struct.Struct(">qhi")  # id, epoch, base sequence
PRODUCER_AT: Final = 43
REQUEST: Final = "add_partitions_to_txn"
REQUEST_VERSION: Final = 5
NOT_ADDED: Final = "Partition was not added to the transaction"
PASSING: Final = (
    ErrorCode.network_exception,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)


class Client(NamedTuple):
    """What a client's version means. knows_abortable: TRANSACTION_ABORTABLE. adds: it leaves adding to the broker."""

    knows_abortable: bool
    adds: bool


def producing(version: int) -> Client:
    """A client of that version of Produce."""
    return Client(version >= 11, version >= 12)


def committing(version: int) -> Client:
    """A client of that version of TxnOffsetCommit."""
    return Client(version >= 4, version >= 5)


class Verdict(NamedTuple):
    """Why a batch is not appended, with the message that goes with it."""

    code: ErrorCode
    reason: str | None = None


class Producer(NamedTuple):
    """Who sends a batch, and where in its sequence."""

    id: int
    epoch: int
    sequence: int


def transactional_producer(records: memoryview | None) -> Producer | None:
    """The producer of a transactional batch of magic 2; None for any other bytes."""
    if records is None or len(records) < PRODUCER_AT + PRODUCER.size or not records[ATTRIBUTES_AT] & TRANSACTIONAL:
        return None
    return Producer._make(PRODUCER.unpack_from(records, PRODUCER_AT))


def unverified(batches: Iterable[tuple[Partition, Producer]]) -> list[tuple[Partition, Producer]]:
    """Those whose transaction is not open in their partition."""
    return [(partition, producer) for partition, producer in batches if not _is_open(partition, producer)]


def _is_open(partition: Partition, producer: Producer) -> bool:
    try:
        known = partition.producer(producer.id)
    except LogFailed:
        return True  # the append says so
    return known is not None and known.producer_epoch == producer.epoch and known.current_txn_first_offset >= 0


async def verify(
    broker: Broker, transactional_id: str, client: Client, batches: list[tuple[Partition, Producer]]
) -> Mapping[Place, ErrorCode]:
    """Ask the coordinator. Returns what is wrong, by partition. Raises LogFailed."""
    wrong: dict[Place, ErrorCode] = {}
    places: set[Place] = set()
    now_ms = broker.clock.now_ms()
    for partition, producer in batches:
        known = partition.producer(producer.id)
        if known is not None and producer.epoch < known.producer_epoch:
            wrong[partition.key] = ErrorCode.invalid_producer_epoch
            continue
        partition.log.producers.begin_verification(
            producer.id, producer.epoch, producer.sequence, now_ms, begins_at_0=client.adds
        )
        places.add(partition.key)
    if places:
        codes = await _ask_until_added(broker, transactional_id, client, batches[0][1], frozenset(places))
        wrong |= {place: _as_known(code, client) for place, code in codes.items() if code is not ErrorCode.none}
    return wrong


async def _ask_until_added(
    broker: Broker, transactional_id: str, client: Client, producer: Producer, places: frozenset[Place]
) -> Mapping[Place, ErrorCode]:
    """New clients wait a little for the markers of the transaction before."""
    left_ms = broker.config.number("add.partitions.to.txn.retry.backoff.max.ms")
    wait_ms = broker.config.number("add.partitions.to.txn.retry.backoff.ms")
    while True:
        codes = await _ask(broker, transactional_id, client, producer, places)
        if left_ms <= 0 or not client.adds or ErrorCode.concurrent_transactions not in codes.values():
            return codes
        left_ms -= wait_ms
        await asyncio.sleep(wait_ms / 1000)


async def _ask(
    broker: Broker, transactional_id: str, client: Client, producer: Producer, places: frozenset[Place]
) -> Mapping[Place, ErrorCode]:
    if not transactional_id:
        return dict.fromkeys(places, ErrorCode.invalid_request)
    if not broker.transactions.partition_count:
        return dict.fromkeys(places, ErrorCode.coordinator_not_available)
    leader = broker.transactions.leader_of(transactional_id)
    if leader != broker.node_id:
        return await _ask_other(broker, leader, transactional_id, client, producer, places)
    try:
        if client.adds:
            add = AddPartitions(transactional_id, producer.id, producer.epoch, places, EPOCH_BUMP_VERSION)
            code = await broker.transactions.ask(transactional_id, add)
            return dict.fromkeys(places, ErrorCode(code.value))
        request = VerifyPartitions(transactional_id, producer.id, producer.epoch, places)
        verified = await broker.transactions.ask(transactional_id, request)
    except CoordinatorError as error:
        return dict.fromkeys(places, error.code)
    return {place: ErrorCode(code.value) for place, code in verified.items()}


async def _ask_other(
    broker: Broker, leader: int, transactional_id: str, client: Client, producer: Producer, places: frozenset[Place]
) -> Mapping[Place, ErrorCode]:
    """The coordinator is another broker."""
    topics = groupby(sorted(places), key=lambda place: place[0])
    transaction = {
        "transactional_id": transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "verify_only": not client.adds,
        "topics": [{"name": name, "partitions": [number for _, number in of_name]} for name, of_name in topics],
    }
    timeout_s = broker.config.number("request.timeout.ms") / 1000
    try:
        channel = broker.transactions.others.channel(leader)
        if channel is None:
            return dict.fromkeys(places, ErrorCode.coordinator_not_available)
        answer = await channel.call(REQUEST, REQUEST_VERSION, timeout_s=timeout_s, transactions=[transaction])
    except Unanswered:
        return dict.fromkeys(places, ErrorCode.network_exception)
    if answer.error_code is not ErrorCode.none:
        return dict.fromkeys(places, answer.error_code)
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }


def _as_known(code: ErrorCode, client: Client) -> ErrorCode:
    """A code as the client knows it."""
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code is ErrorCode.transaction_abortable and not client.knows_abortable:
        return ErrorCode.invalid_txn_state
    return code


def verdict(code: ErrorCode, client: Client) -> Verdict:
    """What the producer of a batch is told."""
    if code is ErrorCode.invalid_txn_state:
        return Verdict(code, NOT_ADDED)
    if code in PASSING or (code is ErrorCode.concurrent_transactions and not client.adds):
        reason = (
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name.upper()}"
        )
        return Verdict(ErrorCode.not_enough_replicas, reason)
    return Verdict(code)
