"""Checks of batches before a broker appends them; a batch of a producer gets its offset, one of a leader keeps it.

Source: LogValidator, UnifiedLog.analyzeAndValidateRecords.
"""

from cpython.exc cimport PyErr_SetFromErrnoWithFilenameObject
from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock, PyThread_get_thread_ident,
    PyThread_release_lock)
from libc.errno cimport EINTR, ENOSPC, errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from posix.unistd cimport pwrite

from formats.compression import decompress
from formats.errors import FormatError

from formats.kernels.batches cimport FAULT_BAD_CRC, FAULT_SHORT_HEADER, V2_HEADER, Batch, BatchTable, lies_in
from formats.kernels.buffer cimport TextBuffer, put_be32, put_text
from formats.kernels.indexes cimport AppendIndexer, IndexTail
from formats.kernels.numbers cimport minus, plus, set_be32, set_be64
from formats.kernels.producers cimport ProducerState, ProducerTable, sequence_after
from formats.kernels.records cimport Record, RecordTable, read_record
from formats.kernels.scan cimport SCAN_END, scan_window

# The reasons for refusing a record.
cpdef enum:
    APPEND_NO_KEY = 1
    APPEND_TIMESTAMP_OUT_OF_RANGE = 2
    APPEND_TIMESTAMP_TYPE = 3


cdef struct RefusedRecord:
    int64_t offset            # as the producer wrote it
    int64_t timestamp         # ms
    int32_t index             # in the batch
    int32_t code              # APPEND_*


cdef class RefusedRecords:
    """The records of one batch that a leader refuses, in their order: the first `limit` are listed, all are counted.
    no_key: the reason that the response has for a record without a key; earliest, latest: the bounds of timestamps, ms.
    len() is the number of listed records."""

    cdef RefusedRecord *cells
    cdef Py_ssize_t count, capacity, limit
    cdef readonly int64_t total, earliest, latest
    cdef readonly bint keys_only                        # no record has another fault than its missing key
    cdef public str no_key

    def __init__(self, Py_ssize_t limit, *, str no_key not None, int64_t earliest, int64_t latest):
        self.limit, self.no_key, self.earliest, self.latest = limit, no_key, earliest, latest
        self.keys_only = True

    def __dealloc__(self):
        free(self.cells)

    def __len__(self):
        return self.count

    def reason(self, Py_ssize_t i):
        """The reason that Kafka gives for the i-th listed record."""
        cdef TextBuffer out = TextBuffer()
        if not 0 <= i < self.count:
            raise IndexError(i)
        self.put_reason(out, &self.cells[i], self.no_key.encode())
        return bytes(memoryview(out)).decode()

    def index(self, Py_ssize_t i):
        """The index in its batch of the i-th listed record."""
        if not 0 <= i < self.count:
            raise IndexError(i)
        return self.cells[i].index

    def encode(self, Py_ssize_t most, *, bint flexible):
        """The items of Produce's `record_errors` for the first `most` listed records.

        Each item: index int32, reason, and no tagged fields in a flexible version.
        """
        cdef TextBuffer out = TextBuffer()
        cdef TextBuffer text = TextBuffer()
        cdef bytes no_key = self.no_key.encode()
        cdef Py_ssize_t i
        for i in range(min(most, self.count)):
            text.size = 0
            self.put_reason(text, &self.cells[i], no_key)
            out.need(text.size + 16)
            put_be32(out, <uint32_t>self.cells[i].index)
            if flexible:
                put_length(out, text.size + 1)
            else:
                put_be16(out, <uint32_t>text.size)
            out.put(text.data, text.size)
            if flexible:
                out.put(b"\0", 1)
        return out

    cdef int put_reason(self, TextBuffer out, RefusedRecord *record, bytes no_key) except -1:
        out.need(len(no_key) + 256)
        if record.code == APPEND_NO_KEY:
            out.put(<const char *>no_key, len(no_key))
        elif record.code == APPEND_TIMESTAMP_TYPE:
            put_text(out, b"Producer should not set timestamp type to LogAppendTime")
        else:
            put_text(out, b"Timestamp ")
            out.put_int(record.timestamp)
            put_text(out, b" of message with offset ")
            out.put_int(record.offset)
            put_text(out, b" is out of range. The timestamp should be within [")
            out.put_int(self.earliest)
            put_text(out, b", ")
            out.put_int(self.latest)
            put_text(out, b"]")
        return 0

    cdef int add(self, const Record *r, int64_t index, int code) except -1 nogil:
        cdef RefusedRecord *grown
        self.total += 1
        self.keys_only = self.keys_only and code == APPEND_NO_KEY
        if self.count >= self.limit:
            return 0
        if self.count == self.capacity:
            grown = <RefusedRecord *>realloc(self.cells, (2 * self.capacity + 16) * sizeof(RefusedRecord))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.cells = grown
            self.capacity = 2 * self.capacity + 16
        self.cells[self.count] = RefusedRecord(r.offset, r.timestamp, <int32_t>index, code)
        self.count += 1
        return 0


