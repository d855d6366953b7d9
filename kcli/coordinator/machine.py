"""The interface `Machine` of the group and the transaction coordinator: state machines without I/O and without a clock.

A machine is the state of one partition of the coordinator's topic (__consumer_offsets, __transaction_state). Its input
is requests, the time and the records of the partition's log; each call returns an Outcome: the records to append and
the answers to send. A request may be answered by the outcome of a later call.

    handle(token, request, now_ms)   handle a request; the outcome that answers it has the token
    tick(now_ms)                     do the work that is due: the time of deadline_ms() has come
    replay(...)                      apply a record: only this changes state that must survive a crash
    loaded(now_ms)                   the log is replayed: start sessions, continue unfinished work

The broker appends an outcome's batches, replays them, and only then sends the outcome's answers and messages. If an
append fails, the broker drops the machine and makes a new one from the log. Source: Kafka's CoordinatorShard,
CoordinatorResult, CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"

Token = int
"""Identifies a request that is not answered yet."""

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


Repetition = Callable[[int, int, Sequence[tuple[int, int]]], None]
"""Applies the repetition of an offset commit, once its records are appended: the time in ms since 1970, the offset of
the first record, and for each record the offset and the leader epoch that it commits."""


class Batch(NamedTuple):
    """Records to append as one batch. producer_id, producer_epoch: those of the transaction to which the records
    belong; -1 for records outside a transaction."""

    records: Sequence[Pair]
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class Outcome:
    """What the broker must do, in this order: append the batches, send the answers, carry out the messages.

    messages: instructions of the Machine's own types, such as kcli.txn.requests.WriteMarkers.
    """

    batches: list[Batch] = field(default_factory=list)
    answers: list[tuple[Token, Any]] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)

    def append(self, *records: Pair) -> None:
        """Add a batch of these records; without records, add nothing."""
        if records:
            self.batches.append(Batch(records))

    def answer(self, token: Token, response: Any) -> None:
        """Add the answer to the request of that token."""
        self.answers.append((token, response))


class Commits(Protocol):
    """The records of a request that `AtOnce.at_once` has handled. Once the broker has appended them, `AtOnce.committed`
    applies them to the state."""

    @property
    def records(self) -> Sequence[Pair]:
        """The records, which are appended as one batch; empty for a request that writes none."""


class AtOnce(Protocol):
    """A Machine with a faster path for frequent requests that succeed: the broker calls `at_once`, appends the records
    that it returns, and calls `committed`, without an Outcome."""

    def at_once(self, request: Any, log_end_offset: int, now_ms: int) -> Any:
        """Handle a request, and return its Commits. log_end_offset: the offset at which the caller will append the
        first of the records. Returns None if the caller must pass the request to `handle` instead; nothing has changed
        then, except that a member's session may have been extended."""

    def committed(self, commits: Any) -> None:
        """Apply the records of the Commits, as `replay` does, once they are appended at the offset that was passed to
        `at_once` as the log end offset."""

    def repetition(self, request: Any, commits: Any) -> Repetition:
        """Return the function that applies further commits of the same partitions by the same client, which differ from
        `request` in offsets and leader epochs alone. Until the next call of `handle`, `tick`, `replay` or
        `replay_marker`, each of them is accepted as `request` was. commits: what `at_once` has returned for it."""


class Machine(Protocol):
    """The state machine of one partition of a coordinator's topic, as the broker calls it. Times are milliseconds since
    1970."""

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        """Handle a request. token: identifies the request in the outcome, of this call or a later one, that has its
        answer."""

    def tick(self, now_ms: int) -> Outcome:
        """Act on all timeouts that have passed by now_ms: remove members whose sessions have expired, for example, or
        abort transactions that have been open too long."""

    def deadline_ms(self) -> int | None:
        """Return the time at which to call `tick` next; None if no timeout is running."""

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:
        """Apply a record of the log; called in the log's order. producer_id: -1 for a record outside a transaction.
        Raises FormatError."""

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Apply a transaction marker of the log: the producer's transaction is committed or aborted."""

    def loaded(self, now_ms: int) -> Outcome:
        """Begin to work, as the whole log has been replayed: sessions begin, unfinished work continues."""
