"""AddPartitionsToTxn: add partitions to a transaction before the producer writes to them, or verify that they are part
of it. Source: TransactionCoordinator."""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.errors import Refused
from kcli.txn.requests import AddPartitions, VerifyPartitions
from kcli.txn.transaction import State, Transaction
from kcli.txn.turn import Turn


def add_partitions(turn: Turn, request: AddPartitions) -> ErrorCode:
    """Add partitions to the transaction; without an ongoing transaction, begin one. Errors: INVALID_REQUEST,
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, UNSUPPORTED_VERSION."""
    transaction = turn.shard.get(request.transactional_id)
    if transaction.state.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    _check_producer(transaction, request.producer_id, request.producer_epoch)
    if transaction.state is not State.ONGOING or not request.partitions <= transaction.partitions:
        turn.shard.check_version(request.client_version)
        added = transaction.with_partitions(request.partitions, request.client_version, turn.now_ms)
        turn.write(request.transactional_id, added)
    return ErrorCode.NONE


def verify_partitions(turn: Turn, request: VerifyPartitions) -> dict[TopicPartition, ErrorCode]:
    """Return for each partition NONE, or TRANSACTION_ABORTABLE if it is not part of the transaction. Errors of the
    request: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS."""
    transaction = turn.shard.get(request.transactional_id)
    _check_producer(transaction, request.producer_id, request.producer_epoch)
    if transaction.state.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    known = transaction.partitions
    return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in request.partitions}


def _check_producer(transaction: Transaction, producer_id: int, epoch: int) -> None:
    if transaction.producer_id != producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
