"""process_values: a user's processor that must not change the key, so that the stream stays as it is partitioned.

Source: FixedKeyProcessor, FixedKeyRecord of Kafka Streams.
"""

from __future__ import annotations

from typing import Any

from kcli.streams.errors import ProcessingError
from kcli.streams.records import Record, RecordMetadata
from kcli.streams.topology.operators.table import AnyContext
from kcli.streams.topology.processor import Cancellable, Processor, ProcessorSupplier, PunctuationType, Punctuator


class FixedKey(Processor[Any, Any, Any, Any]):
    """A processor that runs a user's processor, and raises an error if that forwards a record with another key than it
    got."""

    def __init__(self, inner: Processor[Any, Any, Any, Any]) -> None:
        self._inner = inner

    def init(self, context: AnyContext) -> None:
        super().init(context)
        self._fixed = _FixedKeyContext(context)
        self._inner.init(self._fixed)

    def process(self, record: Record[Any, Any]) -> None:
        self._fixed.key = record.key
        self._inner.process(record)

    def close(self) -> None:
        self._inner.close()


class _FixedKeyContext:
    key: Any = None

    def __init__(self, context: AnyContext) -> None:
        self._context = context
        self.application_id = context.application_id

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._context.record_metadata

    @property
    def current_stream_time_ms(self) -> int:
        return self._context.current_stream_time_ms

    @property
    def current_system_time_ms(self) -> int:
        return self._context.current_system_time_ms

    def forward(self, record: Record[Any, Any], child: str | None = None) -> None:
        if self.record_metadata is not None and record.key != self.key:
            raise ProcessingError(f"process_values must not change the key {self.key!r} to {record.key!r}")
        self._context.forward(record, child)

    def get_state_store(self, name: str) -> Any:
        return self._context.get_state_store(name)

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> Cancellable:
        return self._context.schedule(interval_ms, kind, punctuator)


def fixed_key(supplier: ProcessorSupplier[Any, Any, Any, Any]) -> ProcessorSupplier[Any, Any, Any, Any]:
    """Return the supplier of a user's processors that must not change the key."""
    return lambda: FixedKey(supplier())
