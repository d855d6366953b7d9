"""Payloads in the layout of an Arrow binary array, and the loop over them that all decoders share.

A program maps the fields of a payload to columns (see avro.pyx and protobuf.pyx; for JSON the names of fields are
enough). Payloads may begin with Confluent's header, which chooses the program:

    NO_HEADER       the whole payload is the value
    SCHEMA_ID       byte 0, then the schema's id, 4 bytes big endian
    SCHEMA_MESSAGE  the same, then which message of a Protobuf schema: zigzag varints, a count, then the indexes;
                    a count of 0 stands for the one index 0

A payload that does not decode becomes null, with a fault and its byte. Counts and lengths are checked against the
bytes that remain of the payload before memory is allocated; items of no bytes have a limit.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from formats.kernels.payload.columns cimport (
    DEPTH_MAX, NO_CONFLUENT_HEADER, NO_MEMORY, OK, OTHER_HEADER, TRAILING, Fault, Table, append_null, cut_back
)

cdef enum:
    ITEMS_FREE = 65536          # the most items without bytes that the arrays of one payload may have


cdef Fault header_size(const uint8_t *data, int64_t size, int header, int64_t *found) noexcept nogil:
    """Return the size in bytes of the header before a value."""
    cdef Cursor cursor
    cdef int64_t count, index
    cdef Fault fault
    found[0] = 0
    if header == NO_HEADER:
        return OK
    if size < 5 or data[0] != 0:
        return NO_CONFLUENT_HEADER
    found[0] = 5
    if header == SCHEMA_MESSAGE:
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
    """A column of payloads: count + 1 offsets into the data, and the validity of each payload.

    offsets: int32. valid: a byte each. Raises ValueError where the offsets do not lie within the data, or decrease.
    """

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
        """Return the different headers of the payloads; payloads without a whole header are skipped."""
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
    """Maps each header to the root of its program."""

    def __cinit__(self, dict roots not None, Py_ssize_t programs):
        """programs: the count of ops or messages that can be a root. Raises ValueError for a root beyond them."""
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
        """Return the root of a header's program, -1 for an unknown header."""
        cdef int i
        if self.n and self.sizes[self.last] == size and memcmp(self.starts[self.last], header, size) == 0:
            return self.roots[self.last]
        for i in range(self.n):
            if self.sizes[i] == size and memcmp(self.starts[i], header, size) == 0:
                self.last = i
                return self.roots[i]
        return -1


cdef class Decoding:
    """The base of all decoders: decodes payload by payload into columns, with null and a fault for a bad payload."""

    cdef Fault decode_one(self, Cursor *cursor, int32_t root) noexcept nogil:
        return OK

    cdef tuple run(self, Payloads payloads, int header, Routes routes):
        """Return (columns, [(row, fault, byte)])."""
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
