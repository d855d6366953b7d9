"""Time that moves: the order of what falls due, what it sets off, and work in threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from kcli.testing.moving import MovingClock, MovingLoop

HOUR_MS = 3_600_000


def run(body: Callable[[MovingLoop, MovingClock], Awaitable[None]]) -> None:
    """Run a coroutine on a loop whose time moves."""
    loop, clock = MovingLoop(), MovingClock()
    try:
        loop.run_until_complete(body(loop, clock))
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def test_timers_fall_due_in_order_and_set_off_others() -> None:
    async def body(loop: MovingLoop, clock: MovingClock) -> None:
        seen: list[str] = []
        tasks: list[asyncio.Task[None]] = []

        async def rebalance() -> None:
            seen.append("rebalance")
            await asyncio.sleep(300)
            seen.append("rebalanced")

        loop.call_later(1800, seen.append, "later")
        loop.call_later(600, lambda: tasks.append(loop.create_task(rebalance())))
        loop.call_later(4000, seen.append, "too late")
        began, began_ms = time.monotonic(), clock.now_ms()
        await loop.advance(clock, HOUR_MS)
        assert seen == ["rebalance", "rebalanced", "later"]
        assert 0 <= clock.now_ms() - began_ms - HOUR_MS < 5_000
        assert time.monotonic() - began < 5

    run(body)


def test_what_is_periodic_happens_once_a_stride() -> None:
    async def body(loop: MovingLoop, clock: MovingClock) -> None:
        count = 0

        def tick() -> None:
            nonlocal count
            count += 1
            loop.call_later(1, tick)

        loop.call_later(1, tick)
        await loop.advance(clock, 10_000)
        assert 9 <= count <= 11
        count = 0
        await loop.advance(clock, 24 * HOUR_MS)
        assert 55 <= count <= 65

    run(body)


def test_it_waits_for_threads() -> None:
    async def body(loop: MovingLoop, clock: MovingClock) -> None:
        done: list[int] = []

        async def flush() -> None:
            for i in range(3):
                await loop.run_in_executor(None, time.sleep, 0.01)
                done.append(i)

        tasks: list[asyncio.Task[None]] = []
        loop.call_later(60, lambda: tasks.append(loop.create_task(flush())))
        await loop.advance(clock, 61_000)
        assert done == [0, 1, 2]

    run(body)
