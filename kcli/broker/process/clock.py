"""The current time for all of the broker: that of the system's clock, which tests replace by a clock that they set."""

from __future__ import annotations

import time


class Clock:
    """The system's clock."""

    def now_ms(self) -> int:
        """The current time in ms since 1970."""
        return time.time_ns() // 1_000_000
