"""Aggregates of a table that is grouped by other keys: each change takes the old value out of its group's aggregate and
adds the new value to the aggregate of its own group.

    table -> Regroup -> repartition topic -> TableAggregate

    value in the repartition topic: new value, 1 | old value, 0 | length of the new value (varint), new, old value, 2

Source: KTableRepartitionMap, KTableAggregate, KTableReduce, ChangedSerializer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.streams.errors import ProcessingError, SerializationError
from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.serdes import Serde
from kcli.streams.topology.operators.aggregate import Aggregator, Initializer
from kcli.streams.topology.operators.stateless import AnySupplier, Forward, stateless
from kcli.streams.topology.operators.table import AnyContext, TableOperator, View, put, store_view, value_or_none
from kcli.streams.topology.processor import Processor

OLD, NEW, BOTH = 0, 1, 2


def regrouped(selector: Callable[[Any, Any], tuple[Any, Any]], *, is_versioned: bool) -> AnySupplier:
    """Forward each change of a table with the key and value that the selector makes: as one change if both values have
    the same key, else as a removal and an addition. A row for which the selector returns None as key or value is in no
    group. is_versioned: whether the table is; only its latest values are forwarded."""

    def selected(key: Any, value: Any) -> tuple[Any, Any] | None:
        chosen = None if value is None else selector(key, value)
        return chosen if chosen is not None and chosen[0] is not None and chosen[1] is not None else None

    def step(forward: Forward, record: Record[Any, Change]) -> None:
        if record.key is None:
            raise ProcessingError("a table that is grouped has a record without a key")
        change = record.value
        if is_versioned and not change.is_latest:
            return
        new, old = selected(record.key, change.new), selected(record.key, change.old)
        if new is not None and old is not None and new[0] == old[0]:
            forward(record.with_key(old[0]).with_value(Change(new[1], old[1])))
            return
        if old is not None:
            forward(record.with_key(old[0]).with_value(Change(None, old[1])))
        if new is not None:
            forward(record.with_key(new[0]).with_value(Change(new[1])))

    return stateless(step)


def change_serde(inner: Serde[Any]) -> Serde[Change]:
    """Return the serde of changes in a repartition topic."""

    def serialize(change: Change) -> bytes:
        new, old = inner.to_bytes(change.new), inner.to_bytes(change.old)
        if new is not None and old is not None:
            return _varint(len(new)) + new + old + bytes([BOTH])
        return new + bytes([NEW]) if new is not None else (old or b"") + bytes([OLD])

    def deserialize(data: bytes) -> Change:
        match data[-1:]:
            case b"\x00":
                return Change(None, inner.from_bytes(data[:-1]))
            case b"\x01":
                return Change(inner.from_bytes(data[:-1]))
            case b"\x02":
                size, start = _read_varint(data)
                return Change(inner.from_bytes(data[start : start + size]), inner.from_bytes(data[start + size : -1]))
        raise SerializationError(f"the change of a table ends with none of the bytes 0, 1 and 2: {data[-1:].hex()}")

    return Serde(f"change of {inner.name}", serialize, deserialize)


def _varint(value: int) -> bytes:
    zigzag, packed = value << 1, bytearray()
    while zigzag > 0x7F:
        packed.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*packed, zigzag])


def _read_varint(data: bytes) -> tuple[int, int]:
    value = position = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << 7 * position
        position += 1
        if byte < 0x80:
            return value >> 1, position


class TableAggregate(TableOperator):
    """The table of the aggregates of a grouped table. reduces: whether the first value of a group is its first
    aggregate."""

    def __init__(
        self, store: str, initial: Initializer, add: Aggregator, subtract: Aggregator, *, reduces: bool = False
    ) -> None:
        self.store, self.initial, self.add, self.subtract = store, initial, add, subtract
        self.reduces = reduces

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _TableAggregateProcessor(self)

    def view(self) -> View:
        return store_view(self.store)


class _TableAggregateProcessor(Processor[Any, Change, Any, Change]):
    def __init__(self, table: TableAggregate) -> None:
        self._table = table

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._table.store)

    def process(self, record: Record[Any, Change]) -> None:
        if record.key is None:
            raise ProcessingError(f"the aggregates of the store {self._table.store} get a record without a key")
        table, change = self._table, record.value
        found: ValueAndTimestamp | None = self._store.get(record.key)
        old = aggregate = value_or_none(found)
        timestamp = record.timestamp
        if change.old is not None and found is not None:
            aggregate = table.subtract(record.key, change.old, found.value)
            timestamp = max(timestamp, found.timestamp)
        if change.new is not None:
            if found is not None and not (table.reduces and aggregate is None):
                timestamp = max(record.timestamp, found.timestamp)
            aggregate = table.add(record.key, change.new, table.initial() if aggregate is None else aggregate)
        changed = record.with_timestamp(timestamp)
        if (is_latest := put(self._store, changed, aggregate)) is not None:
            self.context.forward(changed.with_value(table.change(aggregate, old, is_latest=is_latest)))
