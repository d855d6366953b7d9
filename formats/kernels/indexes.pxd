from libc.stdint cimport int64_t, uint8_t

from formats.kernels.batches cimport BatchTable
from formats.kernels.buffer cimport TextBuffer
from formats.kernels.numbers cimport fits_index, plus


cdef class AppendIndexer:
    cdef int64_t base, interval, unindexed, indexed_timestamp
    cdef readonly int64_t max_timestamp, max_timestamp_offset
    cdef TextBuffer offsets, times

    cdef int make(self, BatchTable table, int64_t position, int64_t offset_slots, int64_t time_slots) except -1
    cdef int _time_entry(self) except -1

    cdef inline bint takes(self, int64_t position, int64_t first, int64_t count) noexcept nogil:
        """Can the indexes hold a batch at this byte whose offsets these are?"""
        return position <= 0x7fffffff and fits_index(first, self.base) and fits_index(plus(first, count - 1), self.base)


cdef class IndexTail:
    cdef public int64_t count, slots, entry_bytes
    cdef readonly int64_t waiting_bytes
    cdef uint8_t *entries
    cdef int64_t capacity

    cdef int add(self, const uint8_t *entries, int64_t size) except -1
