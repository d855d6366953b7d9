from libc.stdint cimport int64_t, uint8_t

from formats.kernels.batches cimport Batch

cdef enum:
    RECORDS_BYTES_MAX = 0x7fffffff - 61     # of one batch: an int32 holds its size, header included


cdef void put_header(uint8_t *p, int64_t size, Batch *head, int64_t base_timestamp) noexcept nogil
