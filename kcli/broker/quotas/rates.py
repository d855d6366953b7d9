"""A rate over windows of time, and a token bucket. Source: Rate, TokenBucket, QuotaUtils."""

from __future__ import annotations

from collections import deque


class Rate:
    """The average of values per second: the sum of the values in the last `windows` windows of window_ms each (the
    current window included), divided by the time of these windows. A window begins with the first value after the end
    of the window before it."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        # for each window, the oldest first: [start in ms, sum of the values]
        self._samples: deque[list[float]] = deque()

    def add(self, value: float, now_ms: int) -> None:
        """Add a value to the sum of the current window."""
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0.0])
            if len(self._samples) > self._windows:
                self._samples.popleft()
        self._samples[-1][1] += value

    def window_ms(self, now_ms: int) -> float:
        """Return the duration, in ms, by which the sum is divided to get the rate: the time since the oldest window
        began, but at least the duration of all windows but one."""
        while self._samples and now_ms - self._samples[0][0] >= self._windows * self._window_ms:
            self._samples.popleft()
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        full, least = elapsed // self._window_ms, self._windows - 1
        return elapsed + max(0, least - full) * self._window_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return the time, in ms, after which the rate has fallen to `bound` if no further values are added; 0 if the
        rate is not above `bound`. bound: the permitted rate, per second; if it is 0, the time of all windows is
        returned."""
        window_ms = self.window_ms(now_ms) or self._window_ms
        rate = sum(value for _, value in self._samples) / (window_ms / 1000)
        if rate <= bound:
            return 0
        return round((rate - bound) / bound * window_ms) if bound > 0 else self._windows * self._window_ms


class TokenBucket:
    """A token bucket. `bound`, a parameter of its methods, is the number of tokens added each second; the bucket holds
    at most the tokens that are added in burst_s seconds, and is full at first. `take` may make the number of tokens
    negative."""

    def __init__(self, burst_s: float, now_ms: int, bound: float) -> None:
        self._burst_s = burst_s
        self._tokens = burst_s * bound
        self._updated_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return the time, in ms, until the number of tokens, which grows by `bound` each second, is no longer
        negative; 0 if it is not negative now."""
        self._refill(bound, now_ms)
        return round(-self._tokens / bound * 1000) if self._tokens < 0 else 0

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Take `count` tokens out of the bucket, even if it has fewer."""
        self._refill(bound, now_ms)
        self._tokens = min(self._burst_s * bound, self._tokens - count)

    def _refill(self, bound: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * bound, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
