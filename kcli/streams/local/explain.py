"""Where a key's value in a store came from: the input records that made it, found by processing the input again.

    input topics, below the committed offsets -> all tasks, in this process -> the puts of the key, each with its record

An input record is processed together with what follows from it in repartition topics; of the partitions, that one goes
on whose next record has the lowest timestamp. Nothing is sent, and nothing committed. A record is found if the key was
put while it was processed, since the key was last deleted; a record whose value was only looked up is not. Time stands
still, so that nothing is found that a punctuation by the clock has put; records that fail are left out.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any, NamedTuple

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import PartitionReader
from kcli.java.hashing import murmur2
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import StreamsError
from kcli.streams.local.changelog import WAIT_S, Windows, of_cluster
from kcli.streams.local.internal import partition_counts
from kcli.streams.local.plan import Plan, SubTopology, TaskId, input_topics, plan
from kcli.streams.records import ProducerRecord
from kcli.streams.topology.error_handlers import ErrorHandlers, Response
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.stores.key_value import KeyValueStoreBuilder
from kcli.streams.topology.stores.session import SessionStoreBuilder
from kcli.streams.topology.stores.store import StateStore, StoreBuilder
from kcli.streams.topology.stores.versioned import VersionedKeyValueStoreBuilder
from kcli.streams.topology.stores.window import WindowStoreBuilder
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import Topology, changelog_topic

WINDOWS: dict[type[StoreBuilder[Any]], Windows] = {
    KeyValueStoreBuilder: Windows.NONE,
    VersionedKeyValueStoreBuilder: Windows.NONE,
    WindowStoreBuilder: Windows.TIME,
    SessionStoreBuilder: Windows.SESSION,
}
"""The stores whose keys can be explained, and which windows these have."""
POSITIVE = 0x7FFFFFFF


class Cause(NamedTuple):
    """An input record, and what it has made of a key of the store: the changelog's record. place: the key's partition
    and bytes."""

    record: RawRecord
    place: tuple[int, bytes]
    value: bytes | None
    timestamp: int


class Explanation(NamedTuple):
    """causes: by partition and key, in the order in which they were processed. lost: partitions of input topics that
    have lost their first records, with their first offsets. differing: the keys, with their partitions, for which the
    changelog has another value than was found."""

    causes: list[Cause]
    lost: dict[TopicPartition, int]
    differing: list[tuple[int, bytes]]


class Replay:
    """All tasks of an application, for input records that are processed again, one by one."""

    def __init__(self, topology: Topology, application_id: str, made: Plan) -> None:
        self._topology, self._application_id, self._plan = topology, application_id, made
        self._parts = {topic: part for part in made.sub_topologies for topic in part.topics}
        self._changelogs = {topic for part in made.sub_topologies for topic in part.changelogs.values()}
        self._repartition = {topic.name: topic.partitions for topic in made.internal_topics}
        self._tasks: dict[TaskId, Task] = {}
        self._offsets: Counter[TopicPartition] = Counter()
        self._global_stores: dict[str, StateStore] = {}
        self._global = self._new_task({name for part in made.sub_topologies if part.is_global for name in part.names})
        self._global_stores = self._global.stores

    def take(self, record: RawRecord) -> Iterator[ProducerRecord]:
        """Process an input record, and all that follows from it; yield what changelogs get."""
        waiting = deque([record])
        while waiting:
            raw = waiting.popleft()
            part = self._parts[raw.topic]
            if part.is_global:
                self._global.add(raw)
                continue
            task = self._task_of(part, raw.partition)
            task.add(raw)
            task.process()
            task.commit()
            sent, task.sent = task.sent, []
            for each in sent:
                if each.topic in self._changelogs:
                    yield each
                elif each.topic in self._repartition:
                    waiting.append(self._read_back(each))

    def _read_back(self, record: ProducerRecord) -> RawRecord:
        """Return a record of a repartition topic as its source gets it."""
        partition = record.partition
        if partition is None:
            hashed = murmur2(record.hashed) & POSITIVE if record.hashed is not None else 0
            partition = hashed % self._repartition[record.topic]
        place = TopicPartition(record.topic, partition)
        self._offsets[place] += 1
        offset = self._offsets[place] - 1
        return RawRecord(*place, offset, record.timestamp, record.key, record.value, record.headers)

    def _task_of(self, part: SubTopology, partition: int) -> Task:
        task_id = TaskId(part.number, partition)
        if task_id not in self._tasks:
            self._tasks[task_id] = self._new_task(part.names, partition)
        return self._tasks[task_id]

    def _new_task(self, names: Iterable[str], partition: int = 0) -> Task:
        handlers = ErrorHandlers(_left_out, _left_out, _left_out, global_processing=True)
        task = Task(
            self._topology,
            self._application_id,
            now_ms=0,
            emit_interval_ms=0,
            names=set(names),
            global_stores=self._global_stores,
            partition=partition,
            handlers=handlers,
        )
        task.start()
        return task


def causes_of(
    replay: Replay,
    records: Iterable[RawRecord],
    changelog: str,
    is_wanted: Callable[[bytes], bool],
    *,
    all_versions: bool = False,
) -> list[Cause]:
    """Process input records; return those that have made the values of keys in a changelog. all_versions: also those
    from before the key was deleted."""
    found: dict[tuple[int, bytes], list[Cause]] = {}
    for record in records:
        for each in replay.take(record):
            if each.topic != changelog or each.key is None or not is_wanted(each.key):
                continue
            assert each.partition is not None
            causes = found.setdefault((each.partition, each.key), [])
            causes.append(Cause(record, (each.partition, each.key), each.value, each.timestamp))
            if each.value is None and not all_versions:
                causes.clear()
    return [cause for place in sorted(found) for cause in found[place]]


def explain(
    connection: Connection, topology: Topology, application_id: str, store: str, is_wanted: Callable[[bytes], bool]
) -> Explanation:
    """Return what has made the values of a store's keys. is_wanted: whether a key of the changelog is one of them.
    Raises StreamsError for a store that the program does not have or that has no changelog; TopologyError, KcliError.
    """
    is_versioned = isinstance(store_of(topology, store), VersionedKeyValueStoreBuilder)
    made = plan(topology, application_id, partition_counts(connection))
    groups = Groups(connection)
    groups.group(application_id)
    bounds = {place: each.offset for place, each in groups.committed(application_id).items()}
    records, lost = _inputs(connection, groups, topology, made, bounds)
    changelog = changelog_topic(application_id, store)
    replay = Replay(topology, application_id, made)
    causes = causes_of(replay, records, changelog, is_wanted, all_versions=is_versioned)
    rows = of_cluster(connection, changelog, is_versioned=is_versioned)
    wanted = {(row.partition, row.key): row.value for row in rows if is_wanted(row.key)}
    made_again: dict[tuple[int, bytes], bytes | None] = {}
    for cause in sorted(causes, key=attrgetter("timestamp")) if is_versioned else causes:
        made_again[cause.place] = cause.value
    differing = [place for place in sorted(wanted | made_again) if wanted.get(place) != made_again.get(place)]
    return Explanation(causes, lost, differing)


def store_of(topology: Topology, name: str) -> StoreBuilder[Any]:
    """Return the definition of a store whose keys can be explained. Raises StreamsError."""
    store = topology.stores.get(name)
    if store is None:
        raise StreamsError(f"the program has no store {name}; it has {', '.join(sorted(topology.stores)) or 'none'}")
    if not store.logging or name in topology.global_stores:
        raise StreamsError(f"the store {name} has no changelog")
    if type(store) not in WINDOWS:
        raise StreamsError(f"the store {name} is a buffer: only tables and stores of processors can be explained")
    return store


def _inputs(
    connection: Connection, groups: Groups, topology: Topology, made: Plan, bounds: Mapping[TopicPartition, int]
) -> tuple[Iterator[RawRecord], dict[TopicPartition, int]]:
    """Return the records that the application has processed, and the partitions that have lost their first ones.
    bounds: the committed offsets; global tables have none."""
    shared = {topic for part in made.sub_topologies if part.is_global for topic in part.topics}
    read = input_topics(topology)
    places = [TopicPartition(topic, number) for topic in sorted(read) for number in range(made.partitions[topic])]
    found: dict[TopicPartition, list[RawRecord]] = {place: [] for place in places}
    reader = PartitionReader(connection, committed_only=True)
    try:
        reader.add(places)
        while not all(map(reader.is_done, places)):
            for each in reader.poll(WAIT_S):
                raw = RawRecord._make(each)
                place = TopicPartition(raw.topic, raw.partition)
                if raw.topic in shared or raw.offset < bounds.get(place, 0):
                    found[place].append(raw)
    finally:
        reader.close()
    lost = {place: start for place, start in groups.starts(places).items() if start > 0}
    return merge(*found.values(), key=attrgetter("timestamp")), lost


def _left_out(_context: object, _error: Exception) -> Response:
    return Response(resumes=True)
