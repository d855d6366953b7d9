from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from formats.kernels.payload.columns cimport CUT, LONG_VARINT, OK, Columns, Fault

# What a payload begins with.
cpdef enum:
    NO_HEADER, SCHEMA_ID, SCHEMA_MESSAGE


cdef struct Cursor:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    int64_t items_left


cdef inline Fault read_varint(Cursor *cursor, uint64_t *value) noexcept nogil:
    cdef int shift = 7
    cdef uint8_t byte
    if cursor.at >= cursor.end:
        return CUT
    byte = cursor.at[0]
    cursor.at += 1
    value[0] = byte & 0x7F
    while byte >= 0x80:
        if cursor.at >= cursor.end:
            return CUT
        byte = cursor.at[0]
        if shift == 63 and byte > 1:
            return LONG_VARINT
        cursor.at += 1
        value[0] |= <uint64_t> (byte & 0x7F) << shift
        shift += 7
    return OK


cdef inline Fault read_zigzag(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef uint64_t raw
    cdef Fault fault = read_varint(cursor, &raw)
    if fault == OK:
        value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
    return fault


cdef class Payloads:
    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef const uint8_t[::1] valid
    cdef const uint8_t *start
    cdef readonly int64_t count


cdef class Routes:
    cdef list headers
    cdef int n
    cdef const uint8_t **starts
    cdef int64_t *sizes
    cdef int32_t *roots
    cdef int last

    cdef int32_t find(self, const uint8_t *header, int64_t size) noexcept nogil


cdef class Decoding:
    cdef Columns columns
    cdef list faults

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil
    cdef tuple run(self, Payloads payloads, int header, Routes routes)
