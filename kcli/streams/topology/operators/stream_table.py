"""The join of a stream with a table or a global table: each record of the stream with the value that its key has now;
in a versioned table, with the value that it had at the record's timestamp.

With a grace period, for which a table must be versioned, records wait in a buffer until the stream's time has passed
them by the grace, and are joined in the order of their timestamps; later ones are joined at once. Source:
KStreamKTableJoin, KStreamGlobalKTableJoin, KStreamKTableJoinProcessor; KIP-914, KIP-923.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.streams.records import Record, RecordMetadata
from kcli.streams.topology.operators.stream_join import Joiner
from kcli.streams.topology.operators.table import AnyContext, View, is_versioned, value_or_none
from kcli.streams.topology.processor import OperatorContext, Processor
from kcli.streams.topology.stores.join_buffer import JoinBuffer


class StreamTableJoin:
    """The supplier of the join's processors. key_selector: returns the table's key for the key and value of a record.
    keeps: whether a record for which the table has no value is sent. buffer: the name of the store in which records
    wait, None without a grace period."""

    def __init__(
        self,
        view: View,
        joiner: Joiner,
        key_selector: Callable[[Any, Any], Any],
        *,
        keeps: bool,
        buffer: str | None = None,
    ) -> None:
        self.view, self.joiner, self.key_selector, self.keeps = view, joiner, key_selector, keeps
        self.buffer = buffer

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _StreamTableJoinProcessor(self)


class _StreamTableJoinProcessor(Processor[Any, Any, Any, Any]):
    context: OperatorContext

    def __init__(self, join: StreamTableJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        join = self._join
        self._get = join.view.getter(context)
        self._key_of, self._joiner, self._keeps = join.key_selector, join.joiner, join.keeps
        self._is_versioned = is_versioned(context, join.view)
        self._buffer: JoinBuffer | None = None if join.buffer is None else context.get_state_store(join.buffer)

    def process(self, record: Record[Any, Any]) -> None:
        if record.value is None:
            return
        key = self._key_of(record.key, record.value)
        if key is None and not self._keeps:
            return
        if self._buffer is None or not self._buffer.put(record, self.context.record_metadata):
            self._send(record, key, self.context.forward)
        else:
            self._buffer.join_ready(self._join_waiting)

    def _join_waiting(self, record: Record[Any, Any], metadata: RecordMetadata | None) -> None:
        key = self._key_of(record.key, record.value)
        self._send(record, key, lambda joined: self.context.forward_as(joined, metadata))

    def _send(self, record: Record[Any, Any], key: Any, forward: Callable[[Record[Any, Any]], None]) -> None:
        """Send a record with the table's value of the key."""
        found = None if key is None else self._get(key, record.timestamp) if self._is_versioned else self._get(key)
        other = value_or_none(found)
        if other is not None or self._keeps:
            forward(record.with_value(self._joiner(record.value, other)))