cdef inline void put_be16(TextBuffer out, uint32_t value) noexcept nogil:
    cdef char scratch[2]
    scratch[0] = <char>(value >> 8 & 0xff)
    scratch[1] = <char>(value & 0xff)
    out.put(scratch, 2)


cdef inline void put_length(TextBuffer out, uint64_t value) noexcept nogil:
    """A length as an unsigned varint: 10 bytes at most; the room is there."""
    cdef char byte
    while value >= 0x80:
        byte = <char>(value & 0x7f | 0x80)
        out.put(&byte, 1)
        value >>= 7
    byte = <char>value
    out.put(&byte, 1)


def check_append(RecordTable records not None, int64_t first_index, RefusedRecords refused not None, *, bint keyed,
                 bint create_time):
    """Check the current slice of one batch's records as Kafka's LogValidator does, and add invalid ones to `refused`.

    first_index: the index in the batch of the slice's first record; keyed: refuse null keys; create_time: the topic
    keeps the producer's timestamps, which must lie within the bounds of `refused`. Returns whether offset deltas count
    up by one from first_index.
    """
    cdef Py_ssize_t i
    cdef Record *r
    cdef Batch *b
    cdef bint consecutive = True
    cdef int code
    with nogil:
        for i in range(records.count):
            r = records.at(i)
            b = records.batches.at(r.batch)
            if minus(r.offset, b.base_offset) != plus(first_index, i):
                consecutive = False
            code = 0
            if keyed and r.key_length < 0:
                code = APPEND_NO_KEY
            elif create_time and r.timestamp != -1:
                if r.timestamp < refused.earliest or r.timestamp > refused.latest:
                    code = APPEND_TIMESTAMP_OUT_OF_RANGE
            elif b.attributes & 8:
                code = APPEND_TIMESTAMP_TYPE
            if code:
                refused.add(r, plus(first_index, i), code)
    return consecutive


def survey_batches(BatchTable table not None, int64_t leader_epoch_max):
    """Check the batches that a follower has fetched, before it appends them.

    From the first batch with an epoch above leader_epoch_max on, batches are removed from the table. Returns (bytes of
    the batches that stay, row of the first one with a bad CRC or header or -1, whether offsets grow, largest timestamp,
    [(leader epoch, its first offset)]); the epoch of magic 0 and 1 is -1.
    """
    cdef Py_ssize_t i
    cdef Batch *b
    cdef int64_t size = 0, last_offset = -1, max_timestamp = -1, epoch = -2
    cdef Py_ssize_t bad = -1
    cdef bint ordered = True
    epochs = []
    for i in range(table.count):
        b = table.at(i)
        if b.leader_epoch > leader_epoch_max and b.magic >= 2:
            table.count = i
            break
        if bad < 0 and b.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
            bad = i
        if last_offset >= b.last_offset:
            ordered = False
        last_offset = b.last_offset
        max_timestamp = max(max_timestamp, b.max_timestamp)
        if (b.leader_epoch if b.magic >= 2 else -1) != epoch:
            epoch = b.leader_epoch if b.magic >= 2 else -1
            epochs.append((epoch, b.base_offset))
        size += b.size
    return size, bad, ordered, max_timestamp, epochs


def check_plain_records(const uint8_t[::1] data not None, BatchTable table not None, *, bint keyed, bint create_time,
                        int64_t earliest, int64_t latest):
    """Check the records of the one batch in `table`, which is uncompressed, as RecordTable and check_append do.

    Returns (count of records, whether offset deltas count up by one, largest timestamp), or None if a record is
    invalid.
    """
    cdef Batch *b
    cdef PlainRecords found
    cdef bint sound
    if table.count != 1:
        raise ValueError(f"{table.count} batches, not one")
    b = table.at(0)
    if b.attributes & 15 or not lies_in(b, data.shape[0]) or b.size < V2_HEADER:
        return None
    with nogil:
        sound = plain_records(&data[b.start] + V2_HEADER, &data[b.start] + b.size, b, keyed, create_time, earliest,
                              latest, &found)
    return (found.count, found.consecutive, found.max_timestamp) if sound else None


