from cpython.pythread cimport PyThread_type_lock
from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.batches cimport Batch, BatchTable
from formats.kernels.indexes cimport AppendIndexer, IndexTail
from formats.kernels.producers cimport ProducerTable


cdef struct PlainRecords:
    int64_t count
    int64_t max_timestamp     # -1: no record has one
    bint consecutive          # whether offset deltas count up by one


cdef class LogState:
    cdef public int64_t log_start_offset, high_watermark, log_end_offset
    cdef public Runway runway
    cdef PyThread_type_lock lock
    cdef unsigned long holder      # the thread that holds the log; 0: none
    cdef int depth                 # how often it holds it

    cdef bint is_held(self)
    cdef bint try_hold(self)
    cdef int wait(self) except -1


cdef class SegmentState:
    cdef public int64_t size


cdef class Runway:
    cdef LogState log
    cdef SegmentState segment
    cdef object file, failed
    cdef IndexTail offsets, times
    cdef AppendIndexer indexer
    cdef ProducerTable producers
    cdef BatchTable table
    cdef dict verifications
    cdef bint keyed, writes_directly
    cdef int codec, fd
    cdef readonly int32_t leader_epoch
    cdef int64_t size_max, offset_max, timestamp_max, before_max_ms, after_max_ms, max_message_bytes

    cdef bint takes(self, const uint8_t *data, int64_t size, object buffer, int64_t start, int64_t now_ms) except -1
    cdef bint may_take(self, const uint8_t *data, int64_t size) except -1
    cdef bint is_sound(self, const uint8_t *data, int64_t size, int64_t now_ms) except -1 nogil
    cdef bint takes_payload(self, const uint8_t *data, object buffer, int64_t start, int64_t now_ms) except -1
    cdef int64_t _earliest(self, int64_t now_ms) noexcept nogil
    cdef int64_t _latest(self, int64_t now_ms) noexcept nogil
    cdef bint _has_room(self, int64_t size) noexcept nogil
    cdef bint _fits(self, Batch *b) noexcept nogil
    cdef int run(self, uint8_t *data, int64_t size, object buffer, int64_t start) except -1
    cdef bint writes(self, uint8_t *data, int64_t size) noexcept nogil
    cdef int written(self, const uint8_t *data, int64_t size) except -1
    cdef bint _follows(self, const uint8_t *data, int64_t size) except -1 nogil
    cdef int _run(self, const uint8_t *data, int64_t size, object buffer, int64_t start, bint is_written) except -1
    cdef int _write(self, const uint8_t *data, int64_t size, object buffer, int64_t start) except -1
