"""Aggregates of a stream by key in sliding windows.

Each record at t makes the window [t - difference, t] that ends with it, and the window [t + 1, t + 1 + difference] that
starts behind it as soon as that one has a record. A window [s, s + difference] has the highest timestamp of its
records. A record changes the windows that contain it and makes those that come to be:

    windows of the key that start from t - 2 * difference to t + 1, the latest first
      starts at t + 1             the record's right window is there
      contains t                  takes the record; the latest of them has what the record's right window begins with
      ends at t                   takes the record; it is the record's left window
      ends before t               its last record is the one before t: the right window of that one may be missing

Records before `difference` all share the window [0, difference] in place of a left one. Source:
KStreamSlidingWindowAggregate.
"""

from __future__ import annotations

from typing import Any

from kcli.streams.records import NO_TIMESTAMP, Record, ValueAndTimestamp
from kcli.streams.topology.operators.aggregate import Aggregation
from kcli.streams.topology.operators.window_aggregate import EmitStrategy, WindowedProcessor, WindowedTable
from kcli.streams.topology.processor import Processor
from kcli.streams.windows import SlidingWindows, Window


class SlidingWindowAggregate(WindowedTable):
    """The table of the aggregates of a stream in sliding windows."""

    def __init__(self, store: str, aggregation: Aggregation, emit: EmitStrategy, windows: SlidingWindows) -> None:
        super().__init__(store, aggregation, emit)
        self.windows = windows

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _SlidingProcessor(self, self.windows)


class _SlidingProcessor(WindowedProcessor):
    def __init__(self, table: WindowedTable, windows: SlidingWindows) -> None:
        super().__init__(table)
        self._difference, self._grace_ms = windows.time_difference_ms, windows.grace_ms
        self._close_time = NO_TIMESTAMP

    def process(self, record: Record[Any, Any]) -> None:
        if record.key is None or record.value is None:
            return
        self.stream_time = max(self.stream_time, record.timestamp)
        self._close_time = self.stream_time - self._grace_ms
        if record.timestamp + self._difference < self._close_time:
            return
        if record.timestamp < self._difference:
            self._process_early(record)
            return
        self._process(record)
        self._emit_closed(record, self._close_time)

    def _process(self, record: Record[Any, Any]) -> None:
        timestamp, starts = record.timestamp, set()
        left: ValueAndTimestamp | None = None
        right: ValueAndTimestamp | None = None
        has_left = has_right = False
        previous: int | None = None
        first = max(0, timestamp - 2 * self._difference)
        for start, found in self._store.fetch_range(record.key, first, timestamp + 1, reverse=True):
            starts.add(start)
            end = start + self._difference
            if start == timestamp + 1:
                has_right = True
            elif end > timestamp:
                right = right or found
                self._add(record, Window(start, end), found)
            elif end == timestamp:
                has_left = True
                self._add(record, Window(start, end), found)
                if found.timestamp >= timestamp:
                    return
                previous = found.timestamp
            else:
                left, previous = found, found.timestamp
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + self._difference >= timestamp:
            self._add(record, self._window(previous + 1), None)
        if not has_left:
            overlaps = previous is not None and timestamp - self._difference <= previous
            begun = left if overlaps else None
            self._add(record, self._window(timestamp - self._difference), begun)
        if not has_right:
            self._make_right(record, right)

    def _process_early(self, record: Record[Any, Any]) -> None:
        timestamp, starts = record.timestamp, set()
        combined: ValueAndTimestamp | None = None
        right: ValueAndTimestamp | None = None
        has_right = False
        previous: int | None = None
        for start, found in self._store.fetch_range(record.key, 0, timestamp + 1):
            starts.add(start)
            if start == 0:
                combined = found
                previous = found.timestamp if found.timestamp < timestamp else None
            elif start <= timestamp:
                right = found
                self._add(record, self._window(start), found)
            else:
                has_right = True
        if right is None and combined is not None and combined.timestamp > timestamp:
            right = combined
        if not has_right:
            self._make_right(record, right)
        if previous is not None and previous + 1 not in starts:
            self._add(record, self._window(previous + 1), None)
        self._add(record, Window(0, self._difference), combined)

    def _make_right(self, record: Record[Any, Any], right: ValueAndTimestamp | None) -> None:
        """Make the window that starts after the record, if any record is in it. right: the aggregate that the window
        gets."""
        if right is not None and right.timestamp > record.timestamp:
            self._put(record, self._window(record.timestamp + 1), right, None, right.timestamp)

    def _add(self, record: Record[Any, Any], window: Window, found: ValueAndTimestamp | None) -> None:
        if window.end >= self._close_time:
            self._update(record, window, found)

    def _window(self, start: int) -> Window:
        return Window(start, start + self._difference)

    def _starts_of_closed(self, emitted_up_to: int, close_time: int) -> tuple[int, int]:
        first = 0 if emitted_up_to == NO_TIMESTAMP else max(0, emitted_up_to - self._difference)
        return first, close_time - self._difference - 1
