"""An event loop without sockets and threads, whose time is simulated: where nothing is ready it is the time of the
next timer at once.

What code hands to a thread runs in the loop, all at once, a little later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from kcli.broker.clock import Clock

BEGIN_MS = 1_795_000_000_000
NO_EVENTS: list[Any] = []
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stalled(Exception):
    """Everybody waits, and nothing will ever happen."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """See above. The same seed gives the same order of everything."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random
        self._seconds = 0.0
        self._selector = self  # asked what is ready, and until when it may wait
        self.errors: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        return self._seconds

    def select(self, timeout: float | None) -> list[Any]:
        """Wait: that is, move the clock."""
        if timeout is None:
            raise Stalled
        self._seconds += max(timeout, 0.0)
        return NO_EVENTS

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody is to be woken."""

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:  # noqa: ARG002
        """Run it in the loop, a little later."""
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
    """The loop's time, as a broker asks for it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return BEGIN_MS + round(self._loop.time() * 1000)
