from libc.stdint cimport int64_t

cdef enum:
    LOG_OVERHEAD = 12         # base offset int64, length int32
    V2_HEADER = 61            # a magic 2 header, the overhead included
    LEGACY_MIN_LENGTH = 14    # a magic 0 message: crc, magic, attributes, key length, value length


cdef struct Batch:
    int64_t position          # byte in the file
    int64_t start             # byte in the window
    int64_t size              # bytes, offset and length fields included
    int64_t base_offset
    int64_t last_offset
    int64_t leader_epoch
    int64_t magic
    int64_t attributes
    int64_t crc               # as stored
    int64_t crc_computed      # over the bytes that are there
    int64_t base_timestamp    # ms; the delete horizon where attribute bit 6 is set
    int64_t max_timestamp     # ms
    int64_t producer_id
    int64_t producer_epoch
    int64_t base_sequence
    int64_t count             # records as stated; -1 for magic 0 and 1
    int64_t faults            # FAULT_* bits


# What can be wrong with a batch whose bounds are known. The first group is what makes Kafka throw when it iterates.
cpdef enum:
    FAULT_SHORT_HEADER = 1            # the length leaves no room for the header
    FAULT_BAD_CODEC = 2               # codec id 5, 6 or 7
    FAULT_BAD_PAYLOAD = 4             # does not decompress
    FAULT_BAD_RECORD = 8              # a record's structure; see RecordTable.fault
    FAULT_COUNT_TOO_HIGH = 16         # the payload ends before the stated count
    FAULT_COUNT_TOO_LOW = 32          # bytes are left behind the last stated record
    FAULT_BAD_CRC = 64
    FAULT_OFFSETS_NOT_INCREASING = 128
    FAULT_OFFSET_OUT_OF_RANGE = 256   # a delta below 0 or above the last offset delta
    FAULT_MAX_TIMESTAMP = 512         # differs from the records' maximum
    FAULT_HEADER_NOT_UTF8 = 1024
    FAULT_NEGATIVE_COUNT = 2048
    FAULT_CONTROL_KEY = 4096          # a control record without a readable type
    FAULT_BAD_INNER = 8192            # a wrapped message (magic 0, 1) whose CRC or magic is off
    FAULT_BAD_MAGIC = 16384           # above 2: Kafka reads it as 2
    FAULT_NEGATIVE_LENGTH = 32768     # a key, value or header value of a length below -1: Kafka reads it as null


cdef inline bint lies_in(const Batch *b, Py_ssize_t size) noexcept nogil:
    """Is all of the batch in a buffer of so many bytes? `scan` has made the row, of some buffer: start is not negative."""
    return b.size <= size and b.start <= size - b.size


cdef int foreign(Py_ssize_t i) except -1 nogil


cdef class RowTable:
    cdef int64_t *cells
    cdef readonly Py_ssize_t count      # rows in use
    cdef Py_ssize_t capacity
    cdef Py_ssize_t width
    cdef int exports
    cdef Py_ssize_t shape[2]
    cdef Py_ssize_t strides[2]

    cdef int _reserve(self, Py_ssize_t rows) except -1 nogil
    cdef object _row(self, Py_ssize_t i)


cdef class BatchTable(RowTable):
    cdef inline Batch *at(self, Py_ssize_t i) noexcept nogil:
        return (<Batch *>self.cells) + i
