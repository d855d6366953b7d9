"""The partition of a record to produce.

    murmur2      murmur2(key) & 0x7fffffff modulo partitions, as Java's producer has it: equal keys share a partition;
                 a record with a null key (an empty key is a key) is partitioned as by sticky
    sticky       one partition until it has received batch.size bytes, then a random other (KIP-480, KIP-794)
    round-robin  the partitions in turn, a record each

Kafka: BuiltInPartitioner, RoundRobinPartitioner.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import StrEnum

from confluent_kafka import murmur2

STICKY_BYTES = 16_384  # batch.size of Java's producer


class Partitioning(StrEnum):
    """The algorithm that chooses a partition for a record whose input gives none."""

    MURMUR2 = "murmur2"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"


class Partitioner:
    """Chooses a partition for each record, out of `count` partitions. pick(n): returns a random number below n."""

    def __init__(
        self,
        kind: Partitioning,
        count: int,
        *,
        sticky_bytes: int = STICKY_BYTES,
        pick: Callable[[int], int] = random.randrange,
    ) -> None:
        assert count > 0, count
        self._kind = kind
        self._count = count
        self._sticky_bytes = sticky_bytes
        self._pick = pick
        self._next = pick(count)
        self._sent = 0

    def partition(self, key: bytes | None, size: int) -> int:
        """Return the partition of the next record, which has that key (None for null) and `size` bytes."""
        if self._kind is Partitioning.MURMUR2 and key is not None:
            return murmur2(key, self._count)
        if self._kind is Partitioning.ROUND_ROBIN:
            chosen = self._next
            self._next = (chosen + 1) % self._count
            return chosen
        return self._stick(size)

    def _stick(self, size: int) -> int:
        if self._sent >= self._sticky_bytes and self._count > 1:
            self._sent = 0
            self._next = (self._next + 1 + self._pick(self._count - 1)) % self._count
        self._sent += size
        return self._next
