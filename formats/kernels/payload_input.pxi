# Payloads as an Arrow binary array has them, Confluent's header, varints, UTF-8.

cdef struct Cursor:
    const uint8_t *start
    const uint8_t *at
    const uint8_t *end
    int64_t items_left


cdef inline Fault read_varint(Cursor *cursor, uint64_t *value) noexcept nogil:
    cdef int shift = 7
    cdef uint8_t byte
    if cursor.at >= cursor.end:
        return CUT
    byte = cursor.at[0]
    cursor.at += 1
    value[0] = byte & 0x7F
    while byte >= 0x80:
        if cursor.at >= cursor.end:
            return CUT
        byte = cursor.at[0]
        if shift == 63 and byte > 1:
            return LONG_VARINT
        cursor.at += 1
        value[0] |= <uint64_t> (byte & 0x7F) << shift
        shift += 7
    return OK


cdef inline Fault read_zigzag(Cursor *cursor, int64_t *value) noexcept nogil:
    cdef uint64_t raw
    cdef Fault fault = read_varint(cursor, &raw)
    if fault == OK:
        value[0] = <int64_t> (raw >> 1) ^ -<int64_t> (raw & 1)
    return fault


cdef int64_t utf8_fault(const uint8_t *data, int64_t size) noexcept nogil:
    """The first byte that is not of UTF-8 text (no surrogates, nothing overlong, nothing above U+10FFFF); -1: none."""
    cdef int64_t i = 0
    cdef uint64_t word
    cdef uint32_t byte, following
    while i < size:
        if size - i >= 8:
            memcpy(&word, data + i, 8)
            if word & 0x8080808080808080ULL == 0:
                i += 8
                continue
        byte = data[i]
        if byte < 0x80:
            i += 1
            continue
        if byte < 0xC2 or byte > 0xF4 or size - i < 2:
            return i
        following = data[i + 1]
        if following & 0xC0 != 0x80:
            return i
        if byte < 0xE0:
            i += 2
        elif byte < 0xF0:
            if size - i < 3 or data[i + 2] & 0xC0 != 0x80:
                return i
            if (byte == 0xE0 and following < 0xA0) or (byte == 0xED and following > 0x9F):
                return i
            i += 3
        else:
            if size - i < 4 or data[i + 2] & 0xC0 != 0x80 or data[i + 3] & 0xC0 != 0x80:
                return i
            if (byte == 0xF0 and following < 0x90) or (byte == 0xF4 and following > 0x8F):
                return i
            i += 4
    return -1


cdef Fault header_size(const uint8_t *data, int64_t size, int header, int64_t *found) noexcept nogil:
    """How long the header before a value is."""
    cdef Cursor cursor
    cdef int64_t count, index
    cdef Fault fault
    found[0] = 0
    if header == H_NONE:
        return OK
    if size < 5 or data[0] != 0:
        return NO_CONFLUENT_HEADER
    found[0] = 5
    if header == H_SCHEMA_MESSAGE:
        cursor.start = data
        cursor.at = data + 5
        cursor.end = data + size
        fault = read_zigzag(&cursor, &count)
        if fault != OK or count < 0 or count > DEPTH_MAX:
            return NO_CONFLUENT_HEADER
        while count > 0:
            fault = read_zigzag(&cursor, &index)
            if fault != OK:
                return NO_CONFLUENT_HEADER
            count -= 1
        found[0] = cursor.at - data
    return OK


