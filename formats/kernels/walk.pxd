"""A walk over the bytes of a message that nobody has checked, with lengths of a flexible or an older version. Source:
KIP-482, RequestHeader.json."""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from formats.kernels.numbers cimport be16, be32, be64

cdef enum:
    HEADER_BYTES = 10  # up to the client id's length
    ID_BYTES = 16
    STRING_MAX = 0x7fff

cdef struct Walk:
    const uint8_t *p
    const uint8_t *end
    bint flexible
    bint is_other             # not ordinary: nothing more is read


cdef inline const uint8_t *take(Walk *walk, int64_t size) noexcept nogil:
    """Return where the next `size` bytes begin, and pass over them; NULL where there are fewer."""
    cdef const uint8_t *p = walk.p
    if walk.is_other or size < 0 or size > walk.end - p:
        walk.is_other = True
        return NULL
    walk.p = p + size
    return p


cdef inline int64_t varint(Walk *walk) noexcept nogil:
    cdef uint32_t value = 0
    cdef const uint8_t *p
    cdef int shift
    for shift in range(0, 28, 7):
        p = take(walk, 1)
        if p == NULL:
            return 0
        value |= <uint32_t>(p[0] & 0x7f) << shift
        if p[0] < 0x80:
            if shift and not p[0]:  # a response has the same number in fewer bytes
                walk.is_other = True
            return value
    walk.is_other = True
    return 0


cdef inline int32_t int32(Walk *walk) noexcept nogil:
    cdef const uint8_t *p = take(walk, 4)
    return 0 if p == NULL else <int32_t>be32(p)


cdef inline int64_t int64(Walk *walk) noexcept nogil:
    cdef const uint8_t *p = take(walk, 8)
    return 0 if p == NULL else <int64_t>be64(p)


cdef inline int64_t string_length(Walk *walk) noexcept nogil:
    """The length of a string in bytes, -1 for null."""
    cdef const uint8_t *p
    if walk.flexible:
        return varint(walk) - 1
    p = take(walk, 2)
    return -1 if p == NULL else <int16_t>be16(p)


cdef inline object string(Walk *walk, bint nullable):
    """Read a string. None where it is null or not ordinary."""
    cdef int64_t size = string_length(walk)
    cdef const uint8_t *p
    if walk.is_other or size < -1 or size > STRING_MAX or (size < 0 and not nullable):
        walk.is_other = True
        return None
    if size < 0:
        return None
    p = take(walk, size)
    if p == NULL:
        return None
    try:
        return PyUnicode_DecodeUTF8(<const char *>p, size, NULL)
    except UnicodeDecodeError:
        walk.is_other = True
        return None


cdef inline void no_tags(Walk *walk) noexcept nogil:
    cdef const uint8_t *p
    if walk.flexible:
        p = take(walk, 1)
        if p != NULL and p[0]:
            walk.is_other = True


cdef inline int32_t count(Walk *walk, int32_t most) noexcept nogil:
    """The count of an array of up to `most` items."""
    cdef int64_t found = varint(walk) - 1 if walk.flexible else int32(walk)
    if not 0 <= found <= most:
        walk.is_other = True
        return 0
    return <int32_t>found


cdef inline int begin(Walk *walk, const uint8_t *data, int64_t size, int key, int least, int most,
                      int flexible) noexcept nogil:
    """Pass over the header. Return the version; -1 for another API or version, or a header that is not ordinary."""
    cdef int version, length
    if size < HEADER_BYTES or be16(data) != key:
        return -1
    version = <int16_t>be16(data + 2)
    if not least <= version <= most:
        return -1
    walk.p, walk.end = data + HEADER_BYTES, data + size
    walk.flexible, walk.is_other = version >= flexible, False
    length = <int16_t>be16(data + 8)
    if length < -1:
        return -1
    take(walk, max(length, 0))
    no_tags(walk)
    return version
