from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    CYTHON_UNUSED static const char kcli_digits[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    CYTHON_UNUSED static const char kcli_hex[] = "0123456789abcdef";
    """
    const char *DIGITS "kcli_digits"    # 00 to 99
    const char *HEX "kcli_hex"


cdef class TextBuffer:
    cdef char *data
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int exports
    cdef Py_ssize_t shape[1]

    cdef int need(self, Py_ssize_t more) except -1 nogil
    cdef int put_object(self, object text) except -1

    cdef inline void put(self, const char *text, Py_ssize_t n) noexcept nogil:
        """Append n bytes; the room is there (see need)."""
        memcpy(self.data + self.size, text, n)
        self.size += n

    cdef inline void put_int(self, int64_t value) noexcept nogil:
        """Append a decimal number: 20 bytes at most."""
        cdef char scratch[24]
        cdef int at = 24
        cdef uint64_t v = <uint64_t>value
        cdef uint64_t q
        if value < 0:
            v = 0 - v
        while v >= 100:
            q = v // 100
            at -= 2
            memcpy(&scratch[at], DIGITS + 2 * (v - q * 100), 2)
            v = q
        if v >= 10:
            at -= 2
            memcpy(&scratch[at], DIGITS + 2 * v, 2)
        else:
            at -= 1
            scratch[at] = <char>(48 + v)
        if value < 0:
            at -= 1
            scratch[at] = 45
        self.put(&scratch[at], 24 - at)

    cdef inline void put_flag(self, bint flag) noexcept nogil:
        if flag:
            self.put(b"true", 4)
        else:
            self.put(b"false", 5)


cdef inline void put_text(TextBuffer out, const char *text) noexcept nogil:
    cdef Py_ssize_t n = 0
    while text[n]:
        n += 1
    out.put(text, n)


cdef inline void put_be32(TextBuffer out, uint32_t value) noexcept nogil:
    cdef char scratch[4]
    scratch[0] = <char>(value >> 24)
    scratch[1] = <char>(value >> 16 & 0xff)
    scratch[2] = <char>(value >> 8 & 0xff)
    scratch[3] = <char>(value & 0xff)
    out.put(scratch, 4)


cdef inline void put_varint(TextBuffer out, int64_t value) noexcept nogil:
    """Zigzag, for int32 and int64 alike: 10 bytes at most."""
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw >= 0x80:
        out.data[out.size] = <char>(raw | 0x80)
        out.size += 1
        raw >>= 7
    out.data[out.size] = <char>raw
    out.size += 1


cdef inline void put_field(TextBuffer out, const uint8_t *field, int64_t length) noexcept nogil:
    """A length, -1 for null, and the bytes; the room is there."""
    put_varint(out, length)
    if length > 0:
        out.put(<const char *>field, length)
