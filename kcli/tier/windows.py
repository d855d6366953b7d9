"""An object's bytes as a Source, fetched in windows.

The first window is small, as many objects are small, and reading a header needs no more. While bytes are read in order,
each window is twice as large as the one before it, and the next is fetched meanwhile: at most two windows are in
memory, whatever the size of the object. The last bytes of the window before them are kept, too: a reader that follows
an index reads some bytes from each entry's position on, and then goes back to the position of the next entry.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

FIRST_BYTES = 256 << 10
"""The first window; a read that passes over fewer bytes than this is still one in order."""
WINDOW_BYTES_MAX = 4 << 20
TAIL_BYTES = 128 << 10
"""How much of the window before is kept."""

Fetch = Callable[[int, int], "Future[memoryview]"]
"""Begins to fetch the bytes [start, stop) of an object. The result is exactly these bytes, or an error."""


class _Window(NamedTuple):
    start: int
    stop: int
    bytes: Future[memoryview]


class WindowedSource:
    """An object of `size` bytes. first: its first bytes, if they are known. fetch: begins to fetch a window of the
    object. take: waits for the bytes of such a fetch, and returns them; raises UnreadableInput."""

    def __init__(
        self,
        name: str,
        size: int,
        first: memoryview,
        fetch: Fetch,
        take: Callable[[Future[memoryview]], memoryview],
    ) -> None:
        self.name = name
        self._size = size
        self._fetch = fetch
        self._take = take
        self._start, self._data = 0, first
        self._tail = b""
        self._next: _Window | None = None

    def size(self) -> int:
        return self._size

    def read_at(self, position: int, buffer: memoryview) -> int:
        buffer = buffer[: max(0, self._size - position)]
        done = 0
        while done < len(buffer):
            part = self._from(position + done)[: len(buffer) - done]
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    def close(self) -> None:
        if self._next is not None:
            self._next.bytes.cancel()
            self._next = None
        self._data, self._tail = memoryview(b""), b""

    def _from(self, position: int) -> memoryview:
        """Return the bytes in memory from this position on, at least one; fetch a window if there are none."""
        stop = self._start + len(self._data)
        if self._start - len(self._tail) <= position < self._start:
            return memoryview(self._tail)[position - self._start :]
        if not self._start <= position < stop:
            self._move(position, is_in_order=0 <= position - stop < FIRST_BYTES)
        return self._data[position - self._start :]

    def _move(self, position: int, *, is_in_order: bool) -> None:
        """Replace the window by one that has this position. is_in_order: whether the bytes are read in order."""
        ahead, self._next = self._next, None
        if ahead is None or not ahead.start <= position < ahead.stop:
            if ahead is not None:
                ahead.bytes.cancel()
            length = self._larger() if is_in_order else FIRST_BYTES
            ahead = self._begin(position, length)
        is_next = ahead.start == self._start + len(self._data)
        self._tail = bytes(self._data[-TAIL_BYTES:]) if is_next else b""
        self._data = memoryview(b"")  # frees the present window before the next one is there
        self._data = self._take(ahead.bytes)
        self._start = ahead.start
        if is_in_order and ahead.stop < self._size:
            self._next = self._begin(ahead.stop, self._larger())

    def _larger(self) -> int:
        return min(WINDOW_BYTES_MAX, max(FIRST_BYTES, 2 * len(self._data)))

    def _begin(self, start: int, length: int) -> _Window:
        stop = min(self._size, start + length)
        return _Window(start, stop, self._fetch(start, stop))
