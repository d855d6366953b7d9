"""Time that a test moves: an event loop and a clock that can be ahead of the system's, by the same.

Whatever the broker plans is planned with `call_later`, and whatever it dates is dated by its clock, so both follow.
Time passes by itself too, as fast as it does everywhere.

    advance     goes there in strides; within one, what is due happens in the order of its time, then whatever that sets
                off runs to its end, on the loop and in threads, before the next stride. So a session that times out
                begins a rebalance, which times out in its turn. What is periodic happens once a stride.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from kcli.broker.clock import Clock

T = TypeVar("T")
STRIDES = 60
SETTLE_S = 5.0
QUIET_TURNS = 3


class MovingClock(Clock):
    """The system's clock, and how far a test is ahead of it."""

    def __init__(self) -> None:
        self.ahead_ms = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return super().now_ms() + round(self.ahead_ms)


class MovingLoop(asyncio.SelectorEventLoop):
    """See above."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._in_threads = 0
        super().__init__()

    def time(self) -> float:
        """Seconds, as timers count them."""
        return super().time() + self._ahead_s

    def run_in_executor(  # type: ignore[override]  # typeshed's has a coroutine's type in some versions
        self, executor: concurrent.futures.Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run something in a thread; `settle` waits for it."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._in_threads -= 1

    async def advance(self, clock: MovingClock, delta_ms: float) -> None:
        """Move time forward, the clock's too. Returns when all that was due is done."""
        await self.settle()
        left_s = delta_ms / 1000
        stride_s = left_s / STRIDES
        while left_s > 0:
            step_s = min(left_s, max(stride_s, self._next_due() - self.time()))
            left_s -= step_s
            self._ahead_s += step_s
            clock.ahead_ms += step_s * 1000
            await self.settle()

    def _next_due(self) -> float:
        return min((each.when() for each in self._scheduled if not each.cancelled()), default=float("inf"))

    async def settle(self) -> None:
        """Wait until nothing is left to be done now. Gives up, and returns, when that takes more than 5 s."""
        latest = super().time() + SETTLE_S
        quiet = 0
        while quiet < QUIET_TURNS and super().time() < latest:
            await asyncio.sleep(0)
            quiet = 0 if self._ready or self._in_threads else quiet + 1
            if self._in_threads:
                await self._moment()

    async def _moment(self) -> None:
        """Let threads run; no timer may be used, for it would be due at once."""
        await asyncio.sleep(0.0005)
