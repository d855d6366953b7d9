from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from formats.kernels.payload.columns cimport CUT, NOT_JSON, OK, Fault, uint128
from formats.kernels.payload.payloads cimport Cursor


cdef struct Scratch:
    uint8_t *data
    int64_t room
    int64_t size


cdef struct Number:
    const uint8_t *start
    int64_t size
    bint negative
    bint plain  # neither a point nor an exponent
    bint exponent_written
    bint long_mantissa  # more than 38 digits
    int digits
    uint128 mantissa
    int64_t exponent  # of ten, of the mantissa


cdef Fault json_string(Cursor *cursor, Scratch *scratch, const uint8_t **text, int64_t *size) noexcept nogil
cdef Fault json_number(Cursor *cursor, Number *number) noexcept nogil
cdef Fault to_double(const Number *number, double *value) noexcept nogil
cdef Fault to_integer(const Number *number, int64_t *value) noexcept nogil
cdef Fault skip_json(Cursor *cursor, Scratch *scratch, int depth) noexcept nogil


cdef inline void skip_space(Cursor *cursor) noexcept nogil:
    while cursor.at < cursor.end and (
        cursor.at[0] == c" " or cursor.at[0] == c"\n" or cursor.at[0] == c"\r" or cursor.at[0] == c"\t"
    ):
        cursor.at += 1


cdef inline bint take(Cursor *cursor, uint8_t wanted) noexcept nogil:
    """Step over this byte, if it is next behind white space."""
    skip_space(cursor)
    if cursor.at < cursor.end and cursor.at[0] == wanted:
        cursor.at += 1
        return True
    return False


cdef inline bint take_word(Cursor *cursor, const char *word, int64_t size) noexcept nogil:
    if cursor.end - cursor.at >= size and memcmp(cursor.at, word, size) == 0:
        cursor.at += size
        return True
    return False


cdef inline bint is_digit(const Cursor *cursor) noexcept nogil:
    return cursor.at < cursor.end and c"0" <= cursor.at[0] <= c"9"


cdef inline Fault json_name(Cursor *cursor, Scratch *scratch, const uint8_t **text, int64_t *size) noexcept nogil:
    """A field's name and the colon behind it."""
    cdef Fault fault
    if not take(cursor, c'"'):
        return NOT_JSON if cursor.at < cursor.end else CUT
    fault = json_string(cursor, scratch, text, size)
    if fault == OK and not take(cursor, c":"):
        return NOT_JSON if cursor.at < cursor.end else CUT
    return fault
