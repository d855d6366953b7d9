"""suppress: a table whose changes are held back until a time has passed since a key's first one, or until the key's
window closes, or until the buffer is full. Only the last change of each key is sent.

Source: KTableSuppressProcessorSupplier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.errors import ProcessingError
from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.operators.table import AnyContext, Getter, TableOperator, View
from kcli.streams.topology.processor import ObservesTime, OperatorContext, Processor
from kcli.streams.topology.stores.suppress_buffer import SuppressBuffer


@dataclass(frozen=True)
class Suppression:
    """How long changes are held back.

    wait_ms: by stream time, since the time that `time_of` returns for a record. records_max, bytes_max: the size of the
    buffer, None without a bound; when it is full, the first changes are sent early, or with `fails` the record is an
    error. skips_tombstones: a key whose last value is None is not sent.
    """

    wait_ms: int
    time_of: Callable[[Record[Any, Change]], int]
    skips_tombstones: bool = False
    records_max: int | None = None
    bytes_max: int | None = None
    fails: bool = False

    def is_full(self, buffer: SuppressBuffer) -> bool:
        """Whether the buffer has more records or bytes than allowed."""
        too_many = self.records_max is not None and len(buffer) > self.records_max
        return too_many or (self.bytes_max is not None and buffer.bytes_held > self.bytes_max)


class SuppressedTable(TableOperator):
    """The table of what suppress sends. store: the name of its buffer."""

    def __init__(self, parent: TableOperator, suppression: Suppression, store: str) -> None:
        self._parent, self.suppression, self.store = parent, suppression, store
        parent.send_old_values(force=True)

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return _SuppressProcessor(self)

    def send_old_values(self, *, force: bool) -> bool:
        return self._parent.send_old_values(force=force)

    def view(self) -> View:
        parent = self._parent.view()

        def getter(context: AnyContext) -> Getter:
            buffer: SuppressBuffer = context.get_state_store(self.store)
            get_sent = parent.getter(context)

            def get(key: Any) -> ValueAndTimestamp | None:
                is_buffered, prior = buffer.prior_value(key)
                return prior if is_buffered else get_sent(key)

            return get

        return View((self.store, *parent.stores), getter)


class _SuppressProcessor(Processor[Any, Change, Any, Change], ObservesTime):
    context: OperatorContext

    def __init__(self, table: SuppressedTable) -> None:
        self._table = table

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._buffer: SuppressBuffer = context.get_state_store(self._table.store)

    def process(self, record: Record[Any, Change]) -> None:
        suppression = self._table.suppression
        self.stream_time = max(self.stream_time, record.timestamp)
        self._buffer.put(suppression.time_of(record), record, self.context.record_metadata)
        expired = self.stream_time - suppression.wait_ms
        self._send_while(lambda: (first := self._buffer.first_time()) is not None and first <= expired)
        if not suppression.is_full(self._buffer):
            return
        if suppression.fails:
            raise ProcessingError(
                f"the buffer {self._table.store} of suppress has {len(self._buffer)} records with "
                f"{self._buffer.bytes_held} bytes, more than it may"
            )
        self._send_while(lambda: suppression.is_full(self._buffer))

    def _send_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            record, metadata = self._buffer.first_change()
            if record.value.new is not None or not self._table.suppression.skips_tombstones:
                self.context.forward_as(record, metadata)
            self._buffer.remove_first()
