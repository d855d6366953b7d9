from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.batches cimport FAULT_HEADER_NOT_UTF8, FAULT_NEGATIVE_LENGTH, LOG_OVERHEAD, Batch, BatchTable, RowTable
from formats.kernels.numbers cimport be32, be64
from formats.kernels.utf8 cimport is_utf8
from formats.kernels.varint cimport VARINT_CUT, VARINT_TOO_LONG, VARINT_WHOLE, read_varint, read_varlong


cdef struct Record:
    int64_t offset
    int64_t timestamp         # ms
    int64_t key_start
    int64_t key_length        # -1: null
    int64_t value_start
    int64_t value_length      # -1: null
    int64_t headers_start     # first byte of the first header
    int64_t headers_count
    int64_t batch             # row in the BatchTable
    int64_t start             # first byte of the record, its length varint included
    int64_t crc               # magic 0 and 1: as stored, else -1
    int64_t valid             # magic 0 and 1: CRC holds


# Why a record could not be read (RecordTable.fault_reason).
cdef enum:
    R_NONE = VARINT_WHOLE
    R_VARINT = VARINT_TOO_LONG   # a varint longer than 5 (varlong: 10) bytes
    R_TRUNCATED = VARINT_CUT     # the payload ends inside a record
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
    R_LENGTH_VARINT = 14     # the varint of a record's length is longer than 5 bytes


cdef inline int read_record(const uint8_t *base, const uint8_t **pp, const uint8_t *stop, Record *r, int64_t *delta,
                            int64_t *soft) noexcept nogil:
    """Read the magic 2 record at pp[0]; starts in the row are relative to base. Moves pp[0] behind the record, or to
    the fault."""
    cdef const uint8_t *p = pp[0]
    cdef const uint8_t *end
    cdef int32_t length, number
    cdef int64_t timestamp_delta, k
    cdef int why
    r.start = p - base
    why = read_varint(&p, stop, &length)
    if why:
        return R_LENGTH_VARINT if why == VARINT_TOO_LONG else why
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
            soft[0] |= FAULT_NEGATIVE_LENGTH
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
            soft[0] |= FAULT_NEGATIVE_LENGTH
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
            soft[0] |= FAULT_HEADER_NOT_UTF8
        p += number
        why = read_varint(&p, end, &number)
        if why or number > end - p:
            pp[0] = p
            return R_HEADER_VALUE
        if number > 0:
            p += number
        elif number < -1:
            soft[0] |= FAULT_NEGATIVE_LENGTH
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


cdef class RecordTable(RowTable):
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

    cdef void _fault(self, int reason, int64_t bit) noexcept nogil
    cdef int _fill(self) except -1 nogil
    cdef bint _enter(self, Batch *b) except -1 nogil
    cdef void _records(self, Batch *b) noexcept nogil
    cdef bint _measure_inner(self, Batch *b) noexcept nogil
    cdef void _messages(self, Batch *b) noexcept nogil

    cdef inline Record *at(self, Py_ssize_t i) noexcept nogil:
        return (<Record *>self.cells) + i

    cdef inline const uint8_t *end(self) noexcept nogil:
        """The end of the bytes to which rows may point."""
        return self.buf + self.view.shape[0] if self.buf != NULL else NULL
