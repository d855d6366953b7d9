"""The verification that a partition is part of a transaction, before the transaction's first batch is appended to it.

    Produce 3 to 11, TxnOffsetCommit 0 to 4   the coordinator verifies that the client has added the partition before,
                                              by AddPartitionsToTxn or AddOffsetsToTxn
    Produce 12, TxnOffsetCommit 5             the coordinator adds the partition (KIP-890)

If the coordinator is on another broker, this broker sends it an AddPartitionsToTxn request for the verification or the
addition, in a version for brokers (4 and later).

Once a batch is in the log, the transaction is open in that partition until its marker, and needs no verification. The
coordinator's errors are translated for the producer: a transient one becomes NOT_ENOUGH_REPLICAS, after which old
clients retry. Source: ReplicaManager.handleProduceAppend, AddPartitionsToTxnManager, ProducerAppendInfo.checkSequence.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError
from kcli.broker.network.peers import Unanswered
from kcli.log.live.partition_log import LogFailed
from kcli.log.live.validator import TRANSACTIONAL
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.requests import AddPartitions, VerifyPartitions
from kcli.txn.transaction import EPOCH_BUMP_VERSION

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.wire.types.add_partitions_to_txn import AddPartitionsToTxnResponse

ATTRIBUTES_AT: Final = 22  # the position, in a batch, of the low byte of the attributes
PRODUCER: Final = struct.Struct(">qhi")  # id, epoch, base sequence
PRODUCER_AT: Final = 43
REQUEST: Final = "add_partitions_to_txn"
REQUEST_VERSION: Final = 5
NOT_ADDED: Final = "Partition was not added to the transaction"
PASSING: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


class Client(NamedTuple):
    """The features that a client supports, by the version of its request. supports_abortable: whether the client knows
    the error TRANSACTION_ABORTABLE. adds: whether the broker, not the client, adds partitions to the transaction."""

    supports_abortable: bool
    adds: bool


def producing(version: int) -> Client:
    """Return the features of a client that sends this version of Produce."""
    return Client(version >= 11, version >= 12)


def committing(version: int) -> Client:
    """Return the features of a client that sends this version of TxnOffsetCommit."""
    return Client(version >= 4, version >= 5)


class Verdict(NamedTuple):
    """The error for a batch that is not appended, and its message."""

    code: ErrorCode
    reason: str | None = None


class Producer(NamedTuple):
    """The producer id, producer epoch and base sequence of a batch."""

    id: int
    epoch: int
    sequence: int


def transactional_producer(records: memoryview | None) -> Producer | None:
    """Return the producer of a transactional batch of magic 2; None for any other bytes."""
    if records is None or len(records) < PRODUCER_AT + PRODUCER.size or not records[ATTRIBUTES_AT] & TRANSACTIONAL:
        return None
    return Producer._make(PRODUCER.unpack_from(records, PRODUCER_AT))


def unverified(batches: Iterable[tuple[Partition, Producer]]) -> list[tuple[Partition, Producer]]:
    """Return the batches whose transaction is not yet open in the batch's partition."""
    return [(partition, producer) for partition, producer in batches if not _is_open(partition, producer)]


def _is_open(partition: Partition, producer: Producer) -> bool:
    try:
        known = partition.producer(producer.id)
    except LogFailed:
        return True  # appending the batch raises the same error
    return known is not None and known.producer_epoch == producer.epoch and known.current_txn_first_offset >= 0


async def verify(
    transactions: Coordinator, transactional_id: str, client: Client, batches: list[tuple[Partition, Producer]]
) -> Mapping[TopicPartition, ErrorCode]:
    """Let the coordinator verify the partitions of these batches, or add them to the transaction. Return partition ->
    error of each partition that the coordinator refuses. Raises LogFailed."""
    wrong: dict[TopicPartition, ErrorCode] = {}
    places: set[TopicPartition] = set()
    now_ms = transactions.context.clock.now_ms()
    for partition, producer in batches:
        known = partition.producer(producer.id)
        if known is not None and producer.epoch < known.producer_epoch:
            wrong[partition.key] = ErrorCode.INVALID_PRODUCER_EPOCH
            continue
        partition.log.producers.begin_verification(
            producer.id, producer.epoch, producer.sequence, now_ms, begins_at_0=client.adds
        )
        places.add(partition.key)
    if places:
        codes = await _add_or_verify_until_done(
            transactions, transactional_id, client, batches[0][1], frozenset(places)
        )
        wrong |= {place: _for_client(code, client) for place, code in codes.items() if code != ErrorCode.NONE}
    return wrong


