"""Encode JSON texts as VARIANT: two binaries, the value and the names of all its fields. Source: Parquet's
VariantEncoding.

    metadata   byte: version 1, bits 6-7 size of an offset - 1; count of names, count + 1 offsets, the names
    value      byte: basic type in bits 0-1 (0 primitive, 1 short string, 2 object, 3 array), other bits by type
    object     count, ids of its fields sorted by their names, count + 1 offsets, the fields' values
    array      count, count + 1 offsets, the items

Numbers become what Spark's parse_json makes of them: the narrowest integer; a decimal, if there is a point, no
exponent, and at most 38 digits; else a double.
"""

from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

from formats.kernels.payload.columns cimport (
    BINARY, CUT, DEPTH_MAX, NOT_JSON, NO_MEMORY, OK, STRUCT, TOO_DEEP, TWICE, Column, Columns, Fault, Key, Shape,
    append_bytes, append_valid, int128, uint128
)
from formats.kernels.payload.json_tokens cimport (
    Number, Scratch, json_name, json_number, json_string, skip_space, take, take_word, to_double, to_integer
)
from formats.kernels.payload.payloads cimport NO_HEADER, Cursor, Decoding, Payloads, Routes


cdef enum:
    V_NULL, V_TRUE, V_FALSE, V_INT8, V_INT16, V_INT32, V_INT64, V_DOUBLE, V_DECIMAL4, V_DECIMAL8, V_DECIMAL16
    V_STRING = 16


cdef struct VariantField:
    int32_t id
    int64_t offset  # byte where its value begins, counted from the value of the first field
    Key name


cdef struct VariantBuffers:
    Scratch text  # the decoded text of the current string
    Scratch value
    Scratch names
    int32_t *name_ends
    int32_t n_names
    int32_t names_room
    int32_t *slots  # hash table: id + 1 of a name, 0: free
    int32_t n_slots
    uint64_t seed
    VariantField *fields  # the fields of all open objects and the items of open arrays, end to end
    int64_t n_fields
    int64_t fields_room


cdef Fault make_room(Scratch *scratch, int64_t more) noexcept nogil:
    cdef int64_t room
    cdef void *moved
    if scratch.size + more > scratch.room:
        room = max(scratch.room * 2, scratch.size + more + 256)
        moved = realloc(scratch.data, room)
        if moved == NULL:
            return NO_MEMORY
        scratch.data = <uint8_t *> moved
        scratch.room = room
    return OK


cdef Fault put(Scratch *scratch, const void *data, int64_t size) noexcept nogil:
    cdef Fault fault = make_room(scratch, size)
    if fault == OK and size:
        memcpy(scratch.data + scratch.size, data, size)
        scratch.size += size
    return fault


cdef inline Fault put_tagged(Scratch *scratch, uint8_t tag, const void *data, int64_t size) noexcept nogil:
    cdef Fault fault = put(scratch, &tag, 1)
    return put(scratch, data, size) if fault == OK else fault


cdef inline int bytes_for(uint64_t value) noexcept nogil:
    return 1 if value < 1 << 8 else 2 if value < 1 << 16 else 3 if value < 1 << 24 else 4


cdef inline uint8_t *write_number(uint8_t *at, uint64_t value, int size) noexcept nogil:
    memcpy(at, &value, size)
    return at + size


cdef inline uint64_t hash_name(const uint8_t *name, int64_t size, uint64_t seed) noexcept nogil:
    """Return a seeded hash, so that a producer cannot choose names that collide."""
    cdef uint64_t value = seed ^ <uint64_t> size, word
    cdef int64_t i = 0
    while i < size:
        word = 0
        memcpy(&word, name + i, min(size - i, 8))
        value = (value ^ word) * 0x9FB21C651E98DF25ULL
        value ^= value >> 32 ^ seed
        i += 8
    return value ^ value >> 29


cdef inline Key name_at(VariantBuffers *b, int32_t id) noexcept nogil:
    cdef Key name
    cdef int32_t start = b.name_ends[id - 1] if id else 0
    name.start = b.names.data + start
    name.size = b.name_ends[id] - start
    return name


cdef Fault rehash(VariantBuffers *b) noexcept nogil:
    cdef int32_t n_slots = max(64, b.n_slots * 2), id, slot
    cdef int32_t *slots = <int32_t *> calloc(n_slots, sizeof(int32_t))
    cdef Key name
    if slots == NULL:
        return NO_MEMORY
    free(b.slots)
    b.slots, b.n_slots = slots, n_slots
    for id in range(b.n_names):
        name = name_at(b, id)
        slot = hash_name(name.start, name.size, b.seed) & (n_slots - 1)
        while slots[slot]:
            slot = (slot + 1) & (n_slots - 1)
        slots[slot] = id + 1
    return OK


