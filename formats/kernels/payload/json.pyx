"""Decode JSON texts by the kinds of the columns and the names of structs' fields. Source: RFC 8259.

A value of another kind than its column is a fault, except: a column of text takes any value as it is written; numbers
of any form come to any number column that holds them exactly (floating ones: nearest); decimals, "NaN", "Infinity" and
"-Infinity" may be strings; BINARY is base64 in a string.
"""

from libc.math cimport isinf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from formats.kernels.payload.columns cimport (
    BAD_TEXT, BINARY, BOOLEAN, CUT, DATE, DECIMAL, DEPTH_MAX, DOUBLE, FLOAT, LIST, LOCAL_TIMESTAMP, MAP, NOT_JSON, OK,
    OTHER_FIELD, OUT_OF_RANGE, PLAIN, STRUCT, TEXT, TIMESTAMP, TOO_DEEP, TWICE, WRONG_TYPE, Column, Columns, Fault,
    Shape, Table, append_bytes, append_decimal, append_double, append_int, append_null, append_valid, end_list, int128,
    same_key_twice
)
from formats.kernels.payload.json_tokens cimport (
    Number, Scratch, is_digit, json_name, json_number, json_string, skip_json, skip_space, take, take_word, to_double,
    to_integer
)
from formats.kernels.payload.payloads cimport Cursor, Decoding, Payloads, Routes


cdef Fault append_number(Column *column, const Number *number) noexcept nogil:
    cdef int64_t value
    cdef double real
    cdef Fault fault
    if column.kind == DOUBLE or column.kind == FLOAT:
        fault = to_double(number, &real)
        if fault == OK and column.kind == FLOAT and isinf(<float> real):
            return OUT_OF_RANGE
        return append_double(column, real) if fault == OK else fault
    if column.kind == DECIMAL:
        if number.long_mantissa or number.exponent < -100 or number.exponent > 100:
            return OUT_OF_RANGE
        return append_decimal(
            column, -<int128> number.mantissa if number.negative else <int128> number.mantissa, <int> -number.exponent
        )
    fault = to_integer(number, &value)
    return append_int(column, value) if fault == OK else fault


cdef class JsonProgram:
    """names: by column the names of a struct's fields (UTF-8), else none. strict: any other field is a fault."""

    cdef Shape shape
    cdef list names
    cdef const uint8_t ***starts
    cdef int64_t **sizes
    cdef bint strict
    cdef int header
    cdef Routes routes

    def __cinit__(self, Shape shape not None, list names not None, bint strict, dict roots not None, int header):
        """Raises ValueError unless each struct has a name for every field."""
        cdef int32_t c
        self.shape, self.names, self.strict, self.header, self.routes = shape, names, strict, header, Routes(roots, 1)
        if len(names) != shape.table.n_columns:
            raise ValueError(f"names of {len(names)} columns, not {shape.table.n_columns}")
        self.starts = <const uint8_t ***> calloc(max(len(names), 1), sizeof(void *))
        self.sizes = <int64_t **> calloc(max(len(names), 1), sizeof(void *))
        if self.starts == NULL or self.sizes == NULL:
            raise MemoryError
        for c in range(<int32_t> len(names)):
            if shape.table.columns[c].kind == STRUCT and len(names[c]) != shape.table.columns[c].n_children:
                raise ValueError(f"{len(names[c])} names for {shape.table.columns[c].n_children} fields")
            self.starts[c] = <const uint8_t **> calloc(max(len(names[c]), 1), sizeof(void *))
            self.sizes[c] = <int64_t *> calloc(max(len(names[c]), 1), sizeof(int64_t))
            if self.starts[c] == NULL or self.sizes[c] == NULL:
                raise MemoryError
            for i, name in enumerate(names[c]):
                self.starts[c][<int> i] = <const uint8_t *> <const char *> (<bytes> name)
                self.sizes[c][<int> i] = len(name)

    def __dealloc__(self):
        cdef int32_t c
        if self.starts != NULL and self.sizes != NULL:
            for c in range(<int32_t> len(self.names)):
                free(self.starts[c])
                free(self.sizes[c])
        free(self.starts)
        free(self.sizes)

    def decode(self, Payloads payloads not None):
        """Decode a column of payloads; return (columns, faults)."""
        return JsonDecoding(self).run(payloads, self.header, self.routes)


