"""Records of batches as rows: uncompressed batches straight from the window, compressed ones from their payload."""

# Why a record could not be read (RecordTable.fault_reason).
cdef enum:
    R_NONE = 0
    R_VARINT = 1             # a varint longer than 5 (varlong: 10) bytes
    R_TRUNCATED = 2          # the payload ends inside a record
    R_LENGTH = 3             # a record length below its smallest content or behind the payload
    R_KEY_LENGTH = 4         # a key runs past its record
    R_VALUE_LENGTH = 5
    R_HEADER_COUNT = 6
    R_HEADER_KEY = 7         # a header key that is null or runs past its record
    R_HEADER_VALUE = 8
    R_TRAILING = 9           # the record is longer than its fields
    R_NEGATIVE_LENGTH = 10   # a length below -1: read as null by Kafka
    R_INNER = 11             # a wrapped message that is itself compressed or has another magic
    R_WRAPPER_OFFSET = 12    # the wrapper's offset is below its last inner offset
    R_EMPTY_WRAPPER = 13     # no wrapped message, or a null value

FAULT_REASONS = (
    "", "a varint has too many bytes", "the payload ends inside a record",
    "a record's length does not fit the payload", "a key runs past its record", "a value runs past its record",
    "a header count that the record has no room for", "a header key that is null or runs past its record",
    "a header value that runs past its record", "a record is longer than its fields", "a length below -1",
    "a wrapped message is compressed or has another magic", "the wrapper's offset is below its last inner offset",
    "no message inside a compressed wrapper",
)


