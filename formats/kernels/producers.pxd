from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t

from formats.kernels.batches cimport Batch

# How SegmentRecovery.batches ended.
cpdef enum:
    RECOVERY_MORE = 0           # every row was taken in
    RECOVERY_INVALID = 1        # Kafka cuts the segment at valid_bytes
    RECOVERY_OVERFLOW = 2       # an offset that is no int32 above the base offset
    RECOVERY_ORDER = 3          # an index entry that does not lie above the one before it: Kafka empties the segment
    RECOVERY_REFUSED = 4        # Kafka would not start

cpdef enum:
    PRODUCER_BATCHES_KEPT = 5


cdef struct LastBatch:
    int64_t last_offset
    int64_t timestamp           # its max timestamp, ms
    int32_t last_sequence
    int32_t offset_delta        # last less first offset


cdef struct ProducerState:
    int64_t id
    int64_t timestamp           # of its last batch or marker, ms
    int64_t txn_first           # first offset of its open transaction; -1: none
    int32_t coordinator_epoch   # -1: none
    int16_t epoch               # -1: none
    int8_t used
    int8_t kept                 # batches, the oldest first
    LastBatch batches[PRODUCER_BATCHES_KEPT]


cdef struct OngoingTxn:
    int64_t first_offset
    int64_t producer_id


cdef inline int32_t sequence_after(int64_t sequence, int64_t more) noexcept nogil:
    """Sequences run from 0 to 2^31 - 1 and begin again, with the arithmetic of Java's int."""
    if sequence > 0x7fffffff - more:
        return <int32_t>(<uint64_t>(more - (0x7fffffff - sequence) - 1))
    return <int32_t>(<uint64_t>(sequence + more))


cdef class ProducerTable:
    cdef object control
    cdef ProducerState *states
    cdef Py_ssize_t slots, used
    cdef OngoingTxn *open
    cdef Py_ssize_t open_count, open_slots
    cdef readonly str reason                # why `batches` ended early
    cdef public int64_t end_offset          # the state includes the batches below it; -1: it must not be used
    # Of the marker seen last: the transaction that it ended.
    cdef int64_t completed_first, completed_stable
    cdef bint completed_abort

    cdef int _batch(self, Batch *b, const uint8_t *data) except -1 nogil
    cdef int _read_marker(self, Batch *b, const uint8_t *data, int64_t *kind, int64_t *coordinator_epoch,
                          int64_t *timestamp) except -1 nogil
    cdef int _marker(self, ProducerState *p, Batch *b, bint abort, int32_t coordinator_epoch,
                     int64_t timestamp) except -1 nogil
    cdef int _begin(self, int64_t first_offset, int64_t producer_id) except -1 nogil
    cdef ProducerState *_find(self, int64_t producer_id) noexcept nogil
    cdef ProducerState *_at(self, int64_t producer_id) except NULL nogil
    cdef int _grow(self, Py_ssize_t slots) except -1 nogil
