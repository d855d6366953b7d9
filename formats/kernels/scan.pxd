from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.batches cimport LOG_OVERHEAD, V2_HEADER, BatchTable
from formats.kernels.numbers cimport be32

# How a scan ended.
cpdef enum:
    SCAN_END = 0            # exactly at `stop`
    SCAN_INCOMPLETE = 1     # the next batch needs more bytes than there are; Scan.needed says how many from its start
    SCAN_BAD_LENGTH = 2     # a length no batch can have: nothing behind it can be located
    SCAN_STOPPED = 3        # behind a batch with a bad CRC or no room for its header (stop_at_bad_crc)


cdef int no_whole_batch(int64_t at, int64_t end) except -1
cdef int scan_window(const uint8_t *buf, int64_t start, int64_t stop, int64_t file_position, BatchTable table,
                     bint check_crc, bint stop_at_bad_crc, int64_t *next_start, int64_t *needed) except -1 nogil


cdef inline int64_t whole_batch(const uint8_t *batches, int64_t at, int64_t end) except -1:
    """The size of the magic 2 batch at byte `at` of [0, end). Raises ValueError where no whole one is there."""
    cdef int64_t size
    if end - at >= V2_HEADER:
        size = LOG_OVERHEAD + <int64_t><int32_t>be32(batches + at + 8)
        if V2_HEADER <= size <= end - at:
            return size
    return no_whole_batch(at, end)
