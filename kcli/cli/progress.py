"""Progress on stderr, where that is a terminal: bytes of logs read, of how many, and the rate."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kcli.log.source import Source


def size_text(size: float) -> str:
    """Bytes as people say them: 12.3 MB."""
    if size < 1000:
        return f"{size:,.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:,.1f} TB"


class StatusLine:
    """A line on stderr that is drawn over and over, where that is a terminal; else nothing."""

    def __init__(self) -> None:
        self.is_shown = os.isatty(2)
        self._drawn = False

    def draw(self, text: str) -> None:
        """Show this in place of what was there."""
        if self.is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._drawn = True

    def clear(self) -> None:
        """Take the line away, so that others can be written."""
        if self._drawn:
            self.draw("")
            self._drawn = False


def bar(share: float) -> str:
    """How much of all is done, from 0 to 1, as a bar."""
    filled = int(20 * min(1.0, share))
    return f"[{'#' * filled}{'.' * (20 - filled)}]"


class Progress(StatusLine):
    """Bytes read, of how many. `total()` gives those there are; it is only asked where there is a terminal."""

    INTERVAL_S = 0.1

    def __init__(self, total: Callable[[], int]) -> None:
        super().__init__()
        self._total = total() if self.is_shown else 0
        self._done = 0
        self._began = self._last = time.monotonic()

    def advance(self, size: int) -> None:
        """So many more bytes have been read."""
        self._done += size
        now = time.monotonic()
        if not self.is_shown or now - self._last < self.INTERVAL_S:
            return
        self._last = now
        rate = size_text(self._done / (now - self._began))
        done = bar(self._done / max(1, self._total))
        self.draw(f"{done} {size_text(self._done)} of {size_text(self._total)}, {rate}/s")


class Watched:
    """A source that shows how far it has been read, where that is worth it: a large one, and output that goes elsewhere
    than to the terminal. A context manager that takes the line away and closes the source."""

    LEAST_BYTES = 64 << 20

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._progress: Progress | None = None
        self._seen = 0
        if os.isatty(2) and not os.isatty(1):
            from kcli.log.source import FileSource

            if isinstance(source, FileSource) and source.size() >= self.LEAST_BYTES:
                self._progress = Progress(source.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """Bytes there are in all."""
        return self._source.size()

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` from `position` on."""
        got = self._source.read_at(position, buffer)
        if self._progress is not None and position + got > self._seen:
            self._progress.advance(position + got - self._seen)
            self._seen = position + got
        return got

    def close(self) -> None:
        """Take the line away and close the source."""
        if self._progress is not None:
            self._progress.clear()
        self._source.close()