cdef class JsonDecoding(Decoding):
    cdef JsonProgram program
    cdef Scratch scratch

    def __cinit__(self, JsonProgram program not None):
        self.program = program
        self.columns = Columns(program.shape)

    def __dealloc__(self):
        free(self.scratch.data)

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        cdef Fault fault = json_value(self.program, &self.columns.table, cursor, &self.scratch, root, 0)
        skip_space(cursor)
        return NOT_JSON if fault == OK and cursor.at != cursor.end else fault


cdef Fault json_value(
    JsonProgram program, Table *table, Cursor *cursor, Scratch *scratch, int32_t c, int depth
) noexcept nogil:
    cdef Column *column = &table.columns[c]
    cdef const uint8_t *text
    cdef int64_t size
    cdef Fault fault
    skip_space(cursor)
    if cursor.at >= cursor.end:
        return CUT
    if depth > DEPTH_MAX:
        return TOO_DEEP
    if cursor.at[0] == c"n":
        return append_null(table, c) if take_word(cursor, "null", 4) else NOT_JSON
    if column.kind == STRUCT:
        return json_struct(program, table, cursor, scratch, c, depth)
    if column.kind == LIST:
        if column.meaning == MAP:
            return json_map(program, table, cursor, scratch, column, depth)
        return json_list(program, table, cursor, scratch, column, depth)
    if cursor.at[0] == c'"':
        cursor.at += 1
        fault = json_string(cursor, scratch, &text, &size)
        return append_text(column, text, size) if fault == OK else fault
    return json_scalar(cursor, scratch, column, depth)


cdef Fault json_scalar(Cursor *cursor, Scratch *scratch, Column *column, int depth) noexcept nogil:
    """Decode a value that is no string, for a column without children."""
    cdef const uint8_t *start = cursor.at
    cdef Number number
    cdef Fault fault
    if column.kind == BINARY:
        fault = skip_json(cursor, scratch, depth)
        if fault != OK:
            return fault
        return append_bytes(column, start, cursor.at - start) if column.meaning == TEXT else WRONG_TYPE
    if column.kind == BOOLEAN:
        if take_word(cursor, "true", 4):
            return append_int(column, 1)
        if take_word(cursor, "false", 5):
            return append_int(column, 0)
    elif column.meaning == PLAIN and (cursor.at[0] == c"-" or is_digit(cursor)):
        fault = json_number(cursor, &number)
        return append_number(column, &number) if fault == OK else fault
    fault = skip_json(cursor, scratch, depth)
    if fault == OK:
        cursor.at = start
        return WRONG_TYPE
    return fault


cdef Fault json_struct(
    JsonProgram program, Table *table, Cursor *cursor, Scratch *scratch, int32_t c, int depth
) noexcept nogil:
    cdef Column *column = &table.columns[c]
    cdef const int32_t *children = table.children + column.first_child
    cdef int64_t row = column.count
    cdef const uint8_t *text
    cdef const uint8_t *start
    cdef int64_t size
    cdef int field = -1, i
    cdef Fault fault
    if not take(cursor, c"{"):
        return wrong_type(cursor, scratch, depth)
    fault = append_valid(column)
    if fault != OK:
        return fault
    if not take(cursor, c"}"):
        while True:
            skip_space(cursor)
            start = cursor.at
            fault = json_name(cursor, scratch, &text, &size)
            if fault != OK:
                return fault
            field = find_name(program, c, column.n_children, text, size, field + 1)
            if field >= 0:
                if table.columns[children[field]].count > row:
                    cursor.at = start
                    return TWICE
                fault = json_value(program, table, cursor, scratch, children[field], depth + 1)
            elif program.strict:
                cursor.at = start
                return OTHER_FIELD
            else:
                fault = skip_json(cursor, scratch, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, c"}"):
                break
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    for i in range(column.n_children):
        if table.columns[children[i]].count == row:
            fault = append_null(table, children[i])
            if fault != OK:
                return fault
    return OK


