"""Holds back the responses and messages of a state machine that depend on uncommitted records, until their commit.

A state machine's state is that at its partition's log end offset, ahead of the high watermark. Kafka keeps the state at
every offset in between (CoordinatorRuntime's timeline), answers reads with the state at the high watermark, and lets
writes wait for the commit of all records before them. Here there is only the state at the log end offset, and reads
wait in the same way as writes:

    a response is sent when the high watermark has reached the log end offset at which the state machine returned it

That is sound. The state machine has replayed only records below that offset, so the contents of a response are
committed when it is sent, and no later leader lacks them: no client gets an offset, a generation or a producer epoch
that is lost later. If this broker loses the leadership before that, waiting requests get NOT_COORDINATOR, the state
machine is dropped, and the next leader's log lacks only records on which no response was based. Messages (markers to
write) wait as responses do: no marker says "commit" before the record of that decision is committed. The outcomes (all
that a state machine returns from one step) are released in order, and none waits for records that were appended after
it. A read waits for one round trip to the followers, which it does not in Kafka, and returns newer state: it includes
what the same client has just written.

If this broker is the only member of the ISR, the high watermark is the log end offset, and nothing waits.

A response that has waited for commit_timeout_ms is replaced by COORDINATOR_NOT_AVAILABLE, and the client retries. The
records of its request may still be committed later, and its messages are carried out then. Source: CoordinatorRuntime,
DeferredEventQueue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.coordinator.machine import Outcome

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition


@dataclass(slots=True)
class _Held:
    """An outcome that is held back. offset: the outcome is released when the high watermark reaches this offset.
    until_s: when its requests fail with COORDINATOR_NOT_AVAILABLE, in seconds of the event loop's clock."""

    offset: int
    until_s: float
    outcome: Outcome


class Uncommitted:
    """The outcomes of one coordinator's state machine, each of which is held back until the records that it has
    appended are committed.

    release(outcome): called when the outcome's records are committed. give_up(outcome): called when the outcome's
    responses have waited for timeout_ms.
    """

    def __init__(
        self,
        partition: Partition,
        timeout_ms: int,
        release: Callable[[Outcome], None],
        give_up: Callable[[Outcome], None],
    ) -> None:
        self._partition = partition
        self._timeout_s = timeout_ms / 1000
        self._release, self._give_up = release, give_up
        self._held: deque[_Held] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None

    @property
    def must_wait(self) -> bool:
        """Whether an outcome that the state machine returns now must wait for the high watermark."""
        log = self._partition.log
        return log.high_watermark < log.log_end_offset or bool(self._held)

    def hold(self, outcome: Outcome) -> None:
        """Hold an outcome back until the high watermark reaches the current log end offset."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._timeout_s
        self._held.append(_Held(self._partition.log.log_end_offset, until_s, outcome))
        if len(self._held) == 1:
            self._partition.watch(self._moved)
        if self._timer is None:
            self._timer = loop.call_at(until_s, self._expire)

    def end(self) -> None:
        """Drop all outcomes that are held back."""
        if self._held:
            self._held.clear()
            self._partition.unwatch(self._moved)
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()

    def _moved(self) -> None:
        """Called when the partition has changed. Release committed outcomes in the next iteration of the event loop,
        not at once, as carrying out their messages may change the partition again."""
        if self._soon is None and self._held and self._is_committed(self._held[0]):
            self._soon = asyncio.get_running_loop().call_soon(self._go_on)

    def _is_committed(self, held: _Held) -> bool:
        return self._partition.is_leader and held.offset <= self._partition.log.high_watermark

    def _go_on(self) -> None:
        self._soon = None
        while self._held and self._is_committed(self._held[0]):
            held = self._held.popleft()
            if not self._held:
                self._partition.unwatch(self._moved)
            self._release(held.outcome)
        if not self._held and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for held in self._held:
            if held.until_s > now_s:
                self._timer = loop.call_at(held.until_s, self._expire)
                return
            if held.outcome.answers:
                self._give_up(held.outcome)
                held.outcome = Outcome(messages=held.outcome.messages)
        self._timer = None
