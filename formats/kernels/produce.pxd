from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from formats.kernels.append cimport LogState, Runway
from formats.kernels.buffer cimport TextBuffer

cdef enum:
    PARTITIONS_MAX = 256         # of a plain request


cdef struct Part:
    int32_t index
    int32_t topic              # its place in the request
    int64_t start, size        # of the records in the frame
    PyObject *runway           # of the partition's log; `taken` holds it
    bint is_written            # whether the .log file has the batch


cdef struct TopicParts:
    int64_t start, size        # of the name or id in the frame
    int32_t count              # partitions


cdef struct Plain:
    uint32_t correlation_id
    int32_t timeout_ms
    int version, acks
    int topics, parts
    bint is_packed             # whether a batch is compressed
    int64_t work_bytes         # to which the batches decompress at most


cdef class PlainRequests:
    cdef bint answer_to(self, const uint8_t *data, int64_t size, TextBuffer out) except -1


cdef class Lane:
    cdef ProduceLanes lanes
    cdef object partition
    cdef LogState log
    cdef dict watchers, end_watchers
    cdef str topic
    cdef bytes by_name, by_id
    cdef bint alone
    cdef bint is_told            # whether `tell` is to be called


cdef class ProduceLanes:
    cdef dict by_name, by_id     # name or id, then the index -> Lane
    cdef int64_t at_once_bytes
    cdef readonly bint has_failed, hangs_up
    cdef bint is_serving                   # `serve` is running, which answers no request that waits
    cdef bint is_aside                     # the thread is not that of the event loop
    cdef LogState busy                     # the log that `_take` has found held by another thread
    cdef TextBuffer out                    # the responses
    cdef readonly list waits, told, failures
    cdef readonly int32_t timeout_ms
    cdef Part[PARTITIONS_MAX] parts
    cdef TopicParts[PARTITIONS_MAX] topics

    cdef bytes _send(self, int fd)
    cdef bint _read(self, const uint8_t *data, int64_t size, Plain *plain) noexcept nogil
    cdef bint _append(self, uint8_t *data, object buffer, int64_t start, Plain *plain, int64_t now_ms,
                      object may_write) except -1
    cdef bint _take(self, const uint8_t *data, object buffer, int64_t start, Plain *plain, object may_write,
                    list taken) except -1
    cdef int _let_go(self, list taken) except -1
    cdef bint _check_and_write(self, uint8_t *data, object buffer, int64_t start, Plain *plain,
                               int64_t now_ms) except -1
    cdef int _respond(self, uint8_t *data, object buffer, int64_t start, Plain *plain, list taken) except -1
    cdef int64_t _appended(self, Lane lane, LogState log, int64_t first_offset) except? -1
    cdef bint _are_sound(self, const uint8_t *data, Plain *plain, int64_t now_ms) except -1 nogil
    cdef void _write(self, uint8_t *data, Plain *plain) noexcept nogil
    cdef Lane _lane(self, const uint8_t *data, Part *part, int version)
    cdef int64_t _response_bytes(self, Plain *plain) noexcept nogil
    cdef uint8_t *_begin(self, uint8_t *to, int64_t size, Plain *plain) noexcept nogil
    cdef uint8_t *_one(self, uint8_t *to, uint8_t *data, object buffer, int64_t start, Plain *plain, int i,
                       Lane lane, LogState log, Runway runway) except NULL
