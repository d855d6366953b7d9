"""Runs work in several threads and yields its results in order. Compiled code and codecs release the GIL.

The work changes only its own memory, so the caller need not wait for work whose result is no longer used: after an
error, after the last record that is shown, and after Ctrl-C. Otherwise a window full of batches that decompress to 60
MB each would keep the process busy for minutes.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

MAX_THREADS = 4

Part = TypeVar("Part")
Result = TypeVar("Result")


def thread_count(most: int = MAX_THREADS) -> int:
    """The number of threads to use: one for each processor, `most` at most."""
    return min(most, os.cpu_count() or 1)


def in_order(
    work: Callable[[Part], Result], parts: Iterable[Part], threads: int, *, ahead: int = 1
) -> Iterator[Result]:
    """Yield work(part) for each part, in order. Raises what `parts` and `work` raise.

    At most threads + ahead parts are read from `parts` before their results are yielded. When the caller stops, is
    interrupted, or an error comes, the parts that no thread has begun are dropped, and those under way are not waited
    for.
    """
    if threads < 2:
        yield from map(work, parts)
        return
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for part in parts:
            pending.append(pool.submit(work, part))
            if len(pending) >= threads + ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
