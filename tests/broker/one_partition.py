"""A broker with one partition of two replicas on a simulated loop. The test decides what the other replica has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.coordinators.context import CoordinatorContext
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, Work
from kcli.broker.network.peers import Network, NoNetwork
from kcli.broker.partition.partitions import Partition, Partitions
from kcli.broker.process.turns import Turns
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.log_dirs import config_of, create_topic
from tests.sim.loop import LoopClock, SimulatedLoop

OWN, OTHER = 1, 2
TOPIC_ID = UUID(int=7)


class OnePartition:
    """A broker that leads one partition. topic: its name; context: what its coordinator is given; network: the network
    to the other broker."""

    def __init__(self, directory: Path, topic: str, network: Network | None = None) -> None:
        self.topic = topic
        self.loop = SimulatedLoop(Random(0))
        self.clock = LoopClock(self.loop)
        self.image = MetadataImage()
        self._directory = directory / f"{topic}-0"
        self._directory.mkdir(parents=True)
        directories = [from_uuid(UUID(int=number)) for number in (OWN, OTHER)]
        replicas = {"replicas": [OWN, OTHER], "isr": [OWN, OTHER], "directories": directories}
        create_topic(self.image, topic, 1, TOPIC_ID, **replicas)
        self.image.take_changes()
        state = self.image.topics[topic].partitions[0]
        online: Any = SimpleNamespace()
        self.partition = Partition(topic, 0, TOPIC_ID, state, OWN, online, self._open)
        partitions = Partitions(self.image)
        partitions.add(self.partition)
        config = config_of([directory / "data"])
        self.context = CoordinatorContext(config, self.clock, self.image, partitions, network or NoNetwork(), Turns())

    def _open(self, _: Partition) -> PartitionLog:
        config = LogConfig({"min.insync.replicas": "2"})
        return PartitionLog(self._directory, Disk(), config, self.clock.now_ms(), OpenOptions(clean=False))

    def coordinate(self, work: Callable[[], Work]) -> Coordinator:
        """The coordinator of the partition, loaded."""
        coordinator = Coordinator(self.context, self.topic, lambda _: work())
        assert self.partition.log.log_end_offset >= 0
        self.run(self._start(coordinator))
        return coordinator

    async def _start(self, coordinator: Coordinator) -> None:
        coordinator.start()
        await asyncio.sleep(1)
        assert coordinator.is_loaded(0)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What comes of it."""
        asyncio.set_event_loop(self.loop)
        try:
            return self.loop.run_until_complete(work)
        finally:
            asyncio.set_event_loop(None)

    def close(self) -> None:
        """Nothing runs any more."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run(asyncio.sleep(0.01))
        self.partition.log.close_handles()
        self.loop.close()

    def copy(self, offset: int | None = None) -> None:
        """Let the other replica fetch up to that offset, or to the log end."""
        assert self.partition.leadership is not None
        (follower,) = self.partition.leadership.followers.values()
        end = self.partition.log.log_end_offset if offset is None else offset
        self.partition.fetched(follower, end, 0, -1)

    def change(self, coordinator: Coordinator, **fields: Any) -> None:
        """Apply a change of the partition's metadata."""
        record = {"partitionId": 0, "topicId": from_uuid(TOPIC_ID), **fields}
        self.image.apply("PartitionChangeRecord", record, self.image.offset + 1)
        self.partition.update(self.image.topics[self.topic].partitions[0])
        coordinator.apply(self.image.take_changes())


async def refused(answer: asyncio.Future[Any]) -> ErrorCode:
    """Why there is no answer."""
    try:
        await answer
    except CoordinatorError as error:
        return error.code
    raise AssertionError("answered")
