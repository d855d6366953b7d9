"""The join of a stream with a table or a global table: each record of the stream with the value that its key has now.

Source: KStreamKTableJoin, KStreamGlobalKTableJoin, KStreamKTableJoinProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcli.streams.records import Record
from kcli.streams.topology.operators.stream_join import Joiner
from kcli.streams.topology.operators.table import AnyContext, View, value_or_none
from kcli.streams.topology.processor import Processor


class StreamTableJoin:
    """The supplier of the join's processors. key_selector: returns the table's key for the key and value of a record.
    keeps: whether a record for which the table has no value is sent."""

    def __init__(self, view: View, joiner: Joiner, key_selector: Callable[[Any, Any], Any], *, keeps: bool) -> None:
        self.view, self.joiner, self.key_selector, self.keeps = view, joiner, key_selector, keeps

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _StreamTableJoinProcessor(self)


class _StreamTableJoinProcessor(Processor[Any, Any, Any, Any]):
    def __init__(self, join: StreamTableJoin) -> None:
        self._join = join

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._get = self._join.view.getter(context)

    def process(self, record: Record[Any, Any]) -> None:
        if record.value is None:
            return
        key = self._join.key_selector(record.key, record.value)
        if key is None and not self._join.keeps:
            return
        other = None if key is None else value_or_none(self._get(key))
        if other is not None or self._join.keeps:
            self.context.forward(record.with_value(self._join.joiner(record.value, other)))
