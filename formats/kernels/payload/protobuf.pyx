"""Decode Protobuf's wire format by a program made from a message's descriptor. Source: protobuf.dev, "Encoding".

A message is (column of its struct or -1, count of oneofs, fields, columns that get null); a field is

    number, code       code: the encoding of its value, PROTO_INT32 .. PROTO_TIMESTAMP below
    column             of its values; the list of a repeated field or map; -1 for the fields of a TIMESTAMP
    label              OPTIONAL: null if absent; DEFAULT: zero or empty if absent; REPEATED
    message            of MESSAGE, GROUP, TIMESTAMP: its index, above that of this message, so there is no circle
    oneof              -1, or the oneof's number in the message: the last member in the bytes replaces the others
    first, count       of ENUM: index of its first symbol, count of symbols

A message is read twice: first the positions of each field's values, which can be in any order and in parts; then field
by field into the columns. A recursive message type is not decoded: the column gets the bytes (RAW). The message of a
wrapper type has no column: its one field is written to the wrapper's column.
"""

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

from formats.kernels.payload.columns cimport (
    BAD_GROUP, BAD_TAG, BINARY, CUT, DECIMAL, DEPTH_MAX, DOUBLE, FLOAT, LIST, MAP, NOT_UTF8, NO_MEMORY, OK,
    OUT_OF_RANGE, STRUCT, TOO_DEEP, TWICE, Column, Columns, Fault, Shape, Table, append_bytes, append_decimal,
    append_double, append_int, append_null, append_valid, check_index, end_list, int128, put_bytes, same_key_twice,
    uint128
)
from formats.kernels.payload.payloads cimport Cursor, Decoding, Payloads, Routes, read_varint
from formats.kernels.utf8 cimport utf8_fault

cpdef enum:
    PROTO_INT32, PROTO_INT64, PROTO_UINT32, PROTO_UINT64, PROTO_SINT32, PROTO_SINT64, PROTO_BOOL, PROTO_ENUM
    PROTO_FIXED32, PROTO_FIXED64, PROTO_SFIXED32, PROTO_SFIXED64, PROTO_FLOAT, PROTO_DOUBLE, PROTO_STRING
    PROTO_BYTES, PROTO_MESSAGE, PROTO_GROUP, PROTO_RAW, PROTO_TIMESTAMP

cpdef enum:
    OPTIONAL, DEFAULT, REPEATED


cdef enum:
    W_VARINT = 0
    W_FIXED64 = 1
    W_BYTES = 2
    W_GROUP = 3
    W_END_GROUP = 4
    W_FIXED32 = 5


cdef struct ProtoField:
    int32_t number
    int32_t code
    int32_t column
    int32_t label
    int32_t message
    int32_t oneof
    int32_t first_symbol
    int32_t n_symbols


cdef struct ProtoMessage:
    int32_t column
    int32_t n_oneofs
    int32_t first_field
    int32_t n_fields
    int32_t first_null
    int32_t n_nulls


# One occurrence of a field: its wire type, its number or bytes, and the next occurrence of the same field.
cdef struct Found:
    int32_t next
    int32_t wire
    uint64_t number
    const uint8_t *start
    int64_t size


cdef struct ProtoMemory:
    Found *found
    int64_t n_found
    int64_t found_room
    int32_t *stack  # for each open message: first and last occurrence by field; the field by oneof
    int64_t stacked
    int64_t stack_room


cdef bint is_timestamp(const ProtoMessage *message) noexcept nogil:
    return message.n_fields == 2 and message.n_oneofs == 0


