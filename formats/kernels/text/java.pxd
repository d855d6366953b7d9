from libc.stdint cimport int64_t, uint8_t

from formats.kernels.buffer cimport TextBuffer


cdef int put_java_text(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil
