"""Records of batches as rows of int64: uncompressed batches from the window, compressed ones from their payload.

Columns in RECORD_COLUMNS; starts and lengths refer to one buffer. Kafka's rules: DefaultRecord, LegacyRecord.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memcmp

from formats.kernels.batches cimport (
    FAULT_BAD_CODEC, FAULT_BAD_CRC, FAULT_BAD_INNER, FAULT_BAD_PAYLOAD, FAULT_BAD_RECORD, FAULT_CONTROL_KEY,
    FAULT_COUNT_TOO_HIGH, FAULT_COUNT_TOO_LOW, FAULT_MAX_TIMESTAMP, FAULT_NEGATIVE_COUNT, FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING, FAULT_SHORT_HEADER, LEGACY_MIN_LENGTH, V2_HEADER, foreign, lies_in
)
from formats.kernels.crc cimport crc32_update
from formats.kernels.numbers cimport be16, minus, plus

RECORD_COLUMNS = (
    "offset", "timestamp", "key_start", "key_length", "value_start", "value_length", "headers_start", "headers_count",
    "batch", "start", "crc", "valid",
)
FAULT_REASONS = (
    "", "a varint has too many bytes", "the payload ends inside a record",
    "a record's length does not fit the payload", "a key runs past its record", "a value runs past its record",
    "a header count that the record has no room for", "a header key that is null or runs past its record",
    "a header value that runs past its record", "a record is longer than its fields", "a length below -1",
    "a wrapped message is compressed or has another magic", "the wrapper's offset is below its last inner offset",
    "no message inside a compressed wrapper", "the varint of a record's length has too many bytes",
)
LENGTH_VARINT = FAULT_REASONS[R_LENGTH_VARINT]


cdef class RecordTable(RowTable):
    """Records of a run of batches, a slice of rows at a time.

        records = RecordTable(capacity=65536)
        records.start(window, batches, first, last)           # uncompressed batches [first, last)
        records.start(payload, batches, i, i + 1, payload=True)  # one compressed batch, from its decompressed payload
        while records.next(): ...                             # rows of this slice; FAULT_* bits are added to the batches

    An invalid record ends its batch: the rows before it stay, and the next batch is read. The last such fault is in
    `fault_reason` (index in FAULT_REASONS), `fault_position` (byte in the buffer) and `fault_batch`.
    """

    def __cinit__(self, Py_ssize_t capacity=65536):
        if capacity < 1:
            raise ValueError(capacity)
        self.width = sizeof(Record) // sizeof(int64_t)
        self.limit = capacity
        self.batches = BatchTable()
        self._reserve(capacity)

    @property
    def done(self):
        """The first batch of the run whose rows are not yet complete."""
        return self.batch

    @property
    def is_payload(self):
        """Whether the rows' starts count from the decompressed payload of one batch, not from the window."""
        return self.payload

    @property
    def run_start(self):
        """The first batch of the current run, the `first` of start()."""
        return self.first

    def row(self, Py_ssize_t i):
        """Return row i as a tuple in the order of RECORD_COLUMNS."""
        return self._row(i)

    def start(self, const uint8_t[::1] buf not None, BatchTable batches not None, Py_ssize_t first, Py_ssize_t last, *,
              bint payload=False):
        """Begin a run of batches [first, last) of the table; `buf` is the window they were scanned from, or with
        payload=True the decompressed payload of batch `first` alone."""
        if first < 0 or last > batches.count or first > last or (payload and last != first + 1):
            raise ValueError((first, last))
        cdef Py_ssize_t i
        if not payload:
            for i in range(first, last):
                if not lies_in(batches.at(i), buf.shape[0]):
                    foreign(i)
        self.view = buf
        self.buf = &buf[0] if buf.shape[0] else NULL
        self.batches = batches
        self.first = first
        self.batch = first
        self.last = last
        self.payload = payload
        self.inside = False
        self.count = 0
        self.fault_reason = 0
        self.fault_position = -1
        self.fault_batch = -1

    def next(self):
        """Fill the table with the next rows. Returns False when the run has no more rows."""
        cdef Py_ssize_t before = self.batch
        if self.exports:
            raise BufferError("a view of the previous rows is still held")
        if self.last > self.batches.count:
            raise ValueError("batches have been taken out of the table")
        self.count = 0
        with nogil:
            self._fill()
        return self.count > 0 or self.batch > before

    def select(self, *, int64_t from_offset=INT64_MIN, int64_t to_offset=INT64_MAX, int64_t from_time=INT64_MIN, int64_t to_time=INT64_MAX,
               const uint8_t[::1] key=None, Py_ssize_t limit=(1 << 62)):
        """Keep the rows of this slice in these ranges, at most `limit`. from is inclusive, to exclusive; times in ms.
        """
        cdef Py_ssize_t i, kept = 0
        cdef Record *r
        cdef int64_t key_length = -1 if key is None else key.shape[0]
        for i in range(self.count):
            r = self.at(i)
            if kept >= limit:
                break
            if r.offset < from_offset or r.offset >= to_offset or r.timestamp < from_time or r.timestamp >= to_time:
                continue
            if key is not None and (r.key_length != key_length or (
                    key_length and memcmp(self.buf + r.key_start, &key[0], key_length) != 0)):
                continue
            if kept != i:
                self.at(kept)[0] = r[0]
            kept += 1
        self.count = kept

    def explain(self):
        """Return the last fault: its reason, and its byte in the buffer."""
        return FAULT_REASONS[self.fault_reason], self.fault_position

    cdef void _fault(self, int reason, int64_t bit) noexcept nogil:
        self.fault_reason = reason
        self.fault_position = self.p - self.buf
        self.fault_batch = self.batch
        self.batches.at(self.batch).faults |= bit

    cdef int _fill(self) except -1 nogil:
        cdef Batch *b
        while self.batch < self.last and self.count < self.limit:
            b = self.batches.at(self.batch)
            if not self.inside and not self._enter(b):
                self.batch += 1
                continue
            if b.magic >= 2:
                self._records(b)
            else:
                self._messages(b)
            if not self.inside:
                self.batch += 1
        return 0

    cdef bint _enter(self, Batch *b) except -1 nogil:
        """Prepare to read batch b; return False if no records of it can be read."""
        if b.faults & (FAULT_SHORT_HEADER | FAULT_BAD_CODEC):
            return False
        if b.faults & FAULT_BAD_PAYLOAD and not self.view.shape[0]:
            return False                                # nothing of the payload can be decompressed
        if self.payload and b.magic < 2 and b.faults & FAULT_BAD_RECORD:
            return False                                # a wrapper without a value; see payload_bounds
        if self.payload:
            self.p = self.buf
            self.stop = self.buf + self.view.shape[0]
        else:
            if b.attributes & 7:
                return False                            # compressed: read from its payload
            if not lies_in(b, self.view.shape[0]):
                foreign(self.batch)
            self.p = self.buf + b.start + (V2_HEADER if b.magic >= 2 else 0)
            self.stop = self.buf + b.start + b.size
        self.left = b.count
        self.last_delta = -1
        self.max_timestamp = -1
        self.inside = True
        if b.magic >= 2:
            if b.count < 0:
                self._fault(R_NONE, FAULT_NEGATIVE_COUNT)
                self.inside = False
            elif b.count == 0:
                if self.p != self.stop:
                    self._fault(R_NONE, FAULT_COUNT_TOO_LOW)
                self.inside = False
        elif self.payload:
            self.inside = self._measure_inner(b)
        return self.inside

    cdef void _records(self, Batch *b) noexcept nogil:
        cdef Record *r
        cdef int why
        cdef int64_t delta = 0, soft = 0
        cdef bint append_time = (b.attributes & 8) != 0
        cdef bint control = (b.attributes & 32) != 0
        while self.left > 0 and self.count < self.limit:
            if self.p >= self.stop:
                self._fault(R_TRUNCATED, FAULT_COUNT_TOO_HIGH)
                self.inside = False
                break
            r = self.at(self.count)
            why = read_record(self.buf, &self.p, self.stop, r, &delta, &soft)
            if why:
                self._fault(why, FAULT_BAD_RECORD)
                self.inside = False
                break
            r.batch = self.batch
            r.offset = plus(b.base_offset, delta)
            r.timestamp = b.max_timestamp if append_time else plus(b.base_timestamp, r.timestamp)
            if r.timestamp > self.max_timestamp:
                self.max_timestamp = r.timestamp
            if delta <= self.last_delta:
                soft |= FAULT_OFFSETS_NOT_INCREASING
            if delta < 0 or r.offset > b.last_offset:
                soft |= FAULT_OFFSET_OUT_OF_RANGE
            if control and (r.key_length < 4 or be16(self.buf + r.key_start) > 0x7fff):
                soft |= FAULT_CONTROL_KEY
            self.last_delta = delta
            self.left -= 1
            self.count += 1
        b.faults |= soft
        if self.left == 0 and self.inside:
            self.inside = False
            if self.p != self.stop:
                self._fault(R_NONE, FAULT_COUNT_TOO_LOW)
            if self.max_timestamp != b.max_timestamp and not (self.max_timestamp == -1 and b.max_timestamp < 0):
                b.faults |= FAULT_MAX_TIMESTAMP

    cdef bint _measure_inner(self, Batch *b) noexcept nogil:
        """Find the base of the inner offsets of a wrapper: in magic 1 they are relative, and the base is the wrapper's
        offset less the last inner offset."""
        cdef const uint8_t *p = self.p
        cdef int64_t size, inner = -1, seen = 0
        while self.stop - p >= LOG_OVERHEAD:
            size = <int32_t>be32(p + 8)
            if size < LEGACY_MIN_LENGTH:
                self.p = p
                self._fault(R_LENGTH, FAULT_BAD_RECORD)
                return False
            if size > self.stop - p - LOG_OVERHEAD:
                break
            inner = <int64_t>be64(p)
            seen += 1
            p += LOG_OVERHEAD + size
        if p != self.stop:
            self.p = p
            self._fault(R_TRUNCATED, FAULT_COUNT_TOO_LOW)
        if seen == 0:
            self._fault(R_EMPTY_WRAPPER, FAULT_BAD_RECORD)
            return False
        self.p = self.buf
        self.left = seen
        self.inner_base = 0
        if b.magic == 1 and b.base_offset != 0:
            if b.base_offset < inner:
                self._fault(R_WRAPPER_OFFSET, FAULT_BAD_RECORD)
                return False
            self.inner_base = minus(b.base_offset, inner)
        return True

    cdef void _messages(self, Batch *b) noexcept nogil:
        cdef Record *r
        cdef int why
        cdef int64_t size
        if not self.payload:                            # an uncompressed message is its own batch
            r = self.at(self.count)
            why = read_message(self.buf, self.p + LOG_OVERHEAD, b.size - LOG_OVERHEAD, r)
            r.offset = b.base_offset
            r.batch = self.batch
            r.valid = not b.faults & FAULT_BAD_CRC
            if why:
                self._fault(why, FAULT_BAD_RECORD)
            if not why or why >= R_NEGATIVE_LENGTH or why == R_VALUE_LENGTH or why == R_TRAILING:
                self.count += 1
            self.inside = False
            return
        while self.left > 0 and self.count < self.limit:
            size = <int32_t>be32(self.p + 8)
            r = self.at(self.count)
            why = read_message(self.buf, self.p + LOG_OVERHEAD, size, r)
            if not why and ((self.p[17] & 7) or self.p[16] > 1 or self.p[16] != b.magic):
                why = R_INNER
            if why:
                self._fault(why, FAULT_BAD_RECORD)
                self.inside = False
                return
            r.offset = plus(self.inner_base, <int64_t>be64(self.p))
            r.batch = self.batch
            r.valid = crc32_update(0, self.p + LOG_OVERHEAD + 4, size - 4) == be32(self.p + LOG_OVERHEAD)
            if not r.valid:
                b.faults |= FAULT_BAD_INNER
            if self.p[16] == 1 and b.attributes & 8:
                r.timestamp = b.max_timestamp
            if r.timestamp > self.max_timestamp:
                self.max_timestamp = r.timestamp
            if r.offset <= self.last_delta:
                b.faults |= FAULT_OFFSETS_NOT_INCREASING
            self.last_delta = r.offset
            self.p += LOG_OVERHEAD + size
            self.left -= 1
            self.count += 1
        if self.left == 0:
            self.inside = False
            if self.max_timestamp != b.max_timestamp and b.magic == 1:
                b.faults |= FAULT_MAX_TIMESTAMP


def payload_bounds(const uint8_t[::1] buf not None, BatchTable batches not None, Py_ssize_t i):
    """Return (start, stop) in `buf` of batch i's compressed payload: behind a magic 2 header, or a wrapper's value.

    Returns (-1, -1) and sets FAULT_BAD_RECORD on the batch where the value of a wrapper (magic 0, 1) is invalid."""
    cdef Batch *b
    cdef Record r
    if i < 0 or i >= batches.count:
        raise IndexError(i)
    b = batches.at(i)
    if not lies_in(b, buf.shape[0]):
        foreign(i)
    if b.magic >= 2:
        return b.start + min(V2_HEADER, b.size), b.start + b.size
    if read_message(&buf[0], &buf[0] + b.start + LOG_OVERHEAD, b.size - LOG_OVERHEAD, &r) or r.value_length < 0:
        b.faults |= FAULT_BAD_RECORD
        return -1, -1
    return r.value_start, r.value_start + r.value_length


def drop_invalid(RecordTable records not None):
    """Remove messages of magic 0 or 1 with a bad CRC (inner messages have their own), or with an invalid value."""
    cdef Py_ssize_t i, kept = 0
    if records.exports:
        raise BufferError("a view of the table is still held")
    for i in range(records.count):
        if records.at(i).valid and records.at(i).value_start >= 0:
            if kept != i:
                records.at(kept)[0] = records.at(i)[0]
            kept += 1
    records.count = kept


def drop_offsets(RecordTable records not None, int64_t mark, const int64_t[::1] offsets not None):
    """Remove the rows of the slice with one of these offsets, in batches with one of the FAULT_* bits of mark.

    offsets: sorted."""
    cdef Py_ssize_t i, low, high, middle, kept = 0
    cdef Record *r
    if records.exports:
        raise BufferError("a view of the table is still held")
    for i in range(records.count):
        r = records.at(i)
        if records.batches.at(r.batch).faults & mark:
            low = 0
            high = offsets.shape[0]
            while low < high:
                middle = (low + high) >> 1
                if offsets[middle] < r.offset:
                    low = middle + 1
                else:
                    high = middle
            if low < offsets.shape[0] and offsets[low] == r.offset:
                continue
        if kept != i:
            records.at(kept)[0] = r[0]
        kept += 1
    records.count = kept
