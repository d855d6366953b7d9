"""Joins of two streams within a window.

Each side keeps its records in a window store and looks for those of the other side:

    left record at t     right records from t - before to t + after
    right record at t    left records from t - after to t + before

In a left or outer join a record without the other side waits in the store of unjoined records until stream time has
passed its window and the grace; then it is sent with None. Waiting records are looked through at most once in
emit_interval_ms. Source: KStreamKStreamJoin, KStreamJoinWindow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.records import Record
from kcli.streams.topology.operators.stateless import AnySupplier
from kcli.streams.topology.operators.table import AnyContext
from kcli.streams.topology.processor import OperatorContext, Processor
from kcli.streams.topology.stores.outer_join import NEVER, OuterJoinStore, Unjoined
from kcli.streams.windows import JoinWindows

Joiner = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class StreamJoin:
    """A stream-stream join, as both of its sides know it. stores: the window stores of the left and the right side.
    unjoined: the store of records that wait, None in an inner join. keeps: whether a record of the left or right side
    without the other one is sent."""

    windows: JoinWindows
    joiner: Joiner
    stores: tuple[str, str]
    unjoined: str | None
    keeps: tuple[bool, bool]

    def side(self, *, is_left: bool) -> AnySupplier:
        """Return the supplier of the left or the right side."""
        return lambda: _JoinSide(self, is_left=is_left)

    def joined(self, *, is_left: bool, own: Any, other: Any) -> Any:
        """Return the joined value of a record of one side and one of the other."""
        return self.joiner(own, other) if is_left else self.joiner(other, own)


class WindowedInput(Processor[Any, Any, Any, Any]):
    """Forwards each record, then keeps it for the other side."""

    def __init__(self, store: str) -> None:
        self._store_name = store

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._store = context.get_state_store(self._store_name)

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)
        if record.key is not None:
            self._store.put(record.key, record.value, record.timestamp)


class _JoinSide(Processor[Any, Any, Any, Any]):
    context: OperatorContext

    def __init__(self, join: StreamJoin, *, is_left: bool) -> None:
        self._join, self._is_left = join, is_left
        self._keeps = join.keeps[0 if is_left else 1]
        spans = join.windows.before_ms, join.windows.after_ms
        self._before_ms, self._after_ms = spans if is_left else spans[::-1]

    def init(self, context: AnyContext) -> None:
        super().init(context)
        join = self._join
        self._others = context.get_state_store(join.stores[1 if self._is_left else 0])
        self._unjoined: OuterJoinStore | None = (
            None if join.unjoined is None else context.get_state_store(join.unjoined)
        )

    def process(self, record: Record[Any, Any]) -> None:
        unjoined, timestamp = self._unjoined, record.timestamp
        if unjoined is not None:
            unjoined.stream_time = max(unjoined.stream_time, timestamp)
        if self._keeps and record.key is None and record.value is not None:
            self._forward_alone(record)
            return
        if record.key is None or record.value is None:
            return
        if unjoined is not None and timestamp == unjoined.stream_time:
            self._emit_unjoined(record, unjoined)
        first, last = max(0, timestamp - self._before_ms), max(0, timestamp + self._after_ms)
        is_alone = True
        for other_timestamp, other in self._others.fetch_range(record.key, first, last):
            is_alone = False
            self._forward_joined(record, other_timestamp, other)
        if is_alone and self._keeps:
            assert unjoined is not None
            if last < unjoined.stream_time:
                self._forward_alone(record)
            else:
                unjoined.earliest = min(unjoined.earliest, timestamp)
                unjoined.add(Unjoined(timestamp, self._is_left, record.key), record.value)

    def _forward_alone(self, record: Record[Any, Any]) -> None:
        value = self._join.joined(is_left=self._is_left, own=record.value, other=None)
        self.context.forward(record.with_value(value))

    def _forward_joined(self, record: Record[Any, Any], other_timestamp: int, other: Any) -> None:
        if self._unjoined is not None:
            self._unjoined.remove(Unjoined(other_timestamp, not self._is_left, record.key))
        value = self._join.joined(is_left=self._is_left, own=record.value, other=other)
        self.context.forward(record.with_value(value).with_timestamp(max(record.timestamp, other_timestamp)))

    def _emit_unjoined(self, record: Record[Any, Any], unjoined: OuterJoinStore) -> None:
        """Send the waiting records that no later record can join, with the headers of this record."""
        windows, now_ms = self._join.windows, self.context.current_system_time_ms
        wait_ms = self._after_ms + windows.grace_ms
        # while no record waits, Kafka's sum overflows: it looks all the same, and not again for the interval
        if not (unjoined.earliest == NEVER and wait_ms) and unjoined.earliest + wait_ms >= unjoined.stream_time:
            return
        if now_ms < unjoined.next_emit_ms:
            return
        unjoined.next_emit_ms = now_ms + self.context.emit_interval_ms
        unjoined.earliest = NEVER
        open_sides: set[bool] = set()
        sent: Unjoined | None = None
        for waiting, value in unjoined.all():
            unjoined.earliest = waiting.timestamp
            if len(open_sides) == 2:
                break
            look_back_ms = windows.after_ms if waiting.is_left else windows.before_ms
            if waiting.timestamp + look_back_ms + windows.grace_ms >= unjoined.stream_time:
                open_sides.add(waiting.is_left)
                continue
            joined = self._join.joined(is_left=waiting.is_left, own=value, other=None)
            self.context.forward(record.with_key(waiting.key).with_value(joined).with_timestamp(waiting.timestamp))
            if sent is not None and sent != waiting:
                unjoined.remove(sent)
            sent = waiting
        if sent is not None:
            unjoined.remove(sent)
