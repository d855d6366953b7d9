"""The latest offset of each key, by hashes of the keys.

    KeyHashes    the keys of a window's records as 128-bit hashes; any thread may compute them
    KeyMap       the latest offset of each key, in bounded memory; filled in the order of the log

Source: SkimpyOffsetMap, Cleaner.buildOffsetMap.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from formats.kernels.batches cimport FAULT_BAD_RECORD, V2_HEADER, Batch, BatchTable, RowTable, foreign, lies_in
from formats.kernels.cleaner.key_hash cimport sip_hash
from formats.kernels.numbers cimport plus
from formats.kernels.records cimport Record, RecordTable, read_record


cdef class KeyMap:
    """The latest offset of each key, for as many keys as fit into its memory.

    memory_bytes // 24 slots, filled up to load_factor, as SkimpyOffsetMap; `put` returns True when it is full.
    Keys are identified by a hash of 128 bits under `secret` (16 bytes). `reach` is the last offset that the map covers:
    records above it are kept.

    After it is filled, `mark` makes a bitmap of offsets, with the bits of the latest offset of each key set. With it,
    the records that the map was filled from are filtered without hashing their keys again.
    """

    def __cinit__(self, int64_t memory_bytes, double load_factor, const uint8_t[::1] secret not None):
        memset(self.parts, 0, sizeof(self.parts))
        if secret.shape[0] != 16:
            raise ValueError("the secret has 16 bytes")
        if memory_bytes < 0 or not load_factor >= 0:
            raise ValueError((memory_bytes, load_factor))
        memcpy(&self.k0, &secret[0], 8)
        memcpy(&self.k1, &secret[8], 8)
        self.slots = memory_bytes // OFFSET_MAP_ENTRY_BYTES
        self.limit = self.slots if load_factor >= 1 else <int64_t>(<double>self.slots * load_factor)
        self.part_limit = max(self.slots // PARTS, <int64_t>4)
        self.reach = -1
        self.last_key = -1
        self.in_order = True

    def __dealloc__(self):
        cdef int i
        for i in range(PARTS):
            free(self.parts[i].slots)
        free(self.marks)

    def __len__(self):
        return self.count

    @property
    def memory_bytes(self):
        """The size in bytes of the entries at present."""
        cdef int i
        cdef int64_t total = 0
        for i in range(PARTS):
            total += self.parts[i].capacity * sizeof(MapSlot)
        return total

    cdef int _grow(self, MapPart *part) except -1 nogil:
        cdef int64_t old_capacity = part.capacity, i
        cdef MapSlot *old = part.slots
        cdef MapSlot *slot
        cdef int64_t capacity = max(old_capacity + (old_capacity >> 1), <int64_t>16)
        if old_capacity < self.part_limit < capacity:
            capacity = self.part_limit
        elif old_capacity >= self.part_limit:
            capacity = old_capacity + (old_capacity >> 3) + 8       # this part has more keys than the average
        slot = <MapSlot *>malloc(capacity * sizeof(MapSlot))
        if slot == NULL:
            with gil:
                raise MemoryError
        memset(slot, 0, capacity * sizeof(MapSlot))
        part.slots = slot
        part.capacity = capacity
        for i in range(old_capacity):
            if old[i].next_offset:
                self.find(old[i].high, old[i].low)[0] = old[i]
        free(old)
        return 0

    cdef int _put(self, KeyHash *key) except -1 nogil:
        cdef MapPart *part = &self.parts[key.high >> 58]
        cdef MapSlot *slot = self.find(key.high, key.low)
        cdef int64_t room
        if slot == NULL or slot.next_offset == 0:
            # a higher load only if the memory is used up
            room = part.capacity - (part.capacity >> (2 if part.capacity < self.part_limit else 5))
            if part.used + 1 > room or part.used + 1 >= part.capacity:
                self._grow(part)
                slot = self.find(key.high, key.low)
            slot.high = key.high
            slot.low = key.low
            part.used += 1
            self.count += 1
        slot.next_offset = <uint64_t>key.offset + 1
        self.reach = key.offset
        if key.offset <= self.last_key:
            self.in_order = False
        self.last_key = key.offset
        return 0

    def put(self, KeyHashes keys not None):
        """Add the keys of a window, in the order of the log. Returns True if the map became full before the last key;
        `reach` is then the last offset whose key it has."""
        cdef Py_ssize_t i, ahead
        cdef KeyHash *key
        cdef bint full = False
        if keys.out_of_batch:
            self.in_order = False
        if keys.null_keys:
            self.null_keys = True
        with nogil:
            for i in range(keys.count):
                ahead = i + 24
                if ahead < keys.count:
                    key = keys.at(ahead)
                    kcli_prefetch(self.home(key.high, key.low))
                key = keys.at(i)
                if key.before >= 0:
                    self.reach = key.before
                if self.count >= self.limit:
                    full = True
                    break
                self._put(key)
        if not full and keys.end >= 0:
            self.reach = keys.end
        return full

    def mark(self, int64_t first_offset):
        """Make the bitmap of the offsets from `first_offset`, where filling began, to `reach`.

        Returns False, without a bitmap, if offsets were not rising or the remaining memory is too small. Keys that were
        written above `reach` have no bit; records up to `reach` with such a key are superseded."""
        cdef int64_t words, last, i, at
        cdef int k
        if not self.in_order or first_offset < 0 or self.reach < first_offset:
            return False
        last = self.reach - first_offset
        words = last // 64 + 1
        if words * 8 > self.slots * OFFSET_MAP_ENTRY_BYTES - self.memory_bytes:
            return False
        free(self.marks)
        self.marks = <uint64_t *>calloc(words, 8)
        if self.marks == NULL:
            raise MemoryError
        self.marks_from = first_offset
        self.marks_to = self.reach
        with nogil:
            for k in range(PARTS):
                for i in range(self.parts[k].capacity):
                    if self.parts[k].slots[i].next_offset == 0:
                        continue
                    at = <int64_t>(self.parts[k].slots[i].next_offset - 1) - first_offset
                    if 0 <= at <= last:
                        self.marks[at >> 6] |= <uint64_t>1 << (at & 63)
        return True

    cdef bint none_latest(self, int64_t first, int64_t last) noexcept nogil:
        """Whether no record in [first, last], a range of the bitmap, is the latest of its key."""
        cdef int64_t at = first - self.marks_from, stop = last - self.marks_from
        while at <= stop:
            if at & 63 == 0 and at + 63 <= stop:
                if self.marks[at >> 6]:
                    return False
                at += 64
            elif self.marks[at >> 6] >> (at & 63) & 1:
                return False
            else:
                at += 1
        return True

    def all_superseded(self, int64_t first, int64_t last):
        """Whether every record in [first, last] has a key that was written again later. False if the bitmap lacks them.
        """
        return (self.marks != NULL and not self.null_keys and self.marks_from <= first <= last <= self.marks_to
                and self.none_latest(first, last))

    def get(self, const uint8_t[::1] key not None):
        """Return the latest offset of a key; -1 if the map does not have it."""
        cdef uint64_t high = 0, low = 0
        sip_hash(&key[0] if key.shape[0] else NULL, key.shape[0], self.k0, self.k1, &high, &low)
        return self.latest(high, low)


cdef class KeyHashes(RowTable):
    """Hashes of the keys of one window's records, with their offsets. Any thread may fill it: it only reads the map's
    secret.
    """

    cdef int64_t batch
    cdef int64_t end
    cdef bint null_keys, out_of_batch
    # Set for a window of uncompressed batches without producer ids and transactions; else -1.
    cdef readonly int64_t plain_records, plain_bytes

    def __cinit__(self):
        self.width = sizeof(KeyHash) // sizeof(int64_t)
        self.batch = -1
        self.end = -1

    cdef inline KeyHash *at(self, Py_ssize_t i) noexcept nogil:
        return (<KeyHash *>self.cells) + i

    def run(self, KeyMap offset_map not None, const uint8_t[::1] buf not None, BatchTable batches not None,
            const uint8_t[::1] discarded not None, Py_ssize_t first, Py_ssize_t last, int64_t from_offset):
        """Add the keys of the uncompressed magic 2 batches [first, last) of a window, without a RecordTable.

        Returns the row at which it ended: `last`, a message of magic 0 or 1, or a batch with an invalid record.
        """
        cdef Py_ssize_t i = first
        cdef Batch *b
        if first < 0 or last > batches.count or discarded.shape[0] < batches.count or from_offset < 0:
            raise ValueError((first, last, from_offset))
        with nogil:
            while i < last:
                b = batches.at(i)
                if not lies_in(b, buf.shape[0]):
                    foreign(i)
                if b.magic < 2:
                    break
                if not self._batch(offset_map, &buf[0], b, i, batches, discarded[i], from_offset):
                    break
                i += 1
        return i

    cdef bint _batch(self, KeyMap offset_map, const uint8_t *buf, Batch *b, Py_ssize_t row, BatchTable batches,
                     int discarded, int64_t from_offset) except -1 nogil:
        cdef const uint8_t *p = buf + b.start + V2_HEADER
        cdef const uint8_t *stop = buf + b.start + b.size
        cdef int64_t k, delta = 0, soft = 0
        cdef Record r
        if discarded:
            return True
        if b.count < 0 or p > stop or b.count > (stop - p) // SMALLEST_RECORD:
            return False
        self._reserve(self.count + b.count)
        for k in range(b.count):
            if read_record(buf, &p, stop, &r, &delta, &soft) or soft & FAULT_BAD_RECORD:
                return False
            self._key(offset_map, buf, &r, plus(b.base_offset, delta), b, row, batches, from_offset)
        return p == stop

    cdef inline void _key(self, KeyMap offset_map, const uint8_t *buf, Record *r, int64_t offset, Batch *b,
                          Py_ssize_t row, BatchTable batches, int64_t from_offset) noexcept nogil:
        """Add the key of one record. The caller has reserved memory for the key."""
        cdef KeyHash *key
        if not b.base_offset <= offset <= b.last_offset:
            self.out_of_batch = True
        if r.key_length < 0:
            self.null_keys = True
        elif offset >= from_offset:
            key = self.at(self.count)
            sip_hash(buf + r.key_start, r.key_length, offset_map.k0, offset_map.k1, &key.high, &key.low)
            key.offset = offset
            key.before = -1
            if row != self.batch:
                self.batch = row
                if row > 0 and batches.at(row - 1).last_offset >= from_offset:
                    key.before = batches.at(row - 1).last_offset
            self.count += 1

    def add(self, KeyMap offset_map not None, RecordTable records not None, const uint8_t[::1] discarded not None,
            int64_t from_offset):
        """Add the keys of the table's slice from `from_offset` on, except those of batches whose byte in `discarded` is
        set."""
        cdef Py_ssize_t i
        cdef Record *r
        if discarded.shape[0] < records.batches.count or from_offset < 0:
            raise ValueError("one byte a batch")
        with nogil:
            self._reserve(self.count + records.count)
            for i in range(records.count):
                r = records.at(i)
                if r.batch >= records.batches.count:
                    foreign(r.batch)
                if not discarded[r.batch]:
                    self._key(offset_map, records.buf, r, r.offset, records.batches.at(r.batch), r.batch,
                              records.batches, from_offset)

    def finish(self, BatchTable batches not None, int64_t from_offset):
        """End the window after its last record: the map then covers the offsets up to the end of the last batch."""
        cdef Py_ssize_t i
        cdef Batch *b
        if batches.count and batches.at(batches.count - 1).last_offset >= from_offset:
            self.end = batches.at(batches.count - 1).last_offset
        self.plain_records = self.plain_bytes = 0
        for i in range(batches.count):
            b = batches.at(i)
            if b.magic < 2 or b.attributes & 0x37 or b.producer_id >= 0 or b.base_offset < from_offset:
                self.plain_records = self.plain_bytes = -1
                break
            self.plain_records += b.count
            self.plain_bytes += b.size - V2_HEADER
