from libc.stdint cimport int64_t

from formats.kernels.buffer cimport TextBuffer
from formats.kernels.numbers cimport fits_index, plus


cdef class AppendIndexer:
    cdef int64_t base, interval, unindexed, indexed_timestamp
    cdef readonly int64_t max_timestamp, max_timestamp_offset
    cdef TextBuffer offsets, times

    cdef int _time_entry(self) except -1

    cdef inline bint takes(self, int64_t position, int64_t first, int64_t count) noexcept nogil:
        """Can the indexes hold a batch at this byte whose offsets these are?"""
        return position <= 0x7fffffff and fits_index(first, self.base) and fits_index(plus(first, count - 1), self.base)
