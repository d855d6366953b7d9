"""Read strings, numbers and white space of JSON texts. Source: RFC 8259."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.math cimport isinf
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

from formats.kernels.payload.columns cimport (
    CUT, DEPTH_MAX, NOT_JSON, NOT_UTF8, NO_MEMORY, OK, OUT_OF_RANGE, TOO_DEEP, WRONG_TYPE, Fault, uint128
)
from formats.kernels.payload.payloads cimport Cursor
from formats.kernels.utf8 cimport utf8_fault


cdef inline int hex_digits(const uint8_t *at) noexcept nogil:
    """Return the value of four hexadecimal digits, -1 for other bytes."""
    cdef int value = 0, i
    cdef uint8_t digit
    for i in range(4):
        digit = at[i]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= digit | 0x20 <= c"f":
            digit = (digit | 0x20) - c"a" + 10
        else:
            return -1
        value = value << 4 | digit
    return value


cdef Fault unescape(const uint8_t *at, const uint8_t *end, Scratch *scratch) noexcept nogil:
    cdef int code, low
    cdef uint8_t letter
    cdef uint8_t *out
    cdef void *moved
    if end - at > scratch.room:
        moved = realloc(scratch.data, end - at + 256)
        if moved == NULL:
            return NO_MEMORY
        scratch.data = <uint8_t *> moved
        scratch.room = end - at + 256
    out = scratch.data
    while at < end:
        if at[0] != c"\\":
            out[0] = at[0]
            out += 1
            at += 1
            continue
        letter = at[1]  # it exists: the scan has checked that
        at += 2
        if letter == c'"' or letter == c"\\" or letter == c"/":
            code = letter
        elif letter == c"b":
            code = 8
        elif letter == c"f":
            code = 12
        elif letter == c"n":
            code = 10
        elif letter == c"r":
            code = 13
        elif letter == c"t":
            code = 9
        elif letter == c"u" and end - at >= 4:
            code = hex_digits(at)
            at += 4
            if code < 0:
                return NOT_JSON
            if 0xD800 <= code <= 0xDFFF:
                if code > 0xDBFF or end - at < 6 or at[0] != c"\\" or at[1] != c"u":
                    return NOT_UTF8
                low = hex_digits(at + 2)
                if not 0xDC00 <= low <= 0xDFFF:
                    return NOT_UTF8
                at += 6
                code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
        else:
            return NOT_JSON
        if code < 0x80:
            out[0] = code
            out += 1
        elif code < 0x800:
            out[0] = 0xC0 | code >> 6
            out[1] = 0x80 | code & 0x3F
            out += 2
        elif code < 0x10000:
            out[0] = 0xE0 | code >> 12
            out[1] = 0x80 | code >> 6 & 0x3F
            out[2] = 0x80 | code & 0x3F
            out += 3
        else:
            out[0] = 0xF0 | code >> 18
            out[1] = 0x80 | code >> 12 & 0x3F
            out[2] = 0x80 | code >> 6 & 0x3F
            out[3] = 0x80 | code & 0x3F
            out += 4
    scratch.size = out - scratch.data
    return OK


cdef Fault json_string(Cursor *cursor, Scratch *scratch, const uint8_t **text, int64_t *size) noexcept nogil:
    """Read the text after an opening quote, and set its address: in the payload, or in the scratch buffer, where it
    stays until the next string.
    """
    cdef const uint8_t *start = cursor.at
    cdef bint escaped = False
    cdef int64_t fault_at
    cdef Fault fault
    while True:
        if cursor.at >= cursor.end:
            return CUT
        if cursor.at[0] == c'"':
            break
        if cursor.at[0] < 0x20:
            return NOT_JSON
        if cursor.at[0] == c"\\":
            escaped = True
            cursor.at += 1
            if cursor.at >= cursor.end:
                return CUT
            if cursor.at[0] < 0x20:
                return NOT_JSON
        cursor.at += 1
    text[0] = start
    size[0] = cursor.at - start
    cursor.at += 1
    fault_at = utf8_fault(text[0], size[0])
    if fault_at >= 0:
        cursor.at = start + fault_at
        return NOT_UTF8
    if escaped:
        fault = unescape(start, cursor.at - 1, scratch)
        if fault != OK:
            return fault
        text[0] = scratch.data
        size[0] = scratch.size
    return OK


cdef inline void take_digits(Cursor *cursor, Number *number, bint behind_point) noexcept nogil:
    while is_digit(cursor):
        if number.digits >= 38:
            number.long_mantissa = True
        else:
            number.mantissa = number.mantissa * 10 + (cursor.at[0] - c"0")
            number.digits += number.mantissa != 0
            number.exponent -= behind_point
        cursor.at += 1


cdef Fault json_number(Cursor *cursor, Number *number) noexcept nogil:
    cdef int64_t exponent = 0
    cdef bint negative = False
    memset(number, 0, sizeof(Number))
    number.start = cursor.at
    number.plain = True
    if cursor.at < cursor.end and cursor.at[0] == c"-":
        number.negative = True
        cursor.at += 1
    if not is_digit(cursor):
        return NOT_JSON if cursor.at < cursor.end else CUT
    if cursor.at[0] == c"0":
        cursor.at += 1
        if is_digit(cursor):
            return NOT_JSON
    else:
        take_digits(cursor, number, False)
    if cursor.at < cursor.end and cursor.at[0] == c".":
        cursor.at += 1
        number.plain = False
        if not is_digit(cursor):
            return NOT_JSON
        take_digits(cursor, number, True)
    if cursor.at < cursor.end and cursor.at[0] | 0x20 == c"e":
        cursor.at += 1
        number.plain = False
        number.exponent_written = True
        if cursor.at < cursor.end and (cursor.at[0] == c"-" or cursor.at[0] == c"+"):
            negative = cursor.at[0] == c"-"
            cursor.at += 1
        if not is_digit(cursor):
            return NOT_JSON
        while is_digit(cursor):
            if exponent < 1000000:
                exponent = exponent * 10 + (cursor.at[0] - c"0")
            cursor.at += 1
        number.exponent += -exponent if negative else exponent
    number.size = cursor.at - number.start
    return OK


cdef double *TENS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
]


cdef Fault to_double(const Number *number, double *value) noexcept nogil:
    """Return the nearest double: directly if mantissa and power of ten are both exact (Clinger), else through CPython.
    """
    if not number.long_mantissa and number.mantissa <= <uint128> 9007199254740992 and -22 <= number.exponent <= 22:
        value[0] = <double> <uint64_t> number.mantissa
        if number.exponent < 0:
            value[0] /= TENS[-number.exponent]
        else:
            value[0] *= TENS[number.exponent]
        if number.negative:
            value[0] = -value[0]
        return OK
    with gil:
        text = PyBytes_FromStringAndSize(<const char *> number.start, number.size)
        value[0] = float(text)
    return OUT_OF_RANGE if isinf(value[0]) else OK


cdef Fault to_integer(const Number *number, int64_t *value) noexcept nogil:
    cdef uint128 mantissa = number.mantissa
    cdef int64_t exponent = number.exponent
    if number.long_mantissa:
        return OUT_OF_RANGE
    if mantissa == 0:
        exponent = 0
    while exponent < 0:
        if mantissa % 10 != 0:
            return WRONG_TYPE
        mantissa /= 10
        exponent += 1
    while exponent > 0:
        if mantissa > <uint128> INT64_MAX:
            return OUT_OF_RANGE
        mantissa *= 10
        exponent -= 1
    if mantissa > <uint128> INT64_MAX + number.negative:
        return OUT_OF_RANGE
    value[0] = <int64_t> (0 - <uint64_t> mantissa) if number.negative else <int64_t> mantissa
    return OK


cdef Fault skip_json(Cursor *cursor, Scratch *scratch, int depth) noexcept nogil:
    cdef const uint8_t *text
    cdef int64_t size
    cdef Number number
    cdef Fault fault
    skip_space(cursor)
    if cursor.at >= cursor.end:
        return CUT
    if depth > DEPTH_MAX:
        return TOO_DEEP
    if take(cursor, c'"'):
        return json_string(cursor, scratch, &text, &size)
    if take(cursor, c"["):
        if take(cursor, c"]"):
            return OK
        while True:
            fault = skip_json(cursor, scratch, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, c"]"):
                return OK
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    if take(cursor, c"{"):
        if take(cursor, c"}"):
            return OK
        while True:
            fault = json_name(cursor, scratch, &text, &size)
            if fault == OK:
                fault = skip_json(cursor, scratch, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, c"}"):
                return OK
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    if take_word(cursor, "true", 4) or take_word(cursor, "false", 5) or take_word(cursor, "null", 4):
        return OK
    return json_number(cursor, &number)
