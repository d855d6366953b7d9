"""Decode Avro's binary encoding by a program made from the writer's schema. Source: the Avro 1.12 specification.

An op is (code, column or -1 to skip the value, argument, size, links to other ops, columns that get null):

    NULL
    BOOLEAN, INT, LONG       argument: the factor for the number
    FLOAT, DOUBLE
    BYTES, STRING, FIXED     argument of FIXED: its size in bytes
    ENUM                     argument: index of its first symbol; size: the count of symbols
    DECIMAL                  argument: its bytes, -1 if a length precedes them; size: scale
    UUID                     16 bytes, decoded to text
    ARRAY, MAP               links: the item; for MAP the key and the value
    RECORD                   links: the fields, as written; null: columns that the writer's schema lacks
    UNION                    links: the branches
    MEMBER                   column: a struct; link: the value of one member; null: the other members
    RAW                      link: the value to skip; the column gets its bytes
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from formats.kernels.payload.columns cimport (
    BAD_BOOLEAN, BAD_BRANCH, BAD_LENGTH, BAD_SYMBOL, BINARY, CUT, DECIMAL, DEPTH_MAX, DOUBLE, FLOAT, LIST, MAP,
    NOT_UTF8, OK, OUT_OF_RANGE, STRUCT, TOO_DEEP, TOO_MANY, TWICE, Column, Columns, Fault, Shape, Table, append_bytes,
    append_decimal, append_double, append_int, append_null, append_valid, check_index, end_list, int128, same_key_twice,
    uint128
)
from formats.kernels.payload.payloads cimport Cursor, Decoding, Payloads, Routes, read_zigzag
from formats.kernels.utf8 cimport utf8_fault

cpdef enum:
    AVRO_NULL, AVRO_BOOLEAN, AVRO_INT, AVRO_LONG, AVRO_FLOAT, AVRO_DOUBLE, AVRO_BYTES, AVRO_STRING, AVRO_FIXED
    AVRO_ENUM, AVRO_DECIMAL, AVRO_UUID, AVRO_ARRAY, AVRO_MAP, AVRO_RECORD, AVRO_UNION, AVRO_MEMBER, AVRO_RAW


cdef struct AvroOp:
    int32_t code
    int32_t column
    int64_t argument
    int32_t size
    int32_t first_link
    int32_t n_links
    int32_t first_null
    int32_t n_nulls


cdef bint is_sound_op(const AvroOp *op, const Table *table, int64_t n_symbols) noexcept nogil:
    """Whether the op has the links that its code needs, and a column of the kind of its values."""
    cdef const Column *column = NULL
    if not -1 <= op.column < table.n_columns or not AVRO_NULL <= op.code <= AVRO_RAW:
        return False
    if op.column >= 0:
        column = &table.columns[op.column]
    if op.code == AVRO_BOOLEAN or op.code == AVRO_INT or op.code == AVRO_LONG:
        return (op.argument >= 1 or op.code == AVRO_BOOLEAN) and (column == NULL or column.width > 0)
    if op.code == AVRO_FLOAT or op.code == AVRO_DOUBLE:
        return column == NULL or column.kind == FLOAT or column.kind == DOUBLE
    if op.code == AVRO_DECIMAL:
        return column == NULL or column.kind == DECIMAL
    if op.code == AVRO_ENUM:
        if op.argument < 0 or op.size < 0 or op.argument > n_symbols - op.size:
            return False
    if op.code == AVRO_FIXED and op.argument < 0:
        return False
    if op.code == AVRO_RECORD or op.code == AVRO_MEMBER:
        if op.code == AVRO_MEMBER and (op.n_links != 1 or column == NULL):
            return False
        return column == NULL or column.kind == STRUCT
    if op.code == AVRO_ARRAY or op.code == AVRO_MAP:
        if op.n_links != (2 if op.code == AVRO_MAP else 1):
            return False
        if column == NULL:
            return True
        return column.kind == LIST and (op.code == AVRO_ARRAY or table.columns[
            table.children[column.first_child]].kind == STRUCT and column.meaning == MAP)
    if op.code == AVRO_NULL or op.code == AVRO_UNION:
        return True
    if op.code == AVRO_RAW and (op.n_links != 1 or column == NULL):
        return False
    return column == NULL or column.kind == BINARY


cdef bint ends_soon(const AvroOp *ops, const AvroOp *op, const int32_t *links) noexcept nogil:
    """Whether a MEMBER or RAW op cannot be in a circle of links; at other ops the depth of nesting is counted."""
    cdef int code
    if op.code != AVRO_MEMBER and op.code != AVRO_RAW:
        return True
    code = ops[links[op.first_link]].code
    return code != AVRO_MEMBER and (code != AVRO_RAW or op.code == AVRO_MEMBER)


cdef class AvroProgram:
    """A decoder of Avro. ops: as above; symbols: those of all enums; roots: the first op of the schema of each header.
    """

    cdef AvroOp *ops
    cdef int32_t *links
    cdef int32_t *nulls
    cdef list symbols
    cdef const uint8_t **symbol_starts
    cdef int64_t *symbol_sizes
    cdef Shape shape
    cdef Routes routes
    cdef int header

    def __cinit__(self, Shape shape not None, list ops not None, list symbols not None, dict roots not None, int header):
        """Raises ValueError for an op with a link, column or symbol that does not exist, or a column of another kind.
        """
        cdef int32_t i = 0, link = 0, null = 0
        self.shape, self.symbols, self.routes, self.header = shape, symbols, Routes(roots, len(ops)), header
        self.ops = <AvroOp *> calloc(max(len(ops), 1), sizeof(AvroOp))
        self.links = <int32_t *> calloc(max(sum(len(op[4]) for op in ops), 1), sizeof(int32_t))
        self.nulls = <int32_t *> calloc(max(sum(len(op[5]) for op in ops), 1), sizeof(int32_t))
        self.symbol_starts = <const uint8_t **> calloc(max(len(symbols), 1), sizeof(void *))
        self.symbol_sizes = <int64_t *> calloc(max(len(symbols), 1), sizeof(int64_t))
        if not (self.ops and self.links and self.nulls and self.symbol_starts and self.symbol_sizes):
            raise MemoryError
        for code, column, argument, size, links, nulls in ops:
            self.ops[i] = AvroOp(code, column, argument, size, link, len(links), null, len(nulls))
            for target in links:
                check_index(target, len(ops))
                self.links[link] = target
                link += 1
            for target in nulls:
                check_index(target, shape.table.n_columns)
                self.nulls[null] = target
                null += 1
            if not is_sound_op(&self.ops[i], &shape.table, len(symbols)):
                raise ValueError(f"op {i} cannot be: {(code, column, argument, size, links, nulls)}")
            i += 1
        for i in range(<int32_t> len(ops)):
            if not ends_soon(self.ops, &self.ops[i], self.links):
                raise ValueError(f"op {i} leads back to itself")
        i = 0
        for symbol in symbols:
            self.symbol_starts[i] = <const uint8_t *> <const char *> (<bytes> symbol)
            self.symbol_sizes[i] = len(symbol)
            i += 1

    def __dealloc__(self):
        free(self.ops)
        free(self.links)
        free(self.nulls)
        free(self.symbol_starts)
        free(self.symbol_sizes)

    def decode(self, Payloads payloads not None):
        """Decode a column of payloads; return (columns, faults), as the stub describes."""
        return AvroDecoding(self).run(payloads, self.header, self.routes)


cdef class AvroDecoding(Decoding):
    cdef AvroProgram program

    def __cinit__(self, AvroProgram program not None):
        self.program = program
        self.columns = Columns(program.shape)

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        return avro_value(self.program, &self.columns.table, cursor, &self.program.ops[root], 0)


cdef Fault avro_value(AvroProgram program, Table *table, Cursor *cursor, const AvroOp *op, int depth) noexcept nogil:
    cdef Column *column = &table.columns[op.column] if op.column >= 0 else NULL
    cdef const AvroOp *ops = program.ops
    cdef const int32_t *links = program.links + op.first_link
    cdef int64_t number, size
    cdef Fault fault
    cdef int32_t i
    cdef double real
    cdef float single
    cdef const uint8_t *start

    if op.code == AVRO_RECORD:
        if depth > DEPTH_MAX:
            return TOO_DEEP
        if column != NULL:
            fault = append_valid(column)
            if fault != OK:
                return fault
        for i in range(op.n_links):
            fault = avro_value(program, table, cursor, ops + links[i], depth + 1)
            if fault != OK:
                return fault
        return append_nulls(program, table, op)
    if op.code == AVRO_UNION:
        fault = read_zigzag(cursor, &number)
        if fault != OK:
            return fault
        if number < 0 or number >= op.n_links:
            return BAD_BRANCH
        if depth > DEPTH_MAX:
            return TOO_DEEP
        return avro_value(program, table, cursor, ops + links[number], depth + 1)
    if op.code == AVRO_LONG or op.code == AVRO_INT:
        fault = read_zigzag(cursor, &number)
        if fault != OK:
            return fault
        if op.code == AVRO_INT and (number > INT32_MAX or number < INT32_MIN):
            return OUT_OF_RANGE
        if column == NULL:
            return OK
        if op.argument != 1:
            if number > INT64_MAX / op.argument or number < INT64_MIN / op.argument:
                return OUT_OF_RANGE
            number *= op.argument
        return append_int(column, number)
    if op.code == AVRO_STRING or op.code == AVRO_BYTES:
        fault = read_zigzag(cursor, &size)
        if fault != OK:
            return fault
        if size < 0:
            return BAD_LENGTH
        if size > cursor.end - cursor.at:
            return CUT
        if op.code == AVRO_STRING and utf8_fault(cursor.at, size) >= 0:
            return NOT_UTF8
        cursor.at += size
        return append_bytes(column, cursor.at - size, size) if column != NULL else OK
    if op.code == AVRO_DOUBLE:
        if cursor.end - cursor.at < 8:
            return CUT
        memcpy(&real, cursor.at, 8)
        cursor.at += 8
        return append_double(column, real) if column != NULL else OK
    if op.code == AVRO_FLOAT:
        if cursor.end - cursor.at < 4:
            return CUT
        memcpy(&single, cursor.at, 4)
        cursor.at += 4
        return append_double(column, single) if column != NULL else OK
    if op.code == AVRO_BOOLEAN:
        if cursor.at >= cursor.end:
            return CUT
        if cursor.at[0] > 1:
            return BAD_BOOLEAN
        cursor.at += 1
        return append_int(column, (cursor.at - 1)[0]) if column != NULL else OK
    if op.code == AVRO_NULL:
        return append_null(table, op.column) if column != NULL else OK
    if op.code == AVRO_ENUM:
        fault = read_zigzag(cursor, &number)
        if fault != OK:
            return fault
        if number < 0 or number >= op.size:
            return BAD_SYMBOL
        if column == NULL:
            return OK
        number += op.argument
        return append_bytes(column, program.symbol_starts[number], program.symbol_sizes[number])
    if op.code == AVRO_ARRAY or op.code == AVRO_MAP:
        return avro_items(program, table, cursor, op, depth)
    if op.code == AVRO_MEMBER:
        fault = append_valid(column)
        if fault == OK:
            fault = append_nulls(program, table, op)
        return avro_value(program, table, cursor, ops + links[0], depth) if fault == OK else fault
    if op.code == AVRO_RAW:
        start = cursor.at
        fault = avro_value(program, table, cursor, ops + links[0], depth)
        return append_bytes(column, start, cursor.at - start) if fault == OK else fault

    size = 16 if op.code == AVRO_UUID else op.argument
    if size < 0:
        fault = read_zigzag(cursor, &size)
        if fault != OK:
            return fault
        if size < 0:
            return BAD_LENGTH
    if size > cursor.end - cursor.at:
        return CUT
    cursor.at += size
    if column == NULL:
        return OK
    if op.code == AVRO_FIXED:
        return append_bytes(column, cursor.at - size, size)
    if op.code == AVRO_UUID:
        return append_uuid(column, cursor.at - size)
    return append_big_endian(column, cursor.at - size, size, op.size)


cdef inline Fault append_nulls(AvroProgram program, Table *table, const AvroOp *op) noexcept nogil:
    cdef Fault fault
    cdef int32_t i
    for i in range(op.n_nulls):
        fault = append_null(table, program.nulls[op.first_null + i])
        if fault != OK:
            return fault
    return OK


cdef Fault avro_items(AvroProgram program, Table *table, Cursor *cursor, const AvroOp *op, int depth) noexcept nogil:
    """Decode the blocks of an array or map: each has a count, then that many items. A negative count is followed by the
    block's size in bytes; a count of 0 ends the blocks.
    """
    cdef Column *column = &table.columns[op.column] if op.column >= 0 else NULL
    cdef const AvroOp *first = program.ops + program.links[op.first_link]
    cdef const AvroOp *second = program.ops + program.links[op.first_link + 1] if op.code == AVRO_MAP else NULL
    cdef Column *entry = &table.columns[table.children[column.first_child]] if column != NULL else NULL
    cdef int64_t begun = entry.count if entry != NULL else 0
    cdef int64_t count, size
    cdef Fault fault
    if depth > DEPTH_MAX:
        return TOO_DEEP
    while True:
        fault = read_zigzag(cursor, &count)
        if fault != OK:
            return fault
        if count == 0:
            break
        if count < 0:
            if count == INT64_MIN:
                return TOO_MANY
            count = -count
            fault = read_zigzag(cursor, &size)
            if fault != OK:
                return fault
            if size < 0:
                return BAD_LENGTH
            if size > cursor.end - cursor.at:
                return CUT
        if count > cursor.items_left:
            return TOO_MANY
        cursor.items_left -= count
        while count > 0:
            if second != NULL:
                if entry != NULL:
                    fault = append_valid(entry)
                    if fault != OK:
                        return fault
                fault = avro_value(program, table, cursor, first, depth + 1)
                if fault == OK:
                    fault = avro_value(program, table, cursor, second, depth + 1)
            else:
                fault = avro_value(program, table, cursor, first, depth + 1)
            if fault != OK:
                return fault
            count -= 1
    if column == NULL:
        return OK
    if second != NULL and same_key_twice(table, entry, begun):
        return TWICE
    return end_list(table, column)


cdef Fault append_big_endian(Column *column, const uint8_t *data, int64_t size, int scale) noexcept nogil:
    """Append a decimal to a column. data: its unscaled value, in two's complement and big endian. scale: the scale of
    that value."""
    cdef int128 value = -1 if size and data[0] >= 0x80 else 0
    cdef int64_t i
    for i in range(size):
        if size - i > 16:
            if data[i] != <uint8_t> value:
                return OUT_OF_RANGE
            continue
        if size > 16 and size - i == 16 and (data[i] >= 0x80) != (value < 0):
            return OUT_OF_RANGE
        value = <int128> (<uint128> value << 8) | data[i]
    return append_decimal(column, value, scale)


cdef Fault append_uuid(Column *column, const uint8_t *data) noexcept nogil:
    cdef uint8_t text[36]
    cdef const char *digits = "0123456789abcdef"
    cdef int i, at = 0
    for i in range(16):
        if i == 4 or i == 6 or i == 8 or i == 10:
            text[at] = c"-"
            at += 1
        text[at] = digits[data[i] >> 4]
        text[at + 1] = digits[data[i] & 15]
        at += 2
    return append_bytes(column, text, 36)
