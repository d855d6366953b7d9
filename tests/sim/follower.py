"""The other replica of a partition: it copies the leader's records a little later, and acknowledges them later still.
Only then are they committed.

It serves no request. When this broker's leadership ends, in order or not, the other replica leads with the records that
it has, and all later records of this broker are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition
    from tests.sim.node import Cluster, Node

HICCUP_MS = 7_000


class Follower:
    """The other replica of one partition, while this node lives."""

    def __init__(self, cluster: Cluster, node: Node, partition: Partition) -> None:
        self._cluster, self._node, self._partition = cluster, node, partition
        self._is_asking = False
        partition.watch_end(self.moved)

    def moved(self, *_: object) -> None:
        """Copy after a while: the log has grown, or a new epoch has begun."""
        if not self._is_asking:
            self._is_asking = True
            self._cluster.loop.call_later(self._delay_ms() / 1000, self._copy)

    def _delay_ms(self) -> int:
        random = self._cluster.random
        return HICCUP_MS if random.random() < self._cluster.hiccups else random.randrange(1, self._cluster.lag_ms)

    @property
    def _follows(self) -> bool:
        partition = self._partition
        return self._node.is_alive and partition.is_leader and self._cluster.is_in_sync(partition.key)

    def _copy(self) -> None:
        self._is_asking = False
        if self._follows:
            end = self._cluster.copied[self._partition.key] = self._partition.log.log_end_offset
            delay_ms = self._cluster.random.randrange(1, self._cluster.lag_ms)
            self._cluster.loop.call_later(delay_ms / 1000, self._tell, end, self._partition.leader_epoch)

    def _tell(self, end: int, epoch: int) -> None:
        leadership = self._partition.leadership
        if self._follows and leadership is not None and self._partition.leader_epoch == epoch:
            (follower,) = leadership.followers.values()
            self._partition.fetched(follower, max(end, follower.log_end_offset), 0, -1)
            if self._partition.log.log_end_offset > end:
                self.moved()
