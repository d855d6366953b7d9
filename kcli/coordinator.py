"""What the coordinators of groups and of transactions have in common: machines without I/O and without a clock.

A machine is one partition of the coordinator's topic. It hears of requests, of time, and of what the log has; it tells
which records to append, and whom to answer what, now or when something else has happened.

    handle(token, request, now_ms)   a request; the answer names its token, in this outcome or in a later one
    tick(now_ms)                     the deadline has come
    replay(...)                      a record of the log: nothing else changes what must survive a crash
    loaded(now_ms)                   all of the log is replayed: sessions begin, what was half done goes on

The broker appends an outcome's batches, replays them, and only then sends the outcome's answers and messages. What it
cannot append it forgets, with the machine: a new one is made from the log. Source: Kafka's CoordinatorShard,
CoordinatorResult, CoordinatorRuntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"

Token = int
"""Names a request whose answer is due."""

Pair = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


class Batch(NamedTuple):
    """Records to append together; those of a transaction under its producer's id and epoch."""

    records: Sequence[Pair]
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class Outcome:
    """What is to be done, in this order: append the batches, answer the requests, do what the messages say.

    messages: for the broker, of the machine's own kinds (markers to write, say).
    """

    batches: list[Batch] = field(default_factory=list)
    answers: list[tuple[Token, Any]] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)

    def append(self, *records: Pair) -> None:
        """One more batch, unless there is no record."""
        if records:
            self.batches.append(Batch(records))

    def answer(self, token: Token, response: Any) -> None:
        """One more answer."""
        self.answers.append((token, response))


class Machine(Protocol):
    """See above. Times are milliseconds since 1970."""

    def handle(self, token: Token, request: Any, now_ms: int) -> Outcome:
        """A request has come."""

    def tick(self, now_ms: int) -> Outcome:
        """Do what is due."""

    def deadline_ms(self) -> int | None:
        """When `tick` is wanted next."""

    def replay(self, record: Pair, offset: int, producer_id: int, producer_epoch: int) -> None:
        """A record of the log, in its order; producer_id -1: of no transaction. Raises FormatError."""

    def replay_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """A producer's transaction has ended."""

    def loaded(self, now_ms: int) -> Outcome:
        """The log's end was reached."""
