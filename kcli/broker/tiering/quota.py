"""The quotas of tiered storage: bytes per second that are copied to it, or read from it for Fetches.

A read or a copy may begin while the rate is not above the limit; all its bytes are counted. Source: RLMQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcli.broker.quotas.rates import Rate

if TYPE_CHECKING:
    from kcli.broker.tiering.config import TierQuota


class TierRate:
    """The rate of copies to the tier, or of reads from it. quota: returns the present limit. now_ms: returns the time
    in ms."""

    def __init__(self, quota: Callable[[], TierQuota], now_ms: Callable[[], int]) -> None:
        self._quota, self._now_ms = quota, now_ms
        self._rate = Rate(quota().window_num, quota().window_s * 1000)

    def throttle_ms(self) -> int:
        """Return the time, in ms, until the next copy or read may begin; 0 if the rate is not above the limit."""
        return self._rate.throttle_ms(self._quota().bytes_per_s, self._now_ms())

    def record(self, size: int) -> None:
        """Count `size` bytes that are copied or were read."""
        self._rate.add(size, self._now_ms())
