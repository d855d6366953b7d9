"""Replication quotas: limits of the rate at which a leader sends, and a follower fetches, the records of throttled
replicas, usually those under reassignment.

    leader.replication.throttled.rate, follower.replication.throttled.rate          per broker: bytes a second
    leader.replication.throttled.replicas, follower.replication.throttled.replicas  per topic: partition:broker,... or *

The records of a throttled replica count against the rate. While the rate is exceeded, a throttled replica gets no
records unless it is in the ISR, so that a quota never removes a replica from the ISR. The rate is the average over
replication.quota.window.num windows of replication.quota.window.size.seconds. Source: ReplicationQuotaManager; KIP-73.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kcli.broker.quotas.rates import Rate
from kcli.java.values import java_integer

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition

UNLIMITED: Final = 2**63 - 1
ALL: Final = "*"


class ReplicationThrottle:
    """The replication quota for sending, on the leader's side, or for fetching, on the follower's side.

    rate(): returns the rate in bytes a second, UNLIMITED if none is configured. replicas(topic): returns the topic's
    configuration *.replication.throttled.replicas. windows: the number of windows, and the length of each in ms.
    """

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
        """Whether a rate is configured."""
        return self._limit != UNLIMITED

    def reconfigured(self) -> None:
        """Read the rate and the topics' configurations again."""
        self._limit = self._rate_of()
        self._topics.clear()

    def names(self, partition: Partition) -> bool:
        """Whether the configuration of the topic names this broker's replica of the partition as throttled."""
        if partition.topic not in self._topics:
            self._topics[partition.topic] = named(self._replicas_of(partition.topic), self._node_id)
        numbers = self._topics[partition.topic]
        return numbers is None or partition.number in numbers

    def holds(self, partition: Partition) -> bool:
        """Whether the partition's replica is throttled and the rate is exceeded now."""
        return self.is_active and self.names(partition) and self._rate.throttle_ms(self._limit, self._now_ms()) > 0

    def sent(self, partition: Partition, size: int) -> None:
        """Count `size` bytes of records that were sent or received, if the partition's replica is throttled."""
        if size and self.is_active and self.names(partition):
            self._rate.add(size, self._now_ms())


def named(replicas: str, node_id: int) -> frozenset[int] | None:
    """Return the numbers of the partitions whose replicas on broker `node_id` are throttled; None for all partitions.

    replicas: the value of *.replication.throttled.replicas.
    """
    if replicas.strip() == ALL:
        return None
    pairs = (each.strip().partition(":") for each in replicas.split(",") if each.strip())
    numbers = (java_integer(number) for number, _, broker in pairs if broker == str(node_id))
    return frozenset(number for number in numbers if number is not None)
