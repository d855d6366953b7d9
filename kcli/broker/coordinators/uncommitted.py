"""What a machine has said, and rests on records that are not committed yet: it goes out once they are.

A machine is always at the end of its partition's log, ahead of the high watermark. Kafka keeps its state at every
offset in between (CoordinatorRuntime's timeline), answers reads as of the high watermark, and lets whatever may write
wait for all that was written before it. Here there is one state, and everything waits like that, reads too:

    an answer goes out when the high watermark has reached the log's end of the moment at which the machine gave it

That is sound. A machine has only seen records below that end, so whatever an answer tells is committed when it is out,
and no later leader can have lost it: nobody is told an offset, a generation, a producer's epoch that is taken back.
Where leadership goes first, all who wait are told NOT_COORDINATOR, the machine is dropped, and the next leader's is
made of a log that lost only what nobody was told of. Messages (markers to write) wait like answers do: no marker says
"commit" before the record that decides so is committed. Order is kept, and nobody starves: what is appended after the
answer was given does not count for it. A read waits for one round trip to the followers where Kafka's would not, and
sees more: what its own client has just written.

Alone in sync, the high watermark is the log's end, and nothing ever waits.

Who waits for too long is told COORDINATOR_NOT_AVAILABLE and asks again; its records may be committed all the same, and
messages are done when they are. Source: CoordinatorRuntime, DeferredEventQueue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.coordinator import Outcome

if TYPE_CHECKING:
    from kcli.broker.logs.partitions import Partition


@dataclass(slots=True)
class _Held:
    """An outcome. offset: what the high watermark must have reached; until_s: how long its answers wait, by the loop's
    time."""

    offset: int
    until_s: float
    outcome: Outcome


class Uncommitted:
    """See above, for one machine. release(outcome): it may go out; give_up(outcome): its answers have waited for too
    long."""

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
        self._look: asyncio.Handle | None = None

    @property
    def must_wait(self) -> bool:
        """Must an outcome of now?"""
        log = self._partition.log
        return log.high_watermark < log.log_end_offset or bool(self._held)

    def hold(self, outcome: Outcome) -> None:
        """Let it wait."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._timeout_s
        self._held.append(_Held(self._partition.log.log_end_offset, until_s, outcome))
        if len(self._held) == 1:
            self._partition.watch(self._moved)
        if self._timer is None:
            self._timer = loop.call_at(until_s, self._expire)

    def end(self) -> None:
        """Nothing goes out any more."""
        if self._held:
            self._held.clear()
            self._partition.unwatch(self._moved)
        for handle in (self._timer, self._look):
            if handle is not None:
                handle.cancel()

    def _moved(self) -> None:
        """Something about the partition has. What follows may change it: not before it has done with this."""
        if self._look is None and self._held and self._is_committed(self._held[0]):
            self._look = asyncio.get_running_loop().call_soon(self._go_on)

    def _is_committed(self, held: _Held) -> bool:
        return self._partition.is_leader and held.offset <= self._partition.log.high_watermark

    def _go_on(self) -> None:
        self._look = None
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