cdef Fault id_of_name(VariantBuffers *b, const uint8_t *text, int64_t size, int32_t *id) noexcept nogil:
    cdef int32_t slot
    cdef Key name
    cdef Fault fault
    cdef void *moved
    if b.n_names * 2 >= b.n_slots:
        fault = rehash(b)
        if fault != OK:
            return fault
    slot = hash_name(text, size, b.seed) & (b.n_slots - 1)
    while b.slots[slot]:
        name = name_at(b, b.slots[slot] - 1)
        if name.size == size and memcmp(name.start, text, size) == 0:
            id[0] = b.slots[slot] - 1
            return OK
        slot = (slot + 1) & (b.n_slots - 1)
    if b.n_names == b.names_room:
        moved = realloc(b.name_ends, (b.names_room * 2 + 64) * sizeof(int32_t))
        if moved == NULL:
            return NO_MEMORY
        b.name_ends = <int32_t *> moved
        b.names_room = b.names_room * 2 + 64
    fault = put(&b.names, text, size)
    if fault != OK:
        return fault
    b.name_ends[b.n_names] = <int32_t> b.names.size
    id[0] = b.n_names
    b.n_names += 1
    b.slots[slot] = b.n_names
    return OK


cdef Fault add_field(VariantBuffers *b, int32_t id, int64_t offset) noexcept nogil:
    cdef void *moved
    if b.n_fields == b.fields_room:
        moved = realloc(b.fields, (b.fields_room * 2 + 64) * sizeof(VariantField))
        if moved == NULL:
            return NO_MEMORY
        b.fields = <VariantField *> moved
        b.fields_room = b.fields_room * 2 + 64
    b.fields[b.n_fields].id = id
    b.fields[b.n_fields].offset = offset
    b.n_fields += 1
    return OK


cdef int compare_fields(const void *one, const void *other) noexcept nogil:
    """Compare the names of two fields byte by byte, for sorting; a prefix of a name comes before the name."""
    cdef const Key *a = &(<const VariantField *> one).name
    cdef const Key *b = &(<const VariantField *> other).name
    cdef int order = memcmp(a.start, b.start, min(a.size, b.size))
    return order if order else (a.size > b.size) - (a.size < b.size)


cdef Fault close_container(VariantBuffers *b, int64_t first, int64_t start, bint is_object) noexcept nogil:
    """Insert the head of an object or array before its values, which begin at byte `start`."""
    cdef int64_t count = b.n_fields - first, size = b.value.size - start, head, i
    cdef VariantField *fields = b.fields + first
    cdef int32_t id_max = 0
    cdef int offset_size = bytes_for(size), id_size, count_size = 4 if count > 255 else 1
    cdef uint8_t *at
    cdef Fault fault
    if is_object:
        for i in range(count):
            fields[i].name = name_at(b, fields[i].id)
            id_max = max(id_max, fields[i].id)
        if count > 1:
            qsort(fields, count, sizeof(VariantField), compare_fields)
        for i in range(1, count):
            if fields[i].id == fields[i - 1].id:
                return TWICE
    id_size = bytes_for(id_max)
    head = 1 + count_size + (count + 1) * offset_size + (count * id_size if is_object else 0)
    fault = make_room(&b.value, head)
    if fault != OK:
        return fault
    at = b.value.data + start
    memmove(at + head, at, size)
    if is_object:
        at[0] = 2 | (offset_size - 1) << 2 | (id_size - 1) << 4 | (count_size == 4) << 6
    else:
        at[0] = 3 | (offset_size - 1) << 2 | (count_size == 4) << 4
    at = write_number(at + 1, count, count_size)
    if is_object:
        for i in range(count):
            at = write_number(at, fields[i].id, id_size)
    for i in range(count):
        at = write_number(at, fields[i].offset, offset_size)
    write_number(at, size, offset_size)
    b.value.size += head
    b.n_fields = first
    return OK


cdef Fault variant_value(VariantBuffers *b, Cursor *cursor, int depth) noexcept nogil:
    cdef int64_t first = b.n_fields, start = b.value.size, size
    cdef const uint8_t *text
    cdef int32_t id = 0
    cdef bint is_object
    cdef uint8_t tag, close
    cdef Number number
    cdef Fault fault
    skip_space(cursor)
    if cursor.at >= cursor.end:
        return CUT
    if depth > DEPTH_MAX:
        return TOO_DEEP
    if cursor.at[0] == c'"':
        cursor.at += 1
        fault = json_string(cursor, &b.text, &text, &size)
        if fault != OK:
            return fault
        if size < 64:
            return put_tagged(&b.value, 1 | <uint8_t> size << 2, text, size)
        fault = put_tagged(&b.value, V_STRING << 2, &size, 4)
        return put(&b.value, text, size) if fault == OK else fault
    if cursor.at[0] == c"{" or cursor.at[0] == c"[":
        is_object = cursor.at[0] == c"{"
        close = c"}" if is_object else c"]"
        cursor.at += 1
        if take(cursor, close):
            return close_container(b, first, start, is_object)
        while True:
            if is_object:
                fault = json_name(cursor, &b.text, &text, &size)
                if fault == OK:
                    fault = id_of_name(b, text, size, &id)
                if fault != OK:
                    return fault
            fault = add_field(b, id, b.value.size - start)
            if fault == OK:
                fault = variant_value(b, cursor, depth + 1)
            if fault != OK:
                return fault
            if take(cursor, close):
                return close_container(b, first, start, is_object)
            if not take(cursor, c","):
                return NOT_JSON if cursor.at < cursor.end else CUT
    tag = 0xFF
    if take_word(cursor, "null", 4):
        tag = V_NULL
    elif take_word(cursor, "true", 4):
        tag = V_TRUE
    elif take_word(cursor, "false", 5):
        tag = V_FALSE
    if tag != 0xFF:
        return put_tagged(&b.value, tag << 2, NULL, 0)
    fault = json_number(cursor, &number)
    return put_number(&b.value, &number) if fault == OK else fault


