"""What a partition needs of the broker around it to lead others: the time, who is alive, a way to the controller.

Alone         nobody else is there: nothing is asked of anybody
ReplicaHost   the rest, see manager.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kcli.broker.logs.partitions import Partition
    from kcli.broker.replication.leadership import IsrChange

LAG_MAX_MS = 30_000
NO_EPOCH = -1


class ReplicaHost(Protocol):
    """See above."""

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration."""
        ...

    def now_ms(self) -> int:
        """The time."""
        ...

    def lag_max_ms(self) -> int:
        """replica.lag.time.max.ms."""
        ...

    def eligible(self, broker_id: int, epoch: int | None) -> bool:
        """May that broker, which last fetched under that epoch, be in sync?"""
        ...

    def is_alive(self, broker_id: int) -> bool:
        """Is that broker registered, and not fenced?"""
        ...

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Ask the controller for a change of the in-sync replicas."""
        ...

    def nudge(self, partition: Partition) -> None:
        """The followers of a partition are to ask again at once: this broker leads it in a new epoch, or they are to
        know something."""
        ...

    def opened(self, partition: Partition) -> None:
        """Its log is there."""
        ...

    def went(self, partition: Partition) -> None:
        """It is deleted, or its log directory is offline."""
        ...


class Alone:
    """See above."""

    broker_epoch = NO_EPOCH

    def now_ms(self) -> int:
        """No time passes."""
        return 0

    def lag_max_ms(self) -> int:
        """Kafka's default."""
        return LAG_MAX_MS

    def eligible(self, broker_id: int, epoch: int | None) -> bool:  # noqa: ARG002  (the protocol's)
        """Nobody is."""
        return False

    def is_alive(self, broker_id: int) -> bool:  # noqa: ARG002  (the protocol's)
        """Nobody is."""
        return False

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """There is no controller."""

    def nudge(self, partition: Partition) -> None:
        """There are no followers."""

    def opened(self, partition: Partition) -> None:
        """Nobody is followed."""

    def went(self, partition: Partition) -> None:
        """Nobody was followed."""


ALONE = Alone()
