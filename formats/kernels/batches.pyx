"""The headers of the batches in a window of a log, one row of int64 for each: columns in BATCH_COLUMNS.

A table is a two-dimensional buffer: `memoryview(table)` or `numpy.asarray(table)` has the shape (rows, columns),
without a copy. Layout of a header: KIP-98 (magic 2), KIP-32 (magic 1).
"""

from cpython.pyport cimport PY_SSIZE_T_MAX
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t
from libc.stdlib cimport free, realloc

BATCH_COLUMNS = (
    "position", "start", "size", "base_offset", "last_offset", "leader_epoch", "magic", "attributes", "crc",
    "crc_computed", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
    "faults",
)


cdef int foreign(Py_ssize_t i) except -1 nogil:
    with gil:
        raise ValueError(f"row {i}: the batches are not of this buffer")


cdef class RowTable:
    """Rows of int64 in C memory, shown to Python as a read-only two-dimensional buffer of the rows in use."""

    def __dealloc__(self):
        free(self.cells)

    def __len__(self):
        return self.count

    cdef int _reserve(self, Py_ssize_t rows) except -1 nogil:
        cdef int64_t *grown
        cdef Py_ssize_t capacity
        if rows <= self.capacity:
            return 0
        if rows > PY_SSIZE_T_MAX // 2 // (self.width * <Py_ssize_t>sizeof(int64_t)):
            with gil:
                raise MemoryError
        if self.exports:
            with gil:
                raise BufferError("the table cannot grow while a view of it is held")
        capacity = max(rows, self.capacity * 2, 256)
        grown = <int64_t *>realloc(self.cells, capacity * self.width * sizeof(int64_t))
        if grown == NULL:
            with gil:
                raise MemoryError
        self.cells = grown
        self.capacity = capacity
        return 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("read-only")
        self.shape[0] = self.count
        self.shape[1] = self.width
        self.strides[0] = self.width * sizeof(int64_t)
        self.strides[1] = sizeof(int64_t)
        view.buf = self.cells
        view.obj = self
        view.len = self.count * self.width * sizeof(int64_t)
        view.readonly = 1
        view.itemsize = sizeof(int64_t)
        view.format = b"q"
        view.ndim = 2
        view.shape = self.shape
        view.strides = self.strides
        view.suboffsets = NULL
        view.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1

    cdef object _row(self, Py_ssize_t i):
        if i < 0 or i >= self.count:
            raise IndexError(i)
        return tuple([self.cells[i * self.width + k] for k in range(self.width)])