cdef inline int find_name(
    JsonProgram program, int32_t c, int count, const uint8_t *text, int64_t size, int hint
) noexcept nogil:
    """Return the index of the struct's field with this name, -1 for none. hint: the index that is tried first.
    """
    cdef int64_t *sizes = program.sizes[c]
    cdef int i
    if hint < count and sizes[hint] == size and memcmp(program.starts[c][hint], text, size) == 0:
        return hint
    for i in range(count):
        if sizes[i] == size and memcmp(program.starts[c][i], text, size) == 0:
            return i
    return -1


cdef Fault json_list(
    JsonProgram program, Table *table, Cursor *cursor, Scratch *scratch, Column *column, int depth
) noexcept nogil:
    cdef int32_t item = table.children[column.first_child]
    cdef Fault fault
    if not take(cursor, c"["):
        return wrong_type(cursor, scratch, depth)
    if not take(cursor, c"]"):
        while True:
            fault = json_value(program, table, cursor, scratch, item, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, c"]"):
                break
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    return end_list(table, column)


cdef Fault json_map(
    JsonProgram program, Table *table, Cursor *cursor, Scratch *scratch, Column *column, int depth
) noexcept nogil:
    cdef Column *entry = &table.columns[table.children[column.first_child]]
    cdef int32_t key = table.children[entry.first_child], item = table.children[entry.first_child + 1]
    cdef int64_t begun = entry.count
    cdef const uint8_t *text
    cdef int64_t size
    cdef Fault fault
    if not take(cursor, c"{"):
        return wrong_type(cursor, scratch, depth)
    if not take(cursor, c"}"):
        while True:
            fault = json_name(cursor, scratch, &text, &size)
            if fault == OK:
                fault = append_valid(entry)
            if fault == OK:
                fault = append_text(&table.columns[key], text, size)
            if fault == OK:
                fault = json_value(program, table, cursor, scratch, item, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, c"}"):
                break
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    return TWICE if same_key_twice(table, entry, begun) else end_list(table, column)


cdef Fault wrong_type(Cursor *cursor, Scratch *scratch, int depth) noexcept nogil:
    """Skip a value whose kind does not fit its column. Return WRONG_TYPE, or another fault if the value is no JSON."""
    cdef const uint8_t *start = cursor.at
    cdef Fault fault = skip_json(cursor, scratch, depth)
    if fault == OK:
        cursor.at = start
        return WRONG_TYPE
    return fault


cdef Fault append_text(Column *column, const uint8_t *text, int64_t size) noexcept nogil:
    cdef Cursor cursor
    cdef Number number
    cdef int64_t value
    cdef double real
    if column.kind == BINARY:
        return append_bytes(column, text, size) if column.meaning == TEXT else append_base64(column, text, size)
    cursor.start = cursor.at = text
    cursor.end = text + size
    if column.meaning == DATE:
        if not read_date(&cursor, &value) or cursor.at != cursor.end:
            return BAD_TEXT
        return append_int(column, value)
    if column.meaning == TIMESTAMP or column.meaning == LOCAL_TIMESTAMP:
        if not read_timestamp(&cursor, column.meaning == TIMESTAMP, &value) or cursor.at != cursor.end:
            return BAD_TEXT
        return append_int(column, value)
    if column.kind == DECIMAL:
        if json_number(&cursor, &number) != OK or cursor.at != cursor.end:
            return BAD_TEXT
        return append_number(column, &number)
    if column.kind == DOUBLE or column.kind == FLOAT:
        if size == 3 and memcmp(text, "NaN", 3) == 0:
            return append_double(column, NAN_VALUE)
        if size == 8 and memcmp(text, "Infinity", 8) == 0:
            return append_double(column, INFINITY_VALUE)
        if size == 9 and memcmp(text, "-Infinity", 9) == 0:
            return append_double(column, -INFINITY_VALUE)
    return WRONG_TYPE


cdef double NAN_VALUE = float("nan")


cdef double INFINITY_VALUE = float("inf")


