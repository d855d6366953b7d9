"""The buffer of a stream-table join with a grace period: the stream's records that wait, by time, key and sequence.

    key in the changelog    0, timestamp (8 bytes), key, sequence number (4 bytes)
    value in the changelog  the bytes of `Buffered`: the record's value as the new one, and 0 as the time; nothing for a
                            record that was joined

Source: RocksDBTimeOrderedKeyValueBuffer, PrefixedWindowKeySchemas; KIP-923.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.records import Record, RecordMetadata
from kcli.streams.serdes import Serde
from kcli.streams.topology.processor import ObservesTime
from kcli.streams.topology.stores.buffered import Buffered
from kcli.streams.topology.stores.sorted_map import SortedMap
from kcli.streams.topology.stores.store import Log, StateStore, StoreBuilder

PREFIX, SEQUENCE = struct.Struct(">bq"), struct.Struct(">i")
SEQUENCE_MAX = 0x7FFFFFFF

Join = Callable[[Record[Any, Any], RecordMetadata | None], None]


@dataclass(frozen=True, kw_only=True)
class JoinBufferBuilder(StoreBuilder["JoinBuffer"]):
    """The definition of a join's buffer. grace_ms: how long, by the stream's time, a record waits."""

    grace_ms: int

    def build(self, log: Log) -> JoinBuffer:
        return JoinBuffer(self, log)


class JoinBuffer(StateStore, ObservesTime):
    """The records that wait."""

    def __init__(self, definition: JoinBufferBuilder, log: Log) -> None:
        assert definition.key_serde is not None
        assert definition.value_serde is not None
        self.name = definition.name
        self._grace_ms, self._log = definition.grace_ms, log
        self._key_serde: Serde[Any] = definition.key_serde
        self._value_serde: Serde[Any] = definition.value_serde
        self._waiting: SortedMap[bytes, Buffered] = SortedMap()
        self._sequence = 0

    def put(self, record: Record[Any, Any], metadata: RecordMetadata | None) -> bool:
        """Keep a record. Return False if it is too late to wait: it is to be joined at once."""
        if record.timestamp < self.stream_time - self._grace_ms:
            return False
        self._sequence = self._sequence + 1 & SEQUENCE_MAX
        key = self._key_serde.serialize_key(record.key, self.name)
        place = PREFIX.pack(0, record.timestamp) + key + SEQUENCE.pack(self._sequence)
        buffered = Buffered(None, None, self._value_serde.to_bytes(record.value), record, metadata)
        self.stream_time = max(self.stream_time, record.timestamp)
        self._waiting.put(place, buffered)
        self._log(place, buffered.pack(0), None)
        return True

    def join_ready(self, join: Join) -> None:
        """Remove the records whose grace period is over, the earliest first, and have each joined."""
        while len(self._waiting):
            place, (_, _, value, record, metadata) = self._waiting.first()
            if PREFIX.unpack_from(place)[1] > self.stream_time - self._grace_ms:
                return
            key = self._key_serde.from_bytes(place[PREFIX.size : -SEQUENCE.size])
            join(record.with_key(key).with_value(self._value_serde.from_bytes(value)), metadata)
            self._waiting.pop(place)
            self._log(place, None, None)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        self.stream_time = max(self.stream_time, PREFIX.unpack_from(key)[1])
        self._sequence = max(self._sequence, SEQUENCE.unpack(key[-SEQUENCE.size :])[0])
        if value is None:
            self._waiting.pop(key)
        else:
            self._waiting.put(key, Buffered.unpack(value)[1])
