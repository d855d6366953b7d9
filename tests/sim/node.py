"""A broker without sockets: logs on a disk that crashes, and the real coordinators on top of them.

    start    every log is opened and recovered, as after a kill; leaders begin a new epoch; coordinators load
    resign   another broker leads a coordinator's partition for a while, then this one leads it again
    die      everything in memory is lost; waiting requests are not answered

In half of all clusters partitions have a second replica, see follower.py. Records that the follower does not have are
not committed there, and are lost when this broker resigns or dies. At times the follower is not in the ISR: then
appends with acks=all are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from formats.kernels.produce import ProduceLanes
from kcli.broker.authorization import Authorization
from kcli.broker.coordinators import transactions
from kcli.broker.coordinators.context import CoordinatorContext
from kcli.broker.coordinators.group_metadata import GroupMetadata
from kcli.broker.coordinators.groups import FOLLOW_RECORDS
from kcli.broker.coordinators.local_markers import LocalMarkers
from kcli.broker.coordinators.producer_ids import ProducerIds
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, Work
from kcli.broker.coordinators.transactions import FEATURE
from kcli.broker.network.peers import NoNetwork
from kcli.broker.partition.long_batches import AT_ONCE_BYTES
from kcli.broker.partition.partitions import Partition, Partitions
from kcli.broker.process.turns import Turns
from kcli.coordinator.machine import Outcome
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.records import TOPIC as GROUPS
from kcli.group.requests import (
    CommitOffsets,
    ConsumerHeartbeat,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribeGroup,
    SyncGroup,
)
from kcli.log.config import LogConfig
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import Partition as PartitionState
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC as TRANSACTIONS
from tests.broker.log_dirs import config_of, create_topic
from tests.sim.disk import DyingDisk
from tests.sim.follower import Follower
from tests.sim.loop import LoopClock, SimulatedLoop
from tests.sim.network import lose

INPUT, OUTPUT = "input", "output"
INPUTS, OUTPUTS = 6, 3
INPUT_ID = UUID(int=9)
TOPICS = {GROUPS: 2, TRANSACTIONS: 2, OUTPUT: OUTPUTS}
"""The topics with logs on this broker. The inputs have none: their records never end."""
OWN, OTHER = 1, 2
DIRECTORIES = [from_uuid(UUID(int=number)) for number in (OWN, OTHER)]
INITIAL_DELAY_MS = 500
GROUP_CONFIG = GroupConfig(classic_initial_rebalance_delay_ms=INITIAL_DELAY_MS)
CONFIGS = [
    config_of(
        [Path("data")],
        transaction_abort_timed_out_transaction_cleanup_interval_ms="1000",
        transaction_partition_verification_enable=verifies,
        group_consumer_min_session_timeout_ms="1000",
        group_consumer_session_timeout_ms="6000",
        group_consumer_min_heartbeat_interval_ms="500",
        group_consumer_heartbeat_interval_ms="1000",
    )
    for verifies in ("true", "false")
]


class FlickeringPartition(Partition):
    """A partition whose leader is unknown at times."""

    away = False

    def come_back(self) -> None:
        self.away = False

    def check_leader_epoch(self, epoch: int = -1, *, leader_only: bool = True) -> ErrorCode | None:
        if self.away:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return super().check_leader_epoch(epoch, leader_only=leader_only)


class SimulatedProducerIds:
    """Producer ids that never run out."""

    def __init__(self) -> None:
        self._ids = count(1000)

    async def next(self) -> int:
        await asyncio.sleep(0.005)
        return next(self._ids)


class NotingCoordinator(Coordinator):
    """A coordinator that notes the state of a group's members when its machine gives an answer, which may be sent
    later."""

    def __init__(
        self,
        context: CoordinatorContext,
        topic: str,
        prepare: Callable[[Coordinator], Work],
        made_anew: Callable[[], None],
    ) -> None:
        super().__init__(context, topic, prepare)
        self._made_anew = made_anew
        self._notes: dict[int, tuple[Any, Any]] = {}

    def machine(self, key: str) -> Any:
        """Return the machine of the partition to which the key belongs. Raises CoordinatorError."""
        number = self.partition_of(key)
        if not self.is_loaded(number):
            raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._shards[number].machine

    def describe(self, group: str) -> DescribedGroup | DescribedConsumerGroup:
        """Return the present state of the group. Raises CoordinatorError."""
        return _describe(self.machine(group), group, self.context.clock.now_ms())

    def noted(self, answer: Any, group: str) -> DescribedGroup | DescribedConsumerGroup:
        """Return the state of the group at the time of that answer."""
        _, noted = self._notes.pop(id(answer), (None, None))
        return self.describe(group) if noted is None else noted

    def _do(self, shard: Any, step: Callable[[int], Outcome], request: Any = None) -> None:
        outcome = Outcome()

        def noting(now_ms: int) -> Outcome:
            nonlocal outcome
            outcome = step(now_ms)
            return outcome

        super()._do(shard, noting, request)
        if isinstance(request, ConsumerHeartbeat | SyncGroup | CommitOffsets):
            for _, answer in outcome.answers:
                now_ms = self.context.clock.now_ms()
                self._notes[id(answer)] = answer, _describe(shard.machine, request.group_id, now_ms)

    def _start_again(self, shard: Any, error: Exception, delay_s: float = 0) -> None:
        self._made_anew()
        super()._start_again(shard, error, delay_s)


def _describe(machine: GroupMachine, group: str, now_ms: int) -> DescribedGroup | DescribedConsumerGroup:
    described: DescribedGroup | DescribedConsumerGroup
    for request in (DescribeConsumerGroup(group_id=group), DescribeGroup(group_id=group)):
        ((_, described),) = machine.handle(0, request, now_ms).answers
        if not described.error:
            break
    return described


class Cluster:
    """The state that survives a broker's death: the log directory, the metadata, the producer ids. copied: the log end
    offsets of the followers; lag_ms: the usual time until a follower has a record."""

    def __init__(self, loop: SimulatedLoop, directory: Path, random: Random, transaction_version: int) -> None:
        self.loop, self.directory, self.random = loop, directory, random
        self.clock = LoopClock(loop)
        self.producer_ids = SimulatedProducerIds()
        self.member_ids = count(1)
        self.loses = random.random() < 0.5
        self.config = random.choice(CONFIGS)
        settings = {"index.interval.bytes": "256", "segment.index.bytes": "4096"}
        settings["segment.bytes"] = str(random.choice([1 << 20, 1 << 30]))
        if random.random() < 0.5:
            settings["internal.segment.bytes"] = str(random.choice([2_000, 8_000]))
        if self.loses:
            settings["flush.messages"] = "1"
        self.is_replicated = random.random() < 0.5
        self.lag_ms = random.choice([10, 200, 1_000])
        self.hiccups = 0.01
        self.copied: dict[TopicPartition, int] = {}
        if self.is_replicated:
            settings["min.insync.replicas"] = "2"
        self.log_config = LogConfig(settings)
        self.image = MetadataImage()
        self._apply("FeatureLevelRecord", {"name": FEATURE, "featureLevel": transaction_version})
        for number, (topic, partitions) in enumerate(TOPICS.items(), 1):
            replicas = {}
            if self.is_replicated:
                replicas = {"replicas": [OWN, OTHER], "isr": [OWN, OTHER], "directories": DIRECTORIES}
                self.copied |= {TopicPartition(topic, partition): 0 for partition in range(partitions)}
            create_topic(self.image, topic, partitions, UUID(int=number), **replicas)
            for partition in range(partitions):
                (directory / f"{topic}-{partition}").mkdir()
        create_topic(self.image, INPUT, INPUTS, INPUT_ID)
        self.image.take_changes()

    def _apply(self, name: str, value: dict[str, Any]) -> None:
        self.image.apply(name, value, self.image.offset + 1)

    def calm(self) -> None:
        """End the faults: followers are no longer late."""
        self.lag_ms, self.hiccups = min(self.lag_ms, 50), 0

    @property
    def others_lead(self) -> list[str]:
        """Return the topics, other than those of coordinators, that another broker leads at times, with the records
        that it has."""
        return [OUTPUT] if self.is_replicated else []

    def is_in_sync(self, place: TopicPartition) -> bool:
        """Return whether the follower is in the ISR."""
        return OTHER in self.image.topics[place[0]].partitions[place[1]].isr

    def lead(self, topic: str, number: int, leader: int) -> None:
        """Change the leader of a partition, with a new leader epoch."""
        known = self.image.topics[topic]
        self._change(known.id, number, leader=leader, isr=list(known.partitions[number].isr))

    def sync(self, topic: str, number: int, isr: list[int]) -> None:
        """Change the ISR of a partition."""
        self._change(self.image.topics[topic].id, number, isr=isr)

    def _change(self, topic_id: UUID, number: int, **changes: Any) -> None:
        self._apply("PartitionChangeRecord", {"partitionId": number, "topicId": from_uuid(topic_id), **changes})


class Node:
    """A broker of the cluster. broker: the object that its coordinators and handlers are given."""

    def __init__(self, cluster: Cluster, died: Any, made_anew: Callable[[], None], *, dies_at: int) -> None:
        self.cluster = cluster
        self.disk = DyingDisk(died, cluster.random.randrange(1 << 30), dies_at=dies_at, loses=cluster.loses)
        self.serving: dict[asyncio.Task[None], asyncio.Future[Any]] = {}
        partitions = Partitions(cluster.image)
        context = CoordinatorContext(cluster.config, cluster.clock, cluster.image, partitions, NoNetwork(), Turns())
        self._followers: dict[TopicPartition, Follower] = {}
        work = Work(self._new_groups, base_sequence=0, changes_nothing=lambda each: isinstance(each, FOLLOW_RECORDS))
        self.groups = NotingCoordinator(context, GROUPS, lambda _: work, made_anew)
        markers, ids = LocalMarkers(context, self.groups), cast("ProducerIds", cluster.producer_ids)
        self.broker: Any = SimpleNamespace(
            access=Authorization(None),
            lanes=ProduceLanes(AT_ONCE_BYTES),
            authorizer=None,
            image=cluster.image,
            node_id=OWN,
            partitions=partitions,
            clock=cluster.clock,
            config=cluster.config,
            producer_ids=ids,
            quotas=SimpleNamespace(is_active=False),
            groups=self.groups,
            transactions=Coordinator(context, TRANSACTIONS, lambda own: transactions.coordinate(own, markers, ids)),
        )

    def _new_groups(self, _: int) -> GroupMachine:
        metadata = GroupMetadata(self.cluster.config, self.cluster.image)
        return GroupMachine(GROUP_CONFIG, lambda: f"{next(self.cluster.member_ids)}", metadata)

    @property
    def is_alive(self) -> bool:
        """Return whether the broker still runs."""
        return not self.disk.is_dead

    def start(self) -> None:
        """Start the broker. Raises Crash where it dies meanwhile."""
        for topic, partitions in TOPICS.items():
            for number in range(partitions):
                self._start_partition(topic, number)
        self.cluster.image.take_changes()
        self.broker.groups.start()
        self.broker.transactions.start()

    def _start_partition(self, topic: str, number: int) -> None:
        cluster, place = self.cluster, TopicPartition(topic, number)
        has_led = place in cluster.copied and cluster.is_in_sync(place)
        cluster.lead(topic, number, OTHER if has_led else OWN)
        online: Any = cluster
        partition = FlickeringPartition(topic, number, UUID(int=1), self._state(place), OWN, online, self._open)
        self.broker.partitions.add(partition)
        assert partition.log.log_end_offset >= cluster.copied.get(place, 0), "what is committed is there"
        if place in cluster.copied:
            self._followers[place] = Follower(cluster, self, partition)
        if has_led:
            self._follow(partition)
            cluster.lead(topic, number, OWN)
            partition.update(self._state(place))

    def _state(self, place: TopicPartition) -> PartitionState:
        return self.cluster.image.topics[place[0]].partitions[place[1]]

    def _follow(self, partition: Partition) -> None:
        """Truncate the log to what the other replica had when it became leader."""
        if partition.key in self.cluster.copied:
            partition.truncate_to(self.cluster.copied[partition.key], self.cluster.clock.now_ms())

    def _open(self, partition: Partition) -> PartitionLog:
        directory = self.cluster.directory / f"{partition}"
        options = OpenOptions(clean=False)
        return PartitionLog(directory, self.disk, self.cluster.log_config, self.cluster.clock.now_ms(), options)

    def lead(self, topic: str, number: int, leader: int) -> None:
        """Apply a change of leader. Raises Crash."""
        self.cluster.lead(topic, number, leader)
        partition = self._update(topic, number)
        if leader == OTHER:
            self._follow(partition)

    def sync(self, topic: str, number: int, isr: list[int]) -> None:
        """Apply a change of the ISR. A follower that joins it has all records."""
        if OTHER in isr:
            self.cluster.copied[TopicPartition(topic, number)] = self.broker.partitions.get(
                topic, number
            ).log.log_end_offset
        self.cluster.sync(topic, number, isr)
        self._update(topic, number)
        self._followers[TopicPartition(topic, number)].moved()

    def _update(self, topic: str, number: int) -> Partition:
        partition: Partition = self.broker.partitions.get(topic, number)
        partition.update(self._state(partition.key))
        changes = self.cluster.image.take_changes()
        self.broker.groups.apply(changes)
        self.broker.transactions.apply(changes)
        return partition

    def bury(self) -> None:
        """Drop everything in memory."""
        assert self.disk.is_dead, "it has died"
        for task, answer in list(self.serving.items()):
            task.cancel()
            self.cluster.loop.call_later(0.05, lose, answer)
        self.broker.groups.stop()
        self.broker.transactions.stop()
        self.disk.close_all()
