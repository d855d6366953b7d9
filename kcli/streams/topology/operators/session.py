"""Aggregates of a stream by key in sessions.

A record joins all sessions of its key that are at most the gap away into one. Sessions that it replaces are deleted,
each with a tombstone. Source: KStreamSessionWindowAggregate.
"""

from __future__ import annotations

from typing import Any

from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.aggregate import Aggregation
from kcli.streams.topology.operators.table import AnyContext, Getter, TableOperator, View
from kcli.streams.topology.operators.window_aggregate import CloseTimer, EmitStrategy
from kcli.streams.topology.processor import ObservesTime, OperatorContext, Processor
from kcli.streams.windows import SessionWindows, Window, Windowed


class SessionAggregate(TableOperator):
    """The table of the aggregates of a stream in sessions."""

    def __init__(self, store: str, aggregation: Aggregation, emit: EmitStrategy, windows: SessionWindows) -> None:
        self.store, self.aggregation, self.windows = store, aggregation, windows
        self.emits_on_close = emit is EmitStrategy.ON_WINDOW_CLOSE

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _SessionProcessor(self)

    def view(self) -> View:
        def getter(context: AnyContext) -> Getter:
            store = context.get_state_store(self.store)

            def get(session: Windowed[Any]) -> ValueAndTimestamp | None:
                value = store.fetch_session(session.key, session.window.start, session.window.end)
                return None if value is None else ValueAndTimestamp(value, session.window.end)

            return get

        return View((self.store,), getter)


class _SessionProcessor(Processor[Any, Any, Windowed[Any], Change], ObservesTime):
    context: OperatorContext

    def __init__(self, table: SessionAggregate) -> None:
        self._table = table

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._table.store)
        self._timer = CloseTimer(self.context, self._table.store)

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            return
        windows = self._table.windows
        self.stream_time = max(self.stream_time, record.timestamp)
        close_time = self.stream_time - windows.grace_ms - windows.inactivity_gap_ms
        self._add(record, close_time)
        if self._table.emits_on_close and self._timer.is_due(close_time):
            self._emit_closed(record, close_time)

    def _add(self, record: Record[Any, Any], close_time: int) -> None:
        aggregation, gap = self._table.aggregation, self._table.windows.inactivity_gap_ms
        assert aggregation.merge is not None
        own = merged = Window(record.timestamp, record.timestamp)
        sessions = list(self._store.find_sessions(record.key, record.timestamp - gap, record.timestamp + gap))
        aggregate = aggregation.initial()
        for session, value in sessions:
            aggregate = aggregation.merge(record.key, aggregate, value)
            merged = Window(min(merged.start, session.window.start), max(merged.end, session.window.end))
        if merged.end < close_time:
            return
        if merged != own:
            for session, value in sessions:
                self._store.remove(session)
                self._forward(session, self._table.change(None, value))
        aggregate = aggregation.add(record.key, record.value, aggregate)
        session = Windowed(record.key, merged)
        self._store.put(session, aggregate)
        self._forward(session, Change(aggregate))

    def _forward(self, session: Windowed[Any], change: Change) -> None:
        if not self._table.emits_on_close:
            self.context.forward(Record(session, change, session.window.end))

    def _emit_closed(self, record: Record[Any, Any], close_time: int) -> None:
        first = max(0, self._timer.emitted_up_to)
        if close_time - 1 < first:
            return
        for session, value in list(self._store.find_ended(first, close_time - 1)):
            closed = record.with_key(session).with_value(Change(value))
            self.context.forward(closed.with_timestamp(session.window.end))
        self._timer.emitted_up_to = close_time
