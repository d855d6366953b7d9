"""Build magic 2 record batches from the columns of an Arrow table: the inverse of ArrowRows."""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t, uint64_t

from formats.kernels.batches cimport V2_HEADER, Batch
from formats.kernels.buffer cimport TextBuffer, put_field, put_varint
from formats.kernels.numbers cimport minus, plus
from formats.kernels.varint cimport zigzag_size
from formats.kernels.write cimport RECORDS_BYTES_MAX, put_header

cdef enum:
    B_OFFSET = 0              # offset of the record
    B_TIMESTAMP = 1           # ms
    B_KEY = 2
    B_VALUE = 3
    B_HEADERS = 4
    B_BATCH_BASE = 5          # base offset of its batch; below 0: not known
    B_BATCH_LAST = 6          # last offset of its batch; below 0: not known
    B_BATCH_ID = 7            # equal for the records of one batch
    B_BASE_TIMESTAMP = 8      # base timestamp of its batch (ms), or the delete horizon; INT64_MIN: not known
    B_LEADER_EPOCH = 9
    B_PRODUCER_ID = 10
    B_PRODUCER_EPOCH = 11
    B_SEQUENCE = 12           # sequence of the record; -1: none
    B_ATTRIBUTES = 13         # attributes of its batch
    B_COUNT = 14

BUILD_COLUMNS = (
    "offset", "timestamp", "key", "value", "headers", "batch_base", "batch_last", "batch_id", "base_timestamp",
    "leader_epoch", "producer_id", "producer_epoch", "sequence", "attributes",
)
BUILD_UNKNOWN_TIMESTAMP = INT64_MIN

cpdef enum:
    BUILD_ROWS_DONE = 0
    BUILD_COMPRESS = 1
    BUILD_FULL = 2
    BUILD_FAULT = 3

BUILD_FAULTS = (
    "", "its offset is not above that of the record before", "its offset is negative", "a header without a key",
    "its batch is too large", "its compression codec is none that Kafka has",
)
cdef enum:
    Y_ORDER = 1
    Y_OFFSET = 2
    Y_HEADER = 3
    Y_SIZE = 4
    Y_CODEC = 5


cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #include <stdint.h>
    struct ArrowSchema {
      const char *format, *name, *metadata;
      int64_t flags, n_children;
      struct ArrowSchema **children;
      struct ArrowSchema *dictionary;
      void (*release)(struct ArrowSchema *);
      void *private_data;
    };
    struct ArrowArray {
      int64_t length, null_count, offset, n_buffers, n_children;
      const void **buffers;
      struct ArrowArray **children;
      struct ArrowArray *dictionary;
      void (*release)(struct ArrowArray *);
      void *private_data;
    };
    #endif
    """
    cdef struct ArrowSchema:
        const char *format
        int64_t n_children
        ArrowSchema **children
        ArrowSchema *dictionary
        void (*release)(ArrowSchema *) noexcept
    cdef struct ArrowArray:
        int64_t length, null_count, offset, n_buffers, n_children
        const void **buffers
        ArrowArray **children
        void (*release)(ArrowArray *) noexcept


cdef bint has_format(const ArrowSchema *schema, bytes wanted, int64_t children) except -1:
    return <bytes>schema.format == wanted and schema.n_children == children and schema.dictionary == NULL


cdef bint is_bytes(const ArrowSchema *schema, const ArrowArray *array) except -1:
    return has_format(schema, b"Z", 0) and array.n_buffers == 3


cdef bint are_headers(const ArrowSchema *schema, const ArrowArray *array) except -1:
    """Whether an Arrow column has the type of headers: a large_list of structs of two large_binary."""
    cdef ArrowSchema *item
    cdef ArrowArray *items
    if not has_format(schema, b"+L", 1) or array.n_buffers != 2 or array.n_children != 1:
        return False
    item, items = schema.children[0], array.children[0]
    if not has_format(item, b"+s", 2) or items.n_buffers != 1 or items.n_children != 2:
        return False
    return is_bytes(item.children[0], items.children[0]) and is_bytes(item.children[1], items.children[1])


cdef bint is_column(int k, const ArrowSchema *schema, const ArrowArray *array, int64_t rows) except -1:
    """Whether an Arrow column has the type that BUILD_COLUMNS requires at index k, and at least `rows` values."""
    if array.length < rows:
        return False
    if k == B_KEY or k == B_VALUE:
        return is_bytes(schema, array)
    if k == B_HEADERS:
        return are_headers(schema, array)
    return has_format(schema, b"l", 0) and array.n_buffers == 2 and array.null_count <= 0 and (
        array.null_count == 0 or array.buffers[0] == NULL)


cdef struct BytesColumn:
    const uint8_t *valid      # bitmap; NULL: no value is null
    const int64_t *starts
    const uint8_t *data
    int64_t first             # index of the column's row 0 in bitmap and starts


cdef inline bint is_null(const uint8_t *valid, int64_t at) noexcept nogil:
    return valid != NULL and not valid[at >> 3] >> (at & 7) & 1


cdef inline int64_t bytes_at(BytesColumn *column, int64_t i, const uint8_t **p) noexcept nogil:
    """Return the length of a value, -1 for null, and set its address."""
    cdef int64_t at = column.first + i
    if is_null(column.valid, at):
        return -1
    p[0] = column.data + column.starts[at]
    return column.starts[at + 1] - column.starts[at]


cdef void bytes_column(ArrowArray *array, int64_t first, BytesColumn *column) noexcept:
    column.valid = <const uint8_t *>array.buffers[0]
    column.starts = <const int64_t *>array.buffers[1]
    column.data = <const uint8_t *>array.buffers[2]
    column.first = first + array.offset


cdef class BatchBuilder:
    """Builds batches from the rows of any number of tables, in the order of their offsets.

        builder.start(*record_batch.__arrow_c_array__())
        while how := builder.run():            # BUILD_ROWS_DONE (0): all rows are processed
            BUILD_COMPRESS:  builder.compressed(compress(builder.codec, builder.records))
            BUILD_FULL:      write builder.out; builder.out.clear()
            BUILD_FAULT:     BUILD_FAULTS[builder.fault] is the fault of row builder.row
        builder.end()                          # completes the current batch; True: as BUILD_COMPRESS

    The table has BUILD_COLUMNS, in this order: key and value large_binary, headers large_list of struct of key and value
    (both large_binary), all others int64 without nulls. The caller must check what Arrow's interface cannot:
    offsets of binaries and lists lie within their buffers (pyarrow: record_batch.validate(full=True)).

    Consecutive rows with equal batch columns become one batch, with the base and last offsets, base timestamp and
    sequence of these columns. If the base offset is unknown, a batch ends at batch_bytes of records. codec: a codec
    id for all batches, or -1 for the codec in the attributes of each; control batches are never compressed.
    """

    cdef readonly TextBuffer out          # complete batches, end to end
    cdef readonly TextBuffer records      # the records of the current batch
    cdef readonly int fault
    cdef readonly int64_t batches, control_records
    cdef int64_t batch_bytes, full_bytes
    cdef int wanted_codec
    cdef object held                      # the objects that own the memory of the pointers below
    cdef readonly int64_t row
    cdef int64_t rows
    cdef const int64_t *numbers[14]
    cdef BytesColumn keys, values, header_keys, header_values
    cdef const uint8_t *header_lists
    cdef const uint8_t *header_items
    cdef const int64_t *header_starts
    cdef int64_t headers_first, items_first
    # The state of the current batch.
    cdef bint is_open, is_closing
    cdef Batch head
    cdef int64_t stated_base, stated_last, batch_id, stated_timestamp, attributes, last_offset, before

    def __init__(self, *, int codec=-1, int64_t batch_bytes=65536, int64_t full_bytes=4194304):
        if not -1 <= codec <= 4:
            raise ValueError(codec)
        self.out = TextBuffer()
        self.records = TextBuffer()
        self.wanted_codec = codec
        self.batch_bytes = batch_bytes
        self.full_bytes = full_bytes
        self.last_offset = -1
        self.before = -1

    @property
    def codec(self):
        """The codec id of the batch to compress."""
        return self.head.attributes & 7

    def start(self, schema_capsule not None, capsule not None):
        """Set the table whose rows are built next; its memory is kept alive. Raises ValueError for a table with other
        columns."""
        cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, b"arrow_schema")
        cdef ArrowArray *table = <ArrowArray *>PyCapsule_GetPointer(capsule, b"arrow_array")
        cdef ArrowArray *column
        cdef ArrowArray *items
        cdef int k
        if schema.release == NULL or table.release == NULL:
            raise ValueError("the table was given to somebody else")
        if not has_format(schema, b"+s", B_COUNT) or table.n_children != B_COUNT:
            raise ValueError("the columns are those of BUILD_COLUMNS")
        for k in range(B_COUNT):
            if not is_column(k, schema.children[k], table.children[k], table.offset + table.length):
                raise ValueError(f"the column {BUILD_COLUMNS[k]} is not of its type")
        if self.row < self.rows or self.is_closing:
            raise ValueError("rows are left of the table before")
        for k in range(B_COUNT):
            column = table.children[k]
            if k == B_KEY:
                bytes_column(column, table.offset, &self.keys)
            elif k == B_VALUE:
                bytes_column(column, table.offset, &self.values)
            elif k == B_HEADERS:
                self.header_lists = <const uint8_t *>column.buffers[0]
                self.header_starts = <const int64_t *>column.buffers[1]
                self.headers_first = table.offset + column.offset
                items = column.children[0]
                self.header_items = <const uint8_t *>items.buffers[0]
                self.items_first = items.offset
                bytes_column(items.children[0], items.offset, &self.header_keys)
                bytes_column(items.children[1], items.offset, &self.header_values)
            else:
                self.numbers[k] = <const int64_t *>column.buffers[1] + table.offset + column.offset
        self.held = capsule
        self.row = 0
        self.rows = table.length

    def run(self):
        """Build batches until the caller must act; return one of the BUILD_* constants."""
        cdef int how = BUILD_ROWS_DONE
        if self.fault:
            return BUILD_FAULT
        if self.is_closing:
            raise ValueError("the batch at hand is to be compressed")
        with nogil:
            while self.row < self.rows:
                if self.is_open and not self._goes_on():
                    if self._close(self.numbers[B_OFFSET][self.row]):
                        how = BUILD_COMPRESS
                        break
                if not self.is_open:
                    if self.out.size >= self.full_bytes:
                        how = BUILD_FULL
                        break
                    self._begin()
                self._add(self.records)
                if self.fault:
                    how = BUILD_FAULT
                    break
                self.row += 1
        return how

    def end(self):
        """Complete the current batch; return True if its records must be compressed first."""
        return self.is_open and bool(self._close(INT64_MAX))

    def compressed(self, const uint8_t[::1] data not None):
        """Complete the current batch with its compressed records."""
        if not self.is_closing:
            raise ValueError("no batch is to be compressed")
        self._put(&data[0] if data.shape[0] else NULL, data.shape[0])

    cdef bint _goes_on(self) noexcept nogil:
        """Whether the current row belongs to the current batch."""
        cdef int64_t i = self.row
        cdef int64_t offset = self.numbers[B_OFFSET][i]
        cdef int64_t sequence = self.numbers[B_SEQUENCE][i]
        if (self.numbers[B_BATCH_BASE][i] != self.stated_base
                or self.numbers[B_BATCH_ID][i] != self.batch_id
                or self.numbers[B_BATCH_LAST][i] != self.stated_last
                or self.numbers[B_BASE_TIMESTAMP][i] != self.stated_timestamp
                or self.numbers[B_ATTRIBUTES][i] != self.attributes
                or self.numbers[B_LEADER_EPOCH][i] != self.head.leader_epoch
                or self.numbers[B_PRODUCER_ID][i] != self.head.producer_id
                or self.numbers[B_PRODUCER_EPOCH][i] != self.head.producer_epoch):
            return False
        if <uint64_t>offset - <uint64_t>self.head.base_offset > 0x7fffffff:
            return False
        if self.head.attributes & 8 and self.numbers[B_TIMESTAMP][i] != self.head.max_timestamp:
            return False
        if self.head.base_sequence < 0:
            if sequence >= 0 and self.head.producer_id >= 0:
                return False
        elif sequence != plus(self.head.base_sequence, minus(offset, self.head.base_offset)) & 0x7fffffff:
            return False
        return self.stated_base >= 0 or self.records.size < self.batch_bytes

    cdef void _begin(self) noexcept nogil:
        """Begin a batch whose first record is the current row."""
        cdef int64_t i = self.row
        cdef Batch *head = &self.head
        cdef int64_t offset = self.numbers[B_OFFSET][i]
        cdef int64_t sequence = self.numbers[B_SEQUENCE][i]
        cdef int64_t timestamp = self.numbers[B_TIMESTAMP][i]
        self.stated_base = self.numbers[B_BATCH_BASE][i]
        self.stated_last = self.numbers[B_BATCH_LAST][i]
        self.stated_timestamp = self.numbers[B_BASE_TIMESTAMP][i]
        self.batch_id = self.numbers[B_BATCH_ID][i]
        self.attributes = self.numbers[B_ATTRIBUTES][i]
        head.base_offset = offset
        if -1 <= self.before < self.stated_base < offset and offset - self.stated_base <= 0x7fffffff:
            head.base_offset = self.stated_base
        head.leader_epoch = self.numbers[B_LEADER_EPOCH][i]
        head.producer_id = self.numbers[B_PRODUCER_ID][i]
        head.producer_epoch = self.numbers[B_PRODUCER_EPOCH][i]
        head.attributes = self.attributes & 0x7f
        if self.wanted_codec >= 0 and not head.attributes & 0x20:
            head.attributes = head.attributes & ~7 | self.wanted_codec
        if head.attributes & 7 > 4:
            self.fault = Y_CODEC
        head.base_sequence = -1
        if head.producer_id >= 0 and sequence >= 0:
            head.base_sequence = minus(sequence, minus(offset, head.base_offset)) & 0x7fffffff
        head.max_timestamp = timestamp if head.attributes & 8 else max(timestamp, <int64_t>-1)
        head.base_timestamp = timestamp if self.stated_timestamp == INT64_MIN else self.stated_timestamp
        head.count = 0
        self.records.size = 0
        self.is_open = True

    cdef int _add(self, TextBuffer to) except -1 nogil:
        """Append the current row as the next record of the current batch."""
        cdef int64_t i = self.row
        cdef const uint8_t *key = NULL
        cdef const uint8_t *value = NULL
        cdef int64_t key_length = bytes_at(&self.keys, i, &key)
        cdef int64_t value_length = bytes_at(&self.values, i, &value)
        cdef int64_t offset = self.numbers[B_OFFSET][i]
        cdef int64_t timestamp = self.numbers[B_TIMESTAMP][i]
        cdef int64_t first = 0, last = 0, k, body, timestamp_delta = 0
        if offset < 0:
            self.fault = Y_OFFSET
        elif offset <= self.last_offset:
            self.fault = Y_ORDER
        if self.fault:
            return 0
        if not is_null(self.header_lists, self.headers_first + i):
            first = self.header_starts[self.headers_first + i]
            last = self.header_starts[self.headers_first + i + 1]
        if not self.head.attributes & 8:
            timestamp_delta = <int64_t>(<uint64_t>timestamp - <uint64_t>self.head.base_timestamp)
            self.head.max_timestamp = max(self.head.max_timestamp, timestamp)
        body = (1 + zigzag_size(timestamp_delta) + zigzag_size(offset - self.head.base_offset) + zigzag_size(key_length)
                + max(key_length, <int64_t>0) + zigzag_size(value_length) + max(value_length, <int64_t>0)
                + zigzag_size(last - first))
        for k in range(first, last):
            body += self._header_size(k)
        if body > RECORDS_BYTES_MAX - to.size - 10:
            self.fault = Y_SIZE
        if self.fault:
            return 0
        to.need(body + 10)
        put_varint(to, body)
        to.data[to.size] = 0
        to.size += 1
        put_varint(to, timestamp_delta)
        put_varint(to, offset - self.head.base_offset)
        put_field(to, key, key_length)
        put_field(to, value, value_length)
        put_varint(to, last - first)
        for k in range(first, last):
            key_length = bytes_at(&self.header_keys, k, &key)
            put_field(to, key, key_length)
            value_length = bytes_at(&self.header_values, k, &value)
            put_field(to, value, value_length)
        self.head.count += 1
        self.last_offset = offset
        return 0

    cdef int64_t _header_size(self, int64_t k) noexcept nogil:
        cdef const uint8_t *p = NULL
        cdef int64_t key_length = bytes_at(&self.header_keys, k, &p)
        cdef int64_t value_length = bytes_at(&self.header_values, k, &p)
        if key_length < 0 or is_null(self.header_items, self.items_first + k):
            self.fault = Y_HEADER
            return 0
        return (zigzag_size(key_length) + key_length + zigzag_size(value_length) + max(value_length, <int64_t>0))

    cdef int _close(self, int64_t next_offset) except -1 nogil:
        """Complete the current batch; return 1 if its records must be compressed first."""
        self.head.last_offset = self.last_offset
        if self.last_offset < self.stated_last < next_offset and self.stated_last - self.head.base_offset <= 0x7fffffff:
            self.head.last_offset = self.stated_last
        if self.head.attributes & 7:
            self.is_closing = True
            return 1
        self._put(<const uint8_t *>self.records.data, self.records.size)
        return 0

    cdef int _put(self, const uint8_t *records, int64_t size) except -1 nogil:
        cdef int64_t start = self.out.size
        self.out.need(V2_HEADER + size)
        self.out.size += V2_HEADER
        if size:
            self.out.put(<const char *>records, size)
        put_header(<uint8_t *>self.out.data + start, self.out.size - start, &self.head, self.head.base_timestamp)
        self.batches += 1
        if self.head.attributes & 0x20:
            self.control_records += self.head.count
        self.before = self.head.last_offset
        self.is_open = self.is_closing = False
        return 0
