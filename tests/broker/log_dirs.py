"""Log directories, a metadata image and a log manager on them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.broker.config import BrokerConfig
from kcli.broker.log_dirs.directories import LogDir, LogDirs, open_log_dirs
from kcli.broker.logs.manager import Listeners, LogManager
from kcli.broker.partition.partitions import Partition
from kcli.inspector.cluster_metadata import read_image
from kcli.log.disk import Disk, DiskFile
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from tests.broker.metadata_dirs import FakeClock
from tests.log.batches import NOW_MS

TOPIC_ID = UUID("d27e8a4e-0f3c-4b7a-9d0e-1d6c1e0f7a55")
QUICK = {"log.initial.task.delay.ms": "3600000", "log.cleaner.backoff.ms": "3600000"}  # nothing by itself


class FailingFile(DiskFile):
    def __init__(self, disk: FailingDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        self._disk.check(self.path)
        return super().write(buffers, position)

    def sync(self) -> None:
        self._disk.check(self.path)
        super().sync()


class FailingDisk(Disk):
    """A disk on which some directories fail."""

    def __init__(self) -> None:
        self.broken: set[Path] = set()

    def check(self, path: Path) -> None:
        if any(path.is_relative_to(each) for each in self.broken):
            raise OSError(5, "Input/output error", str(path))

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        self.check(path)
        return FailingFile(self, path, super().open(path, create=create, truncate=truncate, read_only=read_only).fd)

    def rename(self, source: Path, target: Path) -> None:
        self.check(source)
        super().rename(source, target)


@dataclass
class Heard:
    """Records what the listeners of a log manager are called with."""

    failed: list[LogDir] = field(default_factory=list)
    assigned: list[tuple[UUID, int, UUID]] = field(default_factory=list)
    must_stop: list[str] = field(default_factory=list)


@dataclass
class Node:
    """A broker's logs."""

    dirs: LogDirs
    image: MetadataImage
    logs: LogManager
    clock: FakeClock
    disk: Disk
    heard: Heard

    def partition(self, topic: str = "t", number: int = 0) -> Partition:
        found = self.logs.partitions.get(topic, number)
        assert found is not None
        return found

    def apply(self, name: str, /, **value: object) -> None:
        """One metadata record, seen by the logs."""
        self.image.apply(name, dict(value), self.image.offset + 1)
        self.logs.apply(self.image.take_changes())

    def create_topic(self, name: str = "t", partitions: int = 1, topic_id: UUID = TOPIC_ID, **more: object) -> None:
        create_topic(self.image, name, partitions, topic_id, **more)
        self.logs.apply(self.image.take_changes())

    def configure(self, name: str, value: str, topic: str = "t") -> None:
        self.apply("ConfigRecord", resourceType=2, resourceName=topic, name=name, value=value)


def create_topic(
    image: MetadataImage, name: str = "t", partitions: int = 1, topic_id: UUID = TOPIC_ID, **more: object
) -> None:
    """A topic led by node 1."""
    image.apply("TopicRecord", {"name": name, "topicId": from_uuid(topic_id)}, image.offset + 1)
    for number in range(partitions):
        record = {
            "partitionId": number,
            "topicId": from_uuid(topic_id),
            "replicas": [1],
            "isr": [1],
            "leader": 1,
            "leaderEpoch": 0,
            "partitionEpoch": 0,
            "directories": [from_uuid(UUID(int=1))],
            **more,
        }
        image.apply("PartitionRecord", record, image.offset + 1)


def lead_all(image: MetadataImage) -> None:
    """Make this node the leader of every partition, as a controller does when a cluster's only node comes back."""
    for topic in list(image.topics.values()):
        for number in topic.partitions:
            record = {"partitionId": number, "topicId": from_uuid(topic.id), "isr": [1], "leader": 1}
            image.apply("PartitionChangeRecord", record, image.offset + 1)


def config_of(paths: Sequence[Path], **more: str) -> BrokerConfig:
    """Return a broker's configuration; more: configurations, with _ for the dots."""
    return BrokerConfig(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": ",".join(map(str, paths)),
            **QUICK,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )


def make_node(
    paths: Sequence[Path], image: MetadataImage | None = None, disk: Disk | None = None, **config: Any
) -> Node:
    """Return a log manager on these directories, not yet started."""
    disk, clock, heard = disk or Disk(), FakeClock(NOW_MS), Heard()
    image = MetadataImage() if image is None else image
    settings = config_of(paths, **config)
    dirs = open_log_dirs(paths, paths[0], 1, disk, clock)
    listeners = Listeners(heard.failed.append, lambda *found: heard.assigned.append(found), heard.must_stop.append)
    return Node(dirs, image, LogManager(settings, dirs, image, disk, clock, listeners), clock, disk, heard)


def golden_node(directory: Path, **config: Any) -> Node:
    """Return the log manager of a copy of a golden directory. The image comes from its metadata log, and this node
    leads all partitions."""
    image = read_image(directory)
    assert image is not None
    lead_all(image)
    image.take_changes()
    return make_node([directory], image, **config)


def run(node: Node, test: Callable[[Node], Awaitable[None]], *, stop: bool = True) -> None:
    """Start, test, stop."""

    async def whole() -> None:
        await node.logs.start()
        try:
            await test(node)
        finally:
            if stop:
                await node.logs.stop(7)
            else:  # as a crash
                await node.logs.background.stop()
                node.dirs.unlock()

    asyncio.run(whole())