cdef bint is_sound_field(
    const ProtoField *field, const Table *table, int64_t n_messages, int64_t n_symbols
) noexcept nogil:
    """Whether message, column and symbols of the field exist, and the column is of the kind of its values."""
    cdef const Column *column
    if not -1 <= field.column < table.n_columns or not PROTO_INT32 <= field.code <= PROTO_TIMESTAMP:
        return False
    if not OPTIONAL <= field.label <= REPEATED or field.oneof < -1:
        return False
    if field.column < 0:                                # a field of a timestamp, which has no column: see is_written
        return field.code < PROTO_STRING
    column = &table.columns[field.column]
    if field.label == REPEATED:
        if column.kind != LIST:
            return False
        column = &table.columns[table.children[column.first_child]]
    if field.code == PROTO_MESSAGE or field.code == PROTO_GROUP or field.code == PROTO_TIMESTAMP:
        if not 0 <= field.message < n_messages:
            return False
        return field.code != PROTO_TIMESTAMP or column.width > 0
    if field.code == PROTO_ENUM and (
            field.first_symbol < 0 or field.n_symbols < 0 or field.first_symbol > n_symbols - field.n_symbols):
        return False
    if field.code == PROTO_STRING or field.code == PROTO_BYTES or field.code == PROTO_RAW or field.code == PROTO_ENUM:
        return column.kind == BINARY
    if field.code == PROTO_FLOAT or field.code == PROTO_DOUBLE:
        return column.kind == FLOAT or column.kind == DOUBLE
    if field.code == PROTO_UINT64 or field.code == PROTO_FIXED64:
        return column.kind == DECIMAL or column.kind == FLOAT or column.kind == DOUBLE
    return column.width > 0


cdef class ProtoProgram:
    """messages: tuples as above, fields as tuples; symbols: (number, name) of all enums, each enum sorted by number."""

    cdef ProtoMessage *messages
    cdef ProtoField *fields
    cdef int32_t *nulls
    cdef int32_t *symbol_numbers
    cdef const uint8_t **symbol_starts
    cdef int64_t *symbol_sizes
    cdef list symbols
    cdef Shape shape
    cdef Routes routes
    cdef int header

    def __cinit__(
        self, Shape shape not None, list messages not None, list symbols not None, dict roots not None, int header
    ):
        """Raises ValueError for a field with a message, column or symbol that does not exist, or a column of another
        kind."""
        cdef int32_t i = 0, filled = 0, null = 0
        self.shape, self.symbols, self.routes, self.header = shape, symbols, Routes(roots, len(messages)), header
        self.messages = <ProtoMessage *> calloc(max(len(messages), 1), sizeof(ProtoMessage))
        self.fields = <ProtoField *> calloc(max(sum(len(message[2]) for message in messages), 1), sizeof(ProtoField))
        self.nulls = <int32_t *> calloc(max(sum(len(message[3]) for message in messages), 1), sizeof(int32_t))
        self.symbol_numbers = <int32_t *> calloc(max(len(symbols), 1), sizeof(int32_t))
        self.symbol_starts = <const uint8_t **> calloc(max(len(symbols), 1), sizeof(void *))
        self.symbol_sizes = <int64_t *> calloc(max(len(symbols), 1), sizeof(int64_t))
        if not (
            self.messages and self.fields and self.nulls
            and self.symbol_numbers and self.symbol_starts and self.symbol_sizes
        ):
            raise MemoryError
        for column, oneofs, fields, nulls in messages:
            self.messages[i] = ProtoMessage(column, oneofs, filled, len(fields), null, len(nulls))
            if not -1 <= column < shape.table.n_columns or oneofs < 0 or (
                    column >= 0 and shape.table.columns[<int>column].kind != STRUCT):
                raise ValueError(f"message {i} has no struct")
            for number, code, target, label, message, oneof, first, count in fields:
                self.fields[filled] = ProtoField(number, code, target, label, message, oneof, first, count)
                if code in (PROTO_MESSAGE, PROTO_GROUP) and message <= i:
                    raise ValueError(f"field {number} of message {i} leads back")
                if oneof >= oneofs or not is_sound_field(&self.fields[filled], &shape.table, len(messages), len(symbols)):
                    raise ValueError(f"field {number} of message {i} cannot be")
                filled += 1
            for target in nulls:
                check_index(target, shape.table.n_columns)
                self.nulls[null] = target
                null += 1
            i += 1
        for i in range(filled):
            if self.fields[i].code == PROTO_TIMESTAMP and not is_timestamp(&self.messages[self.fields[i].message]):
                raise ValueError(f"message {self.fields[i].message} is not seconds and nanos")
            if self.fields[i].code == PROTO_MESSAGE or self.fields[i].code == PROTO_GROUP:
                self.check_written(self.fields[i].message)
        for number in roots.values():
            self.check_written(number)
        i = 0
        for number, name in symbols:
            self.symbol_numbers[i] = number
            self.symbol_starts[i] = <const uint8_t *> <const char *> (<bytes> name)
            self.symbol_sizes[i] = len(name)
            i += 1

    cdef int check_written(self, int32_t m) except -1:
        """Raises ValueError if a field of the message has no column, which only those of a timestamp may lack."""
        cdef const ProtoMessage *message = &self.messages[m]
        for i in range(message.n_fields):
            if self.fields[message.first_field + <int32_t> i].column < 0:
                raise ValueError(f"message {m} has a field without a column")
        return 0

    def __dealloc__(self):
        free(self.messages)
        free(self.fields)
        free(self.nulls)
        free(self.symbol_numbers)
        free(self.symbol_starts)
        free(self.symbol_sizes)

    def decode(self, Payloads payloads not None):
        """Decode a column of payloads; return (columns, faults)."""
        return ProtoDecoding(self).run(payloads, self.header, self.routes)


cdef class ProtoDecoding(Decoding):
    cdef ProtoProgram program
    cdef ProtoMemory memory

    def __cinit__(self, ProtoProgram program not None):
        self.program = program
        self.columns = Columns(program.shape)

    def __dealloc__(self):
        free(self.memory.found)
        free(self.memory.stack)

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        cdef int32_t whole
        cdef Fault fault
        self.memory.n_found = self.memory.stacked = 0
        fault = note(&self.memory, W_BYTES, 0, cursor.at, cursor.end - cursor.at, &whole)
        if fault == OK:
            fault = proto_message(self.program, &self.columns.table, &self.memory, cursor, root, whole)
        if fault == OK:
            cursor.at = cursor.end
        return fault


cdef Fault note(
    ProtoMemory *memory, int32_t wire, uint64_t number, const uint8_t *start, int64_t size, int32_t *index
) noexcept nogil:
    cdef int64_t room
    cdef void *moved
    cdef Found *found
    if memory.n_found == memory.found_room:
        room = memory.found_room * 2 + 64
        moved = realloc(memory.found, room * sizeof(Found))
        if moved == NULL:
            return NO_MEMORY
        memory.found = <Found *> moved
        memory.found_room = room
    found = &memory.found[memory.n_found]
    found.next, found.wire, found.number, found.start, found.size = -1, wire, number, start, size
    index[0] = <int32_t> memory.n_found
    memory.n_found += 1
    return OK


cdef Fault reserve_stack(ProtoMemory *memory, int64_t count, int64_t *base) noexcept nogil:
    cdef int64_t room, i
    cdef void *moved
    if memory.stacked + count > memory.stack_room:
        room = memory.stack_room * 2 + count + 64
        moved = realloc(memory.stack, room * sizeof(int32_t))
        if moved == NULL:
            return NO_MEMORY
        memory.stack = <int32_t *> moved
        memory.stack_room = room
    base[0] = memory.stacked
    for i in range(count):
        memory.stack[memory.stacked + i] = -1
    memory.stacked += count
    return OK


cdef Fault read_tag(Cursor *cursor, uint64_t *number, int32_t *wire) noexcept nogil:
    cdef uint64_t tag
    cdef Fault fault = read_varint(cursor, &tag)
    if fault != OK:
        return fault
    wire[0] = tag & 7
    number[0] = tag >> 3
    if number[0] == 0 or number[0] > 0x1FFFFFFF or wire[0] > W_FIXED32:
        return BAD_TAG
    return OK


cdef Fault read_value(
    Cursor *cursor, uint64_t field, int32_t wire, uint64_t *number, const uint8_t **start, int64_t *size, int depth
) noexcept nogil:
    """Read the value behind a tag: a number, or the position of bytes; for a group the bytes before its end."""
    cdef Fault fault
    cdef uint64_t inner, other
    cdef int32_t inner_wire
    cdef const uint8_t *before
    cdef const uint8_t *at
    cdef int64_t length
    number[0] = 0
    start[0] = cursor.at
    size[0] = 0
    if wire == W_VARINT:
        return read_varint(cursor, number)
    if wire == W_FIXED64 or wire == W_FIXED32:
        length = 8 if wire == W_FIXED64 else 4
        if cursor.end - cursor.at < length:
            return CUT
        memcpy(number, cursor.at, length)
        cursor.at += length
        return OK
    if wire == W_BYTES:
        fault = read_varint(cursor, &other)
        if fault != OK:
            return fault
        if other > <uint64_t> (cursor.end - cursor.at):
            return CUT
        start[0] = cursor.at
        size[0] = <int64_t> other
        cursor.at += other
        return OK
    if wire == W_END_GROUP:
        return BAD_TAG
    if depth > DEPTH_MAX:
        return TOO_DEEP
    while True:
        before = cursor.at
        if before == cursor.end:
            return BAD_GROUP
        fault = read_tag(cursor, &inner, &inner_wire)
        if fault != OK:
            return fault
        if inner_wire == W_END_GROUP:
            size[0] = before - start[0]
            return OK if inner == field else BAD_GROUP
        fault = read_value(cursor, inner, inner_wire, &other, &at, &length, depth + 1)
        if fault != OK:
            return fault


cdef inline int wire_of(int32_t code) noexcept nogil:
    if code <= PROTO_ENUM:
        return W_VARINT
    if code == PROTO_FIXED64 or code == PROTO_SFIXED64 or code == PROTO_DOUBLE:
        return W_FIXED64
    if code <= PROTO_FLOAT:
        return W_FIXED32
    return W_GROUP if code == PROTO_GROUP else W_BYTES


cdef inline int32_t find_field(const ProtoField *fields, int32_t count, uint64_t number, int32_t hint) noexcept nogil:
    """Return the index of the field with this number, -1 for none. The field of the last tag, and the one after it, are
    tried first.
    """
    cdef int32_t low = 0, high = count - 1, middle
    if hint < count and fields[hint].number == <int32_t> number:
        return hint
    if hint + 1 < count and fields[hint + 1].number == <int32_t> number:
        return hint + 1
    while low <= high:
        middle = (low + high) >> 1
        if fields[middle].number == <int32_t> number:
            return middle
        if fields[middle].number < <int32_t> number:
            low = middle + 1
        else:
            high = middle - 1
    return -1


cdef Fault find_values(
    ProtoProgram program, ProtoMemory *memory, Cursor *outer, int32_t m, int32_t part, int64_t base
) noexcept nogil:
    """Read the tags of a message, in all its parts, and note the positions of each field's values."""
    cdef const ProtoMessage *message = &program.messages[m]
    cdef const ProtoField *fields = program.fields + message.first_field
    cdef int64_t oneofs = base + 2 * message.n_fields, size
    cdef int32_t field, wire, index, hint = 0, previous
    cdef uint64_t tag, number
    cdef const uint8_t *start
    cdef Cursor cursor
    cdef Fault fault
    cdef bint packed
    while part >= 0:
        cursor.at = memory.found[part].start
        cursor.end = cursor.at + memory.found[part].size
        part = memory.found[part].next
        while cursor.at < cursor.end:
            fault = read_tag(&cursor, &tag, &wire)
            if fault == OK:
                fault = read_value(&cursor, tag, wire, &number, &start, &size, 0)
            if fault != OK:
                outer.at = cursor.at
                return fault
            field = find_field(fields, message.n_fields, tag, hint)
            if field < 0:
                continue
            hint = field
            packed = wire == W_BYTES and fields[field].label == REPEATED and fields[field].code < PROTO_STRING
            if wire != wire_of(fields[field].code) and not packed:
                continue
            if fields[field].oneof >= 0:
                previous = memory.stack[oneofs + fields[field].oneof]
                if previous >= 0 and previous != field:
                    memory.stack[base + 2 * previous] = memory.stack[base + 2 * previous + 1] = -1
                memory.stack[oneofs + fields[field].oneof] = field
            fault = note(memory, wire, number, start, size, &index)
            if fault != OK:
                return fault
            if memory.stack[base + 2 * field] < 0:
                memory.stack[base + 2 * field] = index
            else:
                memory.found[memory.stack[base + 2 * field + 1]].next = index
            memory.stack[base + 2 * field + 1] = index
    return OK


cdef Fault proto_message(
    ProtoProgram program, Table *table, ProtoMemory *memory, Cursor *outer, int32_t m, int32_t part
) noexcept nogil:
    """Decode one message into one value of its struct's column. m: the index of the message. part: the first of the
    parts in which its bytes lie."""
    cdef const ProtoMessage *message = &program.messages[m]
    cdef int64_t base, kept = memory.stacked
    cdef int32_t i
    cdef Fault fault = reserve_stack(memory, 2 * message.n_fields + message.n_oneofs, &base)
    if fault == OK:
        fault = find_values(program, memory, outer, m, part, base)
    if fault == OK and message.column >= 0:
        fault = append_valid(&table.columns[message.column])
    if fault != OK:
        return fault
    for i in range(message.n_fields):
        fault = proto_field(
            program, table, memory, outer, &program.fields[message.first_field + i],
            memory.stack[base + 2 * i], memory.stack[base + 2 * i + 1],
        )
        if fault != OK:
            return fault
    for i in range(message.n_nulls):
        fault = append_null(table, program.nulls[message.first_null + i])
        if fault != OK:
            return fault
    memory.stacked = kept
    return OK


cdef Fault proto_field(
    ProtoProgram program, Table *table, ProtoMemory *memory, Cursor *outer, const ProtoField *field,
    int32_t first, int32_t last,
) noexcept nogil:
    cdef Column *column = &table.columns[field.column]
    cdef int32_t item, next_one
    cdef int64_t begun
    cdef Fault fault
    if field.label != REPEATED:
        if last < 0 and field.label == OPTIONAL:
            return append_null(table, field.column)
        if field.code >= PROTO_MESSAGE:
            return proto_parts(program, table, memory, outer, field, field.column, first)
        if last < 0:
            return proto_scalar(program, column, field, 0, <const uint8_t *> "", 0)
        outer.at = memory.found[last].start
        return proto_scalar(
            program, column, field, memory.found[last].number, memory.found[last].start, memory.found[last].size
        )
    item = table.children[column.first_child]
    begun = table.columns[item].count
    while first >= 0:
        next_one = memory.found[first].next
        if field.code >= PROTO_MESSAGE:
            memory.found[first].next = -1
            fault = proto_parts(program, table, memory, outer, field, item, first)
        elif memory.found[first].wire == W_BYTES and field.code < PROTO_STRING:
            fault = proto_packed(program, &table.columns[item], field, outer, &memory.found[first])
        else:
            outer.at = memory.found[first].start
            fault = proto_scalar(
                program, &table.columns[item], field,
                memory.found[first].number, memory.found[first].start, memory.found[first].size,
            )
        if fault != OK:
            return fault
        first = next_one
    if column.meaning == MAP and same_key_twice(table, &table.columns[item], begun):
        return TWICE
    return end_list(table, column)


cdef Fault proto_parts(
    ProtoProgram program, Table *table, ProtoMemory *memory, Cursor *outer, const ProtoField *field,
    int32_t c, int32_t first,
) noexcept nogil:
    """Decode a message, in one part or several, by the code of its field."""
    cdef Column *column = &table.columns[c]
    cdef int64_t base, kept, us
    cdef int64_t total = 0
    cdef int32_t part = first, seconds, nanos
    cdef Fault fault
    if field.code == PROTO_RAW:
        while part >= 0:
            fault = put_bytes(column, memory.found[part].start, memory.found[part].size)
            if fault != OK:
                return fault
            part = memory.found[part].next
        return append_bytes(column, <const uint8_t *> "", 0)
    if field.code != PROTO_TIMESTAMP:
        return proto_message(program, table, memory, outer, field.message, first)
    kept = memory.stacked
    fault = reserve_stack(memory, 4, &base)
    if fault == OK:
        fault = find_values(program, memory, outer, field.message, first, base)
    if fault != OK:
        return fault
    seconds, nanos = memory.stack[base + 1], memory.stack[base + 3]
    us = <int64_t> memory.found[seconds].number if seconds >= 0 else 0
    if us > INT64_MAX / 1000000 - 1 or us < INT64_MIN / 1000000 + 1:
        return OUT_OF_RANGE
    us = us * 1000000
    if nanos >= 0:
        total = <int32_t> memory.found[nanos].number
        if total < 0 or total > 999999999:
            return OUT_OF_RANGE
        us += total / 1000
    memory.stacked = kept
    return append_int(column, us)


