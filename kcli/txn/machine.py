"""The transaction coordinator of one partition of __transaction_state, a `kcli.coordinator.machine.Machine`.

    requests   kcli.txn.requests; _HANDLERS names the function that answers each
    records    kcli.txn.records: the state of a transactional id, after each change
    messages   WriteMarkers, for each prepared transaction; AbortTimedOut, for a transaction that has exceeded its
               timeout and whose abort needs a new producer id
    timers     transactions that exceed their timeouts are aborted, transactional ids without use expire

Once the log is loaded, the markers of all prepared transactions are written, some of them perhaps for the second time.
Source: TransactionCoordinator, TransactionStateManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.coordinator.machine import Outcome, Pair, Token
from kcli.protocol.error_code import ErrorCode
from kcli.txn import ending, listing, partitions, producer, requests
from kcli.txn.errors import Refused
from kcli.txn.records import parse
from kcli.txn.transaction import State, Transaction
from kcli.txn.turn import Shard, TransactionConfig, Turn, last_epoch_of

TOMBSTONES_TOGETHER = 500

_HANDLERS: dict[type, tuple[Callable[[Turn, Any], Any], Callable[[Any, ErrorCode], Any]]] = {
    requests.InitProducerId: (producer.init_producer_id, lambda _, code: requests.Producer(code)),
    requests.AddPartitions: (partitions.add_partitions, lambda _, code: code),
    requests.VerifyPartitions: (
        partitions.verify_partitions,
        lambda request, code: dict.fromkeys(request.partitions, code),
    ),
    requests.EndTransaction: (ending.end_transaction, lambda _, code: requests.Producer(code)),
    requests.MarkersWritten: (ending.markers_written, lambda _, code: code),
    requests.AbortTimedOut: (ending.abort_timed_out, lambda _, code: code),
    requests.DescribeTransaction: (
        listing.describe_transaction,
        lambda _, code: requests.TransactionDescription(code),
    ),
    requests.ListTransactions: (listing.list_transactions, lambda _, code: code),
}
"""Type of request -> the function that handles the request, and the function that returns the answer with an error
code."""


class TransactionMachine:
    """The transaction coordinator of one partition of __transaction_state. version(): returns the cluster's
    transaction.version."""

    def __init__(self, config: TransactionConfig, version: Callable[[], int]) -> None:
        self._shard = Shard(config, version)
        self._next_abort_ms = self._next_removal_ms = 0
        self._open: set[str] = set()

    @property
    def transactions(self) -> dict[str, Transaction]:
        """The transactions by transactional id."""
        return self._shard.transactions

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        """Handle a request of kcli.txn.requests; its answer is in this outcome."""
        turn = Turn(self._shard, now_ms)
        answer, refuse = _HANDLERS[type(request)]
        try:
            turn.outcome.answer(token, answer(turn, request))
        except Refused as refused:
            turn.outcome.answer(token, refuse(request, refused.code))
        return turn.outcome

    def tick(self, now_ms: int) -> Outcome:
        """Abort transactions that have exceeded their timeouts, and remove expired transactional ids. Each of these two
        is done only if its cleanup interval (TransactionConfig) has passed since the last time."""
        turn = Turn(self._shard, now_ms)
        config = self._shard.config
        if now_ms >= self._next_abort_ms:
            self._next_abort_ms = now_ms + config.abort_interval_ms
            self._abort_timed_out(turn)
        if now_ms >= self._next_removal_ms:
            self._next_removal_ms = now_ms + config.remove_interval_ms
            self._forget_expired(turn)
        return turn.outcome

    def _abort_timed_out(self, turn: Turn) -> None:
        for transactional_id in sorted(self._open):
            transaction = self.transactions[transactional_id]
            if transaction.never_times_out or transaction.start_ms + transaction.timeout_ms >= turn.now_ms:
                continue
            if ending.abort_open(turn, transactional_id, transaction, -1) is not None:
                message = requests.AbortTimedOut(transactional_id, transaction.producer_id, transaction.producer_epoch)
                turn.outcome.messages.append(message)

    def _forget_expired(self, turn: Turn) -> None:
        until_ms = turn.now_ms - self._shard.config.id_expiration_ms
        expired = [
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.state.is_over and transaction.last_update_ms <= until_ms
        ]
        for i in range(0, len(expired), TOMBSTONES_TOGETHER):
            turn.forget(expired[i : i + TOMBSTONES_TOGETHER])

    def deadline_ms(self) -> int | None:
        """Return when `tick` must be called next, in ms since 1970; None if there are no transactional ids."""
        if not self.transactions:
            return None
        return min(self._next_abort_ms, self._next_removal_ms) if self._open else self._next_removal_ms

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:  # noqa: ARG002 (the signature in Machine)
        """Apply a record of the log: set or remove a transactional id. A record of an unknown version is ignored.
        Raises FormatError."""
        parsed = parse(record)
        if parsed is None:
            return
        transactional_id, transaction = parsed
        self._open.discard(transactional_id)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
            return
        self.transactions[transactional_id] = transaction.with_last_epoch(last_epoch_of(self._shard, transactional_id))
        if transaction.state is State.ONGOING:
            self._open.add(transactional_id)

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Do nothing: __transaction_state has no transaction markers."""

    def loaded(self, now_ms: int) -> Outcome:
        """Begin to work, as the whole log is replayed: have the markers of all prepared transactions written."""
        turn = Turn(self._shard, now_ms)
        self._next_abort_ms = now_ms + self._shard.config.abort_interval_ms
        self._next_removal_ms = now_ms + self._shard.config.remove_interval_ms
        for transactional_id, transaction in self.transactions.items():
            if transaction.state.is_prepared:
                turn.write_markers(transactional_id, transaction)
        return turn.outcome
