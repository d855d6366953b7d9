"""What a processor is, and what it can do: forward records, read its stores, ask to be called at times.

A processor is made by its supplier, once for each task. `ProcessorContext` is its only way to the outside: time comes
from the task, which gets it from whoever runs it. Source: Processor, ProcessorContext, Punctuator of Kafka Streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from kcli.streams.records import Record, RecordMetadata

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class PunctuationType(Enum):
    """Which time a punctuation waits for: that of records, or that of the clock."""

    STREAM_TIME = "stream time"
    WALL_CLOCK_TIME = "wall-clock time"


Punctuator = Callable[[int], None]
"""Called with the time in milliseconds that is reached."""


class Cancellable(Protocol):
    """A punctuation that can be ended."""

    def cancel(self) -> None:
        """End the punctuation."""


class ProcessorContext(Protocol[K, V]):
    """What a task offers one of its processors. K, V: of the records that the processor forwards."""

    @property
    def application_id(self) -> str:
        """The id of the application."""

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Where the input record in process stands; None in a punctuation."""

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the task's records so far, -1 before the first."""

    @property
    def current_system_time_ms(self) -> int:
        """The time of the clock when the task began with the record or punctuation in process."""

    def forward(self, record: Record[K, V], child: str | None = None) -> None:
        """Give a record to the processors behind this one, or to the one with that name."""

    def get_state_store(self, name: str) -> Any:
        """Return a store that is connected to this processor, or a global one. Raises ProcessingError."""

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> Cancellable:
        """Call the punctuator whenever the time has advanced by the interval. Stream time counts from 0 on, so that the
        first record brings the first call; the clock's counts from now on."""


class OperatorContext(ProcessorContext[Any, Any], Protocol):
    """What a task offers the operators of the DSL besides. emit_interval_ms: how long, by the clock, an operator waits
    between two looks for windows that have closed."""

    emit_interval_ms: int

    def forward_as(self, record: Record[Any, Any], metadata: RecordMetadata | None) -> None:
        """Forward a record that was held back, with the place of its own input record."""


class Processor(ABC, Generic[K, V, K2, V2]):
    """One step of a topology. K, V: of the records that it gets; K2, V2: of those that it forwards."""

    context: ProcessorContext[K2, V2]

    def init(self, context: ProcessorContext[K2, V2]) -> None:
        """Called once, before the first record."""
        self.context = context

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Take a record."""

    def close(self) -> None:
        """Called once, behind the last record."""


ProcessorSupplier = Callable[[], Processor[K, V, K2, V2]]
