from libc.stdint cimport int64_t, uint8_t

from formats.kernels.buffer cimport TextBuffer


cdef int put_json_bytes(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil


cdef inline int hidden_size(const uint8_t *p, int64_t n) noexcept nogil:
    """Bytes of the character at p, beyond ASCII, if people would not see it for what it is: C1, line and paragraph
    separators, bidirectional controls (see kcli/printable.py); else 0."""
    if p[0] == 0xc2:
        return 2 if n > 1 and p[1] < 0xa0 else 0
    if p[0] == 0xd8:
        return 2 if n > 1 and p[1] == 0x9c else 0
    if p[0] != 0xe2 or n < 3:
        return 0
    if p[1] == 0x80:
        return 3 if 0xa8 <= p[2] <= 0xae or p[2] == 0x8e or p[2] == 0x8f else 0
    return 3 if p[1] == 0x81 and 0xa6 <= p[2] <= 0xa9 else 0
