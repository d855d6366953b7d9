"""The interface of processors and of their context, by which they forward records, use stores and schedule
punctuations.

A processor is made by its supplier, once for each task. A processor has no access but its `ProcessorContext`. Its times
are those of the task, which the owner of the task sets. Source: Processor, ProcessorContext, Punctuator of Kafka
Streams.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from kcli.streams.records import NO_TIMESTAMP, Record, RecordMetadata

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class PunctuationType(Enum):
    """By which time the intervals of a punctuation are counted: by stream time, or by the clock."""

    STREAM_TIME = "stream time"
    WALL_CLOCK_TIME = "wall-clock time"


Punctuator = Callable[[int], None]
"""A function that is called at intervals, with the time in milliseconds."""


class Cancellable(Protocol):
    """A punctuation that can be ended."""

    def cancel(self) -> None:
        """End the punctuation."""


class ProcessorContext(Protocol[K, V]):
    """What a processor can do in its task. K, V: the types of key and value of the records that it forwards."""

    @property
    def application_id(self) -> str:
        """The id of the application."""

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the input record in process; None in a punctuation."""

    @property
    def current_stream_time_ms(self) -> int:
        """The highest timestamp of the task's records so far, -1 before the first."""

    @property
    def current_system_time_ms(self) -> int:
        """The time of the clock when the task began with the record or punctuation in process."""

    def forward(self, record: Record[K, V], child: str | None = None) -> None:
        """Pass a record to all children of this node, or to the child with this name."""

    def get_state_store(self, name: str) -> Any:
        """Return a store that is connected to this processor, or a global one. Raises ProcessingError."""

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> Cancellable:
        """Call the punctuator whenever the time has advanced by the interval. Intervals of stream time begin at 0, so
        the first record causes the first call; intervals of the clock begin now."""


class OperatorContext(ProcessorContext[Any, Any], Protocol):
    """What operators of the DSL can do besides. emit_interval_ms: how long, by the clock, an operator waits between two
    looks for windows that have closed. metadata_of_processors: what an operator has to know again in another task that
    goes on from the offsets of this one, by a name of its own."""

    emit_interval_ms: int
    metadata_of_processors: dict[str, int]

    def forward_as(self, record: Record[Any, Any], metadata: RecordMetadata | None) -> None:
        """Forward a record that was held back. metadata: of the record's own input record, not of the one in
        process."""


class Processor(ABC, Generic[K, V, K2, V2]):
    """What a node does with each record. K, V: the types of key and value of the records that it gets; K2, V2: of those
    that it forwards."""

    context: ProcessorContext[K2, V2]

    def init(self, context: ProcessorContext[K2, V2]) -> None:
        """Called once, before the first record."""
        self.context = context

    @abstractmethod
    def process(self, record: Record[K, V]) -> None:
        """Process a record."""

    def close(self) -> None:
        """Called once, after the last record."""


class ObservesTime:
    """A processor or a store that keeps times which are in no changelog, and goes on with them after a restart.

    times: the names of the attributes that are such times. stream_time: the highest timestamp that it has seen, in
    milliseconds, -1 before the first record.
    """

    times: ClassVar[tuple[str, ...]] = ("stream_time",)
    stream_time: int = NO_TIMESTAMP


ProcessorSupplier = Callable[[], Processor[K, V, K2, V2]]
