"""The two tables that every kernel fills or reads."""

cdef struct Batch:
    int64_t position          # byte in the file
    int64_t start             # byte in the window
    int64_t size              # bytes, offset and length fields included
    int64_t base_offset
    int64_t last_offset
    int64_t leader_epoch
    int64_t magic
    int64_t attributes
    int64_t crc               # as stored
    int64_t crc_computed      # over the bytes that are there
    int64_t base_timestamp    # ms; the delete horizon where attribute bit 6 is set
    int64_t max_timestamp     # ms
    int64_t producer_id
    int64_t producer_epoch
    int64_t base_sequence
    int64_t count             # records as stated; -1 for magic 0 and 1
    int64_t faults            # FAULT_* bits

cdef struct Record:
    int64_t offset
    int64_t timestamp         # ms
    int64_t key_start
    int64_t key_length        # -1: null
    int64_t value_start
    int64_t value_length      # -1: null
    int64_t headers_start     # first byte of the first header
    int64_t headers_count
    int64_t batch             # row in the BatchTable
    int64_t start             # first byte of the record, its length varint included
    int64_t crc               # magic 0 and 1: as stored, else -1
    int64_t valid             # magic 0 and 1: CRC holds

BATCH_COLUMNS = (
    "position", "start", "size", "base_offset", "last_offset", "leader_epoch", "magic", "attributes", "crc",
    "crc_computed", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "count",
    "faults",
)
RECORD_COLUMNS = (
    "offset", "timestamp", "key_start", "key_length", "value_start", "value_length", "headers_start", "headers_count",
    "batch", "start", "crc", "valid",
)

# What can be wrong with a batch whose bounds are known. The first group is what makes Kafka throw when it iterates.
cdef enum:
    C_SHORT_HEADER = 1            # the length leaves no room for the header
    C_BAD_CODEC = 2               # codec id 5, 6 or 7
    C_BAD_PAYLOAD = 4             # does not decompress
    C_BAD_RECORD = 8              # a record's structure; see RecordTable.fault
    C_COUNT_TOO_HIGH = 16         # the payload ends before the stated count
    C_COUNT_TOO_LOW = 32          # bytes are left behind the last stated record
    C_BAD_CRC = 64
    C_OFFSETS_NOT_INCREASING = 128
    C_OFFSET_OUT_OF_RANGE = 256   # a delta below 0 or above the last offset delta
    C_MAX_TIMESTAMP = 512         # differs from the records' maximum
    C_HEADER_NOT_UTF8 = 1024
    C_NEGATIVE_COUNT = 2048
    C_CONTROL_KEY = 4096          # a control record without a readable type
    C_BAD_INNER = 8192            # a wrapped message (magic 0, 1) whose CRC or magic is off
    C_BAD_MAGIC = 16384           # above 2: Kafka reads it as 2

FAULT_SHORT_HEADER = C_SHORT_HEADER
FAULT_BAD_CODEC = C_BAD_CODEC
FAULT_BAD_PAYLOAD = C_BAD_PAYLOAD
FAULT_BAD_RECORD = C_BAD_RECORD
FAULT_COUNT_TOO_HIGH = C_COUNT_TOO_HIGH
FAULT_COUNT_TOO_LOW = C_COUNT_TOO_LOW
FAULT_BAD_CRC = C_BAD_CRC
FAULT_OFFSETS_NOT_INCREASING = C_OFFSETS_NOT_INCREASING
FAULT_OFFSET_OUT_OF_RANGE = C_OFFSET_OUT_OF_RANGE
FAULT_MAX_TIMESTAMP = C_MAX_TIMESTAMP
FAULT_HEADER_NOT_UTF8 = C_HEADER_NOT_UTF8
FAULT_NEGATIVE_COUNT = C_NEGATIVE_COUNT
FAULT_CONTROL_KEY = C_CONTROL_KEY
FAULT_BAD_INNER = C_BAD_INNER
FAULT_BAD_MAGIC = C_BAD_MAGIC


