"""The callback that a cleaning reports its progress to."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int], None]
"""Called with the number of log bytes read since the last call. A cleaning reads the dirty part of a log twice."""


def silent(_size: int) -> None:
    """Do nothing: a Progress for callers that do not show it."""
