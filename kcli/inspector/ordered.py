"""Windows of a log, rendered to text by several threads and written in order.

Decompression, decoding and printing release the GIL, so a second core helps. Memory stays bounded: threads work
on a few windows at once, and a thread whose text grows past FLUSH_BYTES waits for its turn and writes that text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Condition
from typing import TypeVar

from formats.kernels.buffer import TextBuffer
from kcli.log.threads import in_order, thread_count

FLUSH_BYTES = 1 << 20

Part = TypeVar("Part")
Result = TypeVar("Result")
Write = Callable[[memoryview], None]
Flush = Callable[[], None]
Render = Callable[[Part, TextBuffer, Flush], Result]


class _Abandoned(Exception):
    """Raised in a thread whose text is not to be written: another thread failed, or the caller has stopped."""


class _Turns:
    """The order of writing: job n writes after jobs 0 to n - 1 have ended."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._turn = 0
        self._failed = False

    def write(self, turn: int, out: TextBuffer, write: Write) -> None:
        """Wait until the jobs before number `turn` have ended, then write the text of this job, which is in `out`, and
        clear `out`. Raises _Abandoned if `fail` was called."""
        with self._changed:
            self._wait_for(turn)
            _write_out(out, write)

    def end(self, turn: int) -> None:
        """Wait until the jobs before number `turn` have ended, then end this job, so that the next one can write.
        Raises _Abandoned if `fail` was called."""
        with self._changed:
            self._wait_for(turn)
            self._turn += 1
            self._changed.notify_all()

    def _wait_for(self, turn: int) -> None:
        self._changed.wait_for(lambda: self._failed or self._turn == turn)
        if self._failed:
            raise _Abandoned

    def fail(self) -> None:
        """Stop all writing: once this returns, no job writes text any more."""
        with self._changed:
            self._failed = True
            self._changed.notify_all()


def render_in_order(
    parts: Iterable[Part], render: Render[Part, Result], write: Write, *, threads: int | None = None
) -> Iterator[Result]:
    """Call render(part, out, flush) for each part, write the text in `out` and yield the results, all in order.

    render calls flush() now and then, which writes and clears `out` once its text is large. threads: None for as many
    as there are processors, 4 at most; with 1, a part is rendered only when its result is requested. Raises what render
    and write raise.
    """
    threads = thread_count() if threads is None else threads
    if threads == 1:
        yield from _one_by_one(parts, render, write)
        return
    turns = _Turns()
    free: list[TextBuffer] = []

    def job(numbered: tuple[int, Part]) -> Result:
        turn, part = numbered
        out = free.pop() if free else TextBuffer()

        def flush(least: int = FLUSH_BYTES) -> None:
            if out.size >= least:
                turns.write(turn, out, write)

        try:
            result = render(part, out, flush)
            flush(1)
            turns.end(turn)
        except BaseException:
            turns.fail()
            raise
        free.append(out)
        return result

    try:
        yield from in_order(job, enumerate(parts), threads)
    except KeyboardInterrupt:  # kcli ends at once: it waits for no job, not even for a blocked write
        raise
    except BaseException:
        turns.fail()
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
