"""Aggregates of a stream by key: count, reduce and aggregate, in a timestamped store.

Records without a key or a value are ignored. The timestamp of an aggregate is the highest of its records. Source:
KStreamAggregate, KStreamReduce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.table import AnyContext, TableOperator, View, put, store_view
from kcli.streams.topology.processor import Processor

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Aggregation:
    """How values are aggregated: `initial` makes the aggregate before the first value; `add` makes a new one of key,
    value and aggregate; `merge` makes one of a key and the aggregates of two sessions."""

    initial: Initializer
    add: Aggregator
    merge: Aggregator | None = None


COUNT = Aggregation(lambda: 0, lambda _key, _value, count: count + 1, lambda _key, one, other: one + other)


def reduction(reducer: Callable[[Any, Any], Any]) -> Aggregation:
    """Return the aggregation whose first aggregate is the first value, and each further one the reducer's result for
    aggregate and value."""

    def add(_key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else reducer(aggregate, value)

    return Aggregation(lambda: None, add, lambda key, one, other: add(key, other, one))


def start_of(aggregation: Aggregation, found: ValueAndTimestamp | None, record: Record[Any, Any]) -> tuple[Any, int]:
    """Return the aggregate to which a record is to be added, and the timestamp of the aggregate after that. found: the
    value in the store, None if the store has none."""
    if found is None:
        return aggregation.initial(), record.timestamp
    return found.value, max(record.timestamp, found.timestamp)


class StreamAggregate(TableOperator):
    """The table of the aggregates of a stream."""

    def __init__(self, store: str, aggregation: Aggregation) -> None:
        self.store, self.aggregation = store, aggregation

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _AggregateProcessor(self)

    def view(self) -> View:
        return store_view(self.store)


class _AggregateProcessor(Processor[Any, Any, Any, Change]):
    def __init__(self, table: StreamAggregate) -> None:
        self._table = table

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._table.store)
        self._aggregation, self._change, self._forward = self._table.aggregation, self._table.change, context.forward

    def process(self, record: Record[Any, Any]) -> None:
        key, value, _, headers = record
        if key is None or value is None:
            return
        found: ValueAndTimestamp | None = self._store.get(key)
        old, timestamp = start_of(self._aggregation, found, record)
        new = self._aggregation.add(key, value, old)
        changed = Record(key, value, timestamp, headers)
        if (is_latest := put(self._store, changed, new)) is not None:
            self._forward(Record(key, self._change(new, old, is_latest=is_latest), timestamp, headers))
