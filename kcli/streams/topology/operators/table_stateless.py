"""filter and map_values of a table: a function is applied to each new and old value. The result has a store if the
program names it.

A filter that gets old values forwards no change if neither the old nor the new value passes. Source: KTableFilter,
KTableMapValues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.table import (
    AnyContext,
    Getter,
    TableOperator,
    View,
    put,
    store_view,
    value_or_none,
)
from kcli.streams.topology.processor import Processor


class TableMap(TableOperator):
    """A table whose values are computed from those of another. compute: returns the new value for a key and a value
    that is not None; None if the new table has no value for the key.

    store: the name of the table's store, None for none.
    """

    skips_nothing = False
    """Whether a change without an old and a new value is left out."""

    def __init__(self, parent: TableOperator, compute: Callable[[Any, Any], Any], store: str | None) -> None:
        self.parent, self.store = parent, store
        self._compute = compute

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _TableMapProcessor(self)

    def send_old_values(self, *, force: bool) -> bool:
        if self.store is not None or self.parent.send_old_values(force=force):
            self.sends_old = True
        return self.sends_old

    def view(self) -> View:
        if self.store is not None:
            return store_view(self.store)
        parent = self.parent.view()

        def getter(context: AnyContext) -> Getter:
            get = parent.getter(context)

            def computed(key: Any, *as_of: int) -> ValueAndTimestamp | None:
                found = get(key, *as_of)
                value = self.computed(key, value_or_none(found))
                return None if found is None or value is None else ValueAndTimestamp(value, found.timestamp)

            return computed

        return View(parent.stores, getter)

    def computed(self, key: Any, value: Any) -> Any:
        """Return the table's value for a value of the other table; None for None."""
        return None if value is None else self._compute(key, value)


class TableFilter(TableMap):
    """A table of the values of another one for which a predicate is true, or with keep=False the others. is_versioned:
    whether the other one is."""

    def __init__(
        self,
        parent: TableOperator,
        predicate: Callable[[Any, Any], bool],
        store: str | None,
        *,
        keep: bool,
        is_versioned: bool,
    ) -> None:
        super().__init__(parent, lambda key, value: value if bool(predicate(key, value)) is keep else None, store)
        self.sends_old = parent.send_old_values(force=False)
        self.skips_nothing = not is_versioned


class _TableMapProcessor(Processor[Any, Change, Any, Change]):
    def __init__(self, table: TableMap) -> None:
        self._table = table
        self._store: Any = None

    def init(self, context: AnyContext) -> None:
        super().init(context)
        if self._table.store is not None:
            self._store = context.get_state_store(self._table.store)

    def process(self, record: Record[Any, Change]) -> None:
        table = self._table
        new, old = table.computed(record.key, record.value.new), None
        if table.sends_old:
            in_store = self._store is not None
            old = (
                value_or_none(self._store.get(record.key)) if in_store else table.computed(record.key, record.value.old)
            )
            if table.skips_nothing and old is None and new is None:
                return
        is_latest = record.value.is_latest
        if self._store is not None:
            if (stored := put(self._store, record, new)) is None:
                return
            is_latest = stored
        self.context.forward(record.with_value(Change(new, old, is_latest)))
