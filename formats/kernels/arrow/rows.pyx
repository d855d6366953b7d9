"""Records as columns of an Arrow table: the rows of RecordTables, copied into buffers in Arrow's layout."""

from libc.stdint cimport INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from formats.kernels.batches cimport Batch
from formats.kernels.buffer cimport TextBuffer
from formats.kernels.numbers cimport minus
from formats.kernels.records cimport Record, RecordTable, next_field, value_size
from formats.kernels.text.java cimport put_java_text
from formats.kernels.text.lines cimport increment_sequence

# The columns of ArrowRows, and the bytes of a value in those of fixed width.
cdef enum:
    A_KEY = 0
    A_VALUE = 1
    A_HEADERS = 2
    A_OFFSET = 3
    A_TIMESTAMP_US = 4       # us; the limit of int64 where the value exceeds it
    A_TIMESTAMP_MS = 5
    A_TIMESTAMP_TYPE = 6     # -1: none (magic 0), 0: CreateTime, 1: LogAppendTime
    A_SEQUENCE = 7           # -1: none
    A_LEADER_EPOCH = 8
    A_PRODUCER_ID = 9
    A_PRODUCER_EPOCH = 10
    A_ATTRIBUTES = 11
    A_MAGIC = 12
    A_CODEC = 13
    A_IS_CONTROL = 14
    A_POSITION = 15
    A_BASE_OFFSET = 16
    A_LAST_OFFSET = 17
    A_BASE_TIMESTAMP = 18    # ms, or the delete horizon
    A_MAX_TIMESTAMP = 19     # ms

ARROW_COLUMNS = (
    "key", "value", "headers", "offset", "timestamp_us", "timestamp_ms", "timestamp_type", "sequence", "leader_epoch",
    "producer_id", "producer_epoch", "attributes", "magic", "codec", "is_control", "position", "base_offset",
    "last_offset", "base_timestamp", "max_timestamp",
)

cdef int *A_WIDTHS = [0, 0, 0, 8, 8, 8, 4, 4, 4, 8, 2, 4, 4, 1, 1, 8, 8, 8, 8, 8]


