"""The replicas of a broker among those of others: whom it follows, what it asks the controller for.

    apply      the metadata has changed: follow new leaders, leave old ones; who leads hears of its followers by their
               fetches
    opened     a log is there: it can follow
    check      every half of replica.lag.time.max.ms: who lags is no longer in sync
    host       what partitions need to lead, see host.py

One fetcher for each leader and each of num.replica.fetchers. Source: ReplicaManager, AbstractFetcherManager.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kcli.broker.replication.commit_waits import Outcome
from kcli.broker.replication.leadership import IsrChange
from kcli.broker.replication.nudges import Trackers, Waiting
from kcli.broker.replication.selector import RACK_AWARE, nearest_replica
from kcli.broker.replication.throttle import UNLIMITED, ReplicationThrottle
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.partitions import Partition
    from kcli.broker.network.peers import Network
    from kcli.broker.replication.fetcher import Fetcher
    from kcli.broker.replication.following import Followed
    from kcli.broker.replication.isr_changes import IsrChanges
    from kcli.metadata.changes import Changes

log = logging.getLogger("kcli.broker")

UNKNOWN = -1
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class ReplicaManager:
    """See above. Nothing happens before `start`; where this broker is all of its cluster it is not called."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.waiting = Waiting()
        self.trackers = Trackers()
        self._network: Network | None = None
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._followed: dict[tuple[str, int], tuple[Partition, int, Fetcher]] = {}
        self._changes: IsrChanges | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.leader_throttle = self._throttle(LEADER_RATE, LEADER_REPLICAS)
        self.follower_throttle = self._throttle(FOLLOWER_RATE, FOLLOWER_REPLICAS)

    def _throttle(self, rate: str, replicas: str) -> ReplicationThrottle:
        broker, config = self._broker, self._broker.config

        def limit() -> int:
            text = config.properties.get(rate)  # it has no value of its own: it is only ever changed while brokers run
            return UNLIMITED if text is None else int(text)

        windows = config.number("replication.quota.window.num"), config.number("replication.quota.window.size.seconds")
        return ReplicationThrottle(
            broker.node_id,
            limit,
            lambda topic: broker.image.topic_configs(topic).get(replicas, ""),
            broker.clock.now_ms,
            (windows[0], windows[1] * 1000),
        )

    # starting and stopping

    def start(self) -> None:
        """Follow whom the metadata says from now on."""
        from kcli.broker.replication.isr_changes import IsrChanges

        self._network = self._broker.network
        self._changes = IsrChanges(self._broker)
        for partition in self._broker.partitions:
            self._see_to(partition)
        self._check_later()

    def stop(self) -> None:
        """No fetch and no change of in-sync replicas from now on."""
        self._network = None
        if self._timer is not None:
            self._timer.cancel()
        if self._changes is not None:
            self._changes.stop()
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._followed.clear()

    def _check_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.lag_max_ms() / 2000, self._check)

    def _check(self) -> None:
        try:
            for partition in self._broker.partitions:
                partition.shrink_isr()
        except Exception:  # a bug in one round does not end the watch over followers
            log.exception("followers are looked at again")
        self._check_later()

    # what the metadata says

    def apply(self, changes: Changes) -> None:
        """The image has changed, and the logs know."""
        if any(kind in (TOPIC_RESOURCE, BROKER_RESOURCE) for kind, _ in changes.configs):
            self.leader_throttle.reconfigured()
            self.follower_throttle.reconfigured()
        if self._network is None:
            return
        for broker_id in changes.brokers:
            if self.is_alive(broker_id):  # it may be in sync from now on: its next fetch says so
                self.waiting.nudge(broker_id)
        for topic in changes.topics_deleted.values():
            for number in topic.partitions:
                self._leave((topic.name, number), topic.id)
        for topic_id, number in changes.partitions:
            known = self._broker.image.topic_by_id(topic_id)
            if known is None:
                continue
            partition = self._broker.partitions.get(known.name, number)
            if partition is None:
                self._leave((known.name, number), topic_id)
            else:
                self._see_to(partition)

    def opened(self, partition: Partition) -> None:
        """Its log is there."""
        if self._network is not None:
            self._see_to(partition)

    def went(self, partition: Partition) -> None:
        """It is deleted, or its log directory is offline."""
        self._leave(partition.key, partition.topic_id)

    def _see_to(self, partition: Partition) -> None:
        """Follow its leader, if there is another one."""
        state, key = partition.state, partition.key
        if state.leader < 0 or partition.is_leader or partition.is_offline or partition.is_deleted:
            self._leave(key, partition.topic_id)
            return
        known = self._followed.get(key)
        is_same = known is not None and known[0] is partition and known[2].leader_id == state.leader
        if known is not None and is_same and known[1] == state.leader_epoch:
            return
        if partition.opened_log is None:  # `opened` comes
            self._leave(key, partition.topic_id)
            return
        if known is not None and not is_same:
            self._leave(key, known[0].topic_id)
        self._follow(partition)

    def _follow(self, partition: Partition) -> None:
        from kcli.broker.replication.following import Followed

        opened = partition.opened_log
        assert opened is not None, "looked at before"
        if opened.latest_epoch is None and opened.log_end_offset > opened.high_watermark:
            partition.truncate_to(opened.high_watermark, self.now_ms())
        latest = opened.latest_epoch
        state = partition.state
        epoch = UNKNOWN if latest is None else latest
        followed = Followed(partition, state.leader_epoch, opened.log_end_offset, epoch, opened.log_start_offset)
        fetcher = self._fetcher(state.leader, partition)
        self._followed[partition.key] = partition, state.leader_epoch, fetcher
        fetcher.follow(followed)

    def _fetcher(self, leader: int, partition: Partition) -> Fetcher:
        from kcli.broker.replication.fetcher import Fetcher

        assert self._network is not None, "started"
        number = (31 * sum(partition.topic.encode()) + partition.number) % self._broker.config.number(
            "num.replica.fetchers"
        )
        found = self._fetchers.get((leader, number))
        if found is None:
            found = Fetcher(self._broker, self._network, leader, number, self._is_held)
            self._fetchers[leader, number] = found
        return found

    def _leave(self, key: tuple[str, int], topic_id: object) -> None:
        known = self._followed.get(key)
        if known is None or known[0].topic_id != topic_id:
            return
        del self._followed[key]
        known[2].forget((known[0].topic_id, known[0].number))

    def _is_held(self, followed: Followed) -> bool:
        """Is the quota of this follower used up? Not where it is in sync."""
        partition = followed.partition
        return self.follower_throttle.holds(partition) and self._broker.node_id not in partition.state.isr

    # what leaders ask: see host.py

    @property
    def broker_epoch(self) -> int:
        """Of this broker's registration."""
        lifecycle = self._broker.lifecycle
        if lifecycle is not None:
            return lifecycle.epoch
        own = self._broker.image.brokers.get(self._broker.node_id)
        return UNKNOWN if own is None else own.epoch

    def now_ms(self) -> int:
        """The time."""
        return self._broker.clock.now_ms()

    def lag_max_ms(self) -> int:
        """replica.lag.time.max.ms."""
        return self._broker.config.number("replica.lag.time.max.ms")

    def eligible(self, broker_id: int, epoch: int | None) -> bool:
        """May that broker, which last fetched under that epoch, be in sync? -1: it does not say its epoch."""
        known = self._broker.image.brokers.get(broker_id)
        return known is not None and known.active and epoch in (UNKNOWN, known.epoch)

    def is_stale(self, broker_id: int, epoch: int) -> bool:
        """Does a broker fetch that has registered again since?"""
        known = self._broker.image.brokers.get(broker_id)
        return epoch != UNKNOWN and known is not None and not known.fenced and known.epoch > epoch

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Ask the controller for a change of the in-sync replicas."""
        if self._changes is not None:
            self._changes.submit(partition, change)

    def is_alive(self, broker_id: int) -> bool:
        """Is that broker registered, and not fenced?"""
        known = self._broker.image.brokers.get(broker_id)
        return known is not None and not known.fenced

    def nudge(self, partition: Partition) -> None:
        """The followers of a partition are to ask for it, not to wait for others."""
        for broker_id in partition.state.replicas:
            self.waiting.nudge(broker_id)

    # what handlers and coordinators ask

    def wait_committed(self, partition: Partition, offset: int, timeout_s: float) -> Outcome:
        """See Partition.wait_committed."""
        return partition.wait_committed(offset, timeout_s)

    def preferred_replica(self, partition: Partition, rack: str, offset: int, listener: str) -> int | None:
        """The follower that a consumer is to read from."""
        if self._broker.config.values["replica.selector.class"] != RACK_AWARE:
            return None
        return nearest_replica(self._broker.image, partition, rack, offset, listener, self.now_ms())
