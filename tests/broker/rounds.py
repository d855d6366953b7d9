"""How much of a processor the longest round of a node's event loop took, whatever else the machine does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.broker.running import RunningNode


class Rounds:
    """longest_ms: CPU of the loop's thread between two expiries of a timer of half one, two rounds at most."""

    def __init__(self) -> None:
        self.longest_ms = 0.0
        self.count = 0
        self._is_over = False

    async def watch(self) -> None:
        """Come with every other round of the loop, as a client would."""
        last = time.thread_time()
        while not self._is_over:
            await asyncio.sleep(0.0005)
            now = time.thread_time()
            self.longest_ms = max(self.longest_ms, (now - last) * 1000)
            self.count += 1
            last = now

    def end(self) -> None:
        """Watch no more."""
        self._is_over = True


@contextmanager
def rounds_of(node: RunningNode) -> Iterator[Rounds]:
    """Watch a node's loop."""
    rounds = Rounds()
    watching = asyncio.run_coroutine_threadsafe(rounds.watch(), node.loop)
    try:
        yield rounds
    finally:
        rounds.end()
        watching.result(60)