cdef class BatchTable(RowTable):
    """Batch headers of one window. `scan` adds the rows; other kernels add bits to the column `faults`."""

    def __cinit__(self):
        self.width = sizeof(Batch) // sizeof(int64_t)

    def clear(self):
        self.count = 0

    def drop_last(self):
        """Remove the last row."""
        if self.count == 0:
            raise IndexError
        self.count -= 1

    def row(self, Py_ssize_t i):
        """Return row i as a tuple in the order of BATCH_COLUMNS."""
        return self._row(i)

    def field(self, Py_ssize_t i, Py_ssize_t column):
        """Return one cell of row i. column: the index of the cell's column in BATCH_COLUMNS."""
        if i < 0 or i >= self.count or column < 0 or column >= self.width:
            raise IndexError((i, column))
        return self.cells[i * self.width + column]

    def header_size(self, Py_ssize_t i):
        """Return the size in bytes of batch i's header: 61 in magic 2, 0 for a magic 0 or 1 message."""
        if i < 0 or i >= self.count:
            raise IndexError(i)
        return 61 if self.at(i).magic >= 2 else 0

    def run(self, Py_ssize_t i):
        """Return (end, codec): rows [i, end) are uncompressed (codec 0), or row i alone is compressed (end is i + 1).

        A codec id above 4, which is unknown, counts as uncompressed."""
        cdef Py_ssize_t first = i
        cdef Batch *b
        if i < 0 or i >= self.count:
            raise IndexError(i)
        while i < self.count:
            b = self.at(i)
            if b.attributes & 7 and not b.faults & (FAULT_BAD_CODEC | FAULT_SHORT_HEADER):
                if i > first:
                    return i, 0
                return i + 1, b.attributes & 7
            i += 1
        return i, 0

    def add_fault(self, Py_ssize_t i, int64_t bits):
        """Set FAULT_* bits on row i."""
        if i < 0 or i >= self.count:
            raise IndexError(i)
        self.at(i).faults |= bits

    def select(self, *, int64_t from_offset=INT64_MIN, int64_t to_offset=INT64_MAX, int64_t from_time=INT64_MIN, int64_t to_time=INT64_MAX,
               producer_id=None, int codec=-1):
        """Remove the batches that cannot hold a record in these ranges. from is inclusive, to exclusive; times in ms.

        Base timestamps are no lower bound of the records' timestamps, so to_time removes only batches of LogAppendTime.
        """
        cdef Py_ssize_t i, kept = 0
        cdef Batch *b
        cdef int64_t wanted = -2 if producer_id is None else producer_id
        for i in range(self.count):
            b = self.at(i)
            if b.last_offset < from_offset or (b.magic >= 2 and b.base_offset >= to_offset):
                continue
            if b.magic >= 1 and (b.max_timestamp < from_time or (b.attributes & 8 and b.max_timestamp >= to_time)):
                continue
            if wanted != -2 and b.producer_id != wanted:
                continue
            if codec >= 0 and (b.attributes & 7) != codec:
                continue
            if kept != i:
                self.at(kept)[0] = b[0]
            kept += 1
        self.count = kept

    def first_fault(self, Py_ssize_t i=0):
        """Return the first row at or after i with a fault bit, or -1."""
        while i < self.count:
            if self.at(i).faults:
                return i
            i += 1
        return -1


def drop_batches(BatchTable table not None, *, int64_t faults=0, bint control=False,
                 const int64_t[::1] aborted=None):
    """Remove batches with one of these FAULT_* bits, control batches, and batches of aborted transactions.

    aborted: int64 triples of producer id, first and last offset, sorted; those of one producer do not overlap.
    """
    cdef Py_ssize_t i, kept = 0
    cdef Py_ssize_t transactions = 0 if aborted is None else aborted.shape[0] // 3
    cdef const int64_t *ranges = &aborted[0] if transactions else NULL
    cdef Batch *b
    if table.exports:
        raise BufferError("a view of the table is still held")
    with nogil:
        for i in range(table.count):
            b = table.at(i)
            if b.faults & faults:
                continue
            if b.magic >= 2 and b.attributes & 32:
                if control:
                    continue
            elif transactions and b.magic >= 2 and b.attributes & 16 and is_aborted(ranges, transactions, b):
                continue
            if kept != i:
                table.at(kept)[0] = b[0]
            kept += 1
    table.count = kept


cdef bint is_aborted(const int64_t *ranges, Py_ssize_t count, Batch *b) noexcept nogil:
    """Whether the producer's last range that begins at or below the batch's base offset contains that offset."""
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if (ranges[3 * middle] < b.producer_id
                or (ranges[3 * middle] == b.producer_id and ranges[3 * middle + 1] <= b.base_offset)):
            low = middle + 1
        else:
            high = middle
    return low > 0 and ranges[3 * low - 3] == b.producer_id and ranges[3 * low - 1] >= b.base_offset


def odd_offsets(BatchTable table not None, int64_t last, int64_t low, int64_t high, Py_ssize_t first=0):
    """Return (row, last) of the first row from `first` on whose offsets are out of range or order, or row -1 for none.

    Such a batch begins below `low`, ends at or above `high`, or begins at or below `last`: the largest offset before
    it.
    """
    cdef Py_ssize_t i
    cdef Batch *b
    if first < 0:
        raise IndexError(first)
    for i in range(first, table.count):
        b = table.at(i)
        if b.base_offset < low or b.last_offset >= high or b.base_offset <= last:
            return i, last
        last = max(last, b.last_offset)
    return -1, last


def has_transactions(BatchTable table not None):
    """Whether any batch is transactional: records of a transaction or its marker."""
    cdef Py_ssize_t i
    for i in range(table.count):
        if table.at(i).magic >= 2 and table.at(i).attributes & 16:
            return True
    return False
