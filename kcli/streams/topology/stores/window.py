"""Window stores: the value of each key and window, by the window's start and then by the key's bytes.

A store with duplicates keeps all values of a key and start, in the order of their puts: a stream-stream join's two
sides are such. A window leaves the store when the latest start put so far is retention_ms after its own.

    key in the changelog   key, window start (8 bytes), sequence number (4 bytes; 0 in a store without duplicates)

Source: InMemoryWindowStore, WindowKeySchema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcli.streams.kernels.values import log_raw, logged, raw, value_of
from kcli.streams.records import NO_TIMESTAMP
from kcli.streams.serdes import Serde
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder
from kcli.streams.windows import Window, Windowed

K = TypeVar("K")
V = TypeVar("V")

SUFFIX = struct.Struct(">qi")
SEQUENCE_MAX = 0x7FFFFFFF


@dataclass(frozen=True, kw_only=True)
class WindowStoreBuilder(StoreBuilder["WindowStore[Any, Any]"]):
    """The definition of a window store. retention_ms: how long it keeps a window, from its start. window_size_ms: a
    window's end minus its start."""

    retention_ms: int
    window_size_ms: int
    retain_duplicates: bool = False
    timestamped: bool = False

    @property
    def changelog_retention_ms(self) -> int:
        return self.retention_ms

    def build(self, log: Log) -> WindowStore[Any, Any]:
        return WindowStore(self, log)


class WindowStore(StateStore, Generic[K, V]):
    """The values of keys and windows. V is ValueAndTimestamp in a timestamped store."""

    def __init__(self, definition: WindowStoreBuilder, log: Log) -> None:
        assert definition.key_serde is not None
        assert definition.value_serde is not None
        self.name = definition.name
        self._definition, self._log = definition, log
        self._key_serde: Serde[K] = definition.key_serde
        self._value_serde: Serde[Any] = definition.value_serde
        self._segments: SortedMap[int, SortedMap[tuple[bytes, int], bytes]] = SortedMap()
        self._stream_time = NO_TIMESTAMP
        self._sequence = 0

    def put(self, key: K, value: V | None, start: int) -> None:
        """Set the value of a key and window start; None deletes it. A store with duplicates does not delete, but adds a
        tombstone to the changelog. A window that starts before the oldest kept one is not stored."""
        key_bytes, data = self._key(key), raw(value, self._value_serde, timestamped=self._definition.timestamped)
        if self._definition.retain_duplicates:
            self._sequence = self._sequence + 1 & SEQUENCE_MAX
        self._put(key_bytes, data, start)
        log_raw(
            self._log, key_bytes + SUFFIX.pack(start, self._sequence), data, timestamped=self._definition.timestamped
        )

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        start, self._sequence = SUFFIX.unpack(key[-SUFFIX.size :])
        data = logged(value, timestamp, timestamped=self._definition.timestamped)
        self._put(key[: -SUFFIX.size], data, start)

    def fetch(self, key: K, start: int) -> V | None:
        """Return the value of a key and window start, None if there is none."""
        segment = self._segments.get(start) if start >= self._oldest() else None
        found: V | None = self._value(None if segment is None else segment.get((self._key(key), 0)))
        return found

    def fetch_range(self, key: K, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, V]]:
        """Yield window start and value of the key's windows that start from `first` to `last`, both included."""
        key_bytes = self._key(key)
        for start, _, data in self._entries(first, last, key_bytes, reverse=reverse):
            yield start, self._value(data)

    def fetch_all(self, first: int, last: int | None, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Yield the windows of all keys that start from `first` to `last`, both included, and their values."""
        for start, key, data in self._entries(first, last, reverse=reverse):
            window = Window(start, start + self._definition.window_size_ms)
            yield Windowed(self._key_serde.from_bytes(key), window), self._value(data)  # type: ignore[arg-type]

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Windowed[K], V]]:
        """Yield all windows and their values."""
        return self.fetch_all(0, None, reverse=reverse)

    def _put(self, key: bytes, data: bytes | None, start: int) -> None:
        self._stream_time = max(self._stream_time, start)
        self._segments.drop_below(self._oldest())
        if start < self._oldest():
            return
        segment = self._segments.get(start)
        if data is not None:
            if segment is None:
                segment = SortedMap()
                self._segments.put(start, segment)
            segment.put((key, self._sequence), data)
        elif segment is not None and not self._definition.retain_duplicates:
            segment.pop((key, 0))

    def _entries(
        self, first: int, last: int | None, key: bytes | None = None, *, reverse: bool
    ) -> Iterator[tuple[int, bytes, bytes]]:
        bounds = (None, None) if key is None else ((key, 0), (key, SEQUENCE_MAX))
        for start, segment in self._segments.range(max(first, self._oldest()), last, reverse=reverse):
            for (found, _), data in segment.range(*bounds, reverse=reverse):
                yield start, found, data

    def _oldest(self) -> int:
        """Return the earliest window start that the store keeps."""
        return self._stream_time - self._definition.retention_ms + 1

    def _key(self, key: K) -> bytes:
        return self._key_serde.serialize_key(key, self.name)

    def _value(self, data: bytes | None) -> Any:
        return value_of(data, self._value_serde, timestamped=self._definition.timestamped)
