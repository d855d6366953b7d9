# Columns that grow value by value, and can be cut back to where a payload began. A validity is a byte here, a bit outside.

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
    if column.kind == K_BINARY or column.kind == K_LIST:
        moved = realloc(column.offsets, (room + 1) * sizeof(int32_t))
        if moved == NULL:
            return NO_MEMORY
        column.offsets = <int32_t *> moved
        column.offsets[0] = 0
    column.room = room
    return OK


cdef inline Fault next_value(Column *column) noexcept nogil:
    """Make room for one more value."""
    if column.count == column.room:
        return grow(column)
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
    elif column.kind == K_STRUCT:
        for i in range(column.n_children):
            fault = append_null(table, table.children[column.first_child + i])
            if fault != OK:
                return fault
    else:
        column.offsets[column.count + 1] = column.offsets[column.count]
    column.count += 1
    return OK


cdef inline Fault append_valid(Column *column) noexcept nogil:
    """One more struct; its children get their values on their own."""
    cdef Fault fault = next_value(column)
    if fault == OK:
        column.valid[column.count] = 1
        column.count += 1
    return fault


cdef inline Fault end_list(Table *table, Column *column) noexcept nogil:
    """One more list: of what its child got since the last one."""
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
    """More bytes of the value that `append_bytes` will end."""
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


cdef Fault append_decimal(Column *column, int128 unscaled, int scale) noexcept nogil:
    """A decimal of another scale, which may be smaller than the column's, or larger by zeros."""
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


cdef inline Fault append_double(Column *column, double value) noexcept nogil:
    cdef Fault fault = next_value(column)
    if fault != OK:
        return fault
    if column.kind == K_DOUBLE:
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
    if column.kind == K_INT64:
        (<int64_t *> column.data)[column.count] = value
    elif column.kind == K_INT32:
        if value > INT32_MAX or value < INT32_MIN:
            return OUT_OF_RANGE
        (<int32_t *> column.data)[column.count] = <int32_t> value
    elif column.kind == K_BOOLEAN:
        column.data[column.count] = value != 0
    elif column.kind == K_DECIMAL:
        return append_decimal(column, value, 0)
    elif column.kind == K_INT16:
        if value > 32767 or value < -32768:
            return OUT_OF_RANGE
        (<int16_t *> column.data)[column.count] = <int16_t> value
    elif column.kind == K_INT8:
        if value > 127 or value < -128:
            return OUT_OF_RANGE
        (<int8_t *> column.data)[column.count] = <int8_t> value
    else:
        return append_double(column, <double> value)
    column.valid[column.count] = 1
    column.count += 1
    return OK


cdef void cut_back(Table *table, int32_t c, int64_t count) noexcept nogil:
    """Forget all values from the count-th on, those of the children with them."""
    cdef Column *column = &table.columns[c]
    cdef int64_t kept = min(count, column.count)
    cdef int i
    if column.kind == K_BINARY:
        column.used = column.offsets[kept] if column.room else 0
    elif column.kind == K_LIST:
        # Items come before their list, so the child may be ahead of the list where a payload broke off.
        cut_back(table, table.children[column.first_child], column.offsets[kept] if column.room else 0)
    elif column.kind == K_STRUCT:
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
    """Can the first field of a map's entries be compared byte by byte?"""
    cdef const Column *key = &table.columns[table.children[entry.first_child]]
    return key.width > 0 or key.kind == K_BINARY


cdef class Shape:
    """A type as a tree of columns: rows of (kind, meaning, children, precision, scale). See the module."""

    cdef Table table

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
            if not (0 <= column.kind <= K_STRUCT and 0 <= column.meaning <= M_MAP and 0 <= column.precision <= 38):
                raise ValueError(f"row {i} is no column")
            if children < 0 or (children != 1 if column.kind == K_LIST else children and column.kind != K_STRUCT):
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
            if self.table.columns[i].kind == K_LIST and self.table.columns[i].meaning == M_MAP:
                column = &self.table.columns[self.table.children[self.table.columns[i].first_child]]
                if column.kind != K_STRUCT or column.n_children != 2 or not is_key(&self.table, column):
                    raise ValueError(f"row {i} is no map")

    def __dealloc__(self):
        free(self.table.columns)
        free(self.table.children)


cdef class Columns:
    """The values of one batch."""

    cdef Table table
    cdef Shape shape

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
        """(count, nulls, validity or None, data or None, offsets or None)"""
        cdef int64_t nulls = 0, i, count
        for i in range(column.count):
            nulls += column.valid[i] == 0
        count = column.count
        data = offsets = None
        if column.kind == K_BOOLEAN:
            data = pack_bits(column.data, column.count)
        elif column.kind == K_BINARY:
            data = PyBytes_FromStringAndSize(<char *> column.data, column.used)
        elif column.width:
            data = PyBytes_FromStringAndSize(<char *> column.data, column.count * column.width)
        if column.kind == K_BINARY or column.kind == K_LIST:
            offsets = bytes(4)
            if column.count:
                offsets = PyBytes_FromStringAndSize(<char *> column.offsets, (column.count + 1) * sizeof(int32_t))
        validity = pack_bits(column.valid, column.count) if nulls else None
        forget(column)  # at once: else all values would be there twice
        return count, nulls, validity, data, offsets


cdef bytes pack_bits(const uint8_t *values, int64_t count):
    packed = PyBytes_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *bits = <uint8_t *> <char *> packed
    cdef int64_t i
    memset(bits, 0, (count + 7) // 8)
    for i in range(count):
        bits[i >> 3] |= (values[i] != 0) << (i & 7)
    return packed
