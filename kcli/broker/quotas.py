"""Client quotas: who sends, fetches or asks for more than allowed is answered late.

    producer_byte_rate, consumer_byte_rate   bytes a second
    request_percentage                       of one thread's time; throttles for a window at most
    controller_mutation_rate                 partitions created and deleted a second: a token bucket

The quota is that of the first entity in ORDER for which one is set; each client it covers is counted by itself. A rate
is that over the last windows (quota.window.num of quota.window.size.seconds); above it the client is told to wait
until the rate, had it sent nothing more, is down at the quota. Clients are not authenticated: their user is ANONYMOUS.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, QuotaUtils, Rate, TokenBucket;
KIP-13, KIP-124, KIP-599.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.network.messages import Call
    from kcli.metadata.changes import QuotaEntity

ANONYMOUS = "ANONYMOUS"
PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
NS_TO_PERCENTAGE = 100 / 1e9
MANY_COUNTERS = 10_000

_Key = tuple[str, str, str]


class Rate:
    """A sum per second over the last `windows` windows of window_ms, the running one included."""

    def __init__(self, windows: int, window_ms: int) -> None:
        self._windows, self._window_ms = windows, window_ms
        self._samples: deque[list[float]] = deque()  # [start in ms, sum]

    def add(self, value: float, now_ms: int) -> None:
        """Count a value."""
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0.0])
            if len(self._samples) > self._windows:
                self._samples.popleft()
        self._samples[-1][1] += value

    def window_ms(self, now_ms: int) -> float:
        """Over how long the rate is taken: never less than all windows but one."""
        while self._samples and now_ms - self._samples[0][0] >= self._windows * self._window_ms:
            self._samples.popleft()
        elapsed = now_ms - self._samples[0][0] if self._samples else 0
        full, least = elapsed // self._window_ms, self._windows - 1
        return elapsed + max(0, least - full) * self._window_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """For how long nothing may be added until the rate is down at `bound`."""
        window_ms = self.window_ms(now_ms) or self._window_ms
        rate = sum(value for _, value in self._samples) / (window_ms / 1000)
        if rate <= bound:
            return 0
        return round((rate - bound) / bound * window_ms) if bound > 0 else self._windows * self._window_ms


class TokenBucket:
    """Tokens come at a rate, up to `burst_s` seconds' worth; what is taken may leave it in debt."""

    def __init__(self, burst_s: float, now_ms: int, bound: float) -> None:
        self._burst_s = burst_s
        self._tokens = burst_s * bound
        self._updated_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """For how long until it is out of debt."""
        self._refill(bound, now_ms)
        return round(-self._tokens / bound * 1000) if self._tokens < 0 else 0

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Take tokens."""
        self._refill(bound, now_ms)
        self._tokens = min(self._burst_s * bound, self._tokens - count)

    def _refill(self, bound: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * bound, self._tokens + bound * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms


class Quotas:
    """The quotas of the image, and what each client has used of them.

    windows, window_s: quota.window.num and .size.seconds; mutation_…: controller.quota.window.num and .size.seconds.
    """

    def __init__(
        self, windows: int = 11, window_s: int = 1, mutation_windows: int = 11, mutation_window_s: int = 1
    ) -> None:
        self._windows, self._window_ms = windows, window_s * 1000
        self._burst_s = mutation_windows * mutation_window_s
        self._quotas: dict[tuple[str | None, str | None, bool, bool], Mapping[str, float]] = {}
        self._rates: dict[_Key, Rate] = {}
        self._buckets: dict[_Key, TokenBucket] = {}
        self.is_active = False

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Take over what the image has: entity -> quota name -> value."""
        self._quotas = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if "ip" not in names and values:
                key = names.get("user"), names.get("client-id"), "user" in names, "client-id" in names
                self._quotas[key] = values
        self.is_active = bool(self._quotas)

    def produce_throttle_ms(self, call: Call, size: int) -> int:
        """Count bytes that a client has sent. Returns for how long it is throttled."""
        return self._throttle_ms(PRODUCER_BYTE_RATE, call, size)

    def fetch_throttle_ms(self, call: Call, size: int) -> int:
        """Count bytes that a client is about to get, unless it is throttled and gets nothing."""
        return self._throttle_ms(CONSUMER_BYTE_RATE, call, size)

    def request_throttle_ms(self, call: Call, elapsed_ns: int) -> int:
        """Count time that a request has taken. Returns for how long the client is throttled."""
        throttle_ms = self._throttle_ms(REQUEST_PERCENTAGE, call, elapsed_ns * NS_TO_PERCENTAGE)
        return min(throttle_ms, self._window_ms)

    def mutation_throttle_ms(self, call: Call, partitions: int, *, is_strict: bool) -> int:
        """Count partitions that are created or deleted. Strict: where it throttles, they are not counted, and are to
        be refused with THROTTLING_QUOTA_EXCEEDED. Returns for how long the client is throttled."""
        found = self._find(CONTROLLER_MUTATION_RATE, ANONYMOUS, call.client_id)
        if found is None:
            return 0
        bound, key = found
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MANY_COUNTERS:
                self._buckets.clear()  # as below
            bucket = self._buckets[key] = TokenBucket(self._burst_s, call.now_ms, bound)
        throttle_ms = bucket.throttle_ms(bound, call.now_ms)
        if throttle_ms and is_strict:
            return throttle_ms
        bucket.take(partitions, bound, call.now_ms)
        return 0 if is_strict else bucket.throttle_ms(bound, call.now_ms)

    def _throttle_ms(self, name: str, call: Call, value: float) -> int:
        found = self._find(name, ANONYMOUS, call.client_id)
        if found is None:
            return 0
        bound, key = found
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= MANY_COUNTERS:
                self._rates.clear()  # a client that takes ever new names must not fill the memory
            rate = self._rates[key] = Rate(self._windows, self._window_ms)
        rate.add(value, call.now_ms)
        return rate.throttle_ms(bound, call.now_ms)

    def _find(self, name: str, user: str, client_id: str) -> tuple[float, _Key] | None:
        """The quota for a client, and under what it is counted."""
        for by_user, by_client, entity in (
            (True, True, (user, client_id, True, True)),
            (True, True, (user, None, True, True)),
            (True, False, (user, None, True, False)),
            (True, True, (None, client_id, True, True)),
            (True, True, (None, None, True, True)),
            (True, False, (None, None, True, False)),
            (False, True, (None, client_id, False, True)),
            (False, True, (None, None, False, True)),
        ):
            bound = self._quotas.get(entity, {}).get(name)
            if bound is not None:
                return bound, (name, user if by_user else "", client_id if by_client else "")
        return None