async def _add_or_verify_until_done(
    transactions: Coordinator,
    transactional_id: str,
    client: Client,
    producer: Producer,
    places: frozenset[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    """Let the coordinator add the partitions `places` to the transaction, or verify them. Return partition -> error
    code, NONE for success. If the coordinator adds them, retry for at most add.partitions.to.txn.retry.backoff.max.ms
    while the markers of the producer's previous transaction are not all written."""
    left_ms = transactions.context.config.number("add.partitions.to.txn.retry.backoff.max.ms")
    wait_ms = transactions.context.config.number("add.partitions.to.txn.retry.backoff.ms")
    while True:
        codes = await _add_or_verify(transactions, transactional_id, client, producer, places)
        if left_ms <= 0 or not client.adds or ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
            return codes
        left_ms -= wait_ms
        await asyncio.sleep(wait_ms / 1000)


async def _add_or_verify(
    transactions: Coordinator,
    transactional_id: str,
    client: Client,
    producer: Producer,
    places: frozenset[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    if not transactional_id:
        return dict.fromkeys(places, ErrorCode.INVALID_REQUEST)
    if not transactions.partition_count:
        return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = transactions.leader_of(transactional_id)
    if leader != transactions.context.node_id:
        return await _send_to_coordinator(transactions, leader, transactional_id, client, producer, places)
    try:
        if client.adds:
            add = AddPartitions(transactional_id, producer.id, producer.epoch, places, EPOCH_BUMP_VERSION)
            code = await transactions.handle(transactional_id, add)
            return dict.fromkeys(places, code)
        request = VerifyPartitions(transactional_id, producer.id, producer.epoch, places)
        verified: Mapping[TopicPartition, ErrorCode] = await transactions.handle(transactional_id, request)
    except CoordinatorError as error:
        return dict.fromkeys(places, error.code)
    return verified


async def _send_to_coordinator(
    transactions: Coordinator,
    leader: int,
    transactional_id: str,
    client: Client,
    producer: Producer,
    places: frozenset[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    """Send AddPartitionsToTxn to the coordinator on the broker `leader`. Return partition -> error code."""
    topics = groupby(sorted(places), key=lambda place: place.topic)
    transaction = {
        "transactional_id": transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
        "verify_only": not client.adds,
        "topics": [{"name": name, "partitions": [number for _, number in of_name]} for name, of_name in topics],
    }
    timeout_s = transactions.context.config.number("request.timeout.ms") / 1000
    try:
        channel = transactions.others.channel(leader)
        if channel is None:
            return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer: AddPartitionsToTxnResponse = await channel.call(
            REQUEST, REQUEST_VERSION, timeout_s=timeout_s, transactions=[transaction]
        )
    except Unanswered:
        return dict.fromkeys(places, ErrorCode.NETWORK_EXCEPTION)
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(places, ErrorCode(answer.error_code))
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for each in topic.results_by_partition
    }


def _for_client(code: ErrorCode, client: Client) -> ErrorCode:
    """Return the error code for the client: INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED, and INVALID_TXN_STATE
    in place of TRANSACTION_ABORTABLE if the client does not know that code."""
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and not client.supports_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code


def verdict(code: ErrorCode, client: Client) -> Verdict:
    """Return the error code and message for a batch whose partition the coordinator refuses with the error `code`. A
    transient error becomes NOT_ENOUGH_REPLICAS, after which the producer retries."""
    if code == ErrorCode.INVALID_TXN_STATE:
        return Verdict(code, NOT_ADDED)
    if code in PASSING or (code == ErrorCode.CONCURRENT_TRANSACTIONS and not client.adds):
        reason = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return Verdict(ErrorCode.NOT_ENOUGH_REPLICAS, reason)
    return Verdict(code)
