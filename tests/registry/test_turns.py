"""The lock of a registry: light work before heavy work, nobody forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kcli.registry import turns
from kcli.registry.turns import Turns


async def order(lock: Turns, waiting: str, done: list[str]) -> None:
    """Let work wait for the lock in this order, "h" heavy, "l" light; note the order in which it is done."""

    async def work(kind: str) -> None:
        async with lock.turn(is_heavy=kind == "h"):
            done.append(kind)
            await asyncio.sleep(0)

    async with lock.turn():
        tasks = [asyncio.create_task(work(kind)) for kind in waiting]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)


def test_light_work_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    lock = Turns()
    asyncio.run(order(lock, "hhllhl", done))
    assert ("".join(done), lock.is_taken) == ("lllhhh", False)
    monkeypatch.setattr(turns, "OVERTAKEN_MAX", 2)
    done.clear()
    asyncio.run(order(lock, "hlllll", done))
    assert "".join(done) == "llhlll"


@pytest.mark.parametrize("has_it", [False, True])
def test_who_is_cancelled_keeps_nobody_waiting(has_it: bool) -> None:
    async def run() -> bool:
        lock = Turns()

        async def work() -> None:
            async with lock.turn():
                await asyncio.sleep(0)

        async with lock.turn():
            first, second = asyncio.create_task(work()), asyncio.create_task(work())
            await asyncio.sleep(0)
            if not has_it:
                first.cancel()
        first.cancel()  # the lock was passed on to it meanwhile, unless it was cancelled before
        with suppress(asyncio.CancelledError):
            await first
        await second
        return lock.is_taken

    assert asyncio.run(run()) is False
