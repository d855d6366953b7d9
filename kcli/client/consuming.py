"""Records out of a topic's partitions: by assignment, without a group, without a trace in the cluster's offsets.

Reading a partition ends before the stop of its range, at the latest where the partition ends (the library tells that
even where the last records are markers that no client sees).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from operator import methodcaller
from typing import NamedTuple, cast

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    Message,
    TopicPartition,
)

from kcli.client.connection import PARTITION_EOF, Connection, Refused
from kcli.client.ranges import Offsets, Range, Start, Times
from kcli.errors import KcliError

CHUNK = 1000
WAIT_S = 0.2

# Of a name that is no UTF-8 the method returns a broken list *and* leaves an exception behind. A call that the
# interpreter has specialized would not look at the latter; this one always does.
headers_of = methodcaller("headers")


class Record(NamedTuple):
    """A record as a consumer gets it. timestamp: epoch ms, None where the format had none; headers in order."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    leader_epoch: int | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to read. partitions: empty for all; to_end: stop where each partition ends at the start; count: at most."""

    topic: str
    partitions: tuple[int, ...] = ()
    starts: dict[int | None, Start] = field(default_factory=dict)
    times: Times | None = None
    to_end: bool = False
    count: int | None = None
    committed_only: bool = True


def consume(connection: Connection, wanted: Wanted) -> Generator[list[Record]]:
    """The records, a handful at a time, each partition in order; now and then none, where none come.

    Ends when all ranges are read or the count is reached; a range without a stop is never read to the end.
    Raises UsageError, Unreachable, Refused, KcliError.
    """
    if wanted.count == 0:
        return
    consumer = connection.consumer(
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if wanted.committed_only else "read_uncommitted",
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 16_384,
        }
    )
    offsets = Offsets(connection, consumer, wanted.topic)
    there = offsets.partitions()
    if missing := set(wanted.partitions) - set(there):
        raise KcliError(f"{wanted.topic} has no partition {min(missing)}: it has {len(there)}")
    ranges = offsets.ranges(wanted.partitions or there, wanted.starts, wanted.times, to_end=wanted.to_end)
    reading = _Reading(connection, consumer, wanted, ranges)
    left = wanted.count
    while reading.goes_on:
        records = reading.next()
        if left is not None:
            records = records[:left]
            left -= len(records)
        yield records
        if left == 0:
            return


class _Reading:
    """The partitions that are still read."""

    def __init__(self, connection: Connection, consumer: Consumer, wanted: Wanted, ranges: list[Range]) -> None:
        self._connection = connection
        self._consumer = consumer
        self._topic = wanted.topic
        self._first_time = wanted.times.first if wanted.times is not None else None
        self._failure: KcliError | None = None
        self._open = {each.partition: each for each in ranges if each.stop is None or each.start < each.stop}
        consumer.assign([TopicPartition(wanted.topic, each.partition, each.start) for each in self._open.values()])

    @property
    def goes_on(self) -> bool:
        """There is something left to read, or to say."""
        return bool(self._open) or self._failure is not None

    def next(self) -> list[Record]:
        """What has come, or nothing after a while."""
        if self._failure is not None:
            raise self._failure
        messages = self._consumer.consume(CHUNK, 0)
        if not messages:
            first = self._consumer.poll(WAIT_S)
            messages = [first] if first is not None else []
        records: list[Record] = []
        for message in messages:
            error = message.error()
            try:
                if error is not None:
                    self._trouble(message, error)
                elif (record := self._wanted(message)) is not None:
                    records.append(record)
            except KcliError as failure:
                self._failure = failure  # behind what came before it
                break
        if messages:
            self._connection.trouble.down_since = None
        elif self._connection.trouble.down_for(self._connection.timeout_s):
            self._connection.metadata(self._consumer)  # it may be back: only who asks is told
        return records

    def _wanted(self, message: Message) -> Record | None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        place = self._open.get(partition)
        if place is None:
            return None  # read ahead
        if place.stop is not None and offset >= place.stop - 1:
            self._close(partition)
            if offset >= place.stop:
                return None
        record = record_of(message, self._topic)
        if self._first_time is not None and record.timestamp is not None and record.timestamp < self._first_time:
            return None  # its timestamp is before those of the records ahead of it
        return record

    def _trouble(self, message: Message, error: KafkaError) -> None:
        partition = message.partition()
        if error.code() == PARTITION_EOF:
            if partition in self._open and self._open[partition].stop is not None:
                self._close(partition)
        elif not error.retriable():
            raise Refused(self._topic if partition is None else f"{self._topic}-{partition}", error)

    def _close(self, partition: int) -> None:
        del self._open[partition]
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])


def record_of(message: Message, topic: str) -> Record:
    """A message without an error as a record. Raises KcliError where the library cannot tell its headers."""
    kind, timestamp = message.timestamp()
    known = kind != TIMESTAMP_NOT_AVAILABLE
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return Record(
        topic,
        partition,
        offset,
        timestamp if known else None,
        "LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime" if known else "NoTimestampType",
        message.key(),
        message.value(),
        _headers(message, topic),
        message.leader_epoch(),
    )


def _headers(message: Message, topic: str) -> list[tuple[str, bytes | None]]:
    try:
        headers = headers_of(message)
    except (SystemError, UnicodeDecodeError):
        place = f"{topic}-{message.partition()} offset {message.offset()}"
        raise KcliError(f"{place}: the name of a header is not UTF-8, and the client library cannot tell it") from None
    return [] if headers is None else cast("list[tuple[str, bytes | None]]", headers)
