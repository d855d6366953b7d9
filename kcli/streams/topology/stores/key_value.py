"""Key-value stores: the last value of each key, in the order of the keys' bytes.

A timestamped store has ValueAndTimestamp as its values: the stores of tables are such. The changelog has the record of
each put. Source: InMemoryKeyValueStore, ChangeLoggingTimestampedKeyValueBytesStore.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.streams.kernels.bytes_map import Records
from kcli.streams.kernels.values import log_raw, logged, looked_up, raw, serialized_key, value_of
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.sorted_map import SortedBytes
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder
from kcli.streams.topology.stores.versioned import VersionedKeyValueStoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class KeyValueStore(StateStore, Generic[K, V]):
    """The values of keys. V is ValueAndTimestamp in a timestamped store."""

    def __init__(self, name: str, key_serde: Serde[K], value_serde: Serde[Any], log: Log, *, timestamped: bool) -> None:
        self.name = name
        self._key_serde, self._value_serde = key_serde, value_serde
        self._log, self._timestamped = log, timestamped
        self._map = SortedBytes()

    def get(self, key: K) -> V | None:
        """Return the key's value, None if there is none."""
        found: V | None = looked_up(
            self._map.get, self._key_serde, key, self.name, self._value_serde, self._timestamped
        )
        return found

    def put(self, key: K, value: V | None) -> None:
        """Set the key's value; None deletes the key."""
        key_bytes = serialized_key(self._key_serde, key, self.name)
        data = raw(value, self._value_serde, self._timestamped)
        self._set(key_bytes, data)
        log_raw(self._log, key_bytes, data, self._timestamped)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._set(key, logged(value, timestamp, self._timestamped))

    def restore_all(self, records: Records, data: memoryview) -> int:
        """Take the next records of the store's changelog, which are in `data`. Returns how many: those before the first
        one without a key."""
        return self._map.restore(records, data, timestamped=self._timestamped)

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set the key's value if it has none. Returns the value from before."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def delete(self, key: K) -> V | None:
        """Delete the key. Returns its value, None if there is none."""
        old = self.get(key)
        self.put(key, None)
        return old

    def all(self, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Yield all keys and values in the order of the keys' bytes."""
        return self._entries(self._map.range(reverse=reverse))

    def range(self, first: K | None, last: K | None, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Yield keys and values from `first` to `last`, both included, by the keys' bytes; None is no bound."""
        bounds = [
            None if bound is None else serialized_key(self._key_serde, bound, self.name) for bound in (first, last)
        ]
        return self._entries(self._map.range(*bounds, reverse=reverse))

    def approximate_num_entries(self) -> int:
        """Return the number of keys."""
        return len(self._map)

    def _set(self, key: bytes, data: bytes | None) -> None:
        if data is None:
            self._map.pop(key)
        else:
            self._map.put(key, data)

    def _entries(self, found: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[K, V]]:
        for key, data in found:
            value = value_of(data, self._value_serde, self._timestamped)
            yield self._key_serde.from_bytes(key), value  # type: ignore[misc]


@dataclass(frozen=True, kw_only=True)
class KeyValueStoreBuilder(StoreBuilder[KeyValueStore[Any, Any]]):
    """The definition of a key-value store. timestamped: its values are ValueAndTimestamp."""

    timestamped: bool = False

    def build(self, log: Log) -> KeyValueStore[Any, Any]:
        assert self.key_serde is not None
        assert self.value_serde is not None
        return KeyValueStore(self.name, self.key_serde, self.value_serde, log, timestamped=self.timestamped)


def table_store(
    name: str,
    serdes: tuple[Serde[Any] | None, Serde[Any] | None],
    *,
    logging: bool = True,
    history_retention_ms: int | None = None,
) -> StoreBuilder[Any]:
    """Return the definition of a table's store. serdes: of its keys and values. history_retention_ms: how long a
    versioned store keeps old values; None for a store without versions."""
    about: dict[str, Any] = {"name": name, "key_serde": serdes[0], "value_serde": serdes[1], "logging": logging}
    if history_retention_ms is not None:
        return VersionedKeyValueStoreBuilder(**about, history_retention_ms=history_retention_ms)
    return KeyValueStoreBuilder(**about, timestamped=True)