cdef class _Bits:
    """An Arrow validity bitmap, one bit a value. It is allocated at the first null."""

    cdef TextBuffer bits
    cdef Py_ssize_t nulls

    def __cinit__(self):
        self.bits = TextBuffer()

    cdef int null(self, Py_ssize_t at) except -1 nogil:
        """Mark value `at` as null, and the unmarked values before it as valid."""
        cdef uint8_t *bits
        self.fill(at + 1)
        bits = <uint8_t *>self.bits.data
        bits[at >> 3] = bits[at >> 3] & ~(<uint8_t>1 << (at & 7))
        self.nulls += 1
        return 0

    cdef int fill(self, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t more = ((count + 7) >> 3) - self.bits.size
        if more > 0:
            self.bits.need(more)
            memset(self.bits.data + self.bits.size, 0xff, more)
            self.bits.size += more
        return 0

    cdef object take(self, Py_ssize_t count):
        """Return the bitmap of `count` values, None if no value is null."""
        if not self.nulls:
            return None
        self.fill(count)
        return self.bits


cdef class _Ends:
    """Arrow's offsets of a column: a 0, then the end of each value in the column's data."""

    cdef TextBuffer ends

    def __cinit__(self):
        self.ends = TextBuffer()
        self.ends.need(4)
        memset(self.ends.data, 0, 4)
        self.ends.size = 4

    cdef inline void put(self, Py_ssize_t end) noexcept nogil:
        """Append the end of a value; the caller has reserved the memory."""
        (<int32_t *>(self.ends.data + self.ends.size))[0] = <int32_t>end
        self.ends.size += 4


cdef class _Bytes:
    """An Arrow column of byte strings."""

    cdef _Bits valid
    cdef _Ends offsets
    cdef TextBuffer data
    cdef Py_ssize_t count

    def __cinit__(self):
        self.valid = _Bits()
        self.offsets = _Ends()
        self.data = TextBuffer()

    cdef int reserve(self, Py_ssize_t values, Py_ssize_t size) except -1 nogil:
        self.offsets.ends.need(4 * values)
        self.data.need(size)
        return 0

    cdef inline int put(self, const uint8_t *p, int64_t n) except -1 nogil:
        """Append a value of n bytes, null if n < 0; the caller has reserved the memory."""
        if n > 0:
            self.data.put(<const char *>p, n)
        elif n < 0:
            self.valid.null(self.count)
        self.offsets.put(self.data.size)
        self.count += 1
        return 0

    cdef tuple take(self):
        return self.valid.take(self.count), self.offsets.ends, self.data


cdef class ArrowRows:
    """Gathers the rows of an Arrow table from slices of records, up to a limit.

        rows = ArrowRows(("offset", "key", "value"), byte_limit)      # names of ARROW_COLUMNS
        at = 0
        while at < records.count:
            at = rows.add(records, at)
            if rows.is_full:
                columns = rows.take()

    `take` returns the buffers of each column: (data,) for a fixed width; (validity, offsets, data) for key and value;
    (validity, offsets, then validity, offsets, data of the header keys and of the header values) for headers. A
    validity of None means that no value is null. A record without headers has null headers. Bytes of a header key that
    are not UTF-8 become replacement characters, as in Java.
    """

    cdef tuple names
    cdef list fixed
    cdef bint with_keys, with_values, with_headers
    cdef _Bytes keys, values, header_keys, header_values
    cdef _Bits header_lists
    cdef _Ends header_ends
    cdef readonly Py_ssize_t count, size
    cdef Py_ssize_t byte_limit, row_limit
    cdef bint crowded             # the next row's bytes exceed int32 offsets

    def __init__(self, names, Py_ssize_t byte_limit, Py_ssize_t row_limit=1 << 20):
        """byte_limit: the most bytes of keys, values and headers for one `take`, which has at least one row. row_limit:
        the most rows for one `take`."""
        if not 0 < byte_limit <= 1 << 30 or not 0 < row_limit <= 1 << 28:
            raise ValueError((byte_limit, row_limit))
        self.names = tuple(names)
        self.with_keys = "key" in self.names
        self.with_values = "value" in self.names
        self.with_headers = "headers" in self.names
        self.byte_limit = byte_limit
        self.row_limit = row_limit
        self._begin()

    cdef int _begin(self) except -1:
        """Begin an empty table. Reserve as much memory as the last table had, since growing a buffer copies it."""
        cdef _Bytes keys = self.keys, values = self.values
        cdef Py_ssize_t rows = self.count
        self.count = self.size = 0
        self.crowded = False
        self.fixed = [(ARROW_COLUMNS.index(name), TextBuffer()) for name in self.names
                      if A_WIDTHS[ARROW_COLUMNS.index(name)]]
        self.keys, self.values, self.header_keys, self.header_values = _Bytes(), _Bytes(), _Bytes(), _Bytes()
        if rows:
            for column, buffer in self.fixed:
                (<TextBuffer>buffer).need(rows * A_WIDTHS[<int>column])
            self.keys.reserve(rows + 1, keys.data.size)
            self.values.reserve(rows + 1, values.data.size)
        self.header_lists = _Bits()
        self.header_ends = _Ends()
        return 0

    @property
    def is_full(self):
        """Whether a limit is reached, so that `take` must be called."""
        return self.size >= self.byte_limit or self.count >= self.row_limit or self.crowded

    def add(self, RecordTable records not None, Py_ssize_t at=0):
        """Add the slice's rows from `at` on, up to the limits; return the first row that was not added.

        Raises ValueError for a record whose headers are more than 2 GiB as text."""
        cdef Py_ssize_t stop, key_bytes = 0, value_bytes = 0
        if at < 0 or at > records.count:
            raise IndexError(at)
        with nogil:
            stop = self._fitting(records, at, &key_bytes, &value_bytes)
            if self.with_keys:
                self._bytes(self.keys, records, at, stop, key_bytes, False)
            if self.with_values:
                self._bytes(self.values, records, at, stop, value_bytes, True)
            if self.with_headers:
                self._headers(records, at, stop)
        for column, buffer in self.fixed:
            self._fixed(column, buffer, records, at, stop)
        self.count += stop - at
        return stop

    cdef Py_ssize_t _fitting(self, RecordTable records, Py_ssize_t at, Py_ssize_t *key_bytes,
                             Py_ssize_t *value_bytes) noexcept nogil:
        """Return the first row beyond the limits; add up the bytes of keys and values before it."""
        cdef int64_t key, value
        cdef Py_ssize_t last = min(records.count, at + self.row_limit - self.count)
        cdef Record *r
        while at < last and self.size < self.byte_limit:
            r = records.at(at)
            key = max(r.key_length, <int64_t>0) if self.with_keys else 0
            value = max(value_size(r), <int64_t>0) if self.with_values else 0
            if (self.keys.data.size + key_bytes[0] + key > 0x7fffffff
                    or self.values.data.size + value_bytes[0] + value > 0x7fffffff):
                self.crowded = True
                break
            key_bytes[0] += key
            value_bytes[0] += value
            self.size += key + value
            if self.with_headers and r.headers_count:
                self.size += headers_size(records.buf, records.end(), r)
            at += 1
        return at

    cdef int _bytes(self, _Bytes column, RecordTable records, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t size,
                    bint value) except -1 nogil:
        """Append keys or values of `size` bytes in all, through raw pointers, since this loop takes most of the time.
        """
        cdef Py_ssize_t i
        cdef int64_t n
        cdef Record *r
        cdef const uint8_t *start
        cdef char *to
        cdef int32_t *ends
        cdef int32_t end
        column.reserve(stop - at, size)
        to = column.data.data + column.data.size
        end = <int32_t>column.data.size
        ends = <int32_t *>(column.offsets.ends.data + column.offsets.ends.size)
        for i in range(stop - at):
            r = records.at(at + i)
            if value:
                start = records.buf + r.value_start
                n = value_size(r)
            else:
                start = records.buf + r.key_start
                n = r.key_length
            if n > 0:
                memcpy(to, start, n)
                to += n
                end += <int32_t>n
            elif n < 0:
                column.valid.null(column.count + i)
            ends[i] = end
        column.data.size = end
        column.offsets.ends.size += 4 * (stop - at)
        column.count += stop - at
        return 0

    cdef int _headers(self, RecordTable records, Py_ssize_t at, Py_ssize_t stop) except -1 nogil:
        cdef const uint8_t *p
        cdef const uint8_t *end
        cdef Py_ssize_t i
        cdef int64_t k, n
        cdef Record *r
        self.header_ends.ends.need(4 * (stop - at))
        for i in range(at, stop):
            r = records.at(i)
            p = records.buf + r.headers_start
            end = records.end()
            for k in range(r.headers_count):
                n = max(next_field(&p, end), <int64_t>0)
                self.header_keys.reserve(1, 0)
                put_java_text(self.header_keys.data, p, n)
                self.header_keys.put(NULL, 0)
                p += n
                n = next_field(&p, end)
                self.header_values.reserve(1, max(n, <int64_t>0))
                self.header_values.put(p, n)
                p += max(n, <int64_t>0)
                if self.header_keys.data.size > 0x7fffffff or self.header_values.data.size > 0x7fffffff:
                    with gil:
                        raise ValueError("headers of one batch are over 2 GiB")
            if not r.headers_count:
                self.header_lists.null(self.count + i - at)
            self.header_ends.put(self.header_keys.count)
        return 0

    cdef int _fixed(self, int column, TextBuffer out, RecordTable records, Py_ssize_t at, Py_ssize_t stop) except -1:
        cdef Py_ssize_t n = stop - at
        cdef char *to
        with nogil:
            out.need(n * A_WIDTHS[column])
            to = out.data + out.size
            if column <= A_TIMESTAMP_MS:
                put_longs(<int64_t *>to, column, records, at, n)
            elif A_WIDTHS[column] == 8:
                put_batch_longs(<int64_t *>to, column, records, at, n)
            elif A_WIDTHS[column] == 4:
                put_ints(<int32_t *>to, column, records, at, n)
            else:
                put_small(to, column, records, at, n)
            out.size += n * A_WIDTHS[column]
        return 0

    def take(self):
        """Return the buffers of each column, in the order of the names, and begin an empty table."""
        fixed = dict(self.fixed)
        taken = []
        for name in self.names:
            if name == "key":
                taken.append(self.keys.take())
            elif name == "value":
                taken.append(self.values.take())
            elif name == "headers":
                taken.append((self.header_lists.take(self.count), self.header_ends.ends,
                              *self.header_keys.take(), *self.header_values.take()))
            else:
                taken.append((fixed[ARROW_COLUMNS.index(name)],))
        self._begin()
        return taken


cdef Py_ssize_t headers_size(const uint8_t *buf, const uint8_t *end, Record *r) noexcept nogil:
    """Return the size of a record's headers in bytes: keys and values, and 8 bytes more for each header."""
    cdef const uint8_t *p = buf + r.headers_start
    cdef Py_ssize_t size = 8 * r.headers_count
    cdef int64_t k, n
    for k in range(2 * r.headers_count):
        n = max(next_field(&p, end), <int64_t>0)
        p += n
        size += n
    return size


cdef inline int64_t microseconds(int64_t ms) noexcept nogil:
    """Return the microseconds of milliseconds, limited to int64."""
    if ms > INT64_MAX // 1000:
        return INT64_MAX
    if ms < -(INT64_MAX // 1000):
        return INT64_MIN
    return ms * 1000


cdef void put_longs(int64_t *to, int column, RecordTable records, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    """Fill a column that differs between the records of a batch."""
    cdef Py_ssize_t i
    if column == A_OFFSET:
        for i in range(n):
            to[i] = records.at(at + i).offset
    elif column == A_TIMESTAMP_MS:
        for i in range(n):
            to[i] = records.at(at + i).timestamp
    else:
        for i in range(n):
            to[i] = microseconds(records.at(at + i).timestamp)


cdef void put_batch_longs(int64_t *to, int column, RecordTable records, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    """Fill a column that is the same for all records of a batch."""
    cdef Py_ssize_t i, batch = -1
    cdef int64_t value = 0
    cdef Batch *b
    for i in range(n):
        if records.at(at + i).batch != batch:
            batch = records.at(at + i).batch
            b = records.batches.at(batch)
            if column == A_PRODUCER_ID:
                value = b.producer_id
            elif column == A_POSITION:
                value = b.position
            elif column == A_BASE_OFFSET:
                value = b.base_offset
            elif column == A_LAST_OFFSET:
                value = b.last_offset
            elif column == A_BASE_TIMESTAMP:
                value = b.base_timestamp
            else:
                value = b.max_timestamp
        to[i] = value


cdef void put_ints(int32_t *to, int column, RecordTable records, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef Record *r
    cdef Batch *b
    for i in range(n):
        r = records.at(at + i)
        b = records.batches.at(r.batch)
        if column == A_TIMESTAMP_TYPE:
            to[i] = -1 if b.magic == 0 else (b.attributes >> 3) & 1
        elif column == A_SEQUENCE:
            to[i] = <int32_t>(b.base_sequence if b.base_sequence < 0 else
                              increment_sequence(b.base_sequence, minus(r.offset, b.base_offset)))
        elif column == A_LEADER_EPOCH:
            to[i] = <int32_t>b.leader_epoch
        elif column == A_ATTRIBUTES:
            to[i] = <int32_t>b.attributes
        else:
            to[i] = <int32_t>b.magic


cdef void put_small(char *to, int column, RecordTable records, Py_ssize_t at, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef Batch *b
    for i in range(n):
        b = records.batches.at(records.at(at + i).batch)
        if column == A_PRODUCER_EPOCH:
            (<int16_t *>to)[i] = <int16_t>b.producer_epoch
        elif column == A_CODEC:
            to[i] = <char>(b.attributes & 7)
        else:
            to[i] = b.magic >= 2 and b.attributes & 32 != 0