cdef int64_t MAX = 0x7fffffffffffffff
cdef int64_t MIN = -MAX - 1


# Offsets and timestamps come from files: sums and differences of them wrap as Java's longs do, where C says nothing.

cdef inline int64_t plus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a + <uint64_t>b)


cdef inline int64_t minus(int64_t a, int64_t b) noexcept nogil:
    return <int64_t>(<uint64_t>a - <uint64_t>b)


cdef inline bint fits_index(int64_t offset, int64_t base) noexcept nogil:
    """Is the offset an int32 at or above the base offset, as entries of indexes hold it? One that has passed 2^63 - 1
    is, too: the difference is Java's. Source: AbstractIndex.toRelative."""
    return <uint64_t>offset - <uint64_t>base <= 0x7fffffff


cdef inline bint lies_in(const Batch *b, Py_ssize_t size) noexcept nogil:
    """Is all of the batch in a buffer of so many bytes? `scan` has made the row, of some buffer: start is not negative."""
    return b.size <= size and b.start <= size - b.size


cdef int foreign(Py_ssize_t i) except -1 nogil:
    with gil:
        raise ValueError(f"row {i}: the batches are not of this buffer")


cdef class _Table:
    """Rows of int64 in C memory, shown to Python as a read-only two-dimensional buffer of the rows in use."""

    cdef int64_t *cells
    cdef readonly Py_ssize_t count      # rows in use
    cdef Py_ssize_t capacity
    cdef Py_ssize_t width
    cdef int exports
    cdef Py_ssize_t shape[2]
    cdef Py_ssize_t strides[2]

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


cdef class BatchTable(_Table):
    """Batch headers of one window. Filled by `scan`; `faults` is added to by the other kernels."""

    def __cinit__(self):
        self.width = sizeof(Batch) // sizeof(int64_t)

    cdef inline Batch *at(self, Py_ssize_t i) noexcept nogil:
        return (<Batch *>self.cells) + i

    def clear(self):
        self.count = 0

    def drop_last(self):
        """Forget the last row."""
        if self.count == 0:
            raise IndexError
        self.count -= 1

    def row(self, Py_ssize_t i):
        """Row i as a tuple in the order of BATCH_COLUMNS."""
        return self._row(i)

    def field(self, Py_ssize_t i, Py_ssize_t column):
        """One cell: row i, column number as in BATCH_COLUMNS."""
        if i < 0 or i >= self.count or column < 0 or column >= self.width:
            raise IndexError((i, column))
        return self.cells[i * self.width + column]

    def header_size(self, Py_ssize_t i):
        """Bytes of batch i before its records: 61 in magic 2; a magic 0 or 1 message has no header of its own."""
        if i < 0 or i >= self.count:
            raise IndexError(i)
        return 61 if self.at(i).magic >= 2 else 0

    def run(self, Py_ssize_t i):
        """(end, codec): rows [i, end) are uncompressed (codec 0), or row i alone is compressed. A codec id above 4 counts
        as uncompressed: there is nothing to decompress."""
        cdef Py_ssize_t first = i
        cdef Batch *b
        if i < 0 or i >= self.count:
            raise IndexError(i)
        while i < self.count:
            b = self.at(i)
            if b.attributes & 7 and not b.faults & (C_BAD_CODEC | C_SHORT_HEADER):
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

    def select(self, *, int64_t from_offset=MIN, int64_t to_offset=MAX, int64_t from_time=MIN, int64_t to_time=MAX,
               producer_id=None, int codec=-1):
        """Drop the batches that cannot hold a wanted record. from is inclusive, to exclusive; times in ms.

        A batch's base timestamp bounds nothing, so to_time only drops batches of LogAppendTime.
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
        """The first row at or after i that has any fault bit, or -1."""
        while i < self.count:
            if self.at(i).faults:
                return i
            i += 1
        return -1
