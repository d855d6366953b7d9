"""Big endian numbers, and sums and differences that wrap as Java's longs do."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef inline uint16_t be16(const uint8_t *p) noexcept nogil:
    return (<uint16_t>p[0] << 8) | p[1]


cdef inline uint32_t be32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t be64(const uint8_t *p) noexcept nogil:
    return (<uint64_t>be32(p) << 32) | be32(p + 4)


cdef inline void set_be16(uint8_t *p, uint16_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 8)
    p[1] = <uint8_t>v


cdef inline void set_be32(uint8_t *p, uint32_t v) noexcept nogil:
    set_be16(p, <uint16_t>(v >> 16))
    set_be16(p + 2, <uint16_t>v)


cdef inline void set_be64(uint8_t *p, uint64_t v) noexcept nogil:
    set_be32(p, <uint32_t>(v >> 32))
    set_be32(p + 4, <uint32_t>v)


# Offsets and timestamps come from files: their sums may lie beyond an int64. Java's wrap; C's are undefined.

cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a - <uint64_t>b)


cdef inline bint fits_index(int64_t offset, int64_t base) noexcept nogil:
    """Is the offset an int32 at or above the base offset, as entries of indexes hold it? One that has passed 2^63 - 1
    is, too: the difference is Java's. Source: AbstractIndex.toRelative."""
    return <uint64_t>offset - <uint64_t>base <= 0x7fffffff
