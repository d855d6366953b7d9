"""DescribeTransactions and ListTransactions (KIP-664). Source: TransactionStateManager.listTransactionStates."""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.txn.errors import Refused
from kcli.txn.requests import DescribeTransaction, ListedTransaction, ListTransactions, TransactionDescription
from kcli.txn.transaction import Transaction
from kcli.txn.turn import Turn


def describe_transaction(turn: Turn, request: DescribeTransaction) -> TransactionDescription:
    """Return a transactional id's state. Errors: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND."""
    if not request.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    transaction = turn.shard.transactions.get(request.transactional_id)
    if transaction is None:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(number)
    return TransactionDescription(
        ErrorCode.NONE,
        state=transaction.state.label,
        timeout_ms=transaction.timeout_ms,
        start_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=topics,
    )


def list_transactions(turn: Turn, request: ListTransactions) -> list[ListedTransaction]:
    """Return the transactional ids, of this coordinator's partition of __transaction_state, that pass the request's
    filters."""
    return [
        ListedTransaction(transactional_id, transaction.producer_id, transaction.state.label)
        for transactional_id, transaction in turn.shard.transactions.items()
        if _passes(transaction, request, turn.now_ms)
    ]


def _passes(transaction: Transaction, request: ListTransactions, now_ms: int) -> bool:
    return (
        (not request.producer_ids or transaction.producer_id in request.producer_ids)
        and (not request.states or transaction.state.label in request.states)
        and (request.longer_than_ms < 0 or now_ms - transaction.start_ms > request.longer_than_ms)
    )
