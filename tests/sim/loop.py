"""An event loop without sockets and threads, with simulated time: where no callback is ready, the time of the next
timer begins at once.

Functions for a thread run in the loop, at one time, a little later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from kcli.broker.process.clock import Clock

BEGIN_MS = 1_795_000_000_000
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stalled(Exception):
    """All tasks wait, and no timer is set."""


class Call(asyncio.TimerHandle):
    """A callback that is called once, or cancelled."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._callback, self._args, self._cancelled = callback, args, False

    def cancel(self) -> None:
        self._cancelled = True


class SimulatedLoop(asyncio.BaseEventLoop):
    """The simulated event loop. A seed always gives the same order: callbacks in the order in which they became ready,
    timers by their time, then in the order in which they were set. There are no context variables."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._seconds = 0.0
        self._is_over = False
        self._next: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = count()
        self.errors: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        return self._seconds

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,  # noqa: ARG002 (the signature of what it stands for)
    ) -> Call:
        call = Call(callback, args)
        self._next.append(call)
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,  # noqa: ARG002 (the signature of what it stands for)
    ) -> Call:
        call = Call(callback, args)
        heappush(self._timers, (when, next(self._numbers), call))
        return call

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Call:
        return self.call_at(self._seconds + max(delay, 0.0), callback, *args, context=context)

    def run_forever(self) -> None:
        """Run until `stop`. Raises Stalled."""
        asyncio.events._set_running_loop(self)
        self._is_over = False
        try:
            while not self._is_over:
                self._turn()
        finally:
            asyncio.events._set_running_loop(None)

    def stop(self) -> None:
        self._is_over = True

    def _turn(self) -> None:
        """Call one ready callback; without any, move the time to the next timer."""
        if self._next:
            call = self._next.popleft()
        elif self._timers:
            when, _, call = heappop(self._timers)
            if not call._cancelled:
                self._seconds = max(when, self._seconds)
        else:
            raise Stalled
        if call._cancelled:
            return
        try:
            call._callback(*call._args)
        except Exception as error:  # noqa: BLE001  (heard of as other loops tell it)
            self.call_exception_handler({"message": "a callback failed", "exception": error})

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:  # noqa: ARG002 (the signature of what it stands for)
        """Run the function in the loop, a little later."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  (given to who waits)
                future.set_exception(error)

        self.call_later(self._random.randrange(1, 200) / 1000, run)
        return future


class LoopClock(Clock):
    """A broker's clock with the loop's time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return BEGIN_MS + round(self._loop.time() * 1000)