cdef Fault append_base64(Column *column, const uint8_t *text, int64_t size) noexcept nogil:
    cdef int64_t i, start = column.used
    cdef uint32_t bits = 0
    cdef int filled = 0, padding = 0
    cdef uint8_t letter
    cdef Fault fault
    if size % 4 != 0:
        return BAD_TEXT
    fault = append_bytes(column, text, size)  # reserves enough memory; the decoded text replaces it
    if fault != OK:
        return fault
    for i in range(size):
        letter = text[i]
        if c"A" <= letter <= c"Z":
            letter -= c"A"
        elif c"a" <= letter <= c"z":
            letter += 26 - c"a"
        elif c"0" <= letter <= c"9":
            letter += 52 - c"0"
        elif letter == c"+" or letter == c"-":
            letter = 62
        elif letter == c"/" or letter == c"_":
            letter = 63
        elif letter == c"=" and i >= size - 2:
            padding += 1
            letter = 0
        else:
            return BAD_TEXT
        if padding and text[i] != c"=":
            return BAD_TEXT
        bits = bits << 6 | letter
        filled += 1
        if filled == 4:
            column.data[start] = bits >> 16
            column.data[start + 1] = bits >> 8
            column.data[start + 2] = bits
            start += 3
            bits = filled = 0
    column.used = start - padding
    column.offsets[column.count] = <int32_t> column.used
    return OK


cdef inline bint two_digits(Cursor *cursor, int high, int *value) noexcept nogil:
    """Read two digits, at most `high`."""
    if cursor.end - cursor.at < 2:
        return False
    if not (c"0" <= cursor.at[0] <= c"9" and c"0" <= cursor.at[1] <= c"9"):
        return False
    value[0] = (cursor.at[0] - c"0") * 10 + (cursor.at[1] - c"0")
    cursor.at += 2
    return value[0] <= high


cdef inline bint one_byte(Cursor *cursor, uint8_t wanted) noexcept nogil:
    if cursor.at < cursor.end and cursor.at[0] == wanted:
        cursor.at += 1
        return True
    return False


cdef bint read_date(Cursor *cursor, int64_t *days) noexcept nogil:
    """Read YYYY-MM-DD as days since 1970."""
    cdef int century, year, month, day, era, day_of_year, last
    if not (two_digits(cursor, 99, &century) and two_digits(cursor, 99, &year) and one_byte(cursor, c"-")):
        return False
    if not (two_digits(cursor, 12, &month) and one_byte(cursor, c"-") and two_digits(cursor, 31, &day)):
        return False
    year += century * 100
    last = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        last = 30
    elif month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if month < 1 or day < 1 or day > last:
        return False
    # years that begin in March, in eras of 400
    year += 400 - (month <= 2)
    era = year / 400
    year %= 400
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) / 5 + day - 1
    days[0] = <int64_t> (era - 1) * 146097 + year * 365 + year / 4 - year / 100 + day_of_year - 719468
    return True


cdef bint read_timestamp(Cursor *cursor, bint zoned, int64_t *us) noexcept nogil:
    """Read a date, or date and time, of ISO 8601 as microseconds since 1970; UTC if it has no zone."""
    cdef int hour = 0, minute = 0, second = 0, zone_hour, zone_minute = 0, digits = 0
    cdef int64_t fraction = 0, days, zone = 0
    cdef bint negative
    if not read_date(cursor, &days):
        return False
    if one_byte(cursor, c"T") or one_byte(cursor, c"t") or one_byte(cursor, c" "):
        if not (two_digits(cursor, 23, &hour) and one_byte(cursor, c":") and two_digits(cursor, 59, &minute)):
            return False
        if one_byte(cursor, c":"):
            if not two_digits(cursor, 59, &second):
                return False
            if one_byte(cursor, c".") or one_byte(cursor, c","):
                if not is_digit(cursor):
                    return False
                while is_digit(cursor):
                    if digits < 6:
                        fraction = fraction * 10 + (cursor.at[0] - c"0")
                        digits += 1
                    cursor.at += 1
                while digits < 6:
                    fraction *= 10
                    digits += 1
        if zoned and not (one_byte(cursor, c"Z") or one_byte(cursor, c"z")):
            negative = cursor.at < cursor.end and cursor.at[0] == c"-"
            if negative or (cursor.at < cursor.end and cursor.at[0] == c"+"):
                cursor.at += 1
                if not two_digits(cursor, 23, &zone_hour):
                    return False
                one_byte(cursor, c":")
                if cursor.at < cursor.end and not two_digits(cursor, 59, &zone_minute):
                    return False
                zone = zone_hour * 3600 + zone_minute * 60
                if negative:
                    zone = -zone
    us[0] = (days * 86400 + hour * 3600 + minute * 60 + second - zone) * 1000000 + fraction
    return True
