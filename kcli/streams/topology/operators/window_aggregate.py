"""Aggregates of a stream by key and time window, and what time and sliding windows have in common.

A window takes records until stream time has passed its end and the grace. It sends its aggregate with each record, or
once when it is closed; then the operator looks for closed windows at most once in emit_interval_ms. Source:
AbstractKStreamTimeWindowAggregateProcessor, KStreamWindowAggregate.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import Any

from kcli.streams.records import NO_TIMESTAMP, Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.aggregate import Aggregation, start_of
from kcli.streams.topology.operators.table import AnyContext, Getter, TableOperator, View
from kcli.streams.topology.processor import ObservesTime, OperatorContext, Processor
from kcli.streams.windows import TimeWindows, Window, Windowed


class EmitStrategy(Enum):
    """When a window sends its aggregate: with each record, or once when it is closed."""

    ON_WINDOW_UPDATE = "on window update"
    ON_WINDOW_CLOSE = "on window close"


class WindowedTable(TableOperator):
    """The table of the aggregates of windows."""

    def __init__(self, store: str, aggregation: Aggregation, emit: EmitStrategy) -> None:
        self.store, self.aggregation = store, aggregation
        self.emits_on_close = emit is EmitStrategy.ON_WINDOW_CLOSE

    def view(self) -> View:
        def getter(context: AnyContext) -> Getter:
            store = context.get_state_store(self.store)
            return lambda key: store.fetch(key.key, key.window.start)

        return View((self.store,), getter)


class CloseTimer:
    """Decides when an operator looks for closed windows, and remembers up to which time it has sent them. store: the
    name of the operator's store."""

    def __init__(self, context: OperatorContext, store: str) -> None:
        self._context, self._store = context, store
        self._next_ms = 0

    @property
    def emitted_up_to(self) -> int:
        """The time up to which closed windows have been sent, -1 for none."""
        return self._context.metadata_of_processors.get(self._store, NO_TIMESTAMP)

    @emitted_up_to.setter
    def emitted_up_to(self, time: int) -> None:
        self._context.metadata_of_processors[self._store] = time

    def is_due(self, close_time: int) -> bool:
        """Whether the operator looks for closed windows now. close_time: stream time has closed all windows up to this
        time."""
        now_ms = self._context.current_system_time_ms
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._context.emit_interval_ms
        return self.emitted_up_to == NO_TIMESTAMP or self.emitted_up_to < close_time


class WindowedProcessor(Processor[Any, Any, Windowed[Any], Change], ObservesTime):
    """The processor of time windows and of sliding ones."""

    context: OperatorContext

    def __init__(self, table: WindowedTable) -> None:
        self._table = table

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._table.store)
        self._timer = CloseTimer(self.context, self._table.store)

    def _update(self, record: Record[Any, Any], window: Window, found: ValueAndTimestamp | None) -> None:
        """Add a record to a window's aggregate. found: the aggregate before that."""
        aggregation = self._table.aggregation
        old, timestamp = start_of(aggregation, found, record)
        new = aggregation.add(record.key, record.value, old)
        self._put(record, window, None if new is None else ValueAndTimestamp(new, timestamp), old, timestamp)

    def _put(
        self, record: Record[Any, Any], window: Window, new: ValueAndTimestamp | None, old: Any, timestamp: int
    ) -> None:
        self._store.put(record.key, new, window.start)
        if not self._table.emits_on_close:
            change = self._table.change(None if new is None else new.value, old)
            windowed = record.with_key(Windowed(record.key, window))
            self.context.forward(windowed.with_value(change).with_timestamp(timestamp))

    def _emit_closed(self, record: Record[Any, Any], close_time: int) -> None:
        """Send the aggregates of closed windows, if the timer says that it is time."""
        if not self._table.emits_on_close or not self._timer.is_due(close_time):
            return
        first, last = self._starts_of_closed(self._timer.emitted_up_to, close_time)
        if last < 0 or not self._has_new_windows(first, last):
            return
        for windowed, found in self._store.fetch_all(first, last):
            closed = record.with_key(windowed).with_value(Change(found.value))
            self.context.forward(closed.with_timestamp(found.timestamp))
        self._timer.emitted_up_to = close_time

    @abstractmethod
    def _starts_of_closed(self, emitted_up_to: int, close_time: int) -> tuple[int, int]:
        """Return the lowest and the highest start of the windows that have closed since emitted_up_to."""

    def _has_new_windows(self, first: int, last: int) -> bool:  # noqa: ARG002
        """Whether a window can start from `first` to `last`."""
        return True


class TimeWindowAggregate(WindowedTable):
    """The table of the aggregates of a stream in tumbling or hopping windows."""

    def __init__(self, store: str, aggregation: Aggregation, emit: EmitStrategy, windows: TimeWindows) -> None:
        super().__init__(store, aggregation, emit)
        self.windows = windows

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _TimeWindowProcessor(self, self.windows)


class _TimeWindowProcessor(WindowedProcessor):
    def __init__(self, table: WindowedTable, windows: TimeWindows) -> None:
        super().__init__(table)
        self._windows = windows

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None:
            return
        self.stream_time = max(self.stream_time, record.timestamp)
        close_time = self.stream_time - self._windows.grace_ms
        for window in self._windows.windows_for(record.timestamp):
            if window.end > close_time:
                self._update(record, window, self._store.fetch(record.key, window.start))
        self._emit_closed(record, close_time)

    def _starts_of_closed(self, emitted_up_to: int, close_time: int) -> tuple[int, int]:
        size_ms = self._windows.size_ms
        first = 0 if emitted_up_to == NO_TIMESTAMP else max(0, emitted_up_to - size_ms) + 1
        return first, close_time - size_ms

    def _has_new_windows(self, first: int, last: int) -> bool:
        if self._timer.emitted_up_to == NO_TIMESTAMP:
            return True
        return list(self._windows.windows_for(last)) != list(self._windows.windows_for(first - 1))
