"""Waits until the high watermark of a partition is at least a given offset. Produce requests with acks=all and
coordinators wait in this way.

There is no polling: the partition calls `reached` when its high watermark moves. Source: DelayedProduce.
"""

from __future__ import annotations

import asyncio
import heapq
from itertools import count

from kcli.protocol.error_code import ErrorCode

Outcome = asyncio.Future[ErrorCode]


class CommitWaits:
    """The waits for the high watermark of one partition."""

    __slots__ = ("_count", "_waits")

    def __init__(self) -> None:
        self._waits: list[tuple[int, int, Outcome, asyncio.TimerHandle]] = []
        self._count = count()

    def __bool__(self) -> bool:
        return bool(self._waits)

    def add(self, offset: int, timeout_s: float) -> Outcome:
        """Return a future that is done when the high watermark is at least `offset`. Its result is the code given to
        `reached`, the code given to `fail`, or REQUEST_TIMED_OUT after timeout_s."""
        loop = asyncio.get_running_loop()
        future: Outcome = loop.create_future()
        timer = loop.call_later(timeout_s, _end, future, ErrorCode.REQUEST_TIMED_OUT)
        heapq.heappush(self._waits, (offset, next(self._count), future, timer))
        return future

    def reached(self, high_watermark: int, code: ErrorCode) -> None:
        """End the waits whose offset is at most the high watermark, with the result `code`."""
        waits = self._waits
        while waits and waits[0][0] <= high_watermark:
            _, _, future, timer = heapq.heappop(waits)
            timer.cancel()
            _end(future, code)

    def fail(self, code: ErrorCode) -> None:
        """End all waits with the result `code`, because this broker no longer leads the partition, or because the
        replica is deleted or offline."""
        waits, self._waits = self._waits, []
        for _, _, future, timer in waits:
            timer.cancel()
            _end(future, code)


def done(code: ErrorCode) -> Outcome:
    """Return a future that is done, with the result `code`."""
    future: Outcome = asyncio.get_running_loop().create_future()
    future.set_result(code)
    return future


def _end(future: Outcome, code: ErrorCode) -> None:
    if not future.done():
        future.set_result(code)