cdef inline int read_varint(const uint8_t **pp, const uint8_t *end, int32_t *value) noexcept nogil:
    """Zigzag varint of 5 bytes at most, as Kafka's ByteUtils: the fifth byte's high bits are dropped."""
    cdef const uint8_t *p = pp[0]
    cdef uint32_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if p >= end:
            return R_TRUNCATED
        byte = p[0]
        p += 1
        raw |= <uint32_t>(byte & 0x7f) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            return R_VARINT
    value[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    pp[0] = p
    return R_NONE


cdef inline int read_varlong(const uint8_t **pp, const uint8_t *end, int64_t *value) noexcept nogil:
    cdef const uint8_t *p = pp[0]
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if p >= end:
            return R_TRUNCATED
        byte = p[0]
        p += 1
        raw |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return R_VARINT
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    pp[0] = p
    return R_NONE


cdef inline bint is_utf8(const uint8_t *p, int64_t n) noexcept nogil:
    cdef int64_t i = 0
    cdef uint8_t a
    while i < n:
        a = p[i]
        if a < 0x80:
            i += 1
        elif a < 0xc2 or a > 0xf4:
            return False
        elif a < 0xe0:
            if i + 1 >= n or (p[i + 1] & 0xc0) != 0x80:
                return False
            i += 2
        elif a < 0xf0:
            if i + 2 >= n or (p[i + 1] & 0xc0) != 0x80 or (p[i + 2] & 0xc0) != 0x80:
                return False
            if (a == 0xe0 and p[i + 1] < 0xa0) or (a == 0xed and p[i + 1] >= 0xa0):
                return False
            i += 3
        else:
            if i + 3 >= n or (p[i + 1] & 0xc0) != 0x80 or (p[i + 2] & 0xc0) != 0x80 or (p[i + 3] & 0xc0) != 0x80:
                return False
            if (a == 0xf0 and p[i + 1] < 0x90) or (a == 0xf4 and p[i + 1] >= 0x90):
                return False
            i += 4
    return True


cdef inline int read_record(const uint8_t *base, const uint8_t **pp, const uint8_t *stop, Record *r, int64_t *delta,
                            int64_t *soft) noexcept nogil:
    """One magic 2 record at pp[0]; starts in the row are relative to base. Leaves pp[0] behind it, or at the fault."""
    cdef const uint8_t *p = pp[0]
    cdef const uint8_t *end
    cdef int32_t length, number
    cdef int64_t timestamp_delta, k
    cdef int why
    r.start = p - base
    why = read_varint(&p, stop, &length)
    if why:
        return why
    if length < 0 or length > stop - p:
        return R_TRUNCATED if length > stop - p else R_LENGTH
    end = p + length
    if p >= end:
        return R_LENGTH
    p += 1                                              # attributes: unused
    why = read_varlong(&p, end, &timestamp_delta)
    if why:
        pp[0] = p
        return why
    r.timestamp = timestamp_delta
    why = read_varint(&p, end, &number)
    if why:
        pp[0] = p
        return why
    delta[0] = number
    why = read_varint(&p, end, &number)
    if why:
        pp[0] = p
        return why
    if number > end - p:
        pp[0] = p
        return R_KEY_LENGTH
    r.key_start = p - base
    r.key_length = number
    if number < 0:
        if number < -1:
            soft[0] |= C_BAD_RECORD
        r.key_length = -1
    else:
        p += number
    why = read_varint(&p, end, &number)
    if why:
        pp[0] = p
        return why
    if number > end - p:
        pp[0] = p
        return R_VALUE_LENGTH
    r.value_start = p - base
    r.value_length = number
    if number < 0:
        if number < -1:
            soft[0] |= C_BAD_RECORD
        r.value_length = -1
    else:
        p += number
    why = read_varint(&p, end, &number)
    if why:
        pp[0] = p
        return why
    if number < 0 or number > end - p:
        pp[0] = p
        return R_HEADER_COUNT
    r.headers_start = p - base
    r.headers_count = number
    for k in range(r.headers_count):
        why = read_varint(&p, end, &number)
        if why or number < 0 or number > end - p:
            pp[0] = p
            return R_HEADER_KEY
        if not is_utf8(p, number):
            soft[0] |= C_HEADER_NOT_UTF8
        p += number
        why = read_varint(&p, end, &number)
        if why or number > end - p:
            pp[0] = p
            return R_HEADER_VALUE
        if number > 0:
            p += number
        elif number < -1:
            soft[0] |= C_BAD_RECORD
    if p != end:
        pp[0] = p
        return R_TRAILING
    r.crc = -1
    r.valid = 1
    pp[0] = p
    return R_NONE


cdef inline int read_message(const uint8_t *base, const uint8_t *p, int64_t size, Record *r) noexcept nogil:
    """The magic 0 or 1 message at p (behind offset and length), `size` bytes. Lengths below 0 are kept as they are;
    a start of -1 marks bytes that cannot be read."""
    cdef int64_t at = 14 if p[4] == 1 else 6
    cdef int why = R_NONE
    r.start = (p - base) - LOG_OVERHEAD
    r.crc = be32(p)
    r.timestamp = <int64_t>be64(p + 6) if p[4] == 1 and size >= 14 else -1
    r.headers_start = -1
    r.headers_count = 0
    if size < at + 8:
        return R_TRUNCATED
    r.key_length = <int32_t>be32(p + at)
    at += 4
    r.key_start = (p - base) + at
    if r.key_length > 0:
        at += r.key_length
    if at + 4 > size:
        return R_KEY_LENGTH
    r.value_length = <int32_t>be32(p + at)
    at += 4
    r.value_start = (p - base) + at
    if r.value_length > size - at:
        r.value_start = -1
        return R_VALUE_LENGTH
    if r.key_length < -1 or r.value_length < -1:
        return R_NEGATIVE_LENGTH
    if at + max(r.value_length, <int64_t>0) != size:
        return R_TRAILING
    return R_NONE


cdef inline int64_t next_field(const uint8_t **p, const uint8_t *end) noexcept nogil:
    """The length of a header's key or value, -1 for null, and the place of its bytes in p[0].

    The decoder has checked it. Where the bytes have changed since, and lead out of the buffer, all that follows is null.
    """
    cdef int32_t n = 0
    if read_varint(p, end, &n) or n > end - p[0]:
        p[0] = end
        return -1
    return max(n, <int32_t>-1)


cdef inline int64_t value_size(const Record *r) noexcept nogil:
    """The length of a record's value, -1 for null; also where a message of magic 0 or 1 states one that it has not."""
    return r.value_length if r.value_start >= 0 else -1


cdef class RecordTable(_Table):
    """Records of a run of batches, a slice of rows at a time.

        records = RecordTable(capacity=65536)
        records.start(window, batches, first, last)           # uncompressed batches [first, last)
        records.start(payload, batches, i, i + 1, payload=True)  # one compressed batch, from its decompressed payload
        while records.next(): ...                             # rows of this slice; FAULT_* bits are added to the batches

    A record that cannot be read ends its batch: the rows before it stand, the next batch goes on. The last such fault is
    in `fault_reason` (index in FAULT_REASONS), `fault_position` (byte in the buffer) and `fault_batch`.
    """

    cdef BatchTable batches
    cdef const uint8_t[::1] view
    cdef const uint8_t *buf
    cdef Py_ssize_t first, batch, last
    cdef bint payload, inside
    cdef const uint8_t *p
    cdef const uint8_t *stop
    cdef int64_t left, last_delta, inner_base
    cdef readonly int64_t max_timestamp                 # of the records of the current batch so far; -1: none has one
    cdef readonly int fault_reason
    cdef readonly int64_t fault_position
    cdef readonly Py_ssize_t fault_batch
    cdef readonly Py_ssize_t limit

    def __cinit__(self, Py_ssize_t capacity=65536):
        if capacity < 1:
            raise ValueError(capacity)
        self.width = sizeof(Record) // sizeof(int64_t)
        self.limit = capacity
        self.batches = BatchTable()
        self._reserve(capacity)

    cdef inline Record *at(self, Py_ssize_t i) noexcept nogil:
        return (<Record *>self.cells) + i

    @property
    def done(self):
        """Batches [first, done) are complete: no further rows of them will come."""
        return self.batch

    @property
    def is_payload(self):
        """The rows' starts count in the decompressed payload of one batch, not in the window."""
        return self.payload

    @property
    def run_start(self):
        """The first batch of the current run: what start() was given as `first`."""
        return self.first

    def row(self, Py_ssize_t i):
        """Row i as a tuple in the order of RECORD_COLUMNS."""
        return self._row(i)

    def start(self, const uint8_t[::1] buf not None, BatchTable batches not None, Py_ssize_t first, Py_ssize_t last, *,
              bint payload=False):
        """Begin with batches [first, last) of the table; `buf` is the window they were scanned from, or with
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
        """Fill the table with the next rows. False when every batch is done and there are no more rows."""
        cdef Py_ssize_t before = self.batch
        if self.exports:
            raise BufferError("a view of the previous rows is still held")
        if self.last > self.batches.count:
            raise ValueError("batches have been taken out of the table")
        self.count = 0
        with nogil:
            self._fill()
        return self.count > 0 or self.batch > before

    def select(self, *, int64_t from_offset=MIN, int64_t to_offset=MAX, int64_t from_time=MIN, int64_t to_time=MAX,
               const uint8_t[::1] key=None, Py_ssize_t limit=(1 << 62)):
        """Keep the rows of this slice that are wanted, at most `limit`. from is inclusive, to exclusive; times in ms."""
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
        """The last fault as text, with the byte in the buffer."""
        return FAULT_REASONS[self.fault_reason], self.fault_position

    cdef inline const uint8_t *end(self) noexcept nogil:
        """Behind the last byte that rows may point at."""
        return self.buf + self.view.shape[0] if self.buf != NULL else NULL

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
        """Set up for batch b; False where there is nothing to read in it."""
        if b.faults & (C_SHORT_HEADER | C_BAD_CODEC):
            return False
        if b.faults & C_BAD_PAYLOAD and not self.view.shape[0]:
            return False                                # not even a beginning of it decompresses
        if self.payload and b.magic < 2 and b.faults & C_BAD_RECORD:
            return False                                # a wrapper without a value; see payload_bounds
        if self.payload:
            self.p = self.buf
            self.stop = self.buf + self.view.shape[0]
        else:
            if b.attributes & 7:
                return False                            # compressed: comes through its payload
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
                self._fault(R_NONE, C_NEGATIVE_COUNT)
                self.inside = False
            elif b.count == 0:
                if self.p != self.stop:
                    self._fault(R_NONE, C_COUNT_TOO_LOW)
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
                self._fault(R_TRUNCATED, C_COUNT_TOO_HIGH)
                self.inside = False
                break
            r = self.at(self.count)
            why = read_record(self.buf, &self.p, self.stop, r, &delta, &soft)
            if why:
                self._fault(why, C_BAD_RECORD)
                self.inside = False
                break
            r.batch = self.batch
            r.offset = plus(b.base_offset, delta)
            r.timestamp = b.max_timestamp if append_time else plus(b.base_timestamp, r.timestamp)
            if r.timestamp > self.max_timestamp:
                self.max_timestamp = r.timestamp
            if delta <= self.last_delta:
                soft |= C_OFFSETS_NOT_INCREASING
            if delta < 0 or r.offset > b.last_offset:
                soft |= C_OFFSET_OUT_OF_RANGE
            if control and (r.key_length < 4 or be16(self.buf + r.key_start) > 0x7fff):
                soft |= C_CONTROL_KEY
            if soft & C_BAD_RECORD and self.fault_batch != self.batch:
                self._fault(R_NEGATIVE_LENGTH, C_BAD_RECORD)
            self.last_delta = delta
            self.left -= 1
            self.count += 1
        b.faults |= soft
        if self.left == 0 and self.inside:
            self.inside = False
            if self.p != self.stop:
                self._fault(R_NONE, C_COUNT_TOO_LOW)
            if self.max_timestamp != b.max_timestamp and not (self.max_timestamp == -1 and b.max_timestamp < 0):
                b.faults |= C_MAX_TIMESTAMP

    cdef bint _measure_inner(self, Batch *b) noexcept nogil:
        """Walk the wrapped messages once: magic 1 stores offsets relative to the first, and only the last inner
        offset together with the wrapper's tells where they begin."""
        cdef const uint8_t *p = self.p
        cdef int64_t size, inner = -1, seen = 0
        while self.stop - p >= LOG_OVERHEAD:
            size = <int32_t>be32(p + 8)
            if size < LEGACY_MIN_LENGTH:
                self.p = p
                self._fault(R_LENGTH, C_BAD_RECORD)
                return False
            if size > self.stop - p - LOG_OVERHEAD:
                break
            inner = <int64_t>be64(p)
            seen += 1
            p += LOG_OVERHEAD + size
        if p != self.stop:
            self.p = p
            self._fault(R_TRUNCATED, C_COUNT_TOO_LOW)
        if seen == 0:
            self._fault(R_EMPTY_WRAPPER, C_BAD_RECORD)
            return False
        self.p = self.buf
        self.left = seen
        self.inner_base = 0
        if b.magic == 1 and b.base_offset != 0:
            if b.base_offset < inner:
                self._fault(R_WRAPPER_OFFSET, C_BAD_RECORD)
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
            r.valid = not b.faults & C_BAD_CRC
            if why:
                self._fault(why, C_BAD_RECORD)
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
                self._fault(why, C_BAD_RECORD)
                self.inside = False
                return
            r.offset = plus(self.inner_base, <int64_t>be64(self.p))
            r.batch = self.batch
            r.valid = crc32_update(0, self.p + LOG_OVERHEAD + 4, size - 4) == be32(self.p + LOG_OVERHEAD)
            if not r.valid:
                b.faults |= C_BAD_INNER
            if self.p[16] == 1 and b.attributes & 8:
                r.timestamp = b.max_timestamp
            if r.timestamp > self.max_timestamp:
                self.max_timestamp = r.timestamp
            if r.offset <= self.last_delta:
                b.faults |= C_OFFSETS_NOT_INCREASING
            self.last_delta = r.offset
            self.p += LOG_OVERHEAD + size
            self.left -= 1
            self.count += 1
        if self.left == 0:
            self.inside = False
            if self.max_timestamp != b.max_timestamp and b.magic == 1:
                b.faults |= C_MAX_TIMESTAMP


def payload_bounds(const uint8_t[::1] buf not None, BatchTable batches not None, Py_ssize_t i):
    """(start, stop) in `buf` of the compressed payload of batch i: behind a magic 2 header, or the value of a magic 0 or
    1 message. (-1, -1), and FAULT_BAD_RECORD on the batch, where a wrapper's value cannot be found."""
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
        b.faults |= C_BAD_RECORD
        return -1, -1
    return r.value_start, r.value_start + r.value_length
