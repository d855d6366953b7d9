cpdef object deserialized(object source, object raw)


cdef class InputQueue:
    cdef readonly object source
    cdef public object next_offset, partition_time
    cdef public bint is_at_end
    cdef readonly Py_ssize_t skipped
    cdef object unreadable, extractor, waiting
    cdef object record, metadata, raw  # the first record, its place, and the bytes that it was

    cdef int add(self, object raw) except -1
    cdef tuple take(self)
    cdef int find_first(self) except -1
    cdef int read(self, object raw) except -1
    cdef int leave_out(self, object raw) except -1


cdef class InputQueues:
    cdef readonly dict by_topic
    cdef readonly object stream_time
    cdef object unreadable, by_time

    cdef bint ready(self) except -1
    cpdef add(self, raw)
    cpdef tuple take(self)
