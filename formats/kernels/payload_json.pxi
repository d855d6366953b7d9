# JSON texts, driven by the columns themselves and the names of structs' fields. Source: RFC 8259.
#
# A value of another kind than its column is a fault, but for these: whatever comes to a column of text is shown as it is
# written; numbers of any form come to any number column that holds them exactly (floating ones: nearest); decimals,
# "NaN", "Infinity" and "-Infinity" may be strings; BINARY is base64 in a string.

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


cdef inline int hex_digits(const uint8_t *at) noexcept nogil:
    """Four digits; -1 where they are not."""
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
        letter = at[1]  # there is one: the scan saw to it
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
    """The text behind an opening quote. It lies in the payload, or until the next string in the scratch."""
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


cdef inline bint is_digit(const Cursor *cursor) noexcept nogil:
    return cursor.at < cursor.end and c"0" <= cursor.at[0] <= c"9"


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
    """The nearest double: at once where mantissa and power of ten are both exact (Clinger), else through CPython."""
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


cdef Fault append_number(Column *column, const Number *number) noexcept nogil:
    cdef int64_t value
    cdef double real
    cdef Fault fault
    if column.kind == K_DOUBLE or column.kind == K_FLOAT:
        fault = to_double(number, &real)
        if fault == OK and column.kind == K_FLOAT and isinf(<float> real):
            return OUT_OF_RANGE
        return append_double(column, real) if fault == OK else fault
    if column.kind == K_DECIMAL:
        if number.long_mantissa or number.exponent < -100 or number.exponent > 100:
            return OUT_OF_RANGE
        return append_decimal(
            column, -<int128> number.mantissa if number.negative else <int128> number.mantissa, <int> -number.exponent
        )
    fault = to_integer(number, &value)
    return append_int(column, value) if fault == OK else fault


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


cdef inline Fault json_name(Cursor *cursor, Scratch *scratch, const uint8_t **text, int64_t *size) noexcept nogil:
    """A field's name and the colon behind it."""
    cdef Fault fault
    if not take(cursor, c'"'):
        return NOT_JSON if cursor.at < cursor.end else CUT
    fault = json_string(cursor, scratch, text, size)
    if fault == OK and not take(cursor, c":"):
        return NOT_JSON if cursor.at < cursor.end else CUT
    return fault


cdef class JsonProgram:
    """names: by column the names of a struct's fields (UTF-8), else none. strict: a field beyond them is a fault."""

    cdef Shape shape
    cdef list names
    cdef const uint8_t ***starts
    cdef int64_t **sizes
    cdef bint strict
    cdef int header
    cdef Routes routes

    def __cinit__(self, Shape shape not None, list names not None, bint strict, dict roots not None, int header):
        """Raises ValueError where a struct's fields have not as many names."""
        cdef int32_t c
        self.shape, self.names, self.strict, self.header, self.routes = shape, names, strict, header, Routes(roots, 1)
        if len(names) != shape.table.n_columns:
            raise ValueError(f"names of {len(names)} columns, not {shape.table.n_columns}")
        self.starts = <const uint8_t ***> calloc(max(len(names), 1), sizeof(void *))
        self.sizes = <int64_t **> calloc(max(len(names), 1), sizeof(void *))
        if self.starts == NULL or self.sizes == NULL:
            raise MemoryError
        for c in range(<int32_t> len(names)):
            if shape.table.columns[c].kind == K_STRUCT and len(names[c]) != shape.table.columns[c].n_children:
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
        """Decode a column of payloads: (columns, faults)."""
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
    if column.kind == K_STRUCT:
        return json_struct(program, table, cursor, scratch, c, depth)
    if column.kind == K_LIST:
        if column.meaning == M_MAP:
            return json_map(program, table, cursor, scratch, column, depth)
        return json_list(program, table, cursor, scratch, column, depth)
    if cursor.at[0] == c'"':
        cursor.at += 1
        fault = json_string(cursor, scratch, &text, &size)
        return append_text(column, text, size) if fault == OK else fault
    return json_scalar(cursor, scratch, column, depth)


cdef Fault json_scalar(Cursor *cursor, Scratch *scratch, Column *column, int depth) noexcept nogil:
    """A value that is no string, for a column that has no parts."""
    cdef const uint8_t *start = cursor.at
    cdef Number number
    cdef Fault fault
    if column.kind == K_BINARY:
        fault = skip_json(cursor, scratch, depth)
        if fault != OK:
            return fault
        return append_bytes(column, start, cursor.at - start) if column.meaning == M_TEXT else WRONG_TYPE
    if column.kind == K_BOOLEAN:
        if take_word(cursor, "true", 4):
            return append_int(column, 1)
        if take_word(cursor, "false", 5):
            return append_int(column, 0)
    elif column.meaning == M_PLAIN and (cursor.at[0] == c"-" or is_digit(cursor)):
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
    """Which field of the struct has this name, -1 for none; most often the one behind the last."""
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
    """What is at hand is of another kind than its column, unless it is not even JSON."""
    cdef const uint8_t *start = cursor.at
    cdef Fault fault = skip_json(cursor, scratch, depth)
    if fault == OK:
        cursor.at = start
        return WRONG_TYPE
    return fault


# --- strings that stand for something else ------------------------------------------------------------------------------

cdef Fault append_text(Column *column, const uint8_t *text, int64_t size) noexcept nogil:
    cdef Cursor cursor
    cdef Number number
    cdef int64_t value
    cdef double real
    if column.kind == K_BINARY:
        return append_bytes(column, text, size) if column.meaning == M_TEXT else append_base64(column, text, size)
    cursor.start = cursor.at = text
    cursor.end = text + size
    if column.meaning == M_DATE:
        if not read_date(&cursor, &value) or cursor.at != cursor.end:
            return BAD_TEXT
        return append_int(column, value)
    if column.meaning == M_TIMESTAMP or column.meaning == M_LOCAL_TIMESTAMP:
        if not read_timestamp(&cursor, column.meaning == M_TIMESTAMP, &value) or cursor.at != cursor.end:
            return BAD_TEXT
        return append_int(column, value)
    if column.kind == K_DECIMAL:
        if json_number(&cursor, &number) != OK or cursor.at != cursor.end:
            return BAD_TEXT
        return append_number(column, &number)
    if column.kind == K_DOUBLE or column.kind == K_FLOAT:
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
    fault = append_bytes(column, text, size)  # room enough; what is decoded takes its place
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
    """Two digits that are `high` at most."""
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
    """YYYY-MM-DD as days since 1970."""
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
    """A date, or date and time of ISO 8601, as microseconds since 1970; without a zone it is UTC."""
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