cdef class Payloads:
    """A column of payloads: count + 1 offsets into the data, and whether each is there.

    offsets: int32. valid: a byte each. Raises ValueError where the offsets do not lie within the data, or decrease.
    """

    cdef const int32_t[::1] offsets
    cdef const uint8_t[::1] data
    cdef const uint8_t[::1] valid
    cdef const uint8_t *start
    cdef readonly int64_t count

    def __cinit__(self, const int32_t[::1] offsets not None, const uint8_t[::1] data not None,
                  const uint8_t[::1] valid not None):
        cdef int64_t i
        cdef bint fit
        self.offsets, self.data, self.valid = offsets, data, valid
        self.count = valid.shape[0]
        self.start = &data[0] if data.shape[0] else <const uint8_t *> b""
        fit = offsets.shape[0] == self.count + 1 and offsets[0] >= 0 and offsets[self.count] <= data.shape[0]
        if fit:
            for i in range(self.count):
                fit &= offsets[i] <= offsets[i + 1]
        if not fit:
            raise ValueError("offsets do not fit the data")

    def headers(self, int header):
        """All different headers before the values, as bytes; payloads without one are passed over."""
        cdef int64_t row, size, last_size = -1
        cdef const uint8_t *data
        cdef const uint8_t *last = NULL
        cdef set found = set()
        for row in range(self.count):
            if not self.valid[row]:
                continue
            data = self.start + self.offsets[row]
            if header_size(data, self.offsets[row + 1] - self.offsets[row], header, &size) != OK:
                continue
            if size != last_size or memcmp(data, last, size) != 0:
                found.add(PyBytes_FromStringAndSize(<const char *> data, size))
                last, last_size = data, size
        return found


cdef class Routes:
    """Which program's beginning stands for which header."""

    cdef list headers
    cdef int n
    cdef const uint8_t **starts
    cdef int64_t *sizes
    cdef int32_t *roots
    cdef int last

    def __cinit__(self, dict roots not None, Py_ssize_t programs):
        """programs: how many beginnings there are. Raises ValueError for a root beyond them."""
        cdef int i = 0
        self.headers = list(roots)
        self.n = len(roots)
        self.starts = <const uint8_t **> calloc(max(self.n, 1), sizeof(void *))
        self.sizes = <int64_t *> calloc(max(self.n, 1), sizeof(int64_t))
        self.roots = <int32_t *> calloc(max(self.n, 1), sizeof(int32_t))
        if self.starts == NULL or self.sizes == NULL or self.roots == NULL:
            raise MemoryError
        for header in self.headers:
            self.starts[i] = <const uint8_t *> <const char *> (<bytes> header)
            self.sizes[i] = len(header)
            self.roots[i] = roots[header]
            if not 0 <= self.roots[i] < programs:
                raise ValueError(f"no program begins at {self.roots[i]}")
            i += 1

    def __dealloc__(self):
        free(self.starts)
        free(self.sizes)
        free(self.roots)

    cdef int32_t find(self, const uint8_t *header, int64_t size) noexcept nogil:
        """The root of the program, or -1."""
        cdef int i
        if self.n and self.sizes[self.last] == size and memcmp(self.starts[self.last], header, size) == 0:
            return self.roots[self.last]
        for i in range(self.n):
            if self.sizes[i] == size and memcmp(self.starts[i], header, size) == 0:
                self.last = i
                return self.roots[i]
        return -1


cdef class Decoding:
    """What all decoders do: payload by payload into columns, a null and a fault where one does not decode."""

    cdef Columns columns
    cdef list faults

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        return OK

    cdef tuple run(self, Payloads payloads, int header, Routes routes):
        """(columns, [(row, fault, byte)])"""
        cdef Cursor cursor
        cdef int64_t row, size
        cdef int32_t root
        cdef Fault fault
        cdef Table *table = &self.columns.table
        cdef int64_t count = payloads.count
        self.faults = []
        with nogil:
            for row in range(count):
                if not payloads.valid[row]:
                    if append_null(table, 0) != OK:
                        with gil:
                            raise MemoryError
                    continue
                cursor.start = payloads.start + payloads.offsets[row]
                cursor.at = cursor.start
                cursor.end = payloads.start + payloads.offsets[row + 1]
                cursor.items_left = cursor.end - cursor.start + ITEMS_FREE
                fault = header_size(cursor.start, cursor.end - cursor.start, header, &size)
                if fault == OK:
                    root = routes.find(cursor.start, size)
                    if root < 0:
                        fault = OTHER_HEADER
                    else:
                        cursor.at += size
                        fault = self.decode_one(&cursor, root)
                        if fault == OK and cursor.at != cursor.end:
                            fault = TRAILING
                if fault != OK:
                    cut_back(table, 0, row)
                    if fault == NO_MEMORY or append_null(table, 0) != OK:
                        with gil:
                            raise MemoryError
                    with gil:
                        self.faults.append((row, <int> fault, cursor.at - cursor.start))
        return self.columns.finish(), self.faults
