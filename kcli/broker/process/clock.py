"""The clock from which all of the broker reads the current time: the system's clock, or in a test a clock that the
test sets."""

from __future__ import annotations

import time


class Clock:
    """The system's clock."""

    def now_ms(self) -> int:
        """The current time in ms since 1970."""
        return time.time_ns() // 1_000_000
