"""Work on windows by several threads, its results in order. Kernels and codecs release the GIL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

MAX_THREADS = 4

Part = TypeVar("Part")
Result = TypeVar("Result")


def thread_count() -> int:
    """As many as there are processors, 4 at most."""
    return min(MAX_THREADS, os.cpu_count() or 1)


def in_order(work: Callable[[Part], Result], parts: Iterable[Part], threads: int) -> Iterator[Result]:
    """work(part) for each part, in order; `parts` is read at most threads + 1 parts ahead. Errors pass through."""
    if threads < 2:
        yield from map(work, parts)
        return
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in parts:
                pending.append(pool.submit(work, part))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
