"""Decode bytes as Java's `new String(bytes, UTF_8)` does."""

from libc.stdint cimport int64_t, uint8_t

from formats.kernels.buffer cimport TextBuffer
from formats.kernels.utf8 cimport continues


cdef inline int64_t java_step(const uint8_t *p, int64_t n, bint *sound) noexcept nogil:
    """Return the bytes that Java's UTF-8 decoder reads at p for one character (sound) or one U+FFFD. p[0] >= 0x80.

    Java differs from Python: an encoded surrogate, and a sequence that the end of the text cuts off, are each replaced
    by one U+FFFD.
    """
    cdef uint8_t a = p[0]
    sound[0] = False
    if 0xc2 <= a <= 0xdf:
        if n < 2 or not continues(p[1]):
            return 1
        sound[0] = True
        return 2
    if 0xe0 <= a <= 0xef:
        if n >= 2 and ((a == 0xe0 and (p[1] & 0xe0) == 0x80) or not continues(p[1])):
            return 1
        if n < 3:
            return n
        if not continues(p[2]):
            return 2
        sound[0] = not (a == 0xed and p[1] >= 0xa0)
        return 3
    if 0xf0 <= a <= 0xf4:
        if n >= 2 and ((a == 0xf0 and (p[1] < 0x90 or p[1] > 0xbf)) or (a == 0xf4 and (p[1] & 0xf0) != 0x80)
                       or not continues(p[1])):
            return 1
        if n >= 3 and not continues(p[2]):
            return 2
        if n < 4:
            return n
        if not continues(p[3]):
            return 3
        sound[0] = True
        return 4
    return 1


cdef int put_java_text(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil:
    """Append bytes as Java's `new String(bytes, UTF_8)` decodes them, encoded as UTF-8 again."""
    cdef int64_t i = 0, run, step
    cdef bint sound = False
    out.need(3 * n)
    while i < n:
        run = i
        while i < n and p[i] < 0x80:
            i += 1
        if i > run:
            out.put(<const char *>p + run, i - run)
        if i < n:
            step = java_step(p + i, n - i, &sound)
            if sound:
                out.put(<const char *>p + i, step)
            else:
                out.put(b"\xef\xbf\xbd", 3)
            i += step
    return 0


def java_text(const uint8_t[::1] data not None):
    """Return the text that Java's `new String(bytes, UTF_8)` decodes, with its U+FFFDs, as UTF-8."""
    cdef TextBuffer out = TextBuffer()
    if data.shape[0]:
        put_java_text(out, &data[0], data.shape[0])
    return bytes(out)
