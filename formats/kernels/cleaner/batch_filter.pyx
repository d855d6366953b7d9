"""Filter the records of a window for compaction, and write the batches of those that are kept.

Source: Cleaner, MemoryRecords.filterTo, MemoryRecordsBuilder.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from formats.kernels.batches cimport FAULT_BAD_RECORD, LOG_OVERHEAD, V2_HEADER, Batch, BatchTable, foreign, lies_in
from formats.kernels.buffer cimport TextBuffer, put_field, put_varint
from formats.kernels.cleaner.key_hash cimport sip_hash
from formats.kernels.cleaner.key_map cimport SMALLEST_RECORD, KeyMap, kcli_prefetch
from formats.kernels.cleaner.transactions cimport CLEAN_DISCARD, CLEAN_EMPTY_TXN, CLEAN_MARKER, CLEAN_RETAIN_EMPTY
from formats.kernels.numbers cimport minus, plus
from formats.kernels.records cimport Record, RecordTable, next_field, read_message, read_record, value_size
from formats.kernels.varint cimport read_varint, zigzag_size
from formats.kernels.write cimport RECORDS_BYTES_MAX, put_header

cdef enum:
    CHUNK = 64                 # keys hashed ahead of their look-up, so that prefetched memory arrives in time

# The reasons for removing a record, as in CLEAN_REASONS; records and uncompressed bytes are counted for each.
CLEAN_REASONS = ("superseded", "tombstone", "aborted", "marker", "null key")

cdef enum:
    WHY_SUPERSEDED = 0
    WHY_TOMBSTONE = 1
    WHY_ABORTED = 2
    WHY_MARKER = 3
    WHY_NULL_KEY = 4
    WHYS = 5

# The faults of a batch that end the cleaning, in the order of FILTER_FAULTS.
cdef enum:
    X_NONE = 0
    X_RECORD = 1
    X_COUNT = 2
    X_OFFSETS = 3
    X_TIMESTAMP = 4
    X_LEGACY_EMPTY = 5

FILTER_FAULTS = (
    "", "a record that cannot be read", "a record count that is not that of the records",
    "record offsets that do not increase", "a timestamp below -1",
    "a last batch of magic 0 or 1 of which no record is left: Kafka has no empty batch in that format",
)


cdef int put_record(TextBuffer out, const uint8_t *base, const uint8_t *end, Record *r, int64_t offset_delta,
                    int64_t timestamp_delta) except -1 nogil:
    """Write a magic 2 record with the fields of row r, as DefaultRecord.writeTo: attributes 0, shortest varints. They
    lie in [base, end).
    """
    cdef const uint8_t *p
    cdef int64_t k, body, n
    cdef int64_t key_length = max(r.key_length, <int64_t>-1), value_length = max(value_size(r), <int64_t>-1)
    body = (1 + zigzag_size(timestamp_delta) + zigzag_size(offset_delta) + zigzag_size(r.headers_count)
            + zigzag_size(key_length) + max(key_length, <int64_t>0)
            + zigzag_size(value_length) + max(value_length, <int64_t>0))
    p = base + r.headers_start
    for k in range(2 * r.headers_count):
        n = next_field(&p, end)
        body += zigzag_size(n) + max(n, <int64_t>0)
        p += max(n, <int64_t>0)
    out.need(body + 5)
    put_varint(out, body)
    out.data[out.size] = 0
    out.size += 1
    put_varint(out, timestamp_delta)
    put_varint(out, offset_delta)
    put_field(out, base + r.key_start, key_length)
    put_field(out, base + r.value_start, value_length)
    put_varint(out, r.headers_count)
    p = base + r.headers_start
    for k in range(2 * r.headers_count):
        n = next_field(&p, end)
        put_field(out, p, n)
        p += max(n, <int64_t>0)
    return 0


cdef class BatchFilter:
    """Writes the kept records of a window's batches, as Kafka's cleaner does.

        row = filter.run(data, batches, flags, 0)     # every batch up to a compressed one, row
        if filter.payload(data, batches, row, flags[row], payload): filter.finish(compress(codec, filter.records))

    A batch whose records are all kept is copied. Any other batch is built again from its kept records, with the same
    offsets, epochs and sequence, and with a delete horizon if this pass is the first to meet its tombstone or the
    marker of a transaction without records. `out`: the bytes written. `fault` (index in FILTER_FAULTS) and
    `fault_batch`: the fault at which Kafka's cleaner would stop.
    """

    cdef KeyMap map
    cdef int64_t now_ms, delete_retention_ms
    cdef bint keep_legacy_deletes
    cdef readonly TextBuffer out
    cdef readonly TextBuffer records      # kept records of a compressed batch, to be compressed again
    cdef uint8_t *bits
    cdef Py_ssize_t bits_capacity
    cdef Record rows[CHUNK]
    cdef uint64_t high[CHUNK]
    cdef uint64_t low[CHUNK]
    cdef int64_t counts[2 * WHYS]
    cdef readonly int64_t records_read, records_kept, batches_read, batches_kept, batches_emptied, horizons_set
    cdef readonly int fault
    cdef readonly Py_ssize_t fault_batch
    # The state of the current batch.
    cdef int64_t kept, first_timestamp, max_timestamp, first_offset, last_offset
    cdef bint tombstone
    cdef Batch head
    cdef int64_t horizon

    def __cinit__(self):
        memset(self.counts, 0, sizeof(self.counts))

    def __init__(self, KeyMap offset_map not None, *, int64_t now_ms, int64_t delete_retention_ms,
                 bint keep_legacy_deletes=True):
        self.map = offset_map
        self.now_ms = now_ms
        self.delete_retention_ms = delete_retention_ms
        self.keep_legacy_deletes = keep_legacy_deletes
        self.out = TextBuffer()
        self.records = TextBuffer()
        self.fault_batch = -1

    def __dealloc__(self):
        free(self.bits)

    @property
    def reasons(self):
        """(records, bytes) removed, for each of CLEAN_REASONS."""
        return [(self.counts[2 * k], self.counts[2 * k + 1]) for k in range(WHYS)]

    def run(self, const uint8_t[::1] buf not None, BatchTable batches not None, const uint8_t[::1] flags not None,
            Py_ssize_t first):
        """Filter the batches from row `first` on, up to a compressed batch that must be decompressed; return its row.

        Returns the count of batches if all are filtered, the row of the faulty batch if `fault` is set."""
        cdef Py_ssize_t i = first
        cdef Batch *b
        cdef const uint8_t *at
        cdef int done = 1
        if flags.shape[0] < batches.count or first < 0:
            raise ValueError("one byte a batch")
        with nogil:
            while i < batches.count:
                b = batches.at(i)
                if not lies_in(b, buf.shape[0]):
                    foreign(i)
                if not self._gone(b, flags[i]):
                    if b.attributes & 7:
                        break
                    if b.magic >= 2:
                        at = &buf[0] + b.start
                        done = self._batch(&buf[0], at + V2_HEADER, at + b.size, b, flags[i], at, self.out)
                    else:
                        done = self._message(&buf[0], b, flags[i])
                    if done == 0:
                        self.fault_batch = i
                        break
                i += 1
        return i

    def payload(self, const uint8_t[::1] buf not None, BatchTable batches not None, Py_ssize_t i, int flags,
                const uint8_t[::1] payload not None):
        """Filter the compressed magic 2 batch i. Returns True if its kept records, in `records`, must be compressed and
        passed to `finish`; False if it is finished, or faulty."""
        cdef Batch *b
        cdef int done
        cdef const uint8_t *p
        if i < 0 or i >= batches.count:
            raise IndexError(i)
        b = batches.at(i)
        if not lies_in(b, buf.shape[0]):
            foreign(i)
        if b.magic < 2:
            raise ValueError(f"row {i} is a message of magic {b.magic}")
        p = &payload[0] if payload.shape[0] else &buf[0]
        self.records.clear()
        with nogil:
            done = self._batch(p, p, p + payload.shape[0], b, flags, &buf[0] + b.start, self.records)
        if done == 0:
            self.fault_batch = i
        return done == 2

    def wrapped(self, RecordTable records not None, Py_ssize_t i, int flags):
        """Filter wrapper i of magic 0 or 1, all of whose records are in the table; returns as `payload`."""
        cdef Py_ssize_t k
        cdef Batch *b
        if not records.payload or i != records.first or i >= records.batches.count:
            raise ValueError(f"the records are not those of row {i}")
        b = records.batches.at(i)
        self.records.clear()
        self._begin(b)
        self._need_bits(records.count)
        for k in range(records.count):
            if not records.at(k).valid or records.at(k).offset < 0:
                return self._fail(X_RECORD, i)
            self._mark(k, self._judge_one(b, flags, records.buf, records.at(k)))
        if self.kept == 0:
            if flags & CLEAN_RETAIN_EMPTY:
                return self._fail(X_LEGACY_EMPTY, i)
            return False
        self._head(b, flags)
        for k in range(records.count):
            if self.bits[k >> 3] >> (k & 7) & 1 and not self._append(self.records, records.buf, records.end(),
                                                                     records.at(k)):
                return self._fail(self.fault, i)
        return True

    def finish(self, const uint8_t[::1] compressed not None):
        """Write the batch of the last `payload` or `wrapped`, with its compressed records."""
        if compressed.shape[0] > RECORDS_BYTES_MAX:
            raise ValueError(f"{compressed.shape[0]} bytes are no batch")
        self.out.need(V2_HEADER + compressed.shape[0])
        self.out.size += V2_HEADER
        if compressed.shape[0]:
            self.out.put(<const char *>&compressed[0], compressed.shape[0])
        self._close(self.out.size - V2_HEADER - compressed.shape[0])

    cdef bint _fail(self, int fault, Py_ssize_t i):
        self.fault = fault
        self.fault_batch = i
        return False

    cdef inline void _count(self, int why, int64_t records, int64_t size) noexcept nogil:
        self.counts[2 * why] += records
        self.counts[2 * why + 1] += size

    cdef bint _gone(self, Batch *b, int flags) noexcept nogil:
        """Whether the whole batch is removed, so that its records need not be read."""
        self.batches_read += 1
        if flags & (CLEAN_DISCARD | CLEAN_RETAIN_EMPTY) != CLEAN_DISCARD:
            return False
        self.records_read += b.count
        self._count(WHY_MARKER if flags & CLEAN_MARKER else WHY_ABORTED, b.count, b.size)
        return True

    cdef int _need_bits(self, int64_t count) except -1 nogil:
        cdef uint8_t *grown
        if (count >> 3) + 1 > self.bits_capacity:
            grown = <uint8_t *>realloc(self.bits, (count >> 3) + 1024)
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.bits = grown
            self.bits_capacity = (count >> 3) + 1024
        return 0

    cdef inline void _mark(self, int64_t k, bint kept) noexcept nogil:
        if kept:
            self.bits[k >> 3] |= <uint8_t>(1 << (k & 7))
        else:
            self.bits[k >> 3] &= <uint8_t>~(1 << (k & 7))

    cdef inline void _begin(self, Batch *b) noexcept nogil:
        self.kept = 0
        self.tombstone = False
        self.max_timestamp = -1

    cdef inline bint _judge(self, Batch *b, int flags, Record *r, int64_t latest, int64_t size) noexcept nogil:
        """Whether the record is kept. latest: the latest offset of its key, or a bound at or above it.
        Source: Cleaner.shouldRetainRecord."""
        cdef bint keeps_deletes
        cdef int why
        self.records_read += 1
        if flags & CLEAN_DISCARD:
            why = WHY_MARKER if flags & CLEAN_MARKER else WHY_ABORTED
        elif flags & CLEAN_MARKER or r.offset > self.map.reach:
            why = -1
        elif r.key_length < 0:
            why = WHY_NULL_KEY
        elif r.offset < latest:
            why = WHY_SUPERSEDED
        else:
            why = -1
            if r.value_length < 0:
                if b.magic >= 2:
                    keeps_deletes = not b.attributes & 0x40 or self.now_ms < b.base_timestamp
                else:
                    keeps_deletes = self.keep_legacy_deletes
                if not keeps_deletes:
                    why = WHY_TOMBSTONE
        if why >= 0:
            self._count(why, 1, size)
            return False
        if r.value_length < 0:
            self.tombstone = True
        if self.kept == 0:
            self.first_timestamp = r.timestamp
            self.first_offset = r.offset
        if r.timestamp > self.max_timestamp:
            self.max_timestamp = r.timestamp
        self.kept += 1
        self.records_kept += 1
        return True

    cdef inline bint _judge_one(self, Batch *b, int flags, const uint8_t *base, Record *r) noexcept nogil:
        """Whether a message of magic 0 or 1 is kept."""
        cdef uint64_t high = 0, low = 0
        cdef int64_t size = (34 if b.magic else 26) + max(r.key_length, <int64_t>0) + max(r.value_length, <int64_t>0)
        cdef int64_t latest = -1
        if r.key_length >= 0:
            sip_hash(base + r.key_start, r.key_length, self.map.k0, self.map.k1, &high, &low)
            latest = self.map.latest(high, low)
        return self._judge(b, flags, r, latest, size)

    cdef int _batch(self, const uint8_t *base, const uint8_t *p, const uint8_t *stop, Batch *b, int flags,
                    const uint8_t *original, TextBuffer target) except -1 nogil:
        """Filter a magic 2 batch with records in [p, stop), rows relative to base. Returns 0: faulty; 1: finished; 2:
        its kept records are in `target`, which is not `out`.
        """
        cdef const uint8_t *at = p
        cdef Record *r
        cdef int64_t done = 0, delta = 0, soft = 0, start
        cdef int32_t length = 0
        cdef int n, k
        cdef bint kept, append_time = (b.attributes & 8) != 0, set_horizon
        cdef bint hashed = not flags & (CLEAN_DISCARD | CLEAN_MARKER)
        cdef bint marked = hashed and not b.attributes & 0x30 and self.map.has_marks_for(b)
        cdef int64_t latest
        if b.count < 0 or p > stop or b.count > (stop - p) // SMALLEST_RECORD:
            self.fault = X_COUNT
            return 0
        self._begin(b)
        if marked and target is self.out and not self.map.null_keys and self.map.none_latest(b.base_offset,
                                                                                             b.last_offset):
            self.records_read += b.count
            self._count(WHY_SUPERSEDED, b.count, stop - p)
            if flags & CLEAN_RETAIN_EMPTY:
                self._empty(b)
            return 1
        self._need_bits(b.count)
        while done < b.count:
            n = 0
            while n < CHUNK and done + n < b.count:
                r = &self.rows[n]
                if read_record(base, &at, stop, r, &delta, &soft) or soft & FAULT_BAD_RECORD:
                    self.fault = X_RECORD
                    return 0
                r.offset = plus(b.base_offset, delta)
                r.timestamp = b.max_timestamp if append_time else plus(b.base_timestamp, r.timestamp)
                r.batch = at - base - r.start           # its size
                if hashed and not marked and r.key_length >= 0:
                    sip_hash(base + r.key_start, r.key_length, self.map.k0, self.map.k1, &self.high[n], &self.low[n])
                    kcli_prefetch(self.map.home(self.high[n], self.low[n]))
                n += 1
            for k in range(n):
                r = &self.rows[k]
                latest = -1
                if marked:
                    latest = -1 if self.map.is_latest(r.offset) else INT64_MAX
                elif hashed and r.key_length >= 0:
                    latest = self.map.latest(self.high[k], self.low[k])
                kept = self._judge(b, flags, r, latest, r.batch)
                self._mark(done + k, kept)
            done += n
        if at != stop:
            self.fault = X_COUNT
            return 0
        if self.kept == 0:
            if flags & CLEAN_RETAIN_EMPTY:
                self._empty(b)
            return 1
        set_horizon = (self.tombstone or flags & CLEAN_EMPTY_TXN) and not b.attributes & 0x40
        if self.kept == b.count and not set_horizon:
            self.batches_kept += 1
            self.out.need(b.size)
            self.out.put(<const char *>original, b.size)
            return 1
        self._head(b, flags)
        start = target.size
        if target is self.out:
            target.need(V2_HEADER)
            target.size += V2_HEADER
        at = p
        r = &self.rows[0]
        for done in range(b.count):
            if not self.bits[done >> 3] >> (done & 7) & 1:
                read_varint(&at, stop, &length)
                at += length
                continue
            read_record(base, &at, stop, r, &delta, &soft)
            r.offset = plus(b.base_offset, delta)
            r.timestamp = b.max_timestamp if append_time else plus(b.base_timestamp, r.timestamp)
            if not self._append(target, base, stop, r):
                return 0
        if target is not self.out:
            return 2
        self._close(start)
        return 1

    cdef int _message(self, const uint8_t *base, Batch *b, int flags) except -1 nogil:
        """Filter an uncompressed message of magic 0 or 1, which becomes a batch of magic 2."""
        cdef Record *r = &self.rows[0]
        cdef int64_t start = self.out.size
        if read_message(base, base + b.start + LOG_OVERHEAD, b.size - LOG_OVERHEAD, r):
            self.fault = X_RECORD
            return 0
        r.offset = b.base_offset
        self._begin(b)
        if not self._judge_one(b, flags, base, r):
            if flags & CLEAN_RETAIN_EMPTY:
                self.fault = X_LEGACY_EMPTY
                return 0
            return 1
        self._head(b, flags)
        self.out.need(V2_HEADER)
        self.out.size += V2_HEADER
        if not self._append(self.out, base, base + b.start + b.size, r):
            return 0
        self._close(start)
        return 1

    cdef void _head(self, Batch *b, int flags) noexcept nogil:
        """Write the header of the batch with the kept records of b. Source: buildRetainedRecordsInto."""
        cdef Batch *head = &self.head
        cdef bint append_time = b.magic >= 1 and b.attributes & 8
        head[0] = b[0]
        self.horizon = b.base_timestamp if b.magic >= 2 and b.attributes & 0x40 else -1
        if (self.tombstone or flags & CLEAN_EMPTY_TXN) and not (b.magic >= 2 and b.attributes & 0x40):
            self.horizon = plus(self.now_ms, self.delete_retention_ms)
            self.horizons_set += 1
        head.attributes = (b.attributes & (0x37 if b.magic >= 2 else 7)) | (8 if append_time else 0)
        if self.horizon >= 0:
            head.attributes |= 0x40
        head.base_timestamp = self.horizon if self.horizon >= 0 else self.first_timestamp
        head.max_timestamp = b.max_timestamp if append_time else self.max_timestamp
        head.count = 0
        if b.magic < 2:
            head.base_offset = self.first_offset
            head.leader_epoch = head.producer_id = head.producer_epoch = head.base_sequence = -1
        self.last_offset = minus(head.base_offset, 1)

    cdef bint _append(self, TextBuffer target, const uint8_t *base, const uint8_t *end, Record *r) except -1 nogil:
        """Append a record to the batch. Returns False, with a fault, for a record that Kafka's builder refuses."""
        cdef int64_t delta = minus(r.offset, self.head.base_offset)
        if (self.head.count and r.offset <= self.last_offset) or delta > 0x7fffffff:
            self.fault = X_OFFSETS
            return False
        if r.timestamp < -1 or self.head.base_timestamp < -1:
            self.fault = X_TIMESTAMP
            return False
        put_record(target, base, end, r, delta, minus(r.timestamp, self.head.base_timestamp))
        self.last_offset = r.offset
        self.head.count += 1
        return True

    cdef void _close(self, int64_t start) noexcept nogil:
        """Complete the header of the batch that begins at byte `start` of `out` and ends at its end."""
        if self.head.magic < 2:
            self.head.last_offset = self.last_offset
        self.batches_kept += 1
        self._put_header(start, &self.head, self.head.base_timestamp)

    cdef int _empty(self, Batch *b) except -1 nogil:
        """Write a header without records. Source: DefaultRecordBatch.writeEmptyHeader."""
        cdef int64_t start = self.out.size
        self.head = b[0]
        self.head.attributes = b.attributes & 0x38
        self.head.count = 0
        self.out.need(V2_HEADER)
        self.out.size += V2_HEADER
        self.batches_emptied += 1
        self._put_header(start, &self.head, -1)
        return 0

    cdef void _put_header(self, int64_t start, Batch *head, int64_t base_timestamp) noexcept nogil:
        put_header(<uint8_t *>self.out.data + start, self.out.size - start, head, base_timestamp)
