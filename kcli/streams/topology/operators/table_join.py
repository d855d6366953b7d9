"""Joins of two tables with one key: a change of either is joined with the other one's value.

    inner   a change has a result if the other table has a value
    left    a change of the left table always has one, of the right table only if the left one has a value
    outer   a change has one if either table has a value

The result's timestamp is the higher one of both. A join looks up last values, and leaves out what is not the last value
of a versioned table. Source: KTableKTableInnerJoin, ...LeftJoin, ...RightJoin, ...OuterJoin
and ...JoinMerger.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.stream_join import Joiner
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


class JoinKind(Enum):
    """Which keys have a result: those of both tables, of the left one, or of either."""

    INNER = "inner"
    LEFT = "left"
    OUTER = "outer"


class TableJoinSide(TableOperator):
    """Joins the changes of one side. needs: whether a result needs a value of this side, and one of the other.
    is_versioned: whether the table of this side is."""

    def __init__(
        self,
        own: TableOperator,
        other: TableOperator,
        joiner: Joiner,
        needs: tuple[bool, bool],
        *,
        is_versioned: bool,
    ) -> None:
        self.joiner, self.is_versioned = joiner, is_versioned
        self.needs_own, self.needs_other = needs
        self.own_view, self.other_view = own.view(), other.view()
        self._own, self._other = own, other

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _TableJoinProcessor(self)

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        self._own.send_old_values(force=True)
        self._other.send_old_values(force=True)
        self.sends_old = True
        return True

    def joined(self, own: Any, other: Any) -> Any:
        """Return the joined value, None if a value is missing that the result needs."""
        lacks = (own is None and (self.needs_own or other is None)) or (other is None and self.needs_other)
        return None if lacks else self.joiner(own, other)

    def view(self) -> View:
        def getter(context: AnyContext) -> Getter:
            get_own, get_other = self.own_view.getter(context), self.other_view.getter(context)

            def get(key: Any, *_as_of: int) -> ValueAndTimestamp | None:
                found = [get_own(key), get_other(key)]
                value = self.joined(*map(value_or_none, found))
                times = [each.timestamp for each in found if each is not None]
                return None if value is None else ValueAndTimestamp(value, max(times))

            return get

        return View(tuple(dict.fromkeys(self.own_view.stores + self.other_view.stores)), getter)


class _TableJoinProcessor(Processor[Any, Change, Any, Change]):
    def __init__(self, side: TableJoinSide) -> None:
        self._side = side

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._get = self._side.other_view.getter(context)

    def process(self, record: Record[Any, Change]) -> None:
        if record.key is None:
            return
        side, (new, old, is_latest) = self._side, record.value
        if side.is_versioned and not is_latest:
            return
        found = self._get(record.key)
        other = value_or_none(found)
        if other is None and (side.needs_other or (new is None and old is None)):
            return
        change = Change(side.joined(new, other), side.joined(old, other) if side.sends_old else None, is_latest)
        timestamp = record.timestamp if found is None or other is None else max(record.timestamp, found.timestamp)
        self.context.forward(record.with_value(change).with_timestamp(timestamp))


class TableJoin(TableOperator):
    """The table of the results. left, right: the operators that join the changes of each side. store: the name of the
    table's store, None for none."""

    def __init__(self, left: TableJoinSide, right: TableJoinSide, store: str | None) -> None:
        self.left, self.right, self.store = left, right, store

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _MergeProcessor(self)

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002
        self.left.send_old_values(force=True)
        self.right.send_old_values(force=True)
        self.sends_old = True
        return True

    def view(self) -> View:
        return store_view(self.store) if self.store is not None else self.left.view()


class _MergeProcessor(Processor[Any, Change, Any, Change]):
    def __init__(self, table: TableJoin) -> None:
        self._table = table
        self._store: Any = None

    def init(self, context: AnyContext) -> None:
        super().init(context)
        if self._table.store is not None:
            self._store = context.get_state_store(self._table.store)

    def process(self, record: Record[Any, Change]) -> None:
        new, old, is_latest = record.value
        if self._store is not None:
            if (stored := put(self._store, record, new)) is None:
                return
            is_latest = stored
        self.context.forward(record.with_value(self._table.change(new, old, is_latest=is_latest)))


def table_join(
    left: TableOperator,
    right: TableOperator,
    joiner: Joiner,
    kind: JoinKind,
    store: str | None,
    *,
    are_versioned: tuple[bool, bool],
) -> TableJoin:
    """Return the join of two tables. are_versioned: whether the left and the right table are."""
    needs_left, needs_right = kind is not JoinKind.OUTER, kind is JoinKind.INNER
    return TableJoin(
        TableJoinSide(left, right, joiner, (needs_left, needs_right), is_versioned=are_versioned[0]),
        TableJoinSide(
            right,
            left,
            lambda own, other: joiner(other, own),
            (needs_right, needs_left),
            is_versioned=are_versioned[1],
        ),
        store,
    )