cdef bint plain_records(const uint8_t *p, const uint8_t *stop, Batch *b, bint keyed, bint create_time, int64_t earliest,
                        int64_t latest, PlainRecords *found) noexcept nogil:
    """Whether the bytes from p to stop are exactly the records of a batch, and each of them is valid."""
    cdef const uint8_t *base = p
    cdef Record r
    cdef int64_t delta, timestamp, soft = 0
    found.count, found.max_timestamp, found.consecutive = 0, -1, True
    while p < stop and found.count <= b.count:
        if read_record(base, &p, stop, &r, &delta, &soft):
            return False
        timestamp = plus(b.base_timestamp, r.timestamp)
        if (keyed and r.key_length < 0) or (
                create_time and timestamp != -1 and (timestamp < earliest or timestamp > latest)):
            return False
        found.max_timestamp = max(found.max_timestamp, timestamp)
        found.consecutive = found.consecutive and delta == found.count
        found.count += 1
    return p == stop and found.count == b.count


cdef bint plain_header(const uint8_t *data, int64_t size, BatchTable table, int64_t max_bytes) except -1 nogil:
    """Whether the bytes are one batch of magic 2 with a valid header and the right CRC, with CreateTime, and not a
    control batch. Sets its row in `table`."""
    cdef Batch *b
    cdef int64_t next_start = 0, needed = 0
    table.count = 0
    if size < V2_HEADER or size > max_bytes or data[16] != 2 or data[21] or data[22] & ~23:
        return False
    if scan_window(data, 0, size, 0, table, True, False, &next_start, &needed) != SCAN_END or table.count != 1:
        return False
    b = table.at(0)
    return not (b.faults or b.base_offset != 0 or b.count <= 0 or b.last_offset + 1 != b.count
                or (b.producer_id >= 0 and b.base_sequence < 0))


cdef void lead_batch(uint8_t *data, Batch *b, int64_t next_offset, int32_t leader_epoch) noexcept nogil:
    """Set base offset and leader epoch in the batch's bytes and its row."""
    set_be64(data, <uint64_t>next_offset)
    set_be32(data + 12, <uint32_t>leader_epoch)
    b.base_offset = next_offset
    b.last_offset = plus(next_offset, b.count - 1)
    b.leader_epoch = leader_epoch


def accept_plain(uint8_t[::1] data not None, BatchTable table not None, int64_t next_offset, int32_t leader_epoch, *,
                 bint keyed, int64_t earliest, int64_t latest, int64_t max_bytes):
    """Prepare a plain batch of a producer for the leader's append: one batch, uncompressed, CreateTime, valid.

    Sets base offset and leader epoch in `data`, and the batch's row in `table`. Returns False, with `data` unchanged,
    for any other batch, which needs the full validation.
    """
    cdef PlainRecords found
    cdef Batch *b
    cdef bint sound
    table.clear()
    if data.shape[0] < V2_HEADER or data[22] & 7 or next_offset < 0:
        return False
    with nogil:
        sound = plain_header(&data[0], data.shape[0], table, max_bytes) and plain_records(
            &data[0] + V2_HEADER, &data[0] + data.shape[0], table.at(0), keyed, True, earliest, latest, &found)
    b = table.at(0)
    if not sound or found.max_timestamp != b.max_timestamp or b.count > INT64_MAX - next_offset:
        return False
    lead_batch(&data[0], b, next_offset, leader_epoch)
    return True


