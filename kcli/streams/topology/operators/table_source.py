"""A stream of values as a table: a topic's, that of to_table, or the results of a foreign-key join.

The table has a store only if the program names the store, or if a later operator looks up values or needs old ones.
Source: KTableSource.
"""

from __future__ import annotations

from typing import Any

from kcli.streams.records import Change, Record
from kcli.streams.topology.operators.table import AnyContext, TableOperator, View, put, store_view, value_or_none
from kcli.streams.topology.processor import Processor


class TableSource(TableOperator):
    """A stream as a table. store: the name of its store, if it needs one."""

    def __init__(self, store: str, *, is_materialized: bool) -> None:
        self.store = store
        self.is_materialized = is_materialized

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _TableSourceProcessor(self)

    def view(self) -> View:
        self.is_materialized = True
        return store_view(self.store)

    def send_old_values(self, *, force: bool) -> bool:
        if not force and not self.is_materialized:
            return False
        self.is_materialized = True
        return super().send_old_values(force=force)


class _TableSourceProcessor(Processor[Any, Any, Any, Change]):
    def __init__(self, table: TableSource) -> None:
        self._table = table
        self._store: Any = None

    def init(self, context: AnyContext) -> None:
        super().init(context)
        if self._table.is_materialized:
            self._store = context.get_state_store(self._table.store)

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            return
        old, is_latest = None, True
        if self._store is not None:
            old = value_or_none(self._store.get(record.key))
            if (stored := put(self._store, record, record.value)) is None:
                return
            is_latest = stored
        self.context.forward(record.with_value(self._table.change(record.value, old, is_latest=is_latest)))
