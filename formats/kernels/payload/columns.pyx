"""Columns that grow value by value, and can be cut back to the start of a bad payload.

A type is a tree of columns, written as rows, each column behind its parent and before its parent's next one:

    kind       BOOLEAN, INT8 .. INT64, FLOAT, DOUBLE, DECIMAL (16 bytes), BINARY, LIST (one child), STRUCT
    meaning    the type of a text in JSON: PLAIN, TEXT, DATE, TIMESTAMP (us), LOCAL_TIMESTAMP, MAP
    children   the count of its child columns
    precision, scale    of a DECIMAL

A map is a LIST of a STRUCT of two. A validity is a byte while a column grows, and a bit when it is finished.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

# The texts of the faults, by number.
REASONS = (
    "", "", "the payload ends inside a value", "a varint is longer than its type allows", "a length cannot be",
    "text that is not UTF-8", "a boolean that is neither 0 nor 1", "a union has no such branch",
    "an enum has no such symbol", "more items than a payload of this size may have",
    "nested too deep", "a number does not fit its type", "bytes behind the end of the value",
    "the values of one batch are over 2 GiB", "a key or a field is there twice",
    "no Confluent header", "", "not JSON", "a value is not of its column's type", "a field that the type has not",
    "a text that cannot be read as its column's type", "a field's tag cannot be", "a group does not end",
)
HEADER_NOT_KNOWN = OTHER_HEADER
# The faults that are best shown with the payload's bytes from the fault on.
ABOUT_TEXT = frozenset((NOT_JSON, WRONG_TYPE, OTHER_FIELD, BAD_TEXT))


cdef int *WIDTHS = [1, 1, 2, 4, 8, 4, 8, 16, 0, 0, 0]
cdef int128 POWERS[39]


cdef void fill_powers() noexcept:
    cdef int i
    POWERS[0] = 1
    for i in range(1, 39):
        POWERS[i] = POWERS[i - 1] * 10

fill_powers()


cdef Fault grow(Column *column) noexcept nogil:
    cdef int64_t room = column.room * 2 if column.room else 64
    cdef void *moved = realloc(column.valid, room)
    if moved == NULL:
        return NO_MEMORY
    column.valid = <uint8_t *> moved
    if column.width:
        moved = realloc(column.data, room * column.width)
        if moved == NULL:
            return NO_MEMORY
        column.data = <uint8_t *> moved
    if column.kind == BINARY or column.kind == LIST:
        moved = realloc(column.offsets, (room + 1) * sizeof(int32_t))
        if moved == NULL:
            return NO_MEMORY
        column.offsets = <int32_t *> moved
        column.offsets[0] = 0
    column.room = room
    return OK


cdef Fault append_null(Table *table, int32_t c) noexcept nogil:
    cdef Column *column = &table.columns[c]
    cdef Fault fault = next_value(column)
    cdef int i
    if fault != OK:
        return fault
    column.valid[column.count] = 0
    if column.width:
        memset(column.data + column.count * column.width, 0, column.width)
    elif column.kind == STRUCT:
        for i in range(column.n_children):
            fault = append_null(table, table.children[column.first_child + i])
            if fault != OK:
                return fault
    else:
        column.offsets[column.count + 1] = column.offsets[column.count]
    column.count += 1
    return OK


cdef Fault append_decimal(Column *column, int128 unscaled, int scale) noexcept nogil:
    """Append a decimal in the column's scale. scale: that of `unscaled`, smaller than the column's, or larger only by
    zeros at the end."""
    cdef Fault fault = next_value(column)
    cdef int128 power
    if fault != OK:
        return fault
    if scale < column.scale:
        if column.scale - scale > 38:
            if unscaled != 0:
                return OUT_OF_RANGE
        else:
            power = POWERS[column.scale - scale]
            if unscaled > POWERS[38] / power or unscaled < -POWERS[38] / power:
                return OUT_OF_RANGE
            unscaled *= power
    while scale > column.scale:
        if unscaled % 10 != 0:
            return OUT_OF_RANGE
        if unscaled == 0:
            break
        unscaled /= 10
        scale -= 1
    if unscaled >= POWERS[column.precision] or unscaled <= -POWERS[column.precision]:
        return OUT_OF_RANGE
    memcpy(column.data + column.count * 16, &unscaled, 16)
    column.valid[column.count] = 1
    column.count += 1
    return OK


cdef void cut_back(Table *table, int32_t c, int64_t count) noexcept nogil:
    """Cut a column back to its first `count` values, and its children accordingly."""
    cdef Column *column = &table.columns[c]
    cdef int64_t kept = min(count, column.count)
    cdef int i
    if column.kind == BINARY:
        column.used = column.offsets[kept] if column.room else 0
    elif column.kind == LIST:
        # The items of a list are appended before the list: after a bad payload, the child column may have items of no
        # list.
        cut_back(table, table.children[column.first_child], column.offsets[kept] if column.room else 0)
    elif column.kind == STRUCT:
        for i in range(column.n_children):
            cut_back(table, table.children[column.first_child + i], count)
    if column.count > count:
        column.count = count


cdef void forget(Column *column) noexcept nogil:
    free(column.valid)
    free(column.data)
    free(column.offsets)
    column.valid = column.data = NULL
    column.offsets = NULL
    column.count = column.room = column.used = column.bytes_room = 0


cdef bint is_key(const Table *table, const Column *entry) noexcept nogil:
    """Whether the keys of a map can be compared byte by byte."""
    cdef const Column *key = &table.columns[table.children[entry.first_child]]
    return key.width > 0 or key.kind == BINARY


cdef class Shape:
    """A type as a tree of columns, in rows (kind, meaning, children, precision, scale) as above."""

    def __cinit__(self, list rows not None):
        cdef int32_t n = len(rows), i, filled = 0, parent
        cdef list open_parents = []
        cdef Column *column
        self.table.n_columns = n
        self.table.columns = <Column *> calloc(max(n, 1), sizeof(Column))
        self.table.children = <int32_t *> calloc(max(n, 1), sizeof(int32_t))
        if self.table.columns == NULL or self.table.children == NULL:
            raise MemoryError
        for i in range(n):
            column = &self.table.columns[i]
            column.kind, column.meaning, children, column.precision, column.scale = rows[i]
            if not (0 <= column.kind <= STRUCT and 0 <= column.meaning <= MAP and 0 <= column.precision <= 38):
                raise ValueError(f"row {i} is no column")
            if children < 0 or (children != 1 if column.kind == LIST else children and column.kind != STRUCT):
                raise ValueError(f"row {i} has {children} children")
            column.width = WIDTHS[column.kind]
            column.first_child = filled
            filled += children
            if filled >= n or (i > 0 and not open_parents):
                raise ValueError("rows do not make a tree")
            if open_parents:
                parent = open_parents.pop()
                column = &self.table.columns[parent]
                self.table.children[column.first_child + column.n_children] = i
                column.n_children += 1
                if column.n_children < rows[parent][2]:
                    open_parents.append(parent)
            if children:
                open_parents.append(i)
        if open_parents or not n:
            raise ValueError("rows do not make a tree")
        for i in range(n):
            if self.table.columns[i].kind == LIST and self.table.columns[i].meaning == MAP:
                column = &self.table.columns[self.table.children[self.table.columns[i].first_child]]
                if column.kind != STRUCT or column.n_children != 2 or not is_key(&self.table, column):
                    raise ValueError(f"row {i} is no map")

    def __dealloc__(self):
        free(self.table.columns)
        free(self.table.children)


cdef class Columns:
    """The columns of one batch of payloads, with their values."""

    def __cinit__(self, Shape shape not None):
        cdef size_t size = shape.table.n_columns * sizeof(Column)
        self.shape = shape
        self.table = shape.table
        self.table.columns = <Column *> malloc(size)
        if self.table.columns == NULL:
            raise MemoryError
        memcpy(self.table.columns, shape.table.columns, size)

    def __dealloc__(self):
        cdef int32_t i
        if self.table.columns != NULL and self.table.columns != self.shape.table.columns:
            for i in range(self.table.n_columns):
                forget(&self.table.columns[i])
            free(self.table.columns)

    cdef list finish(self):
        return [self.finish_column(&self.table.columns[i]) for i in range(self.table.n_columns)]

    cdef tuple finish_column(self, Column *column):
        """Return (count, nulls, validity or None, data or None, offsets or None) of a column, and free it."""
        cdef int64_t nulls = 0, i, count
        for i in range(column.count):
            nulls += column.valid[i] == 0
        count = column.count
        data = offsets = None
        if column.kind == BOOLEAN:
            data = pack_bits(column.data, column.count)
        elif column.kind == BINARY:
            data = PyBytes_FromStringAndSize(<char *> column.data, column.used)
        elif column.width:
            data = PyBytes_FromStringAndSize(<char *> column.data, column.count * column.width)
        if column.kind == BINARY or column.kind == LIST:
            offsets = bytes(4)
            if column.count:
                offsets = PyBytes_FromStringAndSize(<char *> column.offsets, (column.count + 1) * sizeof(int32_t))
        validity = pack_bits(column.valid, column.count) if nulls else None
        forget(column)  # free the column at once, or all values would be in memory twice
        return count, nulls, validity, data, offsets


cdef bytes pack_bits(const uint8_t *values, int64_t count):
    packed = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *bits = <uint8_t *> <char *> packed
    cdef int64_t i
    memset(bits, 0, (count + 7) // 8)
    for i in range(count):
        bits[i >> 3] |= (values[i] != 0) << (i & 7)
    return packed


# --- keys of a map -----------------------------------------------------------------------------------------------------

cdef int compare_keys(const void *one, const void *other) noexcept nogil:
    cdef const Key *a = <const Key *> one
    cdef const Key *b = <const Key *> other
    if a.size != b.size:
        return -1 if a.size < b.size else 1
    return memcmp(a.start, b.start, a.size) if a.size else 0


cdef inline Key key_of(const Column *column, int64_t i) noexcept nogil:
    cdef Key key
    if column.kind == BINARY:
        key.start = column.data + column.offsets[i]
        key.size = column.offsets[i + 1] - column.offsets[i]
    else:
        key.start = column.data + i * column.width
        key.size = column.width
    return key


cdef bint same_key_twice(Table *table, const Column *entry, int64_t begun) noexcept nogil:
    """Whether the entries from the begun-th on have a duplicate key, which readers of Parquet refuse."""
    cdef const Column *keys = &table.columns[table.children[entry.first_child]]
    cdef int64_t count = entry.count - begun, i, j
    cdef Key *sorted_keys
    cdef Key key, other
    cdef bint found = False
    if count < 2:
        return False
    if count <= 8:
        for i in range(begun + 1, entry.count):
            key = key_of(keys, i)
            for j in range(begun, i):
                other = key_of(keys, j)
                if compare_keys(&key, &other) == 0:
                    return True
        return False
    sorted_keys = <Key *> malloc(count * sizeof(Key))
    if sorted_keys == NULL:
        return True
    for i in range(count):
        sorted_keys[i] = key_of(keys, begun + i)
    qsort(sorted_keys, count, sizeof(Key), compare_keys)
    for i in range(1, count):
        if compare_keys(&sorted_keys[i - 1], &sorted_keys[i]) == 0:
            found = True
            break
    free(sorted_keys)
    return found


cdef int check_index(int64_t index, Py_ssize_t count) except -1:
    """Check an index against a count. Raises ValueError for one out of range."""
    if not 0 <= index < count:
        raise ValueError(f"{index} is none of {count}")
    return 0