cdef class LogState:
    """The state of a log that PartitionLog and compiled code share, and the right to change the log, which one thread
    has at a time.

    log_start_offset, high_watermark, log_end_offset: see PartitionLog. runway: compiled code that appends ordinary
    batches after a few checks; None if the next batches need all checks.

    A thread that holds a log may wait for another one only if no other thread does so: data-plane threads wait for a
    log while they hold none (see ProduceLanes).
    """

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    def hold(self):
        """Wait until no other thread holds the log, and hold it until `let_go`, which must be called as often."""
        if self.is_held():
            self.depth += 1
            return
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            with nogil:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.holder, self.depth = <unsigned long>PyThread_get_thread_ident(), 1

    def let_go(self):
        """Undo one call of `hold`. Raises RuntimeError in a thread that does not hold the log."""
        if not self.is_held():
            raise RuntimeError("this thread does not hold the log")
        self.depth -= 1
        if not self.depth:
            self.holder = 0
            PyThread_release_lock(self.lock)

    cdef bint is_held(self):
        """Whether this thread holds the log."""
        return self.holder == <unsigned long>PyThread_get_thread_ident()

    cdef bint try_hold(self):
        """Hold the log, if no thread holds it."""
        if self.holder or not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return False
        self.holder, self.depth = <unsigned long>PyThread_get_thread_ident(), 1
        return True

    cdef int wait(self) except -1:
        """Wait until no thread holds the log; another one may hold it by the time this returns."""
        with nogil:
            PyThread_acquire_lock(self.lock, WAIT_LOCK)
            PyThread_release_lock(self.lock)
        return 0


cdef class SegmentState:
    """The state of a segment that LiveSegment and compiled code share. size: the bytes of the .log file that hold
    batches."""


