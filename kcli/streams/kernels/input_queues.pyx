"""The input of a task: a queue for each topic, and the choice of the next record.

The next record is that with the lowest timestamp among the first records of all queues. Queues whose first records have
equal timestamps are taken in the order of Java's PriorityQueue. Source: PartitionGroup, RecordQueue of Kafka Streams.
"""

from collections import deque

from kcli.java.priority_queue import PriorityQueue
from kcli.streams.errors import ProcessingError, SerializationError
from kcli.streams.kernels.values cimport from_bytes
from kcli.streams.records import NO_TIMESTAMP, ConsumerRecord, Record, RecordMetadata
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.timestamps import fail_on_invalid_timestamp

cdef object NewRecord = Record, NewConsumerRecord = ConsumerRecord, NewMetadata = RecordMetadata, NewRaw = RawRecord
cdef object Plain = fail_on_invalid_timestamp  # called only where it raises
cdef object FIRST_TIME = NO_TIMESTAMP


cpdef object deserialized(object source, object raw):
    """Return the ConsumerRecord of a RawRecord, with key and value deserialized by the source's serdes. Raises
    ProcessingError."""
    topic, partition, offset, timestamp, key, value, headers = raw
    side = "key"
    try:
        read_key = from_bytes(source.key_serde, key)
        side = "value"
        read_value = from_bytes(source.value_serde, value)
    except SerializationError as error:
        place = f"{topic}, partition {partition}, offset {offset}"
        raise ProcessingError(f"{place}: the record's {side} cannot be read: {error}") from None
    return NewConsumerRecord(topic, partition, offset, timestamp, read_key, read_value, headers)


cdef class InputQueue:
    """The records of a topic that wait. The first one is deserialized and has the timestamp that the source's extractor
    gives it.

    next_offset: the offset from which a new task has to go on, None before the first record. partition_time: the
    highest timestamp of a record taken so far. is_at_end: whether the topic has no more records than those added.
    skipped: how many records were left out.
    """

    def __init__(self, source, unreadable):
        self.source, self.unreadable, self.extractor = source, unreadable, source.timestamp_extractor
        self.partition_time = FIRST_TIME
        self.waiting = deque()

    def __len__(self):
        return len(self.waiting) + (self.record is not None)

    def reach_end(self, offset):
        """Take note that the topic has no more records below an offset, at which its next record will be. Return True
        if this moves next_offset, past the markers of transactions."""
        self.is_at_end = True
        if self.record is not None or offset <= (self.next_offset or 0):
            return False
        self.next_offset = offset
        return True

    cdef int add(self, object raw) except -1:
        self.waiting.append(raw)
        self.is_at_end = False
        return self.find_first()

    cdef tuple take(self):
        """Remove the first record; return it with its source, its place, and the bytes that it was."""
        cdef tuple taken = (self.source, self.record, self.metadata, self.raw)
        timestamp = self.record.timestamp
        self.record = None
        self.next_offset = self.metadata.offset + 1
        if timestamp > self.partition_time:
            self.partition_time = timestamp
        self.find_first()
        return taken

    cdef int find_first(self) except -1:
        while self.record is None and self.waiting:
            self.read(self.waiting.popleft())
        return 0

    cdef int read(self, object raw) except -1:
        """Make a record the first one, or leave it out."""
        try:
            read = deserialized(self.source, raw)
        except ProcessingError as error:
            self.unreadable(self.source, raw, error)
            return self.leave_out(raw)
        timestamp = read.timestamp
        if timestamp < 0 or self.extractor is not Plain:
            timestamp = self.extractor(read, self.partition_time)
        if timestamp < 0:
            return self.leave_out(raw)
        self.raw, self.metadata = raw, NewMetadata(read.topic, read.partition, read.offset)
        self.record = NewRecord(read.key, read.value, timestamp, read.headers)
        return 0

    cdef int leave_out(self, object raw) except -1:
        self.next_offset = raw.offset + 1
        self.skipped += 1
        return 0


cdef class InputQueues:
    """The queues of a task, by topic. stream_time: the highest timestamp of a record taken so far, in milliseconds.
    unreadable: takes the records that cannot be deserialized."""

    def __init__(self, unreadable):
        self.unreadable = unreadable
        self.stream_time = FIRST_TIME
        self.by_topic = {}
        self.by_time = PriorityQueue(timestamp_of)

    def __len__(self):
        return len(self.by_time)

    def __contains__(self, topic):
        return topic in self.by_topic

    @property
    def is_ready(self):
        """Whether a record waits, and no topic can have an earlier one: each has one, or has been read to its end."""
        return self.ready()

    cdef bint ready(self) except -1:
        cdef InputQueue queue
        cdef bint waits = False
        for queue in self.by_topic.values():
            if queue.record is not None:
                waits = True
            elif not queue.is_at_end:
                return False
        return waits

    @property
    def skipped(self):
        """How many records were left out: they cannot be read, or have no timestamp."""
        return sum([queue.skipped for queue in self.by_topic.values()])

    def set_partition_time(self, topic, time):
        """Go on from the highest timestamp that an earlier task has taken from a topic."""
        self.by_topic[topic].partition_time = time
        self.stream_time = max(self.stream_time, time)

    def open(self, topic, source):
        """Make the queue of a topic."""
        self.by_topic[topic] = InputQueue(source, self.unreadable)

    cpdef add(self, raw):
        """Put a record at the end of its topic's queue. Raises what `unreadable` raises, if it comes first."""
        cdef InputQueue queue = self.by_topic[raw.topic]
        cdef bint was_empty = queue.record is None
        queue.add(raw)
        if was_empty and queue.record is not None:
            self.by_time.offer(queue)

    def add_all(self, list records):
        """Put fetched records at the ends of their topics' queues, as `add` does."""
        cdef tuple each
        for each in records:
            self.add(NewRaw(each[0], each[1], each[2], each[3], each[4], each[5], each[6]))

    cpdef tuple take(self):
        """Remove the next record. Return its source, the record, its place and the bytes that it was; None if no record
        waits."""
        cdef InputQueue queue
        cdef tuple taken
        cdef Py_ssize_t queues = len(self.by_time)
        if not queues:
            return None
        queue = self.by_time.peek() if queues == 1 else self.by_time.poll()
        try:
            taken = queue.take()
        finally:
            if queues == 1 and queue.record is None:
                self.by_time.poll()
            elif queues > 1 and queue.record is not None:
                self.by_time.offer(queue)
        timestamp = taken[1].timestamp
        if timestamp > self.stream_time:
            self.stream_time = timestamp
        return taken


def timestamp_of(InputQueue queue not None):
    return queue.record.timestamp
