"""The time, as the broker asks for it: real, or one that a test moves."""

from __future__ import annotations

import time


class Clock:
    """The system's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000
