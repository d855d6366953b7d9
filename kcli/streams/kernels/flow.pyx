"""The way of records through the nodes of a task, depth first: what each node gets, what is in process then, and what
sinks and stores send."""

from kcli.streams.errors import ProcessingError, SerializationError
from kcli.streams.kernels.input_queues cimport InputQueues
from kcli.streams.kernels.values cimport to_bytes
from kcli.streams.records import ProducerRecord

cdef object NewProducerRecord = ProducerRecord


cdef class FlowNode:
    """A node of a task: its definition, its processor (None for a source or sink), the nodes that get its records, and
    what it does with a record."""

    cdef readonly object definition
    cdef readonly object name
    cdef public object processor, take
    cdef readonly list children

    def __init__(self, definition):
        self.definition, self.name = definition, definition.name
        self.children = []


cdef class Flow:
    """What a task has in process: the record that a node has got, and of the input record the topic, partition and
    offset, and the bytes. queues: the records that wait. sent: those that sinks and stores have sent. now_ms: the time of
    the clock. nodes: by name. scheduled: the punctuations by stream time.

    A subclass has `_failed` and `_unsendable`, which decide what becomes of an error, `_topic_of` for sinks whose topic
    a function names, and `_punctuate_stream_time`."""

    cdef public object record, metadata, raw, now_ms
    cdef public list sent
    cdef public InputQueues queues
    cdef public dict nodes, scheduled

    def process(self):
        """Process the next record, then call the punctuators that are due at the new stream time. Return False if no
        record waits."""
        cdef tuple taken = self.queues.take()
        if taken is None:
            return False
        source, record, metadata, self.raw = taken
        self.run_from(self.nodes[source.name], record, metadata)
        self.raw = None
        if self.scheduled:
            self._punctuate_stream_time()
        return True

    def process_ready(self, Py_ssize_t most):
        """Process up to so many records that no other record can precede. Return how many."""
        cdef Py_ssize_t done = 0
        while done < most and self.queues.ready():
            self.process()
            done += 1
        return done

    cdef int deliver(self, list receivers, object record) except -1:
        """Have nodes take a record, one after the other."""
        cdef object before = self.record
        cdef FlowNode receiver
        self.record = record
        try:
            for receiver in receivers:
                try:
                    receiver.take(record)
                except Exception as error:
                    if receiver.processor is None:
                        raise
                    self._failed(receiver, record, error)
        finally:
            self.record = before
        return 0

    def run_from(self, FlowNode node not None, record, metadata):
        """Pass an input record to its source."""
        self.metadata = metadata
        try:
            self.deliver(node.children, record)
        finally:
            self.metadata = None


cdef class Forwarder:
    """Passes the records of a node on."""

    cdef Flow flow
    cdef FlowNode node

    def __init__(self, Flow flow not None, FlowNode node not None):
        self.flow, self.node = flow, node

    def forward(self, record, child=None):
        cdef list receivers = self.node.children
        if child is not None:
            receivers = [each for each in receivers if each.name == child]
            if not receivers:
                raise ProcessingError(f"{self.node.name} forwards to {child}, which does not get its records")
        self.flow.deliver(receivers, record)


cdef class Sender:
    """What a sink does with a record: sends it. topic: None if a function names it."""

    cdef Flow flow
    cdef object sink, topic, key_serde, value_serde, partition_of
    cdef Py_ssize_t window_bytes

    def __init__(self, Flow flow not None, sink, topic):
        self.flow, self.sink, self.topic = flow, sink, topic
        self.key_serde, self.value_serde, self.partition_of = sink.key_serde, sink.value_serde, sink.partition_of
        self.window_bytes = sink.key_serde.window_bytes

    def __call__(self, record):
        topic = self.flow._topic_of(self.sink, record) if self.topic is None else self.topic
        try:
            key, value = to_bytes(self.key_serde, record.key), to_bytes(self.value_serde, record.value)
        except SerializationError as error:
            self.flow._unsendable(self.sink, record, error)
            return
        partition = None if self.partition_of is None else self.partition_of(record.value)
        hashed = key if key is None or not self.window_bytes else key[: len(key) - self.window_bytes]
        self.flow.sent.append(NewProducerRecord(topic, key, value, record.timestamp, record.headers, partition, hashed))


cdef class ChangelogSender:
    """The Log of a store: sends records to its changelog. logs_headers: with the headers of the record in process."""

    cdef Flow flow
    cdef object topic, partition
    cdef bint logs_headers

    def __init__(self, Flow flow not None, topic, partition, *, bint logs_headers):
        self.flow, self.topic, self.partition, self.logs_headers = flow, topic, partition, logs_headers

    def __call__(self, key, value, timestamp, headers=(), /):
        record = self.flow.record
        if timestamp is None:
            timestamp = self.flow.now_ms if record is None else record.timestamp
        if self.logs_headers and record is not None:
            headers = headers + record.headers
        self.flow.sent.append(NewProducerRecord(self.topic, key, value, timestamp, headers, self.partition))
