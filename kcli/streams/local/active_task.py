"""A task of an application with its partitions: it waits for offsets, restores its stores, and then runs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import StreamsError
from kcli.streams.local.plan import SubTopology, TaskId
from kcli.streams.records import NO_TIMESTAMP
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.offset_metadata import OffsetMetadata, decode
from kcli.streams.topology.task import Task

QUEUE_MAX = 1000


@dataclass(eq=False)
class ActiveTask:
    """A task. inputs, changelogs: its partitions; a changelog's with the name of the store. is_running: whether its
    stores are restored. has_news: whether it has processed something since the last commit."""

    id: TaskId
    task: Task
    inputs: tuple[TopicPartition, ...]
    changelogs: Mapping[TopicPartition, str]
    committed: dict[TopicPartition, tuple[int, str]] | None = None
    is_running: bool = False
    has_news: bool = False
    paused: set[TopicPartition] = field(default_factory=set)

    def restore(self, place: TopicPartition, offset: int, key: bytes | None, value: bytes | None, time: int) -> None:
        """Take a record of a changelog. Raises StreamsError."""
        store = self.changelogs[place]
        try:
            if key is None:
                raise ValueError("it has no key")  # noqa: TRY301 (the same message as for other damage)
            self.task.stores[store].restore(key, value, time)
        except (ValueError, struct.error) as error:
            where = f"{place.topic}, partition {place.partition}, offset {offset}"
            raise StreamsError(f"{where}: the record is none of the store {store}: {error}") from None

    def start(self) -> dict[TopicPartition, int | None]:
        """Begin to run after the committed offsets. Returns the offset from which each input is to be read, None for
        its first one."""
        committed, known = self.committed or {}, self.task.metadata_of_processors
        for place, (_, text) in committed.items():
            metadata = decode(text)
            self.task.queues.set_partition_time(place.topic, metadata.partition_time)
            for name, time in metadata.processors.items():
                known[name] = max(known.get(name, NO_TIMESTAMP), time)
        self.task.start(known)
        self.is_running = True
        return {place: committed[place][0] if place in committed else None for place in self.inputs}

    def add(self, record: RawRecord) -> None:
        """Take a record of an input."""
        self.task.add(record)

    @property
    def is_full(self) -> bool:
        """Whether an input has enough records for now."""
        return any(len(queue) >= QUEUE_MAX for queue in self.task.queues.by_topic.values())

    def wants(self, place: TopicPartition) -> bool:
        """Whether an input has not enough records."""
        return len(self.task.queues.by_topic[place.topic]) < QUEUE_MAX

    def offsets(self) -> dict[TopicPartition, tuple[int, str]]:
        """Return the offsets to commit, with their metadata."""
        queues = self.task.queues.by_topic
        return {
            place: (offset, OffsetMetadata(queue.partition_time, self.task.metadata_of_processors).encode())
            for place in self.inputs
            if (offset := (queue := queues[place.topic]).next_offset) is not None
        }


def places(topics: Iterable[str], partition: int) -> tuple[TopicPartition, ...]:
    """Return the partition of this number of each topic."""
    return tuple(TopicPartition(topic, partition) for topic in topics)


def changelogs(part: SubTopology, partition: int) -> dict[TopicPartition, str]:
    """Return the changelogs of a task, each with the name of its store."""
    return {TopicPartition(topic, partition): store for store, topic in part.changelogs.items()}
