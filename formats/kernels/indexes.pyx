"""Make the entries of offset index and time index for appended batches. Source: LogSegment.append."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from formats.kernels.batches cimport Batch, BatchTable
from formats.kernels.buffer cimport TextBuffer, put_be32
from formats.kernels.numbers cimport be32, be64, fits_index, minus, plus, set_be32, set_be64
from formats.kernels.scan cimport whole_batch

cdef enum:
    WAITING_MAX_BYTES = 1024


cdef class AppendIndexer:
    """The index entries of a segment that grows by whole batches, as Kafka's LogSegment.append makes them.

        indexer = AppendIndexer(base_offset, interval_bytes, indexed_timestamp, max_timestamp, max_timestamp_offset)
        offset_entries, time_entries = indexer.append(batches, position, offset_slots, time_slots)

    A batch gets an entry if more than interval_bytes of batches without one precede it. indexed_timestamp: that of the
    time index's last entry. max_timestamp and max_timestamp_offset: the segment's largest timestamp so far (ms) and the
    last offset of the batch with it.
    """

    def __init__(self, int64_t base, int64_t interval_bytes, int64_t indexed_timestamp, int64_t max_timestamp,
                 int64_t max_timestamp_offset):
        self.base = base
        self.interval = interval_bytes
        self.indexed_timestamp = indexed_timestamp
        self.max_timestamp = max_timestamp
        self.max_timestamp_offset = max_timestamp_offset
        self.offsets = TextBuffer()
        self.times = TextBuffer()

    def append(self, BatchTable table not None, int64_t position, int64_t offset_slots, int64_t time_slots):
        """Return the bytes of the new entries of offset index and time index for batches appended at byte `position`.

        offset_slots, time_slots: the most entries for each file; later ones are left out. Raises ValueError, with
        nothing changed, for a batch whose offset or position no index entry can hold.
        """
        self.make(table, position, offset_slots, time_slots)
        if not self.offsets.size and not self.times.size:
            return b"", b""
        return (PyBytes_FromStringAndSize(self.offsets.data, self.offsets.size),
                PyBytes_FromStringAndSize(self.times.data, self.times.size))

    cdef int make(self, BatchTable table, int64_t position, int64_t offset_slots, int64_t time_slots) except -1:
        """Write the entries that `append` returns to `offsets` and `times`."""
        cdef Py_ssize_t i
        cdef Batch *b
        cdef int64_t end = position
        self.offsets.clear()
        self.times.clear()
        for i in range(table.count):
            b = table.at(i)
            if not fits_index(b.last_offset, self.base) or not 0 <= end <= 0x7fffffff:
                raise ValueError(f"offset {b.last_offset} at byte {end} is not within the segment at {self.base}")
            end += b.size
        for i in range(table.count):
            b = table.at(i)
            if b.max_timestamp > self.max_timestamp:
                self.max_timestamp = b.max_timestamp
                self.max_timestamp_offset = b.last_offset
            if self.unindexed > self.interval:
                if self.offsets.size < 8 * offset_slots:
                    self.offsets.need(8)
                    put_be32(self.offsets, <uint32_t>minus(b.last_offset, self.base))
                    put_be32(self.offsets, <uint32_t>position)
                if self.times.size < 12 * time_slots:
                    self._time_entry()
                self.unindexed = 0
            position += b.size
            self.unindexed += b.size
        return 0

    def last_time_entry(self):
        """Return the bytes of the time index's last entry, for the largest timestamp; empty if it has one already."""
        self.times.clear()
        self._time_entry()
        return PyBytes_FromStringAndSize(self.times.data, self.times.size)

    cdef int _time_entry(self) except -1:
        if self.max_timestamp > self.indexed_timestamp:
            if not fits_index(self.max_timestamp_offset, self.base):
                raise ValueError(f"offset {self.max_timestamp_offset} is not within the segment at {self.base}")
            self.times.need(12)
            put_be32(self.times, <uint32_t>(<uint64_t>self.max_timestamp >> 32))
            put_be32(self.times, <uint32_t><uint64_t>self.max_timestamp)
            put_be32(self.times, <uint32_t>minus(self.max_timestamp_offset, self.base))
            self.indexed_timestamp = self.max_timestamp
        return 0


