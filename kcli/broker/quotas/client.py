"""Client quotas. A client that exceeds a quota is throttled.

    producer_byte_rate, consumer_byte_rate   bytes a second
    request_percentage                       percent of one thread's time; throttles for one window at most
    controller_mutation_rate                 partitions created and deleted a second: a token bucket

A client's quota is that of the first entity, in the order of Quotas._find, for which a quota is set: the most specific
entity comes first. The usage of each client is counted separately. A rate is the average over quota.window.num windows
of quota.window.size.seconds; a client above its quota is throttled until the rate, without further use, is at the quota
again. A client's user is the name of its principal, of whatever type; ANONYMOUS if the client is not authenticated.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager, QuotaUtils, Rate, TokenBucket;
KIP-13, KIP-124, KIP-599.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kcli.broker.quotas.rates import Rate, TokenBucket
from kcli.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from kcli.broker.wire.call import Call
    from kcli.metadata.changes import QuotaEntity

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
NS_TO_PERCENTAGE = 100 / 1e9
MANY_COUNTERS = 10_000

_Key = tuple[str, str, str]


class Quotas:
    """The quotas in the metadata image, and the usage of each client.

    windows, window_s: quota.window.num and quota.window.size.seconds. mutation_windows, mutation_window_s:
    controller.quota.window.num and controller.quota.window.size.seconds.
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
        """Apply the quotas of the metadata image. quotas: entity -> quota name -> value."""
        self._quotas = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if "ip" not in names and values:
                key = names.get("user"), names.get("client-id"), "user" in names, "client-id" in names
                self._quotas[key] = values
        self.is_active = bool(self._quotas)

    def produce_throttle_ms(self, call: Call) -> int:
        """Count the bytes of a Produce request. Return the client's throttle time, in ms; 0 if the client has no quota
        or is below it."""
        return self._throttle_ms(PRODUCER_BYTE_RATE, call, call.size_bytes)

    def fetch_throttle_ms(self, call: Call, size: int) -> int:
        """Count the bytes of a response to a Fetch. Return the client's throttle time, in ms; 0 if the client has no
        quota or is below it."""
        return self._throttle_ms(CONSUMER_BYTE_RATE, call, size)

    def request_throttle_ms(self, call: Call, elapsed_ns: int) -> int:
        """Count the time that a request has taken. Return the client's throttle time, in ms; 0 if the client has no
        quota or is below it."""
        throttle_ms = self._throttle_ms(REQUEST_PERCENTAGE, call, elapsed_ns * NS_TO_PERCENTAGE)
        return min(throttle_ms, self._window_ms)

    def mutation_throttle_ms(self, call: Call, partitions: int, *, is_strict: bool) -> int:
        """Count partitions that are created or deleted. Return the client's throttle time, in ms; 0 if the client has
        no quota or is below it. is_strict: whether the caller refuses the partitions with THROTTLING_QUOTA_EXCEEDED if
        the throttle time is not 0; such partitions are not counted."""
        found = self._find(CONTROLLER_MUTATION_RATE, call)
        if found is None:
            return 0
        bound, key = found
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MANY_COUNTERS:
                self._buckets.clear()  # a client that keeps changing its client id must not fill the memory
            bucket = self._buckets[key] = TokenBucket(self._burst_s, call.now_ms, bound)
        throttle_ms = bucket.throttle_ms(bound, call.now_ms)
        if throttle_ms and is_strict:
            return throttle_ms
        bucket.take(partitions, bound, call.now_ms)
        return 0 if is_strict else bucket.throttle_ms(bound, call.now_ms)

    def _throttle_ms(self, name: str, call: Call, value: float) -> int:
        found = self._find(name, call)
        if found is None:
            return 0
        bound, key = found
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= MANY_COUNTERS:
                self._rates.clear()  # a client that keeps changing its client id must not fill the memory
            rate = self._rates[key] = Rate(self._windows, self._window_ms)
        rate.add(value, call.now_ms)
        return rate.throttle_ms(bound, call.now_ms)

    def _find(self, name: str, call: Call) -> tuple[float, _Key] | None:
        """Return the client's quota `name`, and the key under which the client's usage is counted; None if no quota
        applies to the client."""
        client_id, user = call.client_id, (call.principal or ANONYMOUS).partition(":")[2]
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
