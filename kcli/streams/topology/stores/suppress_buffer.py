"""The buffer of suppress: the last change of each key that waits, ordered by time and then by the key's bytes.

A key keeps the time at which it came into the buffer. The changelog has each key that has changed once per commit, as a
HashSet iterates over them: a key that has left the buffer without a value, others with the header v=3 and

    timestamp, offset                        8 bytes each: of the record that made the change
    topic, partition                         length (4 bytes) and text; 4 bytes
    headers                                  number (4 bytes); for each its name and value behind their lengths
    prior, old, new value                    length (4 bytes; -1 for none, -2 for an old value like the prior) and bytes
    time                                     8 bytes

Source: InMemoryTimeOrderedKeyValueChangeBuffer, BufferValue, ProcessorRecordContext; KIP-328.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from kcli.java.hashing import hash_order, list_hash, map_size
from kcli.streams.records import NO_TIMESTAMP, Change, Headers, Record, RecordMetadata, ValueAndTimestamp
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder

CONTEXT_BYTES = 20
TIME_BYTES = 8
INT, LONG = struct.Struct(">i"), struct.Struct(">q")
NONE, LIKE_PRIOR = -1, -2
VERSION_3: Headers = (("v", b"\3"),)


class _Reader:
    """Reads the parts of a value in the changelog, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack_from(self._data, self._at)[0]
        self._at += layout.size
        return number

    def sized(self, like_prior: bytes | None = None) -> bytes | None:
        """Return the bytes behind their length; `like_prior` for the length that stands for the prior value."""
        size = self.number(INT)
        if size < 0:
            return like_prior if size == LIKE_PRIOR else None
        self._at += size
        return self._data[self._at - size : self._at]