cdef class IndexTail:
    """The end of an index file: the entries that wait in memory until there are enough of them for a write.

    count: the number of entries, with those that wait in memory. slots: the number of entries that the file has room
    for. entry_bytes: the size of an entry. waiting_bytes: the size of the entries that wait. A subclass has a method
    `write_waiting`, which writes these to the file and calls `written`.
    """

    def __dealloc__(self):
        free(self.entries)

    def append(self, const uint8_t[::1] entries not None):
        """Append entries, and write all that wait if there are enough of them. Raises ValueError if the file has no
        room; also what `write_waiting` raises."""
        if entries.shape[0]:
            self.add(&entries[0], entries.shape[0])

    def waiting(self):
        """Return the bytes of the entries that wait in memory."""
        return PyBytes_FromStringAndSize(<char *>self.entries, self.waiting_bytes)

    def written(self):
        """Forget the entries that wait in memory, as the file has them now, or is to lack them."""
        self.waiting_bytes = 0

    cdef int add(self, const uint8_t *entries, int64_t size) except -1:
        cdef int64_t needed = self.waiting_bytes + size
        cdef uint8_t *grown
        if self.entry_bytes <= 0 or size % self.entry_bytes or size // self.entry_bytes > self.slots - self.count:
            raise ValueError(f"{size} bytes of entries for an index with {self.count} of {self.slots} entries")
        if needed > self.capacity:
            grown = <uint8_t *>realloc(self.entries, max(needed, 2 * self.capacity))
            if grown == NULL:
                raise MemoryError
            self.entries = grown
            self.capacity = max(needed, 2 * self.capacity)
        memcpy(self.entries + self.waiting_bytes, entries, size)
        self.waiting_bytes = needed
        self.count += size // self.entry_bytes
        if needed >= WAITING_MAX_BYTES:
            self.write_waiting()
        return 0


cdef class SegmentIndexes:
    """The whole offset index and time index of a segment that is being written. Source: LogSegment.append."""

    cdef readonly TextBuffer offsets
    cdef readonly TextBuffer times
    cdef readonly int64_t position        # bytes appended
    cdef readonly int64_t max_timestamp   # -1: none
    cdef readonly bint overflow           # a batch's offset or position is too large for an index entry
    cdef int64_t base_offset, interval, since, max_at, last_time

    def __init__(self, int64_t base_offset, int64_t interval_bytes):
        self.offsets = TextBuffer()
        self.times = TextBuffer()
        self.base_offset = base_offset
        self.interval = interval_bytes
        self.max_timestamp = -1
        self.max_at = base_offset
        self.last_time = -1

    def add(self, const uint8_t[::1] batches not None):
        """Add the entries of whole magic 2 batches, end to end, that are appended. Raises ValueError for other bytes.
        """
        cdef int64_t at = 0, size, last_offset, timestamp
        cdef const uint8_t *p
        while at < batches.shape[0]:
            size = whole_batch(&batches[0], at, batches.shape[0])
            p = &batches[at]
            last_offset = plus(<int64_t>be64(p), <int32_t>be32(p + 23))
            timestamp = <int64_t>be64(p + 35)
            if not fits_index(last_offset, self.base_offset) or self.position > 0x7fffffff:
                self.overflow = True
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
                self.max_at = last_offset
            if self.since > self.interval:
                self.offsets.need(8)
                set_be32(<uint8_t *>self.offsets.data + self.offsets.size,
                         <uint32_t>minus(last_offset, self.base_offset))
                set_be32(<uint8_t *>self.offsets.data + self.offsets.size + 4, <uint32_t>self.position)
                self.offsets.size += 8
                self._time()
                self.since = 0
            self.position += size
            self.since += size
            at += size

    def finish(self):
        """Add the entry of the largest timestamp to the time index, after the segment's last batch."""
        self._time()

    cdef int _time(self) except -1:
        if self.max_timestamp > self.last_time:
            self.times.need(12)
            set_be64(<uint8_t *>self.times.data + self.times.size, <uint64_t>self.max_timestamp)
            set_be32(<uint8_t *>self.times.data + self.times.size + 8, <uint32_t>minus(self.max_at, self.base_offset))
            self.times.size += 12
            self.last_time = self.max_timestamp
        return 0


def entries_up_to(const uint8_t[::1] entries not None, Py_ssize_t count, int64_t value, *, bint of_positions):
    """Return how many of the first `count` entries of an offset index are at or below a value, by binary search.

    of_positions: compare the entries' positions, else their relative offsets. Raises ValueError where the bytes hold
    fewer entries.
    """
    cdef Py_ssize_t least = 0, most = count, middle
    cdef const uint8_t *at
    if not 0 <= count <= entries.shape[0] // 8:
        raise ValueError(f"{count} entries in {entries.shape[0]} bytes")
    while least < most:
        middle = (least + most) // 2
        at = &entries[0] + 8 * middle + (4 if of_positions else 0)
        if <int32_t>be32(at) > value:
            most = middle
        else:
            least = middle + 1
    return least
