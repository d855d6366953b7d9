"""Who waits until the high watermark of a partition has passed an offset: producers with acks=all, coordinators.

Nobody polls: whoever moves the high watermark says so here. Source: DelayedProduce.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from kcli.broker.network.messages import ErrorCode

Outcome = asyncio.Future[ErrorCode]


class CommitWaits:
    """Of one partition."""

    __slots__ = ("_count", "_waits")

    def __init__(self) -> None:
        self._waits: list[tuple[int, int, Outcome, asyncio.TimerHandle]] = []
        self._count = count()

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, offset: int, timeout_s: float) -> Outcome:
        """Wait until the high watermark is `offset` at least: ErrorCode.none, or what came in between."""
        loop = asyncio.get_running_loop()
        future: Outcome = loop.create_future()
        timer = loop.call_later(timeout_s, _end, future, ErrorCode.request_timed_out)
        heapq.heappush(self._waits, (offset, next(self._count), future, timer))
        return future

    def reached(self, high_watermark: int, code: ErrorCode) -> None:
        """The high watermark has moved. code: for those whose offset it has passed."""
        waits = self._waits
        while waits and waits[0][0] <= high_watermark:
            _, _, future, timer = heapq.heappop(waits)
            timer.cancel()
            _end(future, code)

    def fail(self, code: ErrorCode) -> None:
        """It will not come to that here."""
        waits, self._waits = self._waits, []
        for _, _, future, timer in waits:
            timer.cancel()
            _end(future, code)


def done(code: ErrorCode) -> Outcome:
    """There is nothing to wait for."""
    future: Outcome = asyncio.get_running_loop().create_future()
    future.set_result(code)
    return future


def _end(future: Outcome, code: ErrorCode) -> None:
    if not future.done():
        future.set_result(code)