cdef Fault put_number(Scratch *value, const Number *number) noexcept nogil:
    cdef int64_t whole
    cdef double real
    cdef int128 unscaled
    cdef uint8_t scale
    cdef Fault fault
    if number.plain and to_integer(number, &whole) == OK:
        if -128 <= whole <= 127:
            return put_tagged(value, V_INT8 << 2, &whole, 1)
        if -32768 <= whole <= 32767:
            return put_tagged(value, V_INT16 << 2, &whole, 2)
        if INT32_MIN <= whole <= INT32_MAX:
            return put_tagged(value, V_INT32 << 2, &whole, 4)
        return put_tagged(value, V_INT64 << 2, &whole, 8)
    if not number.exponent_written and not number.long_mantissa and number.exponent >= -38:
        unscaled = -<int128> number.mantissa if number.negative else <int128> number.mantissa
        scale = <uint8_t> -number.exponent
        if number.mantissa < 1000000000 and scale <= 9:
            fault = put_tagged(value, V_DECIMAL4 << 2, &scale, 1)
            return put(value, &unscaled, 4) if fault == OK else fault
        if number.mantissa < <uint128> 1000000000000000000 and scale <= 18:
            fault = put_tagged(value, V_DECIMAL8 << 2, &scale, 1)
            return put(value, &unscaled, 8) if fault == OK else fault
        fault = put_tagged(value, V_DECIMAL16 << 2, &scale, 1)
        return put(value, &unscaled, 16) if fault == OK else fault
    fault = to_double(number, &real)
    return put_tagged(value, V_DOUBLE << 2, &real, 8) if fault == OK else fault


cdef class VariantDecoding(Decoding):
    """A decoder of JSON to VARIANT. shape: a STRUCT of the BINARY columns value and metadata. seed: any number."""

    cdef VariantBuffers buffers

    def __cinit__(self, Shape shape not None, uint64_t seed):
        """Raises ValueError for another shape."""
        if [shape.table.columns[i].kind for i in range(shape.table.n_columns)] != [STRUCT, BINARY, BINARY]:
            raise ValueError("the shape is not a struct of two binaries")
        self.columns = Columns(shape)
        self.buffers.seed = seed
        if make_room(&self.buffers.names, 1) != OK or make_room(&self.buffers.value, 1) != OK:
            raise MemoryError

    def __dealloc__(self):
        free(self.buffers.text.data)
        free(self.buffers.value.data)
        free(self.buffers.names.data)
        free(self.buffers.name_ends)
        free(self.buffers.slots)
        free(self.buffers.fields)

    def decode(self, Payloads payloads not None):
        """Decode one column of payloads; return (columns, faults). It can be called once."""
        return self.run(payloads, NO_HEADER, Routes({b"": 0}, 1))

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        cdef VariantBuffers *b = &self.buffers
        cdef Column *columns = self.columns.table.columns
        cdef int64_t size
        cdef int32_t i
        cdef int width
        cdef uint8_t *at
        cdef Fault fault
        b.value.size = b.names.size = 0
        b.n_fields = 0
        if b.n_names:
            memset(b.slots, 0, b.n_slots * sizeof(int32_t))
        b.n_names = 0
        fault = variant_value(b, cursor, 0)
        if fault != OK:
            return fault
        skip_space(cursor)
        if cursor.at != cursor.end:
            return NOT_JSON
        fault = append_valid(&columns[0])
        if fault == OK:
            fault = append_bytes(&columns[1], b.value.data, b.value.size)
        width = bytes_for(max(b.names.size, b.n_names))
        size = 1 + (b.n_names + 2) * width
        b.value.size = 0
        if fault == OK:
            fault = make_room(&b.value, size + b.names.size)
        if fault != OK:
            return fault
        at = b.value.data
        at[0] = 1 | (width - 1) << 6
        at = write_number(at + 1, b.n_names, width)
        at = write_number(at, 0, width)
        for i in range(b.n_names):
            at = write_number(at, b.name_ends[i], width)
        if b.names.size:
            memcpy(at, b.names.data, b.names.size)
        return append_bytes(&columns[2], b.value.data, size + b.names.size)
