"""Replication quotas: how fast replicas that are being moved may be sent and fetched.

    leader.replication.throttled.rate, follower.replication.throttled.rate         a broker's: bytes a second
    leader.replication.throttled.replicas, follower.replication.throttled.replicas a topic's: partition:broker, ... or *

A replica that is named counts against the rate; above it, it gets nothing, unless it is in sync: nobody is to fall out
of the ISR for a quota. The rate is that over the last windows (replication.quota.window.num of
replication.quota.window.size.seconds). Source: ReplicationQuotaManager; KIP-73.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kcli.broker.quotas import Rate
from kcli.java_values import java_integer

if TYPE_CHECKING:
    from kcli.broker.logs.partitions import Partition

UNLIMITED: Final = 2**63 - 1
ALL: Final = "*"


class ReplicationThrottle:
    """One of the two sides. replicas(topic): what the topic's configuration names."""

    def __init__(
        self,
        node_id: int,
        rate: Callable[[], int],
        replicas: Callable[[str], str],
        now_ms: Callable[[], int],
        windows: tuple[int, int],
    ) -> None:
        self._node_id = node_id
        self._rate_of = rate
        self._replicas_of = replicas
        self._now_ms = now_ms
        self._rate = Rate(*windows)
        self._topics: dict[str, frozenset[int] | None] = {}
        self._limit = rate()

    @property
    def is_active(self) -> bool:
        """Is there a limit at all?"""
        return self._limit != UNLIMITED

    def reconfigured(self) -> None:
        """A configuration has changed."""
        self._limit = self._rate_of()
        self._topics.clear()

    def names(self, partition: Partition) -> bool:
        """Does this broker's replica count?"""
        if partition.topic not in self._topics:
            self._topics[partition.topic] = named(self._replicas_of(partition.topic), self._node_id)
        numbers = self._topics[partition.topic]
        return numbers is None or partition.number in numbers

    def holds(self, partition: Partition) -> bool:
        """Is it to wait?"""
        return self.is_active and self.names(partition) and self._rate.throttle_ms(self._limit, self._now_ms()) > 0

    def sent(self, partition: Partition, size: int) -> None:
        """Bytes went one way or the other."""
        if size and self.is_active and self.names(partition):
            self._rate.add(size, self._now_ms())


def named(replicas: str, node_id: int) -> frozenset[int] | None:
    """The partitions whose replica on that broker is named; None: all."""
    if replicas.strip() == ALL:
        return None
    pairs = (each.strip().partition(":") for each in replicas.split(",") if each.strip())
    numbers = (java_integer(number) for number, _, broker in pairs if broker == str(node_id))
    return frozenset(number for number in numbers if number is not None)
