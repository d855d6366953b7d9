from libc.stdint cimport INT32_MAX, INT32_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport realloc
from libc.string cimport memcpy

cdef extern from *:
    """
    typedef __int128 kcli_int128;
    typedef unsigned __int128 kcli_uint128;
    """
    ctypedef long long int128 "kcli_int128"
    ctypedef unsigned long long uint128 "kcli_uint128"

# What a column holds.
cpdef enum:
    BOOLEAN, INT8, INT16, INT32, INT64, FLOAT, DOUBLE, DECIMAL, BINARY, LIST, STRUCT

# What a text of JSON for a column is read as.
cpdef enum:
    PLAIN, TEXT, DATE, TIMESTAMP, LOCAL_TIMESTAMP, MAP

cdef enum:
    DEPTH_MAX = 128

# Why a payload does not decode; in words: REASONS.
cdef enum Fault:
    OK, NO_MEMORY, CUT, LONG_VARINT, BAD_LENGTH, NOT_UTF8, BAD_BOOLEAN, BAD_BRANCH, BAD_SYMBOL, TOO_MANY, TOO_DEEP
    OUT_OF_RANGE, TRAILING, TOO_LARGE, TWICE, NO_CONFLUENT_HEADER, OTHER_HEADER, NOT_JSON, WRONG_TYPE, OTHER_FIELD
    BAD_TEXT, BAD_TAG, BAD_GROUP


cdef struct Column:
    int kind
    int meaning
    int precision
    int scale
    int width
    int n_children
    int first_child  # in Table.children
    int64_t count
    int64_t room
    int64_t used  # bytes of a BINARY
    int64_t bytes_room
    uint8_t *valid
    uint8_t *data
    int32_t *offsets


cdef struct Table:
    Column *columns
    int32_t *children
    int32_t n_columns


cdef struct Key:
    const uint8_t *start
    int64_t size


cdef Fault grow(Column *column) noexcept nogil
cdef Fault append_null(Table *table, int32_t c) noexcept nogil
cdef Fault append_decimal(Column *column, int128 unscaled, int scale) noexcept nogil
cdef void cut_back(Table *table, int32_t c, int64_t count) noexcept nogil
cdef bint same_key_twice(Table *table, const Column *entry, int64_t begun) noexcept nogil
cdef int check_index(int64_t index, Py_ssize_t count) except -1


cdef inline Fault next_value(Column *column) noexcept nogil:
    """Make room for one more value."""
    if column.count == column.room:
        return grow(column)
    return OK


cdef inline Fault append_valid(Column *column) noexcept nogil:
    """Append a struct; the values of its fields are appended to its children."""
    cdef Fault fault = next_value(column)
    if fault == OK:
        column.valid[column.count] = 1
        column.count += 1
    return fault


cdef inline Fault end_list(Table *table, Column *column) noexcept nogil:
    """Append a list of the items that its child got since the last list."""
    cdef int64_t end = table.columns[table.children[column.first_child]].count
    cdef Fault fault = next_value(column)
    if fault != OK:
        return fault
    if end > INT32_MAX:
        return TOO_LARGE
    column.valid[column.count] = 1
    column.count += 1
    column.offsets[column.count] = <int32_t> end
    return OK


cdef inline Fault put_bytes(Column *column, const uint8_t *data, int64_t size) noexcept nogil:
    """Add bytes to the value that `append_bytes` completes."""
    cdef int64_t room
    cdef void *moved
    if size > INT32_MAX - column.used:
        return TOO_LARGE
    if column.used + size > column.bytes_room:
        room = max(column.bytes_room * 2, column.used + size + 256)
        moved = realloc(column.data, room)
        if moved == NULL:
            return NO_MEMORY
        column.data = <uint8_t *> moved
        column.bytes_room = room
    if size:  # where there is nothing yet, there may be no room either
        memcpy(column.data + column.used, data, size)
    column.used += size
    return OK


cdef inline Fault append_bytes(Column *column, const uint8_t *data, int64_t size) noexcept nogil:
    cdef Fault fault = next_value(column)
    if fault == OK:
        fault = put_bytes(column, data, size)
    if fault != OK:
        return fault
    column.valid[column.count] = 1
    column.count += 1
    column.offsets[column.count] = <int32_t> column.used
    return OK


cdef inline Fault append_double(Column *column, double value) noexcept nogil:
    cdef Fault fault = next_value(column)
    if fault != OK:
        return fault
    if column.kind == DOUBLE:
        (<double *> column.data)[column.count] = value
    else:
        (<float *> column.data)[column.count] = <float> value
    column.valid[column.count] = 1
    column.count += 1
    return OK


cdef inline Fault append_int(Column *column, int64_t value) noexcept nogil:
    cdef Fault fault = next_value(column)
    if fault != OK:
        return fault
    if column.kind == INT64:
        (<int64_t *> column.data)[column.count] = value
    elif column.kind == INT32:
        if value > INT32_MAX or value < INT32_MIN:
            return OUT_OF_RANGE
        (<int32_t *> column.data)[column.count] = <int32_t> value
    elif column.kind == BOOLEAN:
        column.data[column.count] = value != 0
    elif column.kind == DECIMAL:
        return append_decimal(column, value, 0)
    elif column.kind == INT16:
        if value > 32767 or value < -32768:
            return OUT_OF_RANGE
        (<int16_t *> column.data)[column.count] = <int16_t> value
    elif column.kind == INT8:
        if value > 127 or value < -128:
            return OUT_OF_RANGE
        (<int8_t *> column.data)[column.count] = <int8_t> value
    else:
        return append_double(column, <double> value)
    column.valid[column.count] = 1
    column.count += 1
    return OK


cdef class Shape:
    cdef Table table


cdef class Columns:
    cdef Table table
    cdef Shape shape

    cdef list finish(self)
    cdef tuple finish_column(self, Column *column)