cdef Fault proto_packed(
    ProtoProgram program, Column *column, const ProtoField *field, Cursor *outer, const Found *found
) noexcept nogil:
    cdef Cursor cursor
    cdef uint64_t number
    cdef const uint8_t *start
    cdef int64_t size
    cdef int wire = wire_of(field.code)
    cdef Fault fault
    cursor.at = found.start
    cursor.end = found.start + found.size
    while cursor.at < cursor.end:
        fault = read_value(&cursor, 0, wire, &number, &start, &size, 0)
        if fault == OK:
            fault = proto_scalar(program, column, field, number, start, size)
        if fault != OK:
            outer.at = cursor.at
            return fault
    return OK


cdef Fault proto_scalar(
    ProtoProgram program, Column *column, const ProtoField *field, uint64_t number, const uint8_t *start, int64_t size
) noexcept nogil:
    cdef int code = field.code
    cdef uint32_t low = <uint32_t> number
    cdef float single
    cdef double real
    if code == PROTO_STRING:
        return NOT_UTF8 if utf8_fault(start, size) >= 0 else append_bytes(column, start, size)
    if code == PROTO_BYTES:
        return append_bytes(column, start, size)
    if code == PROTO_INT64 or code == PROTO_SFIXED64:
        return append_int(column, <int64_t> number)
    if code == PROTO_INT32 or code == PROTO_SFIXED32:
        return append_int(column, <int32_t> low)
    if code == PROTO_UINT32 or code == PROTO_FIXED32:
        return append_int(column, low)
    if code == PROTO_UINT64 or code == PROTO_FIXED64:
        if column.kind == DECIMAL:
            return append_decimal(column, <int128> <uint128> number, 0)
        return append_double(column, <double> number)
    if code == PROTO_SINT32:
        return append_int(column, <int32_t> (low >> 1) ^ -<int32_t> (low & 1))
    if code == PROTO_SINT64:
        return append_int(column, <int64_t> (number >> 1) ^ -<int64_t> (number & 1))
    if code == PROTO_BOOL:
        return append_int(column, number != 0)
    if code == PROTO_DOUBLE:
        memcpy(&real, &number, 8)
        return append_double(column, real)
    if code == PROTO_FLOAT:
        memcpy(&single, &number, 4)
        return append_double(column, single)
    return proto_symbol(program, column, field, <int32_t> low)


cdef Fault proto_symbol(ProtoProgram program, Column *column, const ProtoField *field, int32_t number) noexcept nogil:
    """Append an enum's symbol, or the number if it has no symbol."""
    cdef int32_t low = field.first_symbol, high = field.first_symbol + field.n_symbols - 1, middle
    cdef uint8_t text[12]
    cdef int at = 12
    cdef int64_t rest = number
    while low <= high:
        middle = (low + high) >> 1
        if program.symbol_numbers[middle] == number:
            return append_bytes(column, program.symbol_starts[middle], program.symbol_sizes[middle])
        if program.symbol_numbers[middle] < number:
            low = middle + 1
        else:
            high = middle - 1
    if rest < 0:
        rest = -rest
    while at == 12 or rest:
        at -= 1
        text[at] = <uint8_t> (c"0" + rest % 10)
        rest /= 10
    if number < 0:
        at -= 1
        text[at] = c"-"
    return append_bytes(column, text + at, 12 - at)
