"""The store of a left or outer stream-stream join: the records that have no other side yet, of both sides, by time.

    key    timestamp (8 bytes), 1 for the left side and 0 for the right one, key
    value  in the changelog: 1, number of values (4 bytes), and for each value its length (4 bytes) and bytes
    value's bytes   1 for the left side and 0 for the right one, value

Source: ListValueStore, TimestampedKeyAndJoinSideSerde, LeftOrRightValueSerde, ListSerializer.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kcli.streams.serdes import Serde
from kcli.streams.topology.processor import ObservesTime
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder

SIDE = struct.Struct(">qB")
LIST = struct.Struct(">BI")
LENGTH = struct.Struct(">I")
VARIABLE_SIZE = 1
NEVER = sys.maxsize


class Unjoined(NamedTuple):
    """A record without the other side: whether it is of the left stream, its timestamp in milliseconds and its key."""

    timestamp: int
    is_left: bool
    key: Any


@dataclass(frozen=True, kw_only=True)
class OuterJoinStoreBuilder(StoreBuilder["OuterJoinStore"]):
    """The definition of the store of an outer join. value_serde: of the left stream, other_value_serde: of the right
    one."""

    other_value_serde: Serde[Any] | None = None

    def build(self, log: Log) -> OuterJoinStore:
        assert self.key_serde is not None
        assert self.value_serde is not None
        serdes = (self.other_value_serde or self.value_serde, self.value_serde)
        return OuterJoinStore(self.name, self.key_serde, serdes, log)


class OuterJoinStore(StateStore, ObservesTime):
    """The records of both streams that may still find their other side. value_serdes: of the right and the left one.

    stream_time, earliest, next_emit_ms: what both sides of the join know of time: the highest timestamp so far, that of
    the first record that waits, and when to look for records that have waited long enough.
    """

    times = ("stream_time", "earliest")

    def __init__(self, name: str, key_serde: Serde[Any], value_serdes: tuple[Serde[Any], Serde[Any]], log: Log) -> None:
        self.name = name
        self._key_serde, self._value_serdes, self._log = key_serde, value_serdes, log
        self._map: SortedMap[bytes, list[bytes]] = SortedMap()
        self.earliest = NEVER
        self.next_emit_ms = 0

    def add(self, record: Unjoined, value: Any) -> None:
        """Keep a record, behind others of its side, key and time."""
        key = self._bytes(record)
        data = bytes([record.is_left]) + (self._value_serdes[record.is_left].to_bytes(value) or b"")
        values = [*(self._map.get(key) or []), data]
        self._map.put(key, values)
        packed = b"".join(LENGTH.pack(len(each)) + each for each in values)
        self._log(key, LIST.pack(VARIABLE_SIZE, len(values)) + packed, None)

    def remove(self, record: Unjoined) -> None:
        """Remove all records of this side, key and time."""
        key = self._bytes(record)
        if self._map.pop(key) is not None:
            self._log(key, None, None)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if value is None:
            self._map.pop(key)
            return
        self.earliest = min(self.earliest, SIDE.unpack_from(key)[0])
        values, at = [], LIST.size
        for _ in range(LIST.unpack_from(value)[1]):
            end = at + LENGTH.size + LENGTH.unpack_from(value, at)[0]
            values.append(value[at + LENGTH.size : end])
            at = end
        self._map.put(key, values)

    def all(self) -> Iterator[tuple[Unjoined, Any]]:
        """Yield all records and their values, the earliest first."""
        for key, values in self._map.range():
            timestamp, is_left = SIDE.unpack_from(key)
            record = Unjoined(timestamp, bool(is_left), self._key_serde.from_bytes(key[SIDE.size :]))
            for data in values:
                yield record, self._value_serdes[is_left].from_bytes(data[1:])

    def _bytes(self, record: Unjoined) -> bytes:
        return SIDE.pack(record.timestamp, record.is_left) + self._key_serde.serialize_key(record.key, self.name)
