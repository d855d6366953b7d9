"""Records as processors get them, and the changes that tables send.

    Record             key, value, timestamp and headers; a new one is made for each change
    Change             the new and the old value of a table's key; None is no value
    ValueAndTimestamp  what a timestamped store keeps for a key
    VersionedRecord    what a versioned store keeps for a key and a time
    RecordMetadata     where in its topic the record stands that is in process

Source: Record, Change, ValueAndTimestamp, VersionedRecord, RecordMetadata of Kafka Streams.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

from kcli.streams.kernels.tuples import quick

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

NO_TIMESTAMP = -1
"""The time before the first record."""

Headers = tuple[tuple[str, bytes | None], ...]


@quick
class Record(NamedTuple, Generic[K, V]):
    """A record of a stream or, with a Change as its value, of a table. timestamp: milliseconds."""

    key: K
    value: V
    timestamp: int
    headers: Headers = ()

    def with_key(self, key: K2) -> Record[K2, V]:
        """Return the record with this key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V2) -> Record[K, V2]:
        """Return the record with this value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K, V]:
        """Return the record with this timestamp in milliseconds."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K, V]:
        """Return the record with these headers."""
        return Record(self.key, self.value, self.timestamp, headers)


@quick
class Change(NamedTuple):
    """The new and the old value of a key of a table. old: None also if no later step needs old values. is_latest: False
    if a versioned table has a later value of the key already."""

    new: Any
    old: Any = None
    is_latest: bool = True


@quick
class ValueAndTimestamp(NamedTuple):
    """A value in a timestamped store, and the timestamp in milliseconds up to which it holds all records."""

    value: Any
    timestamp: int


@quick
class VersionedRecord(NamedTuple):
    """A value in a versioned store, and the time in milliseconds from which it holds. valid_to: the time from which it
    holds no more; None for the key's last value."""

    value: Any
    timestamp: int
    valid_to: int | None = None


@quick
class RecordMetadata(NamedTuple):
    """Topic, partition and offset of the input record that is in process."""

    topic: str
    partition: int
    offset: int


@quick
class ConsumerRecord(NamedTuple):
    """A record of an input topic after deserialization, as a timestamp extractor gets it. timestamp: milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers


@quick
class ProducerRecord(NamedTuple):
    """A record that a topology sends to a topic, as bytes. timestamp: milliseconds. partition: None if `hashed` decides
    it: the key, without its window."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers
    partition: int | None = None
    hashed: bytes | None = None
