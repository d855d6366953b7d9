"""Records of a topic's partitions, read by assignment: no group is joined, no offset is committed.

Reading a partition ends at the stop offset of its range, or at the partition's end. librdkafka reports that end even
if the last records are transaction markers, which consumers do not see.
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

# If a header key is not UTF-8, headers() returns a broken list *and* sets an exception. A call that CPython has
# specialized ignores the exception; a methodcaller raises it.
headers_of = methodcaller("headers")


class Record(NamedTuple):
    """A record as a consumer receives it. timestamp: epoch ms, None in message format v0; headers: in the record's
    order; leader_epoch: None if it is not known."""

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
class RecordSelection:
    """The records to read. partitions: empty for all. starts: the start of each partition; the key None stands for the
    partitions that have no key of their own. times: the timestamps to read, instead of `starts`. to_end: stop at the
    end that each partition has when reading begins. count: the maximum number of records, None for no limit.
    committed_only: whether to read with read_committed."""

    topic: str
    partitions: tuple[int, ...] = ()
    starts: dict[int | None, Start] = field(default_factory=dict)
    times: Times | None = None
    to_end: bool = False
    count: int | None = None
    committed_only: bool = True


def consume(connection: Connection, selection: RecordSelection) -> Generator[list[Record]]:
    """Yield lists of records, in order within each partition; an empty list after a poll without records.

    Ends when all ranges are read or `count` records were yielded; a range without a stop never ends. Raises UsageError,
    Unreachable, Refused, KcliError.
    """
    if selection.count == 0:
        return
    consumer = connection.consumer(
        {
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if selection.committed_only else "read_uncommitted",
            "fetch.wait.max.ms": 100,
            "queued.max.messages.kbytes": 16_384,
        }
    )
    offsets = Offsets(connection, consumer, selection.topic)
    partitions = offsets.partitions()
    if missing := set(selection.partitions) - set(partitions):
        raise KcliError(f"{selection.topic} has no partition {min(missing)}: it has {len(partitions)}")
    ranges = offsets.ranges(
        selection.partitions or partitions, selection.starts, selection.times, to_end=selection.to_end
    )
    reading = _Reading(connection, consumer, selection, ranges)
    left = selection.count
    while reading.is_open:
        records = reading.next()
        if left is not None:
            records = records[:left]
            left -= len(records)
        yield records
        if left == 0:
            return


class _Reading:
    """The assigned partitions that are not yet read to the end of their ranges."""

    def __init__(
        self, connection: Connection, consumer: Consumer, selection: RecordSelection, ranges: list[Range]
    ) -> None:
        self._connection = connection
        self._consumer = consumer
        self._topic = selection.topic
        self._first_time = selection.times.first if selection.times is not None else None
        self._failure: KcliError | None = None
        self._open = {each.partition: each for each in ranges if each.stop is None or each.start < each.stop}
        consumer.assign([TopicPartition(selection.topic, each.partition, each.start) for each in self._open.values()])

    @property
    def is_open(self) -> bool:
        """Whether records are left to read, or a failure is still to be raised."""
        return bool(self._open) or self._failure is not None

    def next(self) -> list[Record]:
        """Return the records of one poll; an empty list if none came in time. If an earlier poll failed after it had
        read records, raises that failure now."""
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
                elif (record := self._record_of(message)) is not None:
                    records.append(record)
            except KcliError as failure:
                self._failure = failure  # raised after the records that came before it
                break
        if messages:
            self._connection.trouble.down_since = None
        elif self._connection.trouble.down_for(self._connection.timeout_s):
            self._connection.metadata(self._consumer)  # only a request shows whether a broker is back
        return records

    def _record_of(self, message: Message) -> Record | None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        place = self._open.get(partition)
        if place is None:
            return None  # librdkafka had fetched this record before the range was read to its end
        if place.stop is not None and offset >= place.stop - 1:
            self._close(partition)
            if offset >= place.stop:
                return None
        record = record_of(message, self._topic)
        if self._first_time is not None and record.timestamp is not None and record.timestamp < self._first_time:
            return None  # timestamps may go back: this record is older than the first time wanted
        return record

    def _trouble(self, message: Message, error: KafkaError) -> None:
        partition = message.partition()
        if error.code() == PARTITION_EOF:
            if partition in self._open and self._open[partition].stop is not None:
                self._close(partition)
        # kcli joins no group here, so it needs no access to one
        elif not error.retriable() and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise Refused(self._topic if partition is None else f"{self._topic}-{partition}", error)

    def _close(self, partition: int) -> None:
        del self._open[partition]
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])


def record_of(message: Message, topic: str) -> Record:
    """Convert librdkafka's message, which has no error, to a record. Raises KcliError if librdkafka cannot decode
    the message's headers."""
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
        raise KcliError(
            f"{place}: the name of a header is not UTF-8, and the client library cannot decode it"
        ) from None
    return [] if headers is None else cast("list[tuple[str, bytes | None]]", headers)
