"""One simulated time, and one event loop for each simulated process.

    killed    no waiting callback is called any more: no handler, no `finally`, as after kill -9
    paused    callbacks that come due wait until the process continues, then all are called, as after SIGSTOP
    rate      the process's clock runs a little faster or slower than others, and starts at a time of its own

Callbacks of all loops that are ready are called in the order in which they became ready; then time jumps to the next
timer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, TypeVarTuple

from kcli.broker.process.clock import Clock
from tests.sim.loop import BEGIN_MS, Call, SimulatedLoop, Stalled

Ts = TypeVarTuple("Ts")


class Lane(SimulatedLoop):
    """The event loop of one simulated process, made by `Time.lane`."""

    def __init__(self, time: Time, random: Random, begin_s: float, rate: float) -> None:
        super().__init__(random)
        self._time = time
        self._soon, self._heap, self._order = time.soon, time.timers, time.order
        self._begin_s, self._rate = begin_s, rate
        self.is_killed = self.is_paused = False
        self.held: list[Call] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._begin_s + self._time.now_s * self._rate

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,  # noqa: ARG002 (the signature of what it stands for)
    ) -> Call:
        call = Call(callback, args)
        self._soon.append((self, call))
        return call

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Call:
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,  # noqa: ARG002 (the signature of what it stands for)
    ) -> Call:
        call = Call(callback, args)
        heappush(self._heap, ((when - self._begin_s) / self._rate, next(self._order), self, call))
        return call

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,  # noqa: ARG002 (the signature of what it stands for)
    ) -> Call:
        call = Call(callback, args)
        when_s = self._time.now_s + (delay / self._rate if delay > 0 else 0.0)
        heappush(self._heap, (when_s, next(self._order), self, call))
        return call

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task from outside of the loop."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            return self.create_task(work)
        finally:
            asyncio._set_running_loop(before)

    def kill(self) -> None:
        """Stop the process: no callback is called any more."""
        self.is_killed = True

    def forget(self) -> None:
        """Drop all waiting callbacks."""
        self.held.clear()
        self.tasks.clear()
        self.errors.clear()
        self.close()

    def pause(self) -> None:
        """Hold up all callbacks until `go_on`."""
        self.is_paused = True

    def go_on(self) -> None:
        """Call the callbacks that came due during the pause."""
        self.is_paused = False
        held, self.held = self.held, []
        self._soon.extend((self, call) for call in held)


class Time:
    """The simulated time. now_s: seconds since the simulation began."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: deque[tuple[Lane, Call]] = deque()
        self.timers: list[tuple[float, int, Lane, Call]] = []
        self.order = count()
        self.calls = 0
        self.lanes: list[Lane] = []

    def lane(self, random: Random, *, begin_s: float = 0.0, rate: float = 1.0) -> Lane:
        """Return an event loop for one process."""
        lane = Lane(self, random, begin_s, rate)
        self.lanes.append(lane)
        return lane

    def run(self, until: Callable[[], bool]) -> None:
        """Call callbacks that are due until `until` returns True. Raises Stalled."""
        soon, timers, running = self.soon, self.timers, None
        try:
            while not until():
                if soon:
                    lane, call = soon.popleft()
                elif timers:
                    when_s, _, lane, call = heappop(timers)
                    if call._cancelled:
                        continue
                    self.now_s = max(self.now_s, when_s)
                else:
                    raise Stalled
                if call._cancelled or lane.is_killed:
                    continue
                if lane.is_paused:
                    lane.held.append(call)
                    continue
                if lane is not running:
                    running = lane
                    asyncio._set_running_loop(lane)
                self.calls += 1
                try:
                    call._callback(*call._args)
                except Exception as error:  # noqa: BLE001  (heard of as other loops tell it)
                    lane.call_exception_handler({"message": "a callback failed", "exception": error})
        finally:
            asyncio._set_running_loop(None)


class LaneClock(Clock):
    """The wall clock of a process: it differs from the true time by an offset, and runs at the rate of its lane."""

    def __init__(self, lane: Lane, offset_ms: int) -> None:
        self._lane, self._offset_ms = lane, BEGIN_MS + offset_ms

    def now_ms(self) -> int:
        return self._offset_ms + int(self._lane.time() * 1000)
