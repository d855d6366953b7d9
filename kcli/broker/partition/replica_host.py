"""What a partition needs of its broker in order to lead followers: the time, the live brokers, the controller.

ReplicaHost   the protocol; its implementation is ReplicaManager in kcli/broker/replication/manager.py
Alone         the implementation on a broker that is the only node of its cluster: no followers, no requests
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.broker.partition.leadership import IsrChange
    from kcli.broker.partition.partitions import Partition

LAG_MAX_MS = 30_000
NO_EPOCH = -1


class ReplicaHost(Protocol):
    """What a partition needs of its broker, while it leads or before that."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 where it has none."""
        ...

    def now_ms(self) -> int:
        """The time, ms since 1970."""
        ...

    def lag_max_ms(self) -> int:
        """The value of replica.lag.time.max.ms."""
        ...

    def eligible(self, broker_id: int, epoch: int | None) -> bool:
        """Whether that broker may join the ISR. epoch: the broker epoch of its last Fetch, None before the first."""
        ...

    def is_alive(self, broker_id: int) -> bool:
        """Whether that broker is registered, and not fenced."""
        ...

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Send a change of the ISR to the controller."""
        ...

    def nudge(self, partition: Partition) -> None:
        """Answer the waiting Fetches of the partition's followers, so that they fetch again at once: this broker leads
        it in a new epoch, or its log start offset has moved."""
        ...

    def opened(self, partition: Partition) -> None:
        """Follow the partition's leader, where that is another broker: the partition's log was opened or created."""
        ...

    def closed(self, partition: Partition) -> None:
        """Stop following the partition's leader: the partition was deleted, or its log directory has failed."""
        ...


class Alone:
    """The host of partitions on a broker that is the only node of its cluster: there are no followers."""

    broker_epoch = NO_EPOCH

    def now_ms(self) -> int:
        """Always 0: without followers the time is not used."""
        return 0

    def lag_max_ms(self) -> int:
        """Kafka's default, ms."""
        return LAG_MAX_MS

    def eligible(self, broker_id: int, epoch: int | None) -> bool:  # noqa: ARG002  (the protocol's)
        """Always False: there is no other broker."""
        return False

    def is_alive(self, broker_id: int) -> bool:  # noqa: ARG002  (the protocol's)
        """Always False: there is no other broker."""
        return False

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Do nothing: without followers the ISR does not change."""

    def nudge(self, partition: Partition) -> None:
        """Do nothing: there are no followers."""

    def opened(self, partition: Partition) -> None:
        """Do nothing: this broker follows no leader."""

    def closed(self, partition: Partition) -> None:
        """Do nothing: this broker follows no leader."""


ALONE = Alone()
