"""Threads for a store that may hang: so many run, so many wait, and a task that nobody waits for leaves the queue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kcli.broker.tiering.pool import PoolFull, ThreadPool
from tests.broker.tiering.tier_reader import running


def test_tasks_run_wait_and_are_refused() -> None:
    async def use() -> None:
        gate, begun = threading.Event(), []

        def work(number: int) -> int:
            begun.append(number)
            assert gate.wait(10)
            return number

        threads = 2
        pool = ThreadPool("test", lambda: threads, lambda: 3)
        tasks = [asyncio.create_task(pool.run(work, i)) for i in range(5)]
        await asyncio.sleep(0.05)
        assert sorted(begun) == [0, 1]
        with pytest.raises(PoolFull, match="2 tasks run, and 3 wait"):
            await pool.run(work, 5)
        tasks.pop(3).cancel()
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(pool.run(work, 6)))
        await asyncio.sleep(0.05)
        gate.set()
        assert await asyncio.gather(*tasks) == [0, 1, 2, 4, 6]
        assert sorted(begun) == [0, 1, 2, 4, 6]
        threads = 3
        assert await asyncio.gather(*(pool.run(work, i) for i in range(6))) == list(range(6))
        pool.close()
        with pytest.raises(PoolFull, match="closed"):
            await pool.run(work, 7)

    running(use)


def test_errors_are_raised_where_the_task_is_awaited() -> None:
    async def use() -> None:
        pool = ThreadPool("test", lambda: 1, lambda: 1)
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        assert await pool.run(lambda: 1) == 1
        pool.close()

    running(use)


def test_close_cancels_what_waits() -> None:
    async def use() -> None:
        gate = threading.Event()
        pool = ThreadPool("test", lambda: 1, lambda: 1)
        first = asyncio.create_task(pool.run(gate.wait, 10))
        second = asyncio.create_task(pool.run(gate.wait, 10))
        await asyncio.sleep(0.01)
        pool.close()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.set()
        assert await first

    running(use)
