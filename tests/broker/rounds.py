"""How the work of a node's event loop is spread over its rounds, whatever the machine's speed."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.broker.running import RunningNode

SHARE_MAX = 0.5
"""The largest share of one round in the total: 0.01 to 0.25 is usual, 0.9 means that one round does all the work."""
SHORT_MS = 100
"""Any round may take as long."""


class Rounds:
    """longest_ms: the longest CPU time of the loop's thread between two ticks of a timer of 0.5 ms, which may span two
    rounds. total_ms: the CPU time of all rounds."""

    def __init__(self) -> None:
        self.longest_ms = self.total_ms = 0.0
        self.count = 0
        self._is_over = False

    @property
    def are_even(self) -> bool:
        """Whether no long round did most of the work."""
        return self.longest_ms < max(SHORT_MS, SHARE_MAX * self.total_ms)

    def __repr__(self) -> str:
        return f"{self.count} rounds, {self.longest_ms:.0f} of {self.total_ms:.0f} ms in the longest"

    async def watch(self) -> None:
        """Measure the loop's rounds: as a client would, wake up in every other one."""
        last = time.thread_time()
        while not self._is_over:
            await asyncio.sleep(0.0005)
            now = time.thread_time()
            took_ms = (now - last) * 1000
            self.longest_ms = max(self.longest_ms, took_ms)
            self.total_ms += took_ms
            self.count += 1
            last = now

    def end(self) -> None:
        """Watch no more."""
        self._is_over = True


@contextmanager
def rounds_of(node: RunningNode) -> Iterator[Rounds]:
    """Watch the rounds of a node's loop, without garbage collection: the heap is that of all tests, not of a broker."""
    rounds = Rounds()
    gc.disable()
    watching = asyncio.run_coroutine_threadsafe(rounds.watch(), node.loop)
    try:
        yield rounds
    finally:
        rounds.end()
        watching.result(60)
        gc.enable()
