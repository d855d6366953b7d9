"""Who is told how far a cleaning is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int], None]
"""Called with the bytes of log that have been read since the last call; a cleaning reads the dirty part twice."""


def silent(_size: int) -> None:
    """Nobody is told."""
