"""Progress on stderr, if stderr is a terminal: bytes read, bytes in all, and the rate."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kcli.log.source import Source


def size_text(size: float) -> str:
    """Return a number of bytes as text with a decimal unit: 12.3 MB."""
    if size < 1000:
        return f"{size:,.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:,.1f} TB"


class StatusLine:
    """A line on stderr that is redrawn in place; nothing is drawn if stderr is not a terminal."""

    def __init__(self) -> None:
        self.is_shown = os.isatty(2)
        self._drawn = False

    def draw(self, text: str) -> None:
        """Replace the line with this text."""
        if self.is_shown:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._drawn = True

    def clear(self) -> None:
        """Remove the line, so that other lines can be written."""
        if self._drawn:
            self.draw("")
            self._drawn = False


def bar(share: float) -> str:
    """Return a bar of 20 characters for a share from 0 to 1."""
    filled = int(20 * min(1.0, share))
    return f"[{'#' * filled}{'.' * (20 - filled)}]"


class Progress(StatusLine):
    """A progress line of bytes read. total: returns the number of bytes that are to be read in all; called only if
    stderr is a terminal."""

    INTERVAL_S = 0.1

    def __init__(self, total: Callable[[], int]) -> None:
        super().__init__()
        self._total = total() if self.is_shown else 0
        self._done = 0
        self._began = self._last = time.monotonic()

    def advance(self, size: int) -> None:
        """Add `size` to the number of bytes read. Redraw the line if INTERVAL_S seconds have passed since it was
        drawn."""
        self._done += size
        now = time.monotonic()
        if not self.is_shown or now - self._last < self.INTERVAL_S:
            return
        self._last = now
        rate = size_text(self._done / (now - self._began))
        drawn_bar = bar(self._done / max(1, self._total))
        self.draw(f"{drawn_bar} {size_text(self._done)} of {size_text(self._total)}, {rate}/s")


class Watched:
    """A source that shows a progress line while it is read, if the source is a file or an object of at least
    LEAST_BYTES, stderr is a terminal and stdout is not. It is also a context manager, which removes the line and closes
    the source at the end."""

    LEAST_BYTES = 64 << 20

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._progress: Progress | None = None
        self._read_end = 0
        if os.isatty(2) and not os.isatty(1):
            from kcli.log.source import PipeSource

            if not isinstance(source, PipeSource) and source.size() >= self.LEAST_BYTES:
                self._progress = Progress(source.size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def size(self) -> int:
        """The size of the source in bytes."""
        return self._source.size()

    def read_at(self, position: int, buffer: memoryview) -> int:
        """Read bytes of the source from `position` on into `buffer`. Return the number of bytes read."""
        length = self._source.read_at(position, buffer)
        if self._progress is not None and position + length > self._read_end:
            self._progress.advance(position + length - self._read_end)
            self._read_end = position + length
        return length

    def close(self) -> None:
        """Remove the line and close the source."""
        if self._progress is not None:
            self._progress.clear()
        self._source.close()
