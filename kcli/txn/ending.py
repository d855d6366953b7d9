"""EndTxn: commit or abort, in three steps.

    prepare   a record is appended with the decision to commit or abort, which is final
    markers   the broker writes them to the transaction's partitions, and retries until all are written
    complete  a record is appended that the transaction is complete; the next transaction may begin

The client is answered after the prepare record. With transaction versions 0 and 1 (before KIP-890), the coordinator
recognizes a repeated EndTxn by the transaction's state alone; with version 2 by the epoch of the request, which is one
below the current epoch. Source: TransactionCoordinator.endTransaction, endTransactionWithTV1.
"""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.txn.errors import Refused
from kcli.txn.requests import (
    NEEDS_PRODUCER_ID,
    AbortTimedOut,
    EndTransaction,
    MarkersWritten,
    NeedsProducerId,
    Producer,
)
from kcli.txn.transaction import EPOCHS_END, NONE, State, Transaction, bumps_epoch
from kcli.txn.turn import Turn


def end_transaction(turn: Turn, request: EndTransaction) -> Producer | NeedsProducerId:
    """Append the decision to commit or abort, and have the broker write the transaction's markers.

    Return the producer id and epoch for the client's next transaction, or NEEDS_PRODUCER_ID if the epochs of the
    producer id are used up and the request has no new producer id. Errors: INVALID_REQUEST,
    INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS while markers are written, INVALID_TXN_STATE,
    UNSUPPORTED_VERSION.
    """
    transaction = turn.shard.get(request.transactional_id)
    state = State.PREPARE_COMMIT if request.commit else State.PREPARE_ABORT
    check = _check if bumps_epoch(request.client_version) else _check_old
    if check(transaction, request):
        return Producer(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)
    turn.shard.check_version(request.client_version)
    new_producer_id = NONE
    if bumps_epoch(request.client_version) and transaction.epochs_are_used_up:
        if request.new_producer_id == NONE:
            return NEEDS_PRODUCER_ID
        new_producer_id = request.new_producer_id
    completed = _prepare(turn, request.transactional_id, transaction, state, request.client_version, new_producer_id)
    return Producer(ErrorCode.NONE, completed.producer_id, completed.producer_epoch)


def _prepare(
    turn: Turn, transactional_id: str, transaction: Transaction, state: State, version: int, new_producer_id: int
) -> Transaction:
    """Append the record of the prepared transaction, and have its markers written. state: PrepareCommit or
    PrepareAbort. version: the transaction version. new_producer_id: the id for the next transaction; NONE: the same
    id as now. Return the transaction in the state that it will have when it is completed."""
    prepared = transaction.prepared(state, version, new_producer_id, turn.now_ms)
    turn.write(transactional_id, prepared)
    turn.write_markers(transactional_id, prepared)
    return prepared.completed(turn.now_ms)


def _check(transaction: Transaction, request: EndTransaction) -> bool:
    """Return True if this EndTxn repeats an EndTxn that has already ended the transaction, False if it may end the
    transaction now. Raises Refused if neither is true."""
    epoch, was_epoch = request.producer_epoch, transaction.producer_epoch
    overflowed = transaction.previous_producer_id == request.producer_id and epoch == EPOCHS_END and was_epoch == 0
    again = overflowed or was_epoch == epoch + 1
    if transaction.state.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.producer_id != request.producer_id and not overflowed:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_complete = transaction.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    if epoch != was_epoch and not (is_complete and again):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        return False
    if is_complete and again:
        if request.commit == (transaction.state is State.COMPLETE_COMMIT):
            return True
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    if request.commit:
        raise Refused(ErrorCode.INVALID_TXN_STATE)
    return False


def _check_old(transaction: Transaction, request: EndTransaction) -> bool:
    """Check an EndTxn of a client of transaction version 0 or 1, and return or raise what `_check` does."""
    if transaction.producer_id != request.producer_id:
        raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if transaction.state.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is State.ONGOING:
        return False
    if transaction.state is (State.COMPLETE_COMMIT if request.commit else State.COMPLETE_ABORT):
        return True
    raise Refused(ErrorCode.INVALID_TXN_STATE)


def abort_open(
    turn: Turn, transactional_id: str, transaction: Transaction, new_producer_id: int
) -> NeedsProducerId | None:
    """Abort an ongoing transaction without a request of its producer. The producer is fenced: the marker has a higher
    epoch.

    new_producer_id: the id to use if the epochs of the producer id are used up; NONE if the broker has not sent one
    yet. If a new producer id is needed and is NONE, return NEEDS_PRODUCER_ID and change nothing; otherwise return None.
    """
    assert transaction.state is State.ONGOING, "open"
    version = turn.shard.version()
    if not bumps_epoch(version):
        _prepare(turn, transactional_id, transaction.fenced(), State.PREPARE_ABORT, 0, NONE)
        return None
    if not transaction.epochs_are_used_up:
        new_producer_id = NONE
    elif new_producer_id == NONE:
        return NEEDS_PRODUCER_ID
    _prepare(turn, transactional_id, transaction, State.PREPARE_ABORT, version, new_producer_id)
    return None


def abort_timed_out(turn: Turn, request: AbortTimedOut) -> None:
    """Abort a transaction that has exceeded its timeout, if it is still ongoing with the same producer id and epoch."""
    transaction = turn.shard.transactions.get(request.transactional_id)
    if (
        transaction is not None
        and transaction.state is State.ONGOING
        and (transaction.producer_id, transaction.producer_epoch) == (request.producer_id, request.producer_epoch)
    ):
        abort_open(turn, request.transactional_id, transaction, request.new_producer_id)


def markers_written(turn: Turn, request: MarkersWritten) -> None:
    """Complete the transaction whose markers are written, if it is still prepared with the same producer id and
    epoch."""
    transaction = turn.shard.transactions.get(request.transactional_id)
    if (
        transaction is not None
        and transaction.state.is_prepared
        and (transaction.producer_id, transaction.producer_epoch) == (request.producer_id, request.producer_epoch)
    ):
        turn.write(request.transactional_id, transaction.completed(turn.now_ms))
