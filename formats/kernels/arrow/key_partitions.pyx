"""The partitions of keys, as Kafka's clients choose them: murmur2 of the key, without its sign, modulo partitions.

Source: Utils.murmur2 and BuiltInPartitioner.partitionForKey of Kafka.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef enum:
    SEED = 0x9747B28C
    FACTOR = 0x5BD1E995
    NO_SIGN = 0x7FFFFFFF


cdef inline uint32_t murmur2(const uint8_t *p, int64_t size) noexcept nogil:
    cdef uint32_t part, value = <uint32_t>SEED ^ <uint32_t>size
    cdef int64_t i, whole = size & ~<int64_t>3
    for i in range(0, whole, 4):
        part = p[i] | <uint32_t>p[i + 1] << 8 | <uint32_t>p[i + 2] << 16 | <uint32_t>p[i + 3] << 24
        part *= <uint32_t>FACTOR
        part = (part ^ part >> 24) * <uint32_t>FACTOR
        value = value * <uint32_t>FACTOR ^ part
    if size > whole:
        part = p[whole]
        if size > whole + 1:
            part |= <uint32_t>p[whole + 1] << 8
        if size > whole + 2:
            part |= <uint32_t>p[whole + 2] << 16
        value = (value ^ part) * <uint32_t>FACTOR
    value = (value ^ value >> 13) * <uint32_t>FACTOR
    return value ^ value >> 15


def key_partitions(const int64_t[::1] offsets not None, const uint8_t[::1] data not None, uint32_t partitions,
                   int64_t[::1] into not None):
    """Set `into` to the partition of each key, out of so many. offsets, data: those of an Arrow array of large binaries:
    key i lies from offsets[i] up to offsets[i + 1]; a null there counts as an empty key.

    Raises ValueError for offsets outside data, for no partition, and if the lengths of offsets and `into` do not match.
    """
    cdef int64_t i, start, end
    if not partitions or offsets.shape[0] != into.shape[0] + 1:
        raise ValueError((partitions, offsets.shape[0], into.shape[0]))
    with nogil:
        for i in range(into.shape[0]):
            start, end = offsets[i], offsets[i + 1]
            if not 0 <= start <= end <= data.shape[0]:
                with gil:
                    raise ValueError((start, end, data.shape[0]))
            into[i] = (murmur2(&data[0] + start if end > start else NULL, end - start) & NO_SIGN) % partitions
