"""Limits on the number of connections, and on the rate of new connections.

    max.connections                 connections of all client listeners together, and of all controller listeners
                                    together; with a listener's prefix, of that listener
    max.connection.creation.rate    new connections a second of the same groups of listeners; with a listener's prefix,
                                    of that listener: an average over quota.window.num windows
    max.connections.per.ip          connections of one address, with max.connections.per.ip.overrides
    connection_creation_rate        new connections a second of one address: a client quota

A new connection beyond one of the first two limits waits, and so do later connections to the same listener. If the
broker has several client listeners, the inter-broker listener is bound only by the limits with its own prefix: beyond
the total of max.connections, its new connection replaces the connection that was idle for the longest time. A
connection beyond max.connections.per.ip is closed at once; a connection beyond connection_creation_rate is closed after
the throttle time, which is one window at most.

This module does no I/O and reads no clock. Source: ConnectionQuotas of SocketServer; KIP-402, KIP-612.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from kcli.broker.quotas.rates import Rate
from kcli.java.addresses import host_address
from kcli.log.config import INT_MAX

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.metadata.changes import QuotaEntity

CREATION_RATE: Final = "connection_creation_rate"
_ADDRESSES_MAX: Final = 10_000
"""The greatest number of addresses whose creation rates are known. When there are more, the rates of all are dropped
and counted anew."""


class ConnectionLimits:
    """Counts the connections of one node. A host is an address, as Java writes it."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        brokers = {each.listener for each in config.listeners} - set(config.controller_listener_names)
        self._protected = config.inter_broker_listener if len(brokers) > 1 else ""
        # True for the controller listeners together, False for the client listeners -> number of connections
        self._totals: Counter[bool] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._per_host: Counter[str] = Counter()
        # a listener, or True or False as in _totals -> the rate of new connections
        self._rates: dict[str | bool, Rate] = {}
        self._host_rates: dict[str, Rate] = {}
        self._quotas: dict[str, float] = {}
        self._default_quota: float = INT_MAX
        self._overrides_text: str | None = None
        self._overrides: dict[str, int] = {}
        self._addresses: dict[str, list[str]] = {}

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Set the quotas of IP addresses. quotas: all quotas of the metadata image, entity -> quota name -> value."""
        self._quotas, self._default_quota = {}, INT_MAX
        for entity, values in quotas.items():
            names = dict(entity)
            if "ip" not in names or CREATION_RATE not in values:
                continue
            name = names["ip"]
            if name is None:
                self._default_quota = values[CREATION_RATE]
            else:
                self._quotas[name] = values[CREATION_RATE]
        self._overrides_text = None

    def unresolved(self) -> set[str]:
        """Return the host names for which there is a limit, and whose addresses are not known yet."""
        named = self._quotas.keys() | self._config.max_connections_per_ip_overrides.keys()
        return {name for name in named if name not in self._addresses and not _is_address(name)}

    def resolved(self, name: str, addresses: Iterable[str]) -> None:
        """Set the addresses of a host name that `unresolved` has returned."""
        self._addresses[name] = list(addresses)
        self._overrides_text = None

    # new connections

    def wait_ms(self, listener: str, now_ms: int) -> int:
        """Count a new connection in the creation rate of its listener, and in the common rate of all client listeners
        or of all controller listeners (not for the inter-broker listener, if there are other client listeners). Return
        the time, in ms, that the connection has to wait; 0 if it need not wait."""
        limits: list[tuple[str | bool, int]] = [(listener, self._config.creation_rate_of(listener))]
        if listener != self._protected:
            limits.append((self._is_controllers(listener), self._config.number("max.connection.creation.rate")))
        waits = [
            self._throttle_ms(self._rates.setdefault(key, self._new_rate()), bound, now_ms)
            for key, bound in limits
            if bound < INT_MAX
        ]
        return max(waits, default=0)

    def has_room(self, listener: str) -> bool:
        """Whether the listener may have one more connection."""
        if self._per_listener[listener] >= self._config.max_connections_of(listener):
            return False
        return listener == self._protected or (
            self._totals[self._is_controllers(listener)] < self._config.max_connections
        )

    def refusal_ms(self, host: str, now_ms: int) -> int:
        """If the rate of new connections from the address stays within its quota, count a new connection, and return 0.
        Otherwise do not count the connection, and return the time, in ms, after which it is to be closed."""
        bound = self._host_value(host, self._quotas, self._default_quota)
        if bound >= INT_MAX:
            return 0
        if host not in self._host_rates and len(self._host_rates) >= _ADDRESSES_MAX:
            self._host_rates.clear()
        rate = self._host_rates.setdefault(host, self._new_rate())
        throttle_ms = self._throttle_ms(rate, bound, now_ms)
        if throttle_ms:
            rate.add(-1, now_ms)
        return throttle_ms

    def may_have(self, host: str) -> bool:
        """Whether the address may have one more connection."""
        text = self._config.text("max.connections.per.ip.overrides")
        if text != self._overrides_text:
            self._overrides_text, self._overrides = text, self._config.max_connections_per_ip_overrides
        return self._per_host[host] < self._host_value(host, self._overrides, self._config.max_connections_per_ip)

    def add(self, listener: str, host: str) -> bool:
        """Count a connection. Return whether another connection, to another listener, has to be closed for it."""
        self._totals[self._is_controllers(listener)] += 1
        self._per_listener[listener] += 1
        self._per_host[host] += 1
        return listener == self._protected and self._totals[False] > self._config.max_connections

    def remove(self, listener: str, host: str) -> None:
        """Subtract a closed connection from the counts."""
        self._totals[self._is_controllers(listener)] -= 1
        self._per_listener[listener] -= 1
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _is_controllers(self, listener: str) -> bool:
        return listener in self._config.controller_listener_names

    def _new_rate(self) -> Rate:
        return Rate(self._config.quota_window_num, self._window_ms)

    @property
    def _window_ms(self) -> int:
        return self._config.quota_window_size_seconds * 1000

    def _throttle_ms(self, rate: Rate, bound: float, now_ms: int) -> int:
        rate.add(1, now_ms)
        return min(rate.throttle_ms(bound, now_ms), self._window_ms)

    def _host_value(self, host: str, values: Mapping[str, float], default: float) -> float:
        """Return the value in `values` for an address, under the address itself or under a host name that has it;
        `default` if there is none."""
        if not values:
            return default
        if host in values:
            return values[host]
        for name, value in values.items():
            if host in self._addresses.get(name, ()) or (_is_address(name) and host_address(name) == host):
                return value
        return default


def _is_address(name: str) -> bool:
    from ipaddress import ip_address

    try:
        ip_address(name)
    except ValueError:
        return False
    return True
