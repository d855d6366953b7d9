"""An event loop and a clock that a test can move ahead of the system's time, both by the same amount.

The broker starts its timers with `call_later` and reads its timestamps from its clock, so all follow the moved time.
Between two calls of `advance`, time passes at the speed of the system's clock.

    advance     moves the time in at most 60 strides. In each, the timers that fall due run in the order of their times,
                and all work that they start, on the loop and in threads, ends before the next stride. So a session
                timeout begins a rebalance, whose own timeout can pass in a later stride. A periodic task runs once a
                stride.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from typing import Any, TypeVar

from kcli.broker.process.clock import Clock

T = TypeVar("T")
STRIDES = 60
SETTLE_S = 5.0
QUIET_TURNS = 3


class MovingClock(Clock):
    """The system's clock plus `ahead_ms`, by which a test has moved it."""

    def __init__(self) -> None:
        self.ahead_ms = 0.0

    def now_ms(self) -> int:
        """Return the moved time in milliseconds since 1970."""
        return super().now_ms() + round(self.ahead_ms)


class MovingLoop(asyncio.SelectorEventLoop):
    """An event loop whose timers follow a time that a test moves."""

    _ready: Any
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._in_threads = 0
        super().__init__()

    def time(self) -> float:
        """Return the loop's clock in seconds, which includes all time by which a test has moved it. Timers go by it."""
        return super().time() + self._ahead_s

    def run_in_executor(  # type: ignore[override]  # typeshed's has a coroutine's type in some versions
        self, executor: concurrent.futures.Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function in a thread; `settle` waits for its end."""
        future = super().run_in_executor(executor, func, *args)
        self._in_threads += 1
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._in_threads -= 1

    async def advance(self, clock: MovingClock, delta_ms: float) -> None:
        """Move the time of loop and clock forward by `delta_ms`. Return when all timers that fell due have run."""
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
        """Wait until loop and threads are idle, but at most 5 s."""
        latest = super().time() + SETTLE_S
        quiet = 0
        while quiet < QUIET_TURNS and super().time() < latest:
            await asyncio.sleep(0)
            quiet = 0 if self._ready or self._in_threads else quiet + 1
            if self._in_threads:
                await self._moment()

    async def _moment(self) -> None:
        """Sleep for 0.5 ms, in which threads can run."""
        await asyncio.sleep(0.0005)
