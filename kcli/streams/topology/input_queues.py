"""The input of a task: a queue for each topic, and the choice of the next record.

The next record is that with the lowest timestamp among the first records of all queues. Queues whose first records have
equal timestamps are taken in the order of Java's PriorityQueue. Source: PartitionGroup, RecordQueue of Kafka Streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kcli.java.priority_queue import PriorityQueue
from kcli.streams.errors import ProcessingError, SerializationError
from kcli.streams.records import NO_TIMESTAMP, ConsumerRecord, Headers, Record, RecordMetadata
from kcli.streams.serdes import Serde
from kcli.streams.topology.topology import Source

Unreadable = Callable[["Source", "RawRecord", ProcessingError], None]
"""Takes an input record that cannot be deserialized: raises an error, or returns if the record is left out."""


class RawRecord(NamedTuple):
    """A record of an input topic as bytes. timestamp: milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def deserialized(source: Source, raw: RawRecord) -> ConsumerRecord:
    """Return the record, with key and value deserialized by the source's serdes. Raises ProcessingError."""
    key, value = _read("key", source.key_serde, raw.key, raw), _read("value", source.value_serde, raw.value, raw)
    return ConsumerRecord(raw.topic, raw.partition, raw.offset, raw.timestamp, key, value, raw.headers)


def _read(side: str, serde: Serde[Any], data: bytes | None, raw: RawRecord) -> Any:
    try:
        return serde.from_bytes(data)
    except SerializationError as error:
        place = f"{raw.topic}, partition {raw.partition}, offset {raw.offset}"
        raise ProcessingError(f"{place}: the record's {side} cannot be read: {error}") from None


class First(NamedTuple):
    """A record that comes next, with its topic, partition and offset, and the bytes that it was."""

    record: Record[object, object]
    metadata: RecordMetadata
    raw: RawRecord


class InputQueue:
    """The records of a topic that wait. The first one is deserialized and has the timestamp that the source's extractor
    gives it.

    next_offset: the offset from which a new task has to go on, None before the first record. partition_time: the
    highest timestamp of a record taken so far. is_at_end: whether the topic has no more records than those added.
    skipped: how many records were left out.
    """

    def __init__(self, source: Source, unreadable: Unreadable) -> None:
        self.source, self._unreadable = source, unreadable
        self.skipped = 0
        self.next_offset: int | None = None
        self.partition_time = NO_TIMESTAMP
        self.is_at_end = False
        self.first: First | None = None
        self._waiting: deque[RawRecord] = deque()

    def __len__(self) -> int:
        return len(self._waiting) + (self.first is not None)

    @property
    def timestamp(self) -> int:
        """The timestamp of the first record."""
        assert self.first is not None
        return self.first.record.timestamp

    def add(self, raw: RawRecord) -> None:
        self._waiting.append(raw)
        self.is_at_end = False
        self._find_first()

    def reach_end(self, offset: int) -> bool:
        """Take note that the topic has no more records below an offset, at which its next record will be. Return True
        if this moves next_offset, past the markers of transactions."""
        self.is_at_end = True
        if self.first is not None or offset <= (self.next_offset or 0):
            return False
        self.next_offset = offset
        return True

    def take(self) -> First:
        """Remove the first record, and return it."""
        taken = self.first
        assert taken is not None
        self.first = None
        self.next_offset = taken.metadata.offset + 1
        self.partition_time = max(self.partition_time, taken.record.timestamp)
        self._find_first()
        return taken

    def _find_first(self) -> None:
        while self.first is None and self._waiting:
            raw = self._waiting.popleft()
            self.first = self._read(raw)
            if self.first is None:
                self.next_offset = raw.offset + 1
                self.skipped += 1

    def _read(self, raw: RawRecord) -> First | None:
        """Return the record, None if it is left out."""
        try:
            record = deserialized(self.source, raw)
        except ProcessingError as error:
            self._unreadable(self.source, raw, error)
            return None
        timestamp = self.source.timestamp_extractor(record, self.partition_time)
        if timestamp < 0:
            return None
        place = RecordMetadata(raw.topic, raw.partition, raw.offset)
        return First(Record(record.key, record.value, timestamp, record.headers), place, raw)


class InputQueues:
    """The queues of a task, by topic. stream_time: the highest timestamp of a record taken so far, in milliseconds.
    unreadable: takes the records that cannot be deserialized."""

    def __init__(self, unreadable: Unreadable) -> None:
        self._unreadable = unreadable
        self.stream_time = NO_TIMESTAMP
        self.by_topic: dict[str, InputQueue] = {}
        self._by_time: PriorityQueue[InputQueue] = PriorityQueue(lambda queue: queue.timestamp)

    def __len__(self) -> int:
        return len(self._by_time)

    def __contains__(self, topic: str) -> bool:
        return topic in self.by_topic

    @property
    def is_ready(self) -> bool:
        """Whether a record waits, and no topic can have an earlier one: each has one, or has been read to its end."""
        if not self._by_time:
            return False
        for queue in self.by_topic.values():  # noqa: SIM110 (a generator would cost more than what it yields)
            if queue.first is None and not queue.is_at_end:
                return False
        return True

    def set_partition_time(self, topic: str, time: int) -> None:
        """Go on from the highest timestamp that an earlier task has taken from a topic."""
        self.by_topic[topic].partition_time = time
        self.stream_time = max(self.stream_time, time)

    def open(self, topic: str, source: Source) -> None:
        """Make the queue of a topic."""
        self.by_topic[topic] = InputQueue(source, self._unreadable)

    def add(self, raw: RawRecord) -> None:
        """Put a record at the end of its topic's queue. Raises what `unreadable` raises, if it comes first."""
        queue = self.by_topic[raw.topic]
        was_empty = queue.first is None
        queue.add(raw)
        if was_empty and queue.first is not None:
            self._by_time.offer(queue)

    @property
    def skipped(self) -> int:
        """How many records were left out: they cannot be read, or have no timestamp."""
        return sum(queue.skipped for queue in self.by_topic.values())

    def take(self) -> tuple[Source, First]:
        """Remove the next record; return it with its source."""
        queue = self._by_time.poll()
        taken = queue.take()
        if queue.first is not None:
            self._by_time.offer(queue)
        self.stream_time = max(self.stream_time, taken.record.timestamp)
        return queue.source, taken
