"""The replication of a broker's replicas: the leaders that it follows, and the ISR changes of the partitions that it
leads.

    apply      after a change of the metadata, follow new leaders, and stop following former leaders
    opened     after a log was opened, follow the leader of its partition
    check      every half of replica.lag.time.max.ms, remove lagging followers from the ISR
    host       implements ReplicaHost, see kcli/broker/partition/replica_host.py

There are num.replica.fetchers fetchers for each leader. Source: ReplicaManager, AbstractFetcherManager.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kcli.broker.config.served import RACK_AWARE
from kcli.broker.partition.leadership import IsrChange
from kcli.broker.replication.nudges import Trackers, Waiting
from kcli.broker.replication.selector import nearest_replica
from kcli.broker.replication.throttle import UNLIMITED, ReplicationThrottle
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.peers import Network, Peer
    from kcli.broker.partition.partitions import Partition, Partitions
    from kcli.broker.process.clock import Clock
    from kcli.broker.replication.fetcher import Fetcher
    from kcli.broker.replication.following import Followed
    from kcli.broker.replication.isr_changes import IsrChanges
    from kcli.broker.replication.tier_state import TierStates
    from kcli.metadata.changes import Changes
    from kcli.metadata.image import MetadataImage

log = logging.getLogger("kcli.broker")

UNKNOWN = -1
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


class ReplicaManager:
    """The replication of this broker's replicas.

    Nothing is fetched before `start`, which is not called if this broker is the only node of its cluster.
    controller: the channel to the active controller. broker_epoch: returns the epoch of this broker's registration.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        image: MetadataImage,
        partitions: Partitions,
        network: Network,
        controller: Peer,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.config = config
        self.partitions = partitions
        self.now_ms = clock.now_ms
        self._node_id = config.node_id
        self._image, self._network = image, network
        self._controller, self._broker_epoch = controller, broker_epoch
        self.tier: TierStates | None = None  # set by the node if this broker has tiered storage
        self.waiting = Waiting()
        self.trackers = Trackers()
        self._is_started = False
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._followed: dict[TopicPartition, tuple[Partition, int, Fetcher]] = {}
        self._changes: IsrChanges | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.leader_throttle = self._throttle(LEADER_RATE, LEADER_REPLICAS)
        self.follower_throttle = self._throttle(FOLLOWER_RATE, FOLLOWER_REPLICAS)

    def _throttle(self, rate: str, replicas: str) -> ReplicationThrottle:
        config, image = self.config, self._image

        def limit() -> int:
            text = config.properties.get(rate)  # None unless it is set: Kafka has no static configuration of this name
            return UNLIMITED if text is None else int(text)

        windows = config.number("replication.quota.window.num"), config.number("replication.quota.window.size.seconds")
        return ReplicationThrottle(
            self._node_id,
            limit,
            lambda topic: image.topic_configs(topic).get(replicas, ""),
            self.now_ms,
            (windows[0], windows[1] * 1000),
        )

    # starting and stopping

    def start(self) -> None:
        """Begin to fetch from the leaders that the metadata names, and to check the followers for lag."""
        from kcli.broker.replication.isr_changes import IsrChanges

        self._is_started = True
        self._changes = IsrChanges(self._node_id, self._broker_epoch, self._controller)
        for partition in self.partitions:
            self._follow_leader(partition)
        self._check_later()

    def stop(self) -> None:
        """Stop fetching, checking followers, and sending ISR changes."""
        self._is_started = False
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
            for partition in self.partitions:
                partition.shrink_isr()
        except Exception:  # a bug that one check meets must not end the checks of the ISR
            log.exception("followers are looked at again")
        self._check_later()

    # changes of the metadata

    def apply(self, changes: Changes) -> None:
        """Follow new leaders, and stop following former ones, after a change of the metadata image. Called after the
        log manager has applied the change."""
        if any(kind in (TOPIC_RESOURCE, BROKER_RESOURCE) for kind, _ in changes.configs):
            self.leader_throttle.reconfigured()
            self.follower_throttle.reconfigured()
        if not self._is_started:
            return
        for broker_id in changes.brokers:
            # the broker may join the ISR from now on, but only by a new Fetch: so its waiting Fetch gets its response
            # at once
            if self.is_alive(broker_id):
                self.waiting.nudge(broker_id)
        for topic in changes.topics_deleted.values():
            for number in topic.partitions:
                self._leave(TopicPartition(topic.name, number), topic.id)
        for topic_id, number in changes.partitions:
            known = self._image.topic_by_id(topic_id)
            if known is None:
                continue
            partition = self.partitions.get(known.name, number)
            if partition is None:
                self._leave(TopicPartition(known.name, number), topic_id)
            else:
                self._follow_leader(partition)

    def opened(self, partition: Partition) -> None:
        """Follow the partition's leader, because its log was opened."""
        if self._is_started:
            self._follow_leader(partition)

    def closed(self, partition: Partition) -> None:
        """Stop following the partition's leader, because the partition was deleted, or its log directory has failed."""
        self._leave(partition.key, partition.topic_id)

    def _follow_leader(self, partition: Partition) -> None:
        """Follow the partition's leader if that is another broker, else stop following it."""
        state, key = partition.state, partition.key
        if state.leader < 0 or partition.is_leader or partition.is_offline or partition.is_deleted:
            self._leave(key, partition.topic_id)
            return
        known = self._followed.get(key)
        is_same = known is not None and known[0] is partition and known[2].leader_id == state.leader
        if known is not None and is_same and known[1] == state.leader_epoch:
            return
        if partition.opened_log is None:  # a log that is not open is followed later: `opened` is called once it is open
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

        count = self.config.number("num.replica.fetchers")
        number = (31 * sum(partition.topic.encode()) + partition.number) % count
        found = self._fetchers.get((leader, number))
        if found is None:
            found = self._fetchers[leader, number] = Fetcher(self.config, self._network, self, leader, number)
        return found

    def _leave(self, key: TopicPartition, topic_id: object) -> None:
        known = self._followed.get(key)
        if known is None or known[0].topic_id != topic_id:
            return
        del self._followed[key]
        known[2].forget((known[0].topic_id, known[0].number))

    # the protocol FetcherHost, for fetchers

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Return the host and port of that broker's inter-broker listener, None if the metadata has none."""
        known = self._image.brokers.get(broker_id)
        endpoint = None if known is None else known.endpoints.get(self.config.inter_broker_listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def is_held(self, followed: Followed) -> bool:
        """Whether the follower's replication quota forbids fetching this partition now: the partition is throttled, the
        quota is used up, and this broker's replica is not in the ISR."""
        partition = followed.partition
        return self.follower_throttle.holds(partition) and self._node_id not in partition.state.isr

    def received(self, partition: Partition, size: int) -> None:
        """Count `size` bytes of records against the follower's replication quota."""
        self.follower_throttle.sent(partition, size)

    # the protocol ReplicaHost, for partitions

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 if it is not registered."""
        return self._broker_epoch()

    def lag_max_ms(self) -> int:
        """The value of replica.lag.time.max.ms."""
        return self.config.number("replica.lag.time.max.ms")

    def eligible(self, broker_id: int, epoch: int | None) -> bool:
        """Whether that broker may join the ISR: it is registered, neither fenced nor in controlled shutdown, and
        `epoch` is the epoch of its registration, or -1. epoch: the broker epoch of its last Fetch, -1 if the Fetch had
        none, None before the first Fetch."""
        known = self._image.brokers.get(broker_id)
        return known is not None and known.active and epoch in (UNKNOWN, known.epoch)

    def is_stale(self, broker_id: int, epoch: int) -> bool:
        """Whether `epoch`, the broker epoch in a Fetch, is older than that of the broker's current registration
        (KIP-903). False for -1 (the Fetch has no epoch), and for a broker that is fenced or not registered."""
        known = self._image.brokers.get(broker_id)
        return epoch != UNKNOWN and known is not None and not known.fenced and known.epoch > epoch

    def alter(self, partition: Partition, change: IsrChange) -> None:
        """Send a change of the ISR to the controller."""
        if self._changes is not None:
            self._changes.submit(partition, change)

    def is_alive(self, broker_id: int) -> bool:
        """Whether that broker is registered, and not fenced."""
        known = self._image.brokers.get(broker_id)
        return known is not None and not known.fenced

    def nudge(self, partition: Partition) -> None:
        """Send the responses to the waiting Fetches of the partition's followers, so that they fetch again at once."""
        for broker_id in partition.state.replicas:
            self.waiting.nudge(broker_id)

    # for request handlers

    @property
    def selects_by_rack(self) -> bool:
        """Whether consumers read from a replica in their rack (replica.selector.class)."""
        return self.config.values["replica.selector.class"] == RACK_AWARE

    def preferred_replica(self, partition: Partition, rack: str, offset: int, listener: str) -> int | None:
        """Return the broker id of the preferred read replica of a consumer in `rack`; None if the consumer should read
        from the leader. offset: the consumer's fetch offset. listener: the listener to which the consumer connects."""
        if not self.selects_by_rack:
            return None
        return nearest_replica(self._image, partition, rack, offset, listener, self.now_ms())
