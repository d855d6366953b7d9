"""The functions of the broker that a partition needs in order to lead followers: the time, the live brokers, the
controller.

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
    """The functions of the broker that a partition needs in order to lead followers, or to follow a leader."""

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 if it is not registered."""
        ...

    def now_ms(self) -> int:
        """Return the time in ms since 1970."""
        ...

    def lag_max_ms(self) -> int:
        """The value of replica.lag.time.max.ms."""
        ...

    def eligible(self, broker_id: int, epoch: int | None) -> bool:
        """Whether that broker may join the ISR: it may not before its first Fetch, while it is fenced or in controlled
        shutdown, nor if it has registered again since its last Fetch. epoch: the broker epoch of the last Fetch; None
        before the first one; -1 if the Fetch had no epoch, which is then not compared."""
        ...

    def is_alive(self, broker_id: int) -> bool:
        """Whether that broker is registered, and not fenced."""
        ...

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Send a change of the ISR to the controller."""
        ...

    def nudge(self, partition: Partition) -> None:
        """Send the responses to the waiting Fetches of the partition's followers, so that they fetch again at once,
        because this broker leads the partition in a new epoch, or its log start offset has moved."""
        ...

    def opened(self, partition: Partition) -> None:
        """Follow the partition's leader, if that is another broker, because the partition's log was opened or
        created."""
        ...

    def closed(self, partition: Partition) -> None:
        """Stop following the partition's leader, because the partition was deleted, or its log directory has failed."""
        ...


class Alone:
    """The ReplicaHost of partitions on a broker that is the only node of its cluster, where partitions have no
    followers."""

    broker_epoch = NO_EPOCH

    def now_ms(self) -> int:
        """Return 0, as without followers the time is not used."""
        return 0

    def lag_max_ms(self) -> int:
        """Return Kafka's default of replica.lag.time.max.ms."""
        return LAG_MAX_MS

    def eligible(self, broker_id: int, epoch: int | None) -> bool:  # noqa: ARG002  (the protocol's)
        """Return False, as there is no other broker."""
        return False

    def is_alive(self, broker_id: int) -> bool:  # noqa: ARG002  (the protocol's)
        """Return False, as there is no other broker."""
        return False

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Do nothing, as without followers the ISR does not change."""

    def nudge(self, partition: Partition) -> None:
        """Do nothing, as there are no followers."""

    def opened(self, partition: Partition) -> None:
        """Do nothing, as this broker follows no leader."""

    def closed(self, partition: Partition) -> None:
        """Do nothing, as this broker follows no leader."""


ALONE = Alone()
