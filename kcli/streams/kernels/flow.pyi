from collections.abc import Callable
from typing import Any

from kcli.streams.kernels.input_queues import InputQueues
from kcli.streams.records import Headers, ProducerRecord, Record, RecordMetadata
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.processor import Processor
from kcli.streams.topology.punctuation import Punctuation
from kcli.streams.topology.topology import ProcessorNode, Sink, Source

class FlowNode:
    processor: Processor[Any, Any, Any, Any] | None
    take: Callable[[Record[Any, Any]], None]
    @property
    def definition(self) -> Source | ProcessorNode | Sink: ...
    @property
    def name(self) -> str: ...
    @property
    def children(self) -> list[FlowNode]: ...
    def __init__(self, definition: Source | ProcessorNode | Sink) -> None: ...

class Flow:
    record: Record[Any, Any] | None
    metadata: RecordMetadata | None
    raw: RawRecord | None
    now_ms: int
    sent: list[ProducerRecord]
    queues: InputQueues
    nodes: dict[str, FlowNode]
    scheduled: dict[str, Punctuation[FlowNode]]
    def process(self) -> bool: ...
    def process_ready(self, most: int) -> int: ...
    def run_from(self, node: FlowNode, record: Record[Any, Any], metadata: RecordMetadata) -> None: ...

class Forwarder:
    def __init__(self, flow: Flow, node: FlowNode) -> None: ...
    def forward(self, record: Record[Any, Any], child: str | None = None) -> None: ...

class Sender:
    def __init__(self, flow: Flow, sink: Sink, topic: str | None) -> None: ...
    def __call__(self, record: Record[Any, Any]) -> None: ...

class ChangelogSender:
    def __init__(self, flow: Flow, topic: str, partition: int, *, logs_headers: bool) -> None: ...
    def __call__(self, key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = (), /) -> None: ...