cdef class Runway:
    """The fast append of plain batches to a segment, with all limits of the segment computed beforehand.

        runway = Runway(log, segment, file, (offset index, time index, indexer), producers, failed, leader_epoch, ...)
        found = runway.append(data, now_ms)                # of a producer
        found = runway.follow(batches, leader_epoch_max)   # of the leader that this replica follows

    As a leader's it takes one batch that the full validation would append as it is: of magic 2, with CreateTime, valid, with the
    topic's codec, in a compressed one with offsets that count up by one; that is not transactional, and whose producer
    is new or continues its sequence; and that fits the segment: its end within size_max bytes, its last offset up to
    offset_max, its timestamp up to timestamp_max, and a free slot in both indexes.

    An append writes the batches, and advances the log end offset, the segment's size, the indexes and the producers.
    file: the segment's .log file, a DiskFile. failed(error): called before the OSError of a write is raised. codec: the
    topic's, -1 for the producer's. verifications: the producers whose transactions a coordinator verifies; while there
    is one, no batch is taken. Any other append to the segment, and any change of the arguments, needs a new Runway.
    The log must be held (LogState.hold) from the check of a batch to the end of its append.
    """

    def __init__(self, LogState log not None, SegmentState segment not None, file, indexes, ProducerTable producers not None,
                 failed, int32_t leader_epoch, *, int64_t size_max, int64_t offset_max, int64_t timestamp_max,
                 bint keyed, int codec, int64_t before_max_ms, int64_t after_max_ms, int64_t max_message_bytes,
                 dict verifications not None):
        if segment.size < 0 or before_max_ms < 0 or after_max_ms < 0:
            raise ValueError((segment.size, before_max_ms, after_max_ms))
        self.log, self.segment, self.file, self.failed = log, segment, file, failed
        self.offsets, self.times, self.indexer = indexes
        if self.offsets is None or self.times is None or self.indexer is None:
            raise ValueError("a segment has both indexes")
        self.writes_directly = file.writes_directly
        self.producers, self.verifications, self.table = producers, verifications, BatchTable()
        self.leader_epoch = leader_epoch
        self.size_max, self.offset_max, self.timestamp_max = size_max, offset_max, timestamp_max
        self.keyed, self.codec = keyed, codec
        self.before_max_ms, self.after_max_ms = before_max_ms, after_max_ms
        self.max_message_bytes = max_message_bytes

    def append(self, batch not None, int64_t now_ms):
        """Append a batch: write it, update the producer, add the index entries that are due.

        Returns (first offset, last offset, max timestamp); None, with nothing changed, for a batch that needs the full
        append. Raises OSError.
        """
        cdef uint8_t[::1] data = batch
        cdef Batch *b
        if data.shape[0] < V2_HEADER or not self.takes(&data[0], data.shape[0], batch, 0, now_ms):
            return None
        self.run(&data[0], data.shape[0], batch, 0)
        b = self.table.at(0)
        return b.base_offset, b.last_offset, b.max_timestamp

    cdef bint _has_room(self, int64_t size) noexcept nogil:
        """Whether `size` bytes fit the segment, and both indexes have a free slot; that of the time index is besides
        its closing entry."""
        return (0 <= self.segment.size <= self.size_max - size and self.offsets.count < self.offsets.slots
                and self.times.count + 1 < self.times.slots)

    cdef bint takes(self, const uint8_t *data, int64_t size, object buffer, int64_t start, int64_t now_ms) except -1:
        """Whether the batch can be appended by `run`, which must be next. buffer: the object that has the batch's bytes,
        from `start` on. Nothing is changed but the row in `table`."""
        cdef bint sound
        if not self.may_take(data, size):
            return False
        with nogil:
            sound = self.is_sound(data, size, now_ms)
        return sound and (not data[22] & 7 or self.takes_payload(data, buffer, start, now_ms))

    cdef bint may_take(self, const uint8_t *data, int64_t size) except -1:
        """The part of `takes` that needs the batch's size and attributes only."""
        cdef int codec
        if self.writes_directly:
            self.fd = self.file.fd
        if self.verifications or size < V2_HEADER or size > self.size_max or not self._has_room(size):
            return False
        codec = data[22] & 7
        return not (data[22] & ~7 or (codec != self.codec and self.codec >= 0))

    cdef bint is_sound(self, const uint8_t *data, int64_t size, int64_t now_ms) except -1 nogil:
        """The part of `takes` that needs all bytes of the batch: its CRC, and if it is not compressed its records."""
        cdef PlainRecords found
        if not plain_header(data, size, self.table, self.max_message_bytes) or not self._fits(self.table.at(0)):
            return False
        if data[22] & 7:
            return True
        return (plain_records(data + V2_HEADER, data + size, self.table.at(0), self.keyed, True, self._earliest(now_ms),
                              self._latest(now_ms), &found)
                and found.max_timestamp == self.table.at(0).max_timestamp)

    cdef inline int64_t _earliest(self, int64_t now_ms) noexcept nogil:
        return max(now_ms, <int64_t>0) - self.before_max_ms

    cdef inline int64_t _latest(self, int64_t now_ms) noexcept nogil:
        return max(now_ms, <int64_t>0) + self.after_max_ms if (
            self.after_max_ms <= INT64_MAX - max(now_ms, <int64_t>0)) else INT64_MAX

    cdef bint _fits(self, Batch *b) noexcept nogil:
        """Whether the batch fits the segment, and comes next from its producer."""
        cdef int64_t next_offset = self.log.log_end_offset
        return (0 <= next_offset <= self.offset_max and b.count - 1 <= self.offset_max - next_offset
                and b.max_timestamp <= self.timestamp_max
                and self.indexer.takes(self.segment.size, next_offset, b.count)
                and (b.producer_id < 0 or comes_next(self.producers._find(b.producer_id), b)))

    cdef bint takes_payload(self, const uint8_t *data, object buffer, int64_t start, int64_t now_ms) except -1:
        """The part of `takes` that a compressed batch needs besides: its records are valid, and their offsets count up
        by one."""
        cdef Batch *b = self.table.at(0)
        cdef PlainRecords found
        cdef const uint8_t[::1] records
        cdef bint sound
        try:
            records = decompress(data[22] & 7, memoryview(buffer)[start + V2_HEADER:start + b.size])
        except FormatError:
            return False
        if not records.shape[0]:
            return False
        with nogil:
            sound = plain_records(&records[0], &records[0] + records.shape[0], b, self.keyed, True,
                                  self._earliest(now_ms), self._latest(now_ms), &found)
        return sound and found.consecutive and found.max_timestamp == b.max_timestamp

    cdef int run(self, uint8_t *data, int64_t size, object buffer, int64_t start) except -1:
        """Append the batch that `takes` has just taken. Raises OSError."""
        lead_batch(data, self.table.at(0), self.log.log_end_offset, self.leader_epoch)
        return self._run(data, size, buffer, start, False)

    cdef bint writes(self, uint8_t *data, int64_t size) noexcept nogil:
        """Write the batch that `takes` has just taken; `written` must be next. False, if it is not written: then `run`
        must be next, which tells why it cannot be."""
        lead_batch(data, self.table.at(0), self.log.log_end_offset, self.leader_epoch)
        return self.writes_directly and not write_all(self.fd, data, size, self.segment.size)

    cdef int written(self, const uint8_t *data, int64_t size) except -1:
        """Append the batch that `writes` has written. Raises OSError."""
        return self._run(data, size, None, 0, True)

    def follow(self, batches not None, int32_t leader_epoch_max):
        """Append batches of a leader as they are, with one write: all of them whole, of the Runway's leader epoch, not
        transactional, each beginning where the one before it ends. leader_epoch_max: the partition's leader epoch.

        Returns (first offset, last offset, max timestamp); None, with nothing changed, for batches that need the full
        append. Raises OSError.
        """
        cdef const uint8_t[::1] data = batches
        cdef int64_t first = self.log.log_end_offset, max_timestamp = -1
        cdef Py_ssize_t i
        cdef bint follows
        if self.verifications or self.leader_epoch > leader_epoch_max or not data.shape[0] or (
                data.shape[0] > self.size_max) or not self._has_room(data.shape[0]):
            return None
        with nogil:
            follows = self._follows(&data[0], data.shape[0])
        if not follows:
            return None
        self._run(&data[0], data.shape[0], batches, 0, False)
        for i in range(self.table.count):
            max_timestamp = max(max_timestamp, self.table.at(i).max_timestamp)
        return first, self.log.log_end_offset - 1, max_timestamp

    cdef bint _follows(self, const uint8_t *data, int64_t size) except -1 nogil:
        """Whether the bytes are batches that `follow` appends. Sets their rows in `table`."""
        cdef Py_ssize_t i
        cdef Batch *b
        cdef int64_t next_start = 0, needed = 0, next_offset = self.log.log_end_offset
        self.table.count = 0
        if scan_window(data, 0, size, 0, self.table, True, False, &next_start, &needed) != SCAN_END:
            return False
        for i in range(self.table.count):
            b = self.table.at(i)
            if (b.magic != 2 or b.faults or b.attributes & ~7 or b.leader_epoch != self.leader_epoch
                    or not 0 <= next_offset == b.base_offset <= b.last_offset <= self.offset_max
                    or b.max_timestamp > self.timestamp_max or b.last_offset == INT64_MAX
                    or not self.indexer.takes(self.segment.size + b.start, b.last_offset, 1)
                    or (b.producer_id >= 0 and in_transaction(self.producers._find(b.producer_id)))):
                return False
            next_offset = b.last_offset + 1
        return True

    cdef int _run(self, const uint8_t *data, int64_t size, object buffer, int64_t start, bint is_written) except -1:
        """Append the batches in `table`, whose bytes these are. Raises OSError."""
        cdef Py_ssize_t i
        cdef Batch *b
        cdef AppendIndexer indexer = self.indexer
        try:
            if not is_written:
                self._write(data, size, buffer, start)
            indexer.make(self.table, self.segment.size, self.offsets.slots - self.offsets.count,
                         self.times.slots - self.times.count - 1)
            if indexer.offsets.size:
                self.offsets.add(<const uint8_t *>indexer.offsets.data, indexer.offsets.size)
            if indexer.times.size:
                self.times.add(<const uint8_t *>indexer.times.data, indexer.times.size)
        except OSError as error:
            self.failed(error)
            raise
        for i in range(self.table.count):
            b = self.table.at(i)
            if b.producer_id >= 0:
                self.producers._batch(b, data + b.start)
        self.segment.size += size
        self.log.log_end_offset = self.producers.end_offset = plus(self.table.at(self.table.count - 1).last_offset, 1)
        return 0

    cdef int _write(self, const uint8_t *data, int64_t size, object buffer, int64_t start) except -1:
        """Write bytes to the end of the .log file. Raises OSError."""
        cdef int failure, fd
        if not self.writes_directly:
            self.file.write((memoryview(buffer)[start:start + size],), self.segment.size)
            return 0
        fd = self.file.fd
        with nogil:
            failure = write_all(fd, data, size, self.segment.size)
        if failure:
            errno = failure
            PyErr_SetFromErrnoWithFilenameObject(OSError, str(self.file.path))
        return 0


cdef int write_all(int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
    """Write all bytes at a position of a file. Returns 0, or the number of the error."""
    cdef ssize_t done
    while size > 0:
        done = pwrite(fd, data, size, position)
        if done == 0:
            return ENOSPC
        if done > 0:
            data += done
            position += done
            size -= done
        elif errno != EINTR:
            return errno
    return 0


cdef inline bint in_transaction(ProducerState *producer) noexcept nogil:
    """Whether a transaction of the producer is open."""
    return producer.used and producer.txn_first >= 0


cdef inline bint comes_next(ProducerState *producer, Batch *b) noexcept nogil:
    """Whether the batch is the first of its producer, or continues its sequence in the same epoch, outside a
    transaction.
    """
    if b.producer_id < 0 or b.producer_epoch < 0:
        return False
    if not producer.used:
        return True
    return (producer.kept > 0 and producer.epoch == b.producer_epoch and producer.txn_first < 0
            and b.base_sequence == sequence_after(producer.batches[producer.kept - 1].last_sequence, 1))
