"""A task runs a topology on the records of its topics, one record after the other.

    add -> the queue of a topic -> process -> nodes, depth first -> sent: records for topics and changelogs

A task has neither a clock nor I/O: `now_ms` is set by its owner, and `sent` is emptied by it. Source: StreamTask,
ProcessorContextImpl, GlobalStateUpdateTask of Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kcli.streams.errors import FailedProcessing, ProcessingError, ProductionError, SerializationError, StreamsError
from kcli.streams.kernels.flow import ChangelogSender, Flow, FlowNode, Forwarder, Sender
from kcli.streams.kernels.input_queues import InputQueues, deserialized
from kcli.streams.records import Headers, ProducerRecord, Record, RecordMetadata
from kcli.streams.topology.error_handlers import DEFAULT, FAILS, ErrorContext, ErrorHandlers, Handler, place
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.processor import Cancellable, ObservesTime, PunctuationType, Punctuator
from kcli.streams.topology.punctuation import Punctuation, Punctuations
from kcli.streams.topology.stores.store import Log, StateStore
from kcli.streams.topology.topology import Node, ProcessorNode, Sink, Source, Topology, changelog_topic, internal_topic

EMIT_INTERVAL_MS = 1000


class Task(Flow):
    """A topology, or a part of it, in one partition of each topic. now_ms: the time of the clock in milliseconds.
    emit_interval_ms: how long, by the clock, operators wait between two looks for windows that have closed. names: the
    nodes that the task has; None for all. global_stores: stores that another task fills. partition: the number of the
    partition. handlers: decide what happens after errors.

    sent: the records that the nodes and stores have sent since the owner last emptied it. queues: the records that
    wait. metadata_of_processors: what processors have to know again when another task goes on from the offsets of this
    one.
    """

    def __init__(
        self,
        topology: Topology,
        application_id: str,
        now_ms: int,
        emit_interval_ms: int = EMIT_INTERVAL_MS,
        *,
        names: Collection[str] | None = None,
        global_stores: Mapping[str, StateStore] | None = None,
        partition: int = 0,
        handlers: ErrorHandlers = DEFAULT,
    ) -> None:
        self.application_id = application_id
        self.emit_interval_ms = emit_interval_ms
        self.now_ms = now_ms
        self.partition = partition
        self._topology, self._handlers = topology, handlers
        self._definitions = {name: node for name, node in topology.nodes.items() if names is None or name in names}
        self.stores: dict[str, StateStore] = {
            name: topology.stores[name].build(self._log_of(name))
            for name in (topology.stores if names is None else _stores_of(self._definitions.values()))
        }
        self._readable = {**self.stores, **(global_stores or {})}
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget everything but the stores, as a new task does that has restored them."""
        self.sent = []
        self.queues = InputQueues(self._unreadable)
        self.metadata_of_processors: dict[str, int] = {}
        self._globals: dict[str, FlowNode] = {}
        self._by_stream_time: Punctuations[FlowNode] = Punctuations()
        self._by_clock: Punctuations[FlowNode] = Punctuations()
        self.scheduled = {}
        self.nodes = self._connected(self._definitions.values())

    def start(self) -> None:
        """Start the processors. Stores must be restored before. What `times` has returned of the task that went before
        is taken out of metadata_of_processors: an owner that does not commit `times` must not commit old ones."""
        for name, each, attribute in self._kept_times():
            if name in self.metadata_of_processors:
                setattr(each, attribute, self.metadata_of_processors.pop(name))
        for node in self.nodes.values():
            if node.processor is not None:
                node.processor.init(_Context(self, node))
                node.take = node.processor.process

    def times(self) -> dict[str, int]:
        """Return what a task has to know, beside offsets, to go on from here as this one would: the times that
        processors and stores keep, and when punctuations by stream time are due."""
        kept: dict[str, int] = {name: getattr(each, attribute) for name, each, attribute in self._kept_times()}
        return kept | {name: each.due_ms for name, each in self.scheduled.items()}

    def _kept_times(self) -> Iterator[tuple[str, ObservesTime, str]]:
        found: dict[str, object] = {name: node.processor for name, node in self.nodes.items()}
        for name, each in (found | self.stores).items():
            if isinstance(each, ObservesTime):
                for attribute in each.times:
                    yield f"{name}-{attribute}", each, attribute

    @property
    def processors_with_clock(self) -> list[str]:
        """The names of the nodes that have scheduled punctuations by the clock."""
        return sorted({each.node.name for each in self._by_clock})

    # input

    def topic_in_kafka(self, topic: str) -> str:
        """Return the name that a topic of the topology has in Kafka: the name of an internal topic begins with the
        application id."""
        return internal_topic(self.application_id, topic) if topic in self._topology.internal_topics else topic

    def reads(self, topic: str) -> bool:
        """Whether the topology has a source for the topic."""
        return topic in self.queues or topic in self._globals

    def add(self, raw: RawRecord) -> None:
        """Take a record of an input topic: it waits in the topic's queue, or goes into the global store of its topic at
        once."""
        if raw.topic not in self._globals:
            self.queues.add(raw)
            return
        node = self._globals[raw.topic]
        assert isinstance(node.definition, Source)
        try:
            read = deserialized(node.definition, raw)
        except ProcessingError as error:
            self._unreadable(node.definition, raw, error)
            return
        record = Record(read.key, read.value, read.timestamp, read.headers)
        self.run_from(node, record, RecordMetadata(raw.topic, raw.partition, raw.offset))

    def punctuate_wall_clock(self) -> None:
        """Call the punctuators that are due by the clock at now_ms."""
        self._by_clock.advance(self.now_ms, self._punctuate)

    def commit(self) -> None:
        """Flush all stores: each writes to its changelog the changes that it has not written yet."""
        for store in self.stores.values():
            store.flush()

    @property
    def stream_time(self) -> int:
        """The highest timestamp of the records processed so far, -1 before the first."""
        return self.queues.stream_time

    def close(self) -> None:
        """Close all processors."""
        for node in self.nodes.values():
            if node.processor is not None:
                node.processor.close()

    # what nodes do

    def schedule(self, node: FlowNode, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> Cancellable:
        """Have the punctuator called at intervals of stream time or of the clock. Raises ProcessingError for an
        interval below 1 ms."""
        if interval_ms <= 0:
            raise ProcessingError(
                f"{node.name} asks for punctuations every {interval_ms} ms; the interval must be positive"
            )
        if kind is PunctuationType.STREAM_TIME:
            name = f"{node.name}-{sum(each.node is node for each in self.scheduled.values())}"
            punctuation = Punctuation(node, self.metadata_of_processors.pop(name, 0), interval_ms, punctuator)
            self.scheduled[name] = punctuation
            self._by_stream_time.add(punctuation)
        else:
            punctuation = Punctuation(node, self.now_ms + interval_ms, interval_ms, punctuator)
            self._by_clock.add(punctuation)
        return punctuation

    def store_of(self, node: FlowNode, name: str) -> StateStore:
        """Return a store that the node may use. Raises ProcessingError."""
        assert isinstance(node.definition, ProcessorNode)
        if name not in self._readable:
            raise ProcessingError(f"{node.name} uses a store {name} that the topology does not have")
        if name not in node.definition.stores and name not in self._topology.global_stores:
            raise ProcessingError(f"{node.name} uses the store {name}, which is not connected to it")
        return self._readable[name]

    def _punctuate_stream_time(self) -> None:
        self._by_stream_time.advance(self.queues.stream_time, self._punctuate)

    def _punctuate(self, punctuation: Punctuation[FlowNode], time_ms: int) -> None:
        self.record = Record(None, None, time_ms)
        try:
            punctuation.punctuator(time_ms)
        except Exception as error:  # noqa: BLE001 (whatever the program's functions raise)
            self._failed(punctuation.node, self.record, error)
        finally:
            self.record = None

    def _topic_of(self, sink: Sink, record: Record[Any, Any]) -> str:
        """Return the topic that the sink's function names for a record."""
        assert not isinstance(sink.topic, str)
        return self.topic_in_kafka(sink.topic(record.key, record.value, self.metadata))

    # errors

    def refused(self, record: ProducerRecord, error: Exception) -> None:
        """Have the handler decide on a record that the brokers do not take. Raises FailedProcessing if it fails."""
        context = ErrorContext(record.topic, record.timestamp, record.headers, None, record.key, record.value)
        if not self._resumes(self._handlers.production, context, error):
            raise FailedProcessing(str(error)) from error

    def _unsendable(self, sink: Sink, record: Record[Any, Any], error: SerializationError) -> None:
        """Have the handler decide on a record whose key or value the sink's serdes do not take. Raises ProductionError
        if it fails."""
        context = self._context(sink, record.timestamp, record.headers)
        if not self._resumes(self._handlers.production, context, error):
            raise ProductionError(f"{place(self.metadata)}{sink.name}: {error}") from error

    def _unreadable(self, source: Source, raw: RawRecord, error: ProcessingError) -> None:
        """Have the handler decide on a record that cannot be deserialized. Raises FailedProcessing if it fails."""
        metadata = RecordMetadata(raw.topic, raw.partition, raw.offset)
        context = ErrorContext(source.name, raw.timestamp, raw.headers, metadata, raw.key, raw.value)
        if not self._resumes(self._handlers.deserialization, context, error, is_global=raw.topic in self._globals):
            raise FailedProcessing(str(error)) from error

    def _failed(self, node: FlowNode, record: Record[Any, Any], error: Exception) -> None:
        """Have the handler decide on what a processor or a punctuation has raised. Raises FailedProcessing if it
        fails."""
        if isinstance(error, FailedProcessing):
            raise error
        is_global = self._topology.is_global(node.definition)
        context = self._context(node.definition, record.timestamp, record.headers)
        handler = FAILS if is_global and not self._handlers.global_processing else self._handlers.processing
        if not self._resumes(handler, context, error, is_global=is_global):
            raise FailedProcessing(_told(node, self.metadata, error)) from error

    def _context(self, node: Node, timestamp: int, headers: Headers) -> ErrorContext:
        raw = self.raw
        key, value = (None, None) if raw is None else (raw.key, raw.value)
        return ErrorContext(node.name, timestamp, headers, self.metadata, key, value)

    def _resumes(self, handler: Handler, context: ErrorContext, error: Exception, *, is_global: bool = False) -> bool:
        """Ask a handler; send its dead letters, which global stores have none of. Return whether to go on."""
        resumes, dead_letters = handler(context, error)
        if not is_global:
            self.sent += dead_letters
        return resumes

    # at the start

    def _log_of(self, name: str) -> Log:
        builder, topic = self._topology.stores[name], changelog_topic(self.application_id, name)
        if not builder.logging:
            return _unlogged
        return ChangelogSender(self, topic, self.partition, logs_headers=builder.logs_headers)

    def _connected(self, definitions: Iterable[Node]) -> dict[str, FlowNode]:
        nodes: dict[str, FlowNode] = {}
        for definition in definitions:
            assert isinstance(definition, Source | ProcessorNode | Sink)
            node = nodes[definition.name] = FlowNode(definition)
            match definition:
                case ProcessorNode():
                    node.processor = definition.supplier()
                    node.take = node.processor.process
                case Sink():
                    topic = definition.topic
                    named = self.topic_in_kafka(topic) if isinstance(topic, str) else None
                    node.take = Sender(self, definition, named)
            for predecessor in definition.predecessors:
                nodes[predecessor].children.append(node)
            if isinstance(definition, Source):
                self._open(node, definition)
        return nodes

    def _open(self, node: FlowNode, source: Source) -> None:
        for topic in map(self.topic_in_kafka, source.topics):
            if self._topology.is_global(source):
                self._globals[topic] = node
            else:
                self.queues.open(topic, source)


def _unlogged(key: bytes, value: bytes | None, timestamp: int | None, headers: Headers = (), /) -> None:
    """Add nothing: the log of a store without a changelog."""


def _stores_of(nodes: Iterable[Node]) -> dict[str, None]:
    """Return the names of the stores that processors among these nodes use."""
    return {store: None for node in nodes if isinstance(node, ProcessorNode) for store in node.stores}


def _told(node: FlowNode, metadata: RecordMetadata | None, error: Exception) -> str:
    """Return what a node's error is told as."""
    match error:
        case ProductionError():
            return str(error)
        case StreamsError():
            return f"{place(metadata)}{node.name}: {error}"
        case _:
            return f"{place(metadata)}{node.name}: {type(error).__name__}: {error}"


class _Context(Forwarder):
    """The ProcessorContext of one node."""

    def __init__(self, task: Task, node: FlowNode) -> None:
        super().__init__(task, node)
        self._task, self._node = task, node
        self.application_id = task.application_id
        self.emit_interval_ms = task.emit_interval_ms
        self.metadata_of_processors = task.metadata_of_processors

    @property
    def record_metadata(self) -> RecordMetadata | None:
        return self._task.metadata

    @property
    def current_stream_time_ms(self) -> int:
        return self._task.stream_time

    @property
    def current_system_time_ms(self) -> int:
        return self._task.now_ms

    def forward_as(self, record: Record[Any, Any], metadata: RecordMetadata | None) -> None:
        before = self._task.metadata, self._task.raw
        self._task.metadata, self._task.raw = metadata, None
        try:
            self.forward(record)
        finally:
            self._task.metadata, self._task.raw = before

    def get_state_store(self, name: str) -> Any:
        return self._task.store_of(self._node, name)

    def schedule(self, interval_ms: int, kind: PunctuationType, punctuator: Punctuator) -> Cancellable:
        return self._task.schedule(self._node, interval_ms, kind, punctuator)
