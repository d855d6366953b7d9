"""Zigzag varints of magic 2 records, read from bytes that nobody has checked. Source: Kafka's ByteUtils."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    VARINT_WHOLE = 0
    VARINT_TOO_LONG = 1       # more than 5 bytes (varlong: 10)
    VARINT_CUT = 2            # the bytes end inside it


cdef inline int read_varint(const uint8_t **pp, const uint8_t *end, int32_t *value) noexcept nogil:
    """Zigzag varint of 5 bytes at most, as Kafka's ByteUtils: the fifth byte's high bits are dropped."""
    cdef const uint8_t *p = pp[0]
    cdef uint32_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if p >= end:
            return VARINT_CUT
        byte = p[0]
        p += 1
        raw |= <uint32_t>(byte & 0x7f) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            return VARINT_TOO_LONG
    value[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
    pp[0] = p
    return VARINT_WHOLE


cdef inline int read_varlong(const uint8_t **pp, const uint8_t *end, int64_t *value) noexcept nogil:
    cdef const uint8_t *p = pp[0]
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef uint8_t byte
    while True:
        if p >= end:
            return VARINT_CUT
        byte = p[0]
        p += 1
        raw |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            return VARINT_TOO_LONG
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    pp[0] = p
    return VARINT_WHOLE


cdef inline int varint_size(uint64_t value) noexcept nogil:
    cdef int n = 1
    while value >= 0x80:
        value >>= 7
        n += 1
    return n


cdef inline int64_t zigzag_size(int64_t value) noexcept nogil:
    return varint_size((<uint64_t>value << 1) ^ <uint64_t>(value >> 63))
