"""What is in a store, by its changelog alone: the last value of each key, from a cluster or from log directories. In a
versioned store that is the one with the highest timestamp, wherever it stands in the changelog.

keys of time windows  key, window start (8 bytes), sequence number (4 bytes)
keys of sessions      key, session end (8 bytes), session start (8 bytes)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from kcli.client.connection import Connection
from kcli.client.processing import PartitionReader
from kcli.errors import UnreadableInput
from kcli.log.coordinator_records import ErrorHandler, read_records
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import StreamsError
from kcli.streams.local.internal import partition_counts
from kcli.streams.topology.stores import session, window

WAIT_S = 0.1
NO_PRODUCER = -1


class Windows(StrEnum):
    """Which windows the keys of a store have."""

    NONE = "none"
    TIME = "time"
    SESSION = "session"


class Logged(NamedTuple):
    """The last record of a key in a changelog. timestamp: milliseconds."""

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes


class StoreKey(NamedTuple):
    """A key of a store. start, end: of its window, in milliseconds; None without one, end also in time windows, whose
    length is not in the changelog."""

    key: bytes
    start: int | None
    end: int | None


def of_cluster(
    connection: Connection, topic: str, until_ms: int | None = None, *, is_versioned: bool = False
) -> list[Logged]:
    """Return what a changelog has for each key, by partition and key. until_ms: without records of a later timestamp.
    is_versioned: whether the store is. Raises StreamsError if there is no such topic, KcliError."""
    count = partition_counts(connection).get(topic)
    if count is None:
        raise StreamsError(f"there is no topic {topic}")
    places = [TopicPartition(topic, number) for number in range(count)]
    reader = PartitionReader(connection, committed_only=True)
    last = _Last(until_ms, is_versioned=is_versioned)
    try:
        reader.add(places)
        while not all(map(reader.is_done, places)):
            for _, partition, offset, timestamp, key, value, _ in reader.poll(WAIT_S):
                last.take(partition, offset, timestamp, key, value)
    finally:
        reader.close()
    return last.rows()


def of_directories(
    directories: Iterable[Path],
    topic: str,
    on_error: ErrorHandler,
    until_ms: int | None = None,
    *,
    is_versioned: bool = False,
) -> list[Logged]:
    """Return the same from the log directories of brokers, without records of transactions that are open or aborted.
    on_error: as for kcli.log.coordinator_records. Raises UnreadableInput if no directory has the topic."""
    last = _Last(until_ms, is_versioned=is_versioned)
    found = [
        (int(path.name.rpartition("-")[2]), path)
        for directory in directories
        for path in sorted(directory.glob(f"{topic}-[0-9]*"))
        if path.name.rpartition("-")[0] == topic and path.name.rpartition("-")[2].isdigit()
    ]
    if not found:
        raise UnreadableInput(", ".join(map(str, directories)), f"no partition of {topic} is there")
    for partition, path in found:
        waiting: dict[int, list[tuple[int, int, bytes | None, bytes | None]]] = {}
        for _, record in read_records(path, on_error):
            row = record.offset, record.timestamp_ms, record.key, record.value
            if record.marker is not None:
                for each in waiting.pop(record.producer_id, []) if record.marker else ():
                    last.take(partition, *each)
                waiting.pop(record.producer_id, None)
            elif record.producer_id == NO_PRODUCER:
                last.take(partition, *row)
            else:
                waiting.setdefault(record.producer_id, []).append(row)
    return last.rows()


def key_reader(windows: Windows) -> Callable[[bytes], StoreKey]:
    """Return the function that takes a changelog's key apart. It raises StreamsError for a key that is too short."""

    def read(data: bytes) -> StoreKey:
        layout = window.SUFFIX if windows is Windows.TIME else session.SUFFIX
        if windows is Windows.NONE:
            return StoreKey(data, None, None)
        if len(data) < layout.size:
            raise StreamsError(f"a key of {len(data)} bytes has no window: see --windows")
        one, other = layout.unpack(data[-layout.size :])
        start, end = (one, None) if windows is Windows.TIME else (other, one)
        return StoreKey(data[: -layout.size], start, end)

    return read


class _Last:
    """The last record of each key, without those later than until_ms; in a versioned store that of the highest
    timestamp."""

    def __init__(self, until_ms: int | None, *, is_versioned: bool) -> None:
        self._found: dict[tuple[int, bytes], Logged] = {}
        self._times: dict[tuple[int, bytes], int] = {}
        self._until_ms, self._is_versioned = until_ms, is_versioned

    def take(self, partition: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            raise StreamsError(f"partition {partition}, offset {offset}: a changelog's record without a key")
        if self._until_ms is not None and timestamp > self._until_ms:
            return
        if self._is_versioned:
            if timestamp < self._times.get((partition, key), timestamp):
                return
            self._times[partition, key] = timestamp
        if value is None:
            self._found.pop((partition, key), None)
        else:
            self._found[partition, key] = Logged(partition, offset, timestamp, key, value)

    def rows(self) -> list[Logged]:
        return [self._found[place] for place in sorted(self._found)]


def rows_of(rows: Iterable[Logged], windows: Windows) -> Iterator[tuple[StoreKey, Logged]]:
    """Yield each row with its key taken apart."""
    read = key_reader(windows)
    for row in rows:
        yield read(row.key), row
