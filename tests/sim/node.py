"""A broker without sockets: its partitions' logs on a disk that dies, and the real coordinators on top of them.

start    every log is opened and recovered, as after a kill; leaders begin a new epoch; coordinators load
resign   another broker leads a coordinator's partition for a while, and this one then again
die      all that is in memory is gone; requests that wait are not answered
"""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.coordinators import transactions
from kcli.broker.coordinators.group_metadata import GroupMetadata
from kcli.broker.coordinators.runtime import Coordinator, Work
from kcli.broker.coordinators.transactions import FEATURE
from kcli.broker.logs.partitions import Partition, Partitions
from kcli.broker.network.messages import ErrorCode
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.records import TOPIC as GROUPS
from kcli.log.config import LogConfig
from kcli.log.partition_log import OpenOptions, PartitionLog
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.txn.records import TOPIC as TRANSACTIONS
from tests.broker.log_dirs import config_of, create_topic
from tests.sim.disk import DyingDisk
from tests.sim.loop import LoopClock, SimulatedLoop
from tests.sim.network import lose

INPUT, OUTPUT = "input", "output"
INPUTS, OUTPUTS = 6, 3
INPUT_ID = UUID(int=9)
TOPICS = {GROUPS: 2, TRANSACTIONS: 2, OUTPUT: OUTPUTS}
"""Those that have logs: inputs are there without end."""
OWN, OTHER = 1, 2
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
    """One whose leader is unknown at times."""

    away = False

    def come_back(self) -> None:
        self.away = False

    def check_leader_epoch(self, epoch: int = -1, *, leader_only: bool = True) -> ErrorCode | None:
        if self.away:
            return ErrorCode.not_leader_or_follower
        return super().check_leader_epoch(epoch, leader_only=leader_only)


class ProducerIds:
    """New ones for ever."""

    def __init__(self) -> None:
        self._ids = count(1000)

    async def next(self) -> int:
        await asyncio.sleep(0.005)
        return next(self._ids)


class Cluster:
    """What outlives a broker: the directory, the metadata, the ids that were given."""

    def __init__(self, loop: SimulatedLoop, directory: Path, random: Random, transaction_version: int) -> None:
        self.loop, self.directory, self.random = loop, directory, random
        self.clock = LoopClock(loop)
        self.producer_ids = ProducerIds()
        self.member_ids = count(1)
        self.loses = random.random() < 0.5
        self.config = random.choice(CONFIGS)
        settings = {"index.interval.bytes": "256", "segment.index.bytes": "4096"}
        settings["segment.bytes"] = str(random.choice([1 << 20, 1 << 30]))
        if random.random() < 0.5:
            settings["internal.segment.bytes"] = str(random.choice([2_000, 8_000]))
        if self.loses:
            settings["flush.messages"] = "1"
        self.log_config = LogConfig(settings)
        self.image = MetadataImage()
        self._apply("FeatureLevelRecord", {"name": FEATURE, "featureLevel": transaction_version})
        for number, (topic, partitions) in enumerate(TOPICS.items(), 1):
            create_topic(self.image, topic, partitions, UUID(int=number))
            for partition in range(partitions):
                (directory / f"{topic}-{partition}").mkdir()
        create_topic(self.image, INPUT, INPUTS, INPUT_ID)
        self.image.take_changes()

    def _apply(self, name: str, value: dict[str, Any]) -> None:
        self.image.apply(name, value, self.image.offset + 1)

    def lead(self, topic: str, number: int, leader: int) -> None:
        """A partition has a new leader, and a new epoch."""
        known = self.image.topics[topic]
        record = {"partitionId": number, "topicId": from_uuid(known.id), "isr": [OWN], "leader": leader}
        self._apply("PartitionChangeRecord", record)


class Node:
    """See above. broker: what its coordinators and handlers see."""

    def __init__(self, cluster: Cluster, died: Any, *, dies_at: int) -> None:
        self.cluster = cluster
        self.disk = DyingDisk(died, cluster.random.randrange(1 << 30), dies_at=dies_at, loses=cluster.loses)
        self.serving: dict[asyncio.Task[None], asyncio.Future[Any]] = {}
        partitions = Partitions(cluster.image)
        broker: Any = SimpleNamespace(
            image=cluster.image,
            node_id=OWN,
            partitions=partitions,
            clock=cluster.clock,
            config=cluster.config,
            producer_ids=cluster.producer_ids,
            quotas=SimpleNamespace(is_active=False),
        )
        self.broker = broker
        broker.groups = Coordinator(
            broker,
            GROUPS,
            lambda: Work(self._new_groups, base_sequence=0),
        )
        broker.transactions = Coordinator(broker, TRANSACTIONS, lambda: transactions.coordinate(broker))

    def _new_groups(self, _: int) -> GroupMachine:
        return GroupMachine(GROUP_CONFIG, lambda: f"{next(self.cluster.member_ids)}", GroupMetadata(self.broker))

    @property
    def is_alive(self) -> bool:
        """Has it not died?"""
        return not self.disk.is_dead

    def start(self) -> None:
        """Come up. Raises Crash where it dies of it."""
        for topic, partitions in TOPICS.items():
            for number in range(partitions):
                self.cluster.lead(topic, number, OWN)
                state = self.cluster.image.topics[topic].partitions[number]
                online: Any = self.cluster
                partition = FlickeringPartition(topic, number, UUID(int=1), state, OWN, online, self._open)
                self.broker.partitions.add(partition)
                assert partition.log.log_end_offset >= 0
        self.cluster.image.take_changes()
        self.broker.groups.start()
        self.broker.transactions.start()

    def _open(self, partition: Partition) -> PartitionLog:
        directory = self.cluster.directory / f"{partition}"
        options = OpenOptions(clean=False)
        return PartitionLog(directory, self.disk, self.cluster.log_config, self.cluster.clock.now_ms(), options)

    def lead(self, topic: str, number: int, leader: int) -> None:
        """The metadata names another leader."""
        self.cluster.lead(topic, number, leader)
        self.broker.partitions.get(topic, number).update(self.cluster.image.topics[topic].partitions[number])
        changes = self.cluster.image.take_changes()
        self.broker.groups.apply(changes)
        self.broker.transactions.apply(changes)

    def bury(self) -> None:
        """What is in memory is gone."""
        assert self.disk.is_dead, "it has died"
        for task, answer in list(self.serving.items()):
            task.cancel()
            self.cluster.loop.call_later(0.05, lose, answer)
        self.broker.groups.stop()
        self.broker.transactions.stop()
        self.disk.close_all()
