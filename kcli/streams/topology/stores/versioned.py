"""Versioned key-value stores: the values that a key has had, each with the time from which it holds.

A version holds from its timestamp until that of the next one; a deletion ends a version, too. Puts may come in any
order. What has ended history_retention_ms before the highest timestamp of all puts is forgotten, and a put before that
is not stored; the last value of a key stays. The changelog has a record of each put, also of one that is not stored,
with the version's timestamp as its own.

As in Kafka Streams, a put of None at the very timestamp of a key's last value leaves nothing there if no version ends
at that time: the next put before it becomes the last value. Source: RocksDBVersionedStore,
ChangeLoggingVersionedKeyValueBytesStore; KIP-889.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Generic, TypeVar

from kcli.streams.errors import TopologyError
from kcli.streams.records import NO_TIMESTAMP, VersionedRecord
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder

K = TypeVar("K")
V = TypeVar("V")

VALID_TO_UNDEFINED = -1
"""What put returns for a version that is the last of its key."""
NOT_PUT = -(2**63)
"""What put returns for a version that is too old to be stored."""


@dataclass(frozen=True, kw_only=True)
class VersionedKeyValueStoreBuilder(StoreBuilder["VersionedKeyValueStore[Any, Any]"]):
    """The definition of a versioned key-value store. history_retention_ms: how long it keeps a version after its end,
    by the highest timestamp of all puts; also how much older than this timestamp a put may be."""

    history_retention_ms: int

    def __post_init__(self) -> None:
        if self.history_retention_ms < 0:
            raise TopologyError(f"the store {self.name}: history_retention_ms is {self.history_retention_ms}, below 0")

    @property
    def compaction_lag_ms(self) -> int:
        return self.history_retention_ms

    def build(self, log: Log) -> VersionedKeyValueStore[Any, Any]:
        return VersionedKeyValueStore(self, log)


@dataclass(slots=True)
class _Versions:
    """The versions of a key. latest: timestamp and bytes of the last value, None without one. times, values: what was
    before it: a value holds until the next time. The last one of these has no value, as it is an end."""

    latest: tuple[int, bytes] | None = None
    times: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def put(self, value: bytes | None, timestamp: int) -> int:
        """Put a version; return the time at which it ends, VALID_TO_UNDEFINED if it is the last."""
        if self.latest is not None and timestamp >= self.latest[0]:
            if timestamp > self.latest[0]:
                self._set(*self.latest)
                self._set(timestamp, None)
            self.latest = None if value is None else (timestamp, value)
            return VALID_TO_UNDEFINED
        if self.times and timestamp < self.times[-1]:
            self._set(timestamp, value)
            return self.times[bisect_right(self.times, timestamp)]
        if self.latest is not None:
            self._set(timestamp, value)
            self._set(self.latest[0], None)
            return self.latest[0]
        if value is None:
            self._set(timestamp, None)
        else:
            self.latest = (timestamp, value)
        return VALID_TO_UNDEFINED

    def at(self, time: int) -> tuple[int, bytes, int] | None:
        """Return the version before the last value that holds at a time: its timestamp, its bytes and its end."""
        place = bisect_right(self.times, time) - 1
        value = None if place < 0 else self.values[place]
        return None if value is None else (self.times[place], value, self.times[place + 1])

    def forget(self, bound: int) -> bool:
        """Forget what has ended before a time. Return whether nothing is left."""
        ended = bisect_left(self.times, bound)
        keeps = ended if ended == len(self.times) else max(0, ended - 1)
        del self.times[:keeps], self.values[:keeps]
        return self.latest is None and not self.times

    def _set(self, timestamp: int, value: bytes | None) -> None:
        place = bisect_left(self.times, timestamp)
        if place < len(self.times) and self.times[place] == timestamp:
            self.values[place] = value
        else:
            self.times.insert(place, timestamp)
            self.values.insert(place, value)


class VersionedKeyValueStore(StateStore, Generic[K, V]):
    """The values that keys have had."""

    is_versioned = True

    def __init__(self, definition: VersionedKeyValueStoreBuilder, log: Log) -> None:
        assert definition.key_serde is not None
        assert definition.value_serde is not None
        self.name = definition.name
        self._retention_ms, self._log = definition.history_retention_ms, log
        self._key_serde: Serde[K] = definition.key_serde
        self._value_serde: Serde[V] = definition.value_serde
        self._versions: dict[bytes, _Versions] = {}
        self._stream_time = NO_TIMESTAMP
        self._puts = 0

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Set the key's value from a timestamp on; None deletes it. Returns the time until which it holds,
        VALID_TO_UNDEFINED for the key's last value, NOT_PUT if the version is too old."""
        key_bytes, data = self._key(key), self._value_serde.to_bytes(value)
        valid_to = self._put(key_bytes, data, timestamp)
        self._log(key_bytes, data, timestamp)
        return valid_to

    def delete(self, key: K, timestamp: int) -> VersionedRecord | None:
        """Delete the key's value from a timestamp on. Returns the one that held then; None if there is none, or if the
        timestamp is too old."""
        before = None if timestamp < self._oldest() else self.get(key, timestamp)
        self.put(key, None, timestamp)
        return before

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord | None:
        """Return the key's last value, or the one that held at the time `as_of`; None if there is none, or if the time
        is further back than the store's history."""
        versions = self._versions.get(self._key(key))
        if versions is None:
            return None
        latest = versions.latest
        if as_of is None or (latest is not None and latest[0] <= as_of):
            return None if latest is None else VersionedRecord(self._value_serde.from_bytes(latest[1]), latest[0])
        found = None if as_of < self._oldest() else versions.at(as_of)
        return None if found is None else VersionedRecord(self._value_serde.from_bytes(found[1]), found[0], found[2])

    def all(self) -> Iterator[tuple[K, VersionedRecord]]:
        """Yield all keys that have a last value, and that, in the order of the keys' bytes."""
        for key, versions in sorted(self._versions.items(), key=itemgetter(0)):
            if (latest := versions.latest) is not None:
                record = VersionedRecord(self._value_serde.from_bytes(latest[1]), latest[0])
                yield self._key_serde.from_bytes(key), record  # type: ignore[misc]

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._put(key, value, timestamp)

    def _put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if timestamp < self._oldest():
            return NOT_PUT
        self._stream_time = max(self._stream_time, timestamp)
        self._sweep()
        versions = self._versions.setdefault(key, _Versions())
        valid_to = versions.put(value, timestamp)
        versions.forget(self._oldest())
        return valid_to

    def _sweep(self) -> None:
        """Forget old versions of all keys, once in as many puts as there are keys."""
        self._puts += 1
        if self._puts <= len(self._versions):
            return
        self._puts, bound = 0, self._oldest()
        self._versions = {key: each for key, each in self._versions.items() if not each.forget(bound)}

    def _oldest(self) -> int:
        """Return the earliest time of the store's history."""
        return self._stream_time - self._retention_ms

    def _key(self, key: K) -> bytes:
        return self._key_serde.serialize_key(key, self.name)
