"""InitProducerId: a producer begins, and fences earlier producers of its transactional id.

    request                                    answer
    the transactional id is new                a new producer id, epoch 0
    without producer id                        the next epoch; CONCURRENT_TRANSACTIONS while an ongoing transaction is
                                               aborted
    with producer id and epoch (KIP-360)       the next epoch if id and epoch are current; the current epoch if the
                                               client repeats its previous request; otherwise PRODUCER_FENCED
    the epochs of the producer id are used up  a new producer id, epoch 0

Source: TransactionCoordinator.handleInitProducerId, TransactionMetadata.prepareIncrementProducerEpoch.
"""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.txn.ending import abort_open
from kcli.txn.errors import Refused
from kcli.txn.requests import NEEDS_PRODUCER_ID, InitProducerId, NeedsProducerId, Producer
from kcli.txn.transaction import EPOCHS_END, INT_MAX, NONE, State, Transaction
from kcli.txn.turn import TransactionConfig, Turn


def init_producer_id(turn: Turn, request: InitProducerId) -> Producer | NeedsProducerId:
    """Begin a new producer epoch of the transactional id, and so fence its earlier producers.

    Return the producer's id and epoch, or NEEDS_PRODUCER_ID if a new producer id is needed and the request has none.
    Errors: INVALID_REQUEST, INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS; for two-phase commit
    also TRANSACTIONAL_ID_AUTHORIZATION_FAILED and UNSUPPORTED_VERSION.
    """
    _check(request, turn.shard.config)
    timeout_ms = INT_MAX if request.two_phase_commit else request.timeout_ms
    transaction = turn.shard.transactions.get(request.transactional_id)
    if transaction is None:
        if request.new_producer_id == NONE:
            return NEEDS_PRODUCER_ID
        transaction = Transaction(request.new_producer_id, timeout_ms)
    if transaction.state.is_prepared:
        raise Refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if request.producer_id != NONE and not _may_be_known(transaction, request):
        raise Refused(ErrorCode.PRODUCER_FENCED)
    if transaction.state is State.ONGOING:
        # No producer gets the epoch that the abort uses: the client repeats InitProducerId and gets the next epoch.
        needs = abort_open(turn, request.transactional_id, transaction, request.new_producer_id)
        return needs or Producer(ErrorCode.CONCURRENT_TRANSACTIONS)
    begun = _begun(turn, transaction, request, timeout_ms)
    if isinstance(begun, Transaction):
        turn.write(request.transactional_id, begun)
        return Producer(ErrorCode.NONE, begun.producer_id, begun.producer_epoch)
    return begun


def _check(request: InitProducerId, config: TransactionConfig) -> None:
    if not request.transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if request.two_phase_commit and not config.two_phase_commit:
        raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)
    if not (request.two_phase_commit or 0 < request.timeout_ms <= config.max_timeout_ms):
        raise Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)


def _may_be_known(transaction: Transaction, request: InitProducerId) -> bool:
    """Return whether the request's producer id may belong to the transactional id: if the transactional id is new; if
    the producer id is its current one, whose epoch `_begun` checks; or if the producer id is its previous one, with one
    of the last epochs, because the answer with the new producer id was lost."""
    return (
        transaction.producer_epoch == NONE
        or request.producer_id == transaction.producer_id
        or (request.producer_id == transaction.previous_producer_id and request.producer_epoch >= EPOCHS_END)
    )


def _begun(
    turn: Turn, transaction: Transaction, request: InitProducerId, timeout_ms: int
) -> Transaction | NeedsProducerId:
    epoch, knows = transaction.producer_epoch, request.producer_id != NONE
    if transaction.epochs_are_used_up:
        if knows and request.producer_epoch != epoch:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # in Kafka an IllegalStateException: no epoch is left
        if request.new_producer_id == NONE:
            return NEEDS_PRODUCER_ID
        return transaction.with_producer_id(request.new_producer_id, epoch if knows else NONE, timeout_ms, turn.now_ms)
    if not knows:
        return transaction.with_epoch(epoch + 1, NONE, timeout_ms, turn.now_ms)
    if epoch in (NONE, request.producer_epoch):
        return transaction.with_epoch(epoch + 1, epoch, timeout_ms, turn.now_ms)
    if request.producer_epoch == transaction.last_producer_epoch:
        return transaction.with_epoch(epoch, transaction.last_producer_epoch, timeout_ms, turn.now_ms)
    raise Refused(ErrorCode.PRODUCER_FENCED)
