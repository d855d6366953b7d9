"""A task of an application with its partitions: it waits for offsets, restores its stores, and then runs."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import SerializationError, StreamsError
from kcli.streams.local.checks import end_name, id_name
from kcli.streams.local.plan import Plan, TaskId
from kcli.streams.records import NO_TIMESTAMP
from kcli.streams.topology.offset_metadata import OffsetMetadata, decode
from kcli.streams.topology.stores.key_value import KeyValueStore
from kcli.streams.topology.stores.session import SessionStore
from kcli.streams.topology.stores.versioned import VersionedKeyValueStore
from kcli.streams.topology.stores.window import WindowStore
from kcli.streams.topology.task import Task

if TYPE_CHECKING:
    from kcli.client.bulk_reading import Slice

QUEUE_MAX = 1000
READ = KeyValueStore, VersionedKeyValueStore, WindowStore, SessionStore
"""The stores whose entries are read once, to see whether the program's serdes take them."""


@dataclass(eq=False)
class ActiveTask:
    """A task. inputs, changelogs: its partitions; a changelog's with the name of the store. ids: of its changelogs, by
    the names under which they are committed. is_running: whether its stores are restored. has_news: whether it has
    processed something since the last commit."""

    id: TaskId
    task: Task
    inputs: tuple[TopicPartition, ...]
    changelogs: Mapping[TopicPartition, str]
    ids: Mapping[str, int]
    committed: dict[TopicPartition, tuple[int, str]] | None = None
    is_running: bool = False
    has_news: bool = False
    paused: set[TopicPartition] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)
    skipped: int = 0

    def restore(self, place: TopicPartition, offset: int, key: bytes | None, value: bytes | None, time: int) -> None:
        """Take a record of a changelog. Raises StreamsError."""
        store = self.changelogs[place]
        try:
            if key is None:
                raise ValueError("it has no key")  # noqa: TRY301 (the same message as for other damage)
            self.task.stores[store].restore(key, value, time)
            if store not in self.checked:
                self._check(store, place)
        except (ValueError, struct.error) as error:
            where = f"{place.topic}, partition {place.partition}, offset {offset}"
            raise StreamsError(f"{where}: the record is none of the store {store}: {error}") from None

    def takes_many(self, place: TopicPartition) -> bool:
        """Whether a changelog is that of a store that takes many records at once."""
        return isinstance(self.task.stores[self.changelogs[place]], KeyValueStore)

    def restore_all(self, place: TopicPartition, records: Slice) -> bool:
        """Take records of a changelog. Return False if the store does not take all of them: `restore` says why. Raises
        StreamsError."""
        name = self.changelogs[place]
        store = self.task.stores[name]
        assert isinstance(store, KeyValueStore)
        taken = store.restore_all(*records)
        if name not in self.checked:
            self._check(name, place)
        return taken == len(records.records)

    def start(self) -> dict[TopicPartition, int | None]:
        """Begin to run after the committed offsets. Returns the offset from which each input is to be read, None for
        its first one."""
        committed = self.committed or {}
        known = self.task.metadata_of_processors
        for place, (offset, text) in committed.items():
            metadata = decode(text)
            self.task.queues.by_topic[place.topic].next_offset = offset
            self.task.queues.set_partition_time(place.topic, metadata.partition_time)
            for name, time in metadata.processors.items():
                known[name] = max(known.get(name, NO_TIMESTAMP), time)
        known.update(self.ids)
        for topic in self.task.queues.by_topic.keys() - {place.topic for place in self.inputs}:
            self.task.queues.by_topic[topic].reach_end(0)
        self.task.start()
        self.is_running = True
        return {place: committed[place][0] if place in committed else None for place in self.inputs}

    def _check(self, store: str, place: TopicPartition) -> None:
        """Read the first entry of a store that is being restored. Raises StreamsError if its serdes do not take it."""
        found = self.task.stores[store]
        try:
            if not isinstance(found, READ) or next(iter(found.all()), None):
                self.checked.add(store)
        except SerializationError as error:
            where = f"{place.topic}, partition {place.partition}"
            raise StreamsError(f"{where}: what it has is none of the store {store}: {error}") from None

    def note_ends(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Take note of where changelogs end, which is committed with the next offsets. Return whether that is news."""
        known = self.task.metadata_of_processors
        news = {end_name(place.topic): end for place, end in ends.items() if place in self.changelogs}
        changed = any(known.get(name) != end for name, end in news.items())
        known.update(news)
        return changed

    def has_skipped(self) -> bool:
        """Whether records were left out since the last call."""
        before, self.skipped = self.skipped, self.task.queues.skipped
        return self.skipped > before

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


def active_task(plan: Plan, task_id: TaskId, task: Task) -> ActiveTask:
    """Return a task with its partitions."""
    part, number = plan.sub_topologies[task_id.sub_topology], task_id.partition
    known = plan.changelog_ids
    ids = {id_name(topic): known[topic] for topic in part.changelogs.values() if topic in known}
    inputs = tuple(TopicPartition(topic, number) for topic in plan.inputs(part, number))
    changelogs = {TopicPartition(topic, number): store for store, topic in part.changelogs.items()}
    return ActiveTask(task_id, task, inputs, changelogs, ids)
