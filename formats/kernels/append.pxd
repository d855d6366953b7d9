from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.batches cimport Batch, BatchTable
from formats.kernels.indexes cimport AppendIndexer
from formats.kernels.producers cimport ProducerTable


cdef struct PlainRecords:
    int64_t count
    int64_t max_timestamp     # -1: no record has one
    bint consecutive          # whether offset deltas count up by one


cdef class Runway:
    cdef ProducerTable producers
    cdef AppendIndexer indexer
    cdef BatchTable table
    cdef object extend
    cdef dict verifications
    cdef bint keyed
    cdef int codec
    cdef readonly int32_t leader_epoch
    cdef int64_t next_offset, position, size_max, offset_max, timestamp_max, offset_slots, time_slots
    cdef int64_t before_max_ms, after_max_ms, max_message_bytes

    cdef bint takes(self, const uint8_t *data, int64_t size, object batch, int64_t now_ms) except -1
    cdef bint _fits(self, Batch *b) noexcept nogil
    cdef bint _takes_payload(self, int codec, object batch, int64_t earliest, int64_t latest,
                             PlainRecords *found) except -1
    cdef int run(self, uint8_t *data, object batch) except -1
    cdef bint _follows(self, const uint8_t *data, int64_t size) except -1 nogil
    cdef int _run(self, const uint8_t *data, object batches) except -1
