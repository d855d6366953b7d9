"""CRC-32C, the checksum of magic 2 batches, and CRC-32, that of magic 0 and 1 messages; crc.h computes them."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc.h" nogil:
    void crc_init()
    uint32_t crc32c_of(uint32_t crc, const uint8_t *p, size_t n)
    uint32_t crc32_of(uint32_t crc, const uint8_t *p, size_t n)

crc_init()


cdef uint32_t crc32c_update(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil:
    """Return the CRC-32C of n bytes at p, continuing from `crc`, that of the bytes before them (0: none)."""
    return crc32c_of(crc, p, n)


cdef uint32_t crc32_update(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil:
    """Return the CRC-32 of n bytes at p, continuing from `crc`, that of the bytes before them (0: none)."""
    return crc32_of(crc, p, n)


def crc32c(const uint8_t[::1] data not None, uint32_t value=0):
    """Return the CRC-32C of `data`, continuing from `value`, that of the bytes before it (0: none)."""
    cdef uint32_t crc = value
    if data.shape[0]:
        with nogil:
            crc = crc32c_update(value, &data[0], data.shape[0])
    return crc


def crc32(const uint8_t[::1] data not None, uint32_t value=0):
    """Return the CRC-32 (as zlib's) of `data`, continuing from `value`, that of the bytes before it (0: none)."""
    cdef uint32_t crc = value
    if data.shape[0]:
        with nogil:
            crc = crc32_update(value, &data[0], data.shape[0])
    return crc
