"""The machine interface of the group and the transaction coordinator: state machines without I/O and without a clock.

A machine is one partition of the coordinator's topic. It takes requests, the time and the records of the log; it
returns the records to append and the answers to send, in the same outcome or in a later one.

    handle(token, request, now_ms)   a request; its answer names the token, in this outcome or in a later one
    tick(now_ms)                     the time that deadline_ms() named has come
    replay(...)                      a record of the log: nothing else changes what must survive a crash
    loaded(now_ms)                   all of the log is replayed: sessions begin, unfinished work continues

The broker appends an outcome's batches, replays them, and only then sends the outcome's answers and messages. Where an
append fails, the broker drops the machine and makes a new one from the log. Source: Kafka's CoordinatorShard,
CoordinatorResult, CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"

Token = int
"""Identifies a request that is not answered yet."""

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


class Batch(NamedTuple):
    """Records to append as one batch; with a producer's id and epoch where they belong to its transaction."""

    records: Sequence[Pair]
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class Outcome:
    """What the broker must do, in this order: append the batches, send the answers, carry out the messages.

    messages: of kinds that each machine defines for the broker, such as transaction markers to write.
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
    """The records of a request that `AtOnce.at_once` has handled; once the broker has appended them, `committed`
    applies them to the machine."""

    @property
    def records(self) -> Sequence[Pair]:
        """The records, in one batch; none for a request without any."""


class AtOnce(Protocol):
    """A machine with a shorter way for frequent requests that succeed: `at_once`, append, `committed`, no Outcome."""

    def at_once(self, request: Any, log_end_offset: int, now_ms: int) -> Any:
        """Return the Commits of the request. None: the caller must pass the request to `handle` instead; at most a
        member's session has been extended."""

    def committed(self, commits: Any) -> None:
        """Apply the records of the Commits, as `replay` does, after they were appended at the log end offset that
        `at_once` was called with."""


class Machine(Protocol):
    """One partition of a coordinator's topic, as the broker drives it. Times are milliseconds since 1970."""

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        """Handle a request."""

    def tick(self, now_ms: int) -> Outcome:
        """Handle the sessions and timeouts that have expired by now_ms."""

    def deadline_ms(self) -> int | None:
        """When to call `tick` next; None: nothing will be due by time alone."""

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:
        """Apply a record of the log, in the log's order; producer_id -1: of no transaction. Raises FormatError."""

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Apply a transaction marker of the log: the producer's transaction is committed or aborted."""

    def loaded(self, now_ms: int) -> Outcome:
        """Begin to work, as the whole log has been replayed: sessions begin, unfinished work continues."""
