"""The buffer of suppress: the last change of each key that waits, ordered by time and then by the key's bytes.

A key keeps the time at which it came into the buffer. The changelog has each key that has changed once per commit, as a
HashSet iterates over them: a key that has left the buffer without a value, others with the header v=3 and the bytes of
`Buffered`. Source: InMemoryTimeOrderedKeyValueChangeBuffer; KIP-328.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kcli.java.hashing import hash_order, list_hash, map_size
from kcli.streams.records import NO_TIMESTAMP, Change, Headers, Record, RecordMetadata, ValueAndTimestamp
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.buffered import Buffered
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder

TIME_BYTES = 8
VERSION_3: Headers = (("v", b"\3"),)


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
        self._buffered: SortedMap[tuple[int, bytes], Buffered] = SortedMap()

    def __len__(self) -> int:
        return len(self._times)

    def put(self, time: int, record: Record[Any, Change], metadata: RecordMetadata | None) -> None:
        """Keep a change; it replaces the key's earlier one, whose time it keeps. time: of a key that is not in the
        buffer yet."""
        key = self._key_serde.serialize_key(record.key, self.name)
        new, old = map(self._value_serde.to_bytes, (record.value.new, record.value.old))
        place = (self._times.setdefault(key, time), key)
        before = self._buffered.get(place)
        if before is not None:
            self.bytes_held -= self._size(key, before)
        buffered = Buffered(old if before is None else before.prior, old, new, record, metadata)
        self._buffered.put(place, buffered)
        self.bytes_held += self._size(key, buffered)
        self._change(key)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if key in self._times:
            self._remove((self._times[key], key))
        if value is not None:
            time, buffered = Buffered.unpack(value)
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

    def _first(self) -> tuple[tuple[int, bytes], Buffered]:
        return self._buffered.first()

    @staticmethod
    def _size(key: bytes, buffered: Buffered) -> int:
        return TIME_BYTES + len(key) + buffered.size


def _hash(key: bytes) -> int:
    """Return Java's Arrays.hashCode of the bytes."""
    return list_hash(byte - 256 if byte > 127 else byte for byte in key)
