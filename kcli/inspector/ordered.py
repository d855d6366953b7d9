"""Windows rendered to text by several threads, written in order.

Decompression, decoding and printing release the GIL, so a second core helps. Memory stays bounded: a few windows are
under way at once, and a thread whose text grows past FLUSH_BYTES waits for its turn and writes what it has.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Condition
from typing import TypeVar

from formats.kernels.log import TextBuffer

FLUSH_BYTES = 1 << 20
MAX_THREADS = 4

Part = TypeVar("Part")
Result = TypeVar("Result")
Write = Callable[[memoryview], None]
Flush = Callable[[], None]
Render = Callable[[Part, TextBuffer, Flush], Result]


class _Abandoned(Exception):
    """Another thread failed: what this one still has to write is not wanted."""


class _Turns:
    """Whose turn it is to write: thread n waits until all before it have ended."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._turn = 0
        self._failed = False

    def wait_for(self, turn: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failed or self._turn == turn)
            if self._failed:
                raise _Abandoned

    def end(self, turn: int) -> None:
        self.wait_for(turn)
        with self._changed:
            self._turn += 1
            self._changed.notify_all()

    def fail(self) -> None:
        with self._changed:
            self._failed = True
            self._changed.notify_all()


def render_in_order(
    parts: Iterable[Part], render: Render[Part, Result], write: Write, *, threads: int | None = None
) -> Iterator[Result]:
    """Call render(part, out, flush) for each part and write what it puts into `out`; yields its results, all in order.

    A renderer calls flush() now and then: it writes and clears `out` once that is large. threads: as many as there are
    processors, 4 at most. With one, parts are taken only as results are asked for. Errors of render and write pass
    through.
    """
    threads = min(MAX_THREADS, os.cpu_count() or 1) if threads is None else threads
    if threads == 1:
        yield from _one_by_one(parts, render, write)
        return
    turns = _Turns()
    free: list[TextBuffer] = []

    def job(turn: int, part: Part) -> Result:
        out = free.pop() if free else TextBuffer()

        def flush(least: int = FLUSH_BYTES) -> None:
            if out.size >= least:
                turns.wait_for(turn)
                _write_out(out, write)

        try:
            result = render(part, out, flush)
            flush(1)
            turns.end(turn)
        except BaseException:
            turns.fail()
            raise
        free.append(out)
        return result

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for turn, part in enumerate(parts):
                pending.append(pool.submit(job, turn, part))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BaseException:
            turns.fail()
            for future in pending:
                future.cancel()
            raise


def _one_by_one(parts: Iterable[Part], render: Render[Part, Result], write: Write) -> Iterator[Result]:
    out = TextBuffer()

    def flush(least: int = FLUSH_BYTES) -> None:
        if out.size >= least:
            _write_out(out, write)

    for part in parts:
        result = render(part, out, flush)
        flush(1)
        yield result


def _write_out(out: TextBuffer, write: Write) -> None:
    with memoryview(out) as text:
        write(text)
    out.clear()
