"""UTF-8 as RFC 3629 has it: no surrogates, nothing overlong, nothing above U+10FFFF."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline bint continues(uint8_t byte) noexcept nogil:
    return (byte & 0xc0) == 0x80


cdef inline int64_t utf8_fault(const uint8_t *data, int64_t size) noexcept nogil:
    """The first byte that is not of UTF-8 text (no surrogates, nothing overlong, nothing above U+10FFFF); -1: none."""
    cdef int64_t i = 0
    cdef uint64_t word
    cdef uint32_t byte, following
    while i < size:
        if size - i >= 8:
            memcpy(&word, data + i, 8)
            if word & 0x8080808080808080ULL == 0:
                i += 8
                continue
        byte = data[i]
        if byte < 0x80:
            i += 1
            continue
        if byte < 0xC2 or byte > 0xF4 or size - i < 2:
            return i
        following = data[i + 1]
        if following & 0xC0 != 0x80:
            return i
        if byte < 0xE0:
            i += 2
        elif byte < 0xF0:
            if size - i < 3 or data[i + 2] & 0xC0 != 0x80:
                return i
            if (byte == 0xE0 and following < 0xA0) or (byte == 0xED and following > 0x9F):
                return i
            i += 3
        else:
            if size - i < 4 or data[i + 2] & 0xC0 != 0x80 or data[i + 3] & 0xC0 != 0x80:
                return i
            if (byte == 0xF0 and following < 0x90) or (byte == 0xF4 and following > 0x8F):
                return i
            i += 4
    return -1


cdef inline bint is_utf8(const uint8_t *p, int64_t n) noexcept nogil:
    return utf8_fault(p, n) < 0