class _Buffered(NamedTuple):
    """The entry of a key in the buffer. prior: the value that was sent last."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    record: Record[Any, Any]
    metadata: RecordMetadata | None

    def pack(self, time: int) -> bytes:
        """Return the value in the changelog."""
        topic, partition, offset = self.metadata or RecordMetadata("", -1, -1)
        headers = b"".join(_sized(name.encode()) + _sized(value) for name, value in self.record.headers)
        packed = LONG.pack(self.record.timestamp) + LONG.pack(offset) + _sized(topic.encode()) + INT.pack(partition)
        packed += INT.pack(len(self.record.headers)) + headers + _sized(self.prior)
        packed += INT.pack(LIKE_PRIOR) if self.old is not None and self.old == self.prior else _sized(self.old)
        return packed + _sized(self.new) + LONG.pack(time)

    @classmethod
    def unpack(cls, data: bytes) -> tuple[int, _Buffered]:
        """Return the time and the entry of a value in the changelog. Raises ValueError, struct.error."""
        reader = _Reader(data)
        timestamp, offset = reader.number(LONG), reader.number(LONG)
        topic = (reader.sized() or b"").decode()
        metadata = RecordMetadata(topic, reader.number(INT), offset)
        headers = tuple(((reader.sized() or b"").decode(), reader.sized()) for _ in range(max(0, reader.number(INT))))
        prior = reader.sized()
        old = reader.sized(prior)
        new = reader.sized()
        return reader.number(LONG), cls(prior, old, new, Record(None, None, timestamp, headers), metadata)

    @property
    def size(self) -> int:
        size = CONTEXT_BYTES + len(self.prior or b"") + len(self.new or b"")
        if self.old != self.prior:
            size += len(self.old or b"")
        topic = self.metadata.topic if self.metadata else ""
        return size + len(topic) + sum(len(name) + len(value or b"") for name, value in self.record.headers)


@dataclass(frozen=True, kw_only=True)
class SuppressBufferBuilder(StoreBuilder["SuppressBuffer"]):
    """The definition of a buffer of suppress."""

    def build(self, log: Log) -> SuppressBuffer:
        assert self.key_serde is not None
        assert self.value_serde is not None
        return SuppressBuffer(self.name, self.key_serde, self.value_serde, log)


class SuppressBuffer(StateStore):
    """The changes that wait. bytes_held: their size by the estimate of Kafka Streams."""

    def __init__(self, name: str, key_serde: Serde[Any], value_serde: Serde[Any], log: Log) -> None:
        self.name = name
        self.bytes_held = 0
        self._key_serde, self._value_serde, self._log = key_serde, value_serde, log
        self._changed: dict[bytes, None] = {}
        self._buckets = map_size(0)
        self._times: dict[bytes, int] = {}
        self._buffered: SortedMap[tuple[int, bytes], _Buffered] = SortedMap()

    def __len__(self) -> int:
        return len(self._times)

    def put(self, time: int, record: Record[Any, Change], metadata: RecordMetadata | None) -> None:
        """Keep a change; it replaces the key's earlier one, whose time it keeps. time: of a key that is not in the
        buffer yet."""
        key = self._key_serde.serialize_key(record.key, self.name)
        new, old = (self._value_serde.to_bytes(value) for value in record.value)
        place = (self._times.setdefault(key, time), key)
        before = self._buffered.get(place)
        if before is not None:
            self.bytes_held -= self._size(key, before)
        buffered = _Buffered(old if before is None else before.prior, old, new, record, metadata)
        self._buffered.put(place, buffered)
        self.bytes_held += self._size(key, buffered)
        self._change(key)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if key in self._times:
            self._remove((self._times[key], key))
        if value is not None:
            time, buffered = _Buffered.unpack(value)
            self._times[key] = time
            self._buffered.put((time, key), buffered)
            self.bytes_held += self._size(key, buffered)

    def first_time(self) -> int | None:
        """Return the earliest time in the buffer, None if it is empty."""
        return self._first()[0][0] if self._times else None

    def first_change(self) -> tuple[Record[Any, Change], RecordMetadata | None]:
        """Return the change with the earliest time. Raises IndexError if the buffer is empty."""
        _, buffered = self._first()
        new, old = (self._value_serde.from_bytes(data) for data in (buffered.new, buffered.old))
        key = self._key_serde.from_bytes(self._first()[0][1])
        return buffered.record.with_key(key).with_value(Change(new, old)), buffered.metadata

    def remove_first(self) -> None:
        """Remove the change with the earliest time. Raises IndexError if the buffer is empty."""
        place, _ = self._first()
        self._remove(place)
        self._change(place[1])

    def flush(self) -> None:
        for key in hash_order(self._changed, _hash, self._buckets):
            if key not in self._times:
                self._log(key, None, None)
                continue
            time = self._times[key]
            buffered = self._buffered.get((time, key))
            assert buffered is not None
            self._log(key, buffered.pack(time), None, VERSION_3)
        self._changed.clear()

    def prior_value(self, key: Any) -> tuple[bool, ValueAndTimestamp | None]:
        """Return whether the key is in the buffer, and the value that was sent last for it."""
        data = self._key_serde.serialize_key(key, self.name)
        if data not in self._times:
            return False, None
        buffered = self._buffered.get((self._times[data], data))
        assert buffered is not None
        prior = self._value_serde.from_bytes(buffered.prior)
        return True, None if prior is None else ValueAndTimestamp(prior, NO_TIMESTAMP)

    def _remove(self, place: tuple[int, bytes]) -> None:
        buffered, (_, key) = self._buffered.pop(place), place
        assert buffered is not None
        del self._times[key]
        self.bytes_held -= self._size(key, buffered)

    def _change(self, key: bytes) -> None:
        self._changed[key] = None
        self._buckets = map_size(len(self._changed), self._buckets)

    def _first(self) -> tuple[tuple[int, bytes], _Buffered]:
        return self._buffered.first()

    @staticmethod
    def _size(key: bytes, buffered: _Buffered) -> int:
        return TIME_BYTES + len(key) + buffered.size


def _sized(data: bytes | None) -> bytes:
    return INT.pack(NONE) if data is None else INT.pack(len(data)) + data


def _hash(key: bytes) -> int:
    """Return Java's Arrays.hashCode of the bytes."""
    return list_hash(byte - 256 if byte > 127 else byte for byte in key)
