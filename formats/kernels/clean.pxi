"""Compaction: which key was written last, which records stay, and their batches written anew.

    KeyHashes          keys of a window's records as 128-bit hashes, made by any thread
    KeyMap             the latest offset of each key; bounded memory, filled in the order of the log
    CleanedTransactions  which batches are aborted, which markers have nothing left to mark
    BatchFilter        a window in, the batches that stay out, byte for byte as MemoryRecords.filterTo writes them
    SegmentIndexes     offset and time index of what is appended

Source: Cleaner, SkimpyOffsetMap, CleanedTransactionMetadata, MemoryRecords, MemoryRecordsBuilder, LogSegment.append.
"""

from heapq import heappop, heappush

cdef extern from * nogil:
    """
    #define kcli_prefetch(p) __builtin_prefetch(p, 1)
    """
    void kcli_prefetch(const void *p)

cdef enum:
    ENTRY_BYTES = 24           # what an entry takes in Kafka's map and in this one: hash and offset
    PARTS = 64                 # of the map; each grows by itself, so that growing never takes twice the memory
    CHUNK = 64                 # keys hashed ahead of looking them up, so that the memory is there in time
    SMALLEST_RECORD = 7        # length, attributes, two deltas, three counts

OFFSET_MAP_ENTRY_BYTES = ENTRY_BYTES

cdef struct KeyHash:
    uint64_t high
    uint64_t low
    int64_t offset
    int64_t before             # last offset of the batch before it, -1 where the row above is of the same batch

cdef struct MapSlot:
    uint64_t high
    uint64_t low
    uint64_t next_offset       # offset + 1, of any offset that is not negative; 0: empty

cdef struct MapPart:
    MapSlot *slots
    int64_t capacity
    int64_t used


cdef inline uint64_t rotl(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotl(v[1], 13) ^ v[0]
    v[0] = rotl(v[0], 32)
    v[2] += v[3]
    v[3] = rotl(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotl(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotl(v[1], 17) ^ v[2]
    v[2] = rotl(v[2], 32)


cdef inline void sip_hash(const uint8_t *p, int64_t n, uint64_t k0, uint64_t k1, uint64_t *high,
                          uint64_t *low) noexcept nogil:
    """SipHash-1-3 with 128 bits out: keyed, so that no producer can make two keys meet."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef int64_t whole = n & ~<int64_t>7, i = 0
    v[0] = <uint64_t>0x736f6d6570736575 ^ k0
    v[1] = <uint64_t>0x646f72616e646f6d ^ k1 ^ 0xee
    v[2] = <uint64_t>0x6c7967656e657261 ^ k0
    v[3] = <uint64_t>0x7465646279746573 ^ k1
    while i < whole:
        memcpy(&word, p + i, 8)
        v[3] ^= word
        sip_round(v)
        v[0] ^= word
        i += 8
    word = <uint64_t>n << 56
    while i < n:
        word |= <uint64_t>p[i] << (8 * (i & 7))
        i += 1
    v[3] ^= word
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xee
    sip_round(v)
    sip_round(v)
    sip_round(v)
    high[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xdd
    sip_round(v)
    sip_round(v)
    sip_round(v)
    low[0] = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef class KeyMap:
    """The latest offset of each key, for as many keys as the memory allows.

    memory_bytes // 24 slots, filled up to load_factor, as SkimpyOffsetMap: `put` says when the next key finds it full.
    Keys are known by a hash of 128 bits under `secret` (16 bytes). `reach` is the last offset that the map speaks for:
    records behind it are not judged.

    Once it is filled, `mark` makes a bit for each offset, set where a key was written last: what the map was filled from
    can then be judged without looking at keys again.
    """

    cdef MapPart parts[PARTS]
    cdef uint64_t k0, k1
    cdef int64_t part_limit
    cdef readonly int64_t slots
    cdef readonly int64_t limit
    cdef readonly int64_t count
    cdef public int64_t reach
    cdef int64_t last_key               # offset put last
    cdef bint in_order                  # offsets rise, each within its batch
    cdef bint null_keys                 # some records have no key
    cdef uint64_t *marks
    cdef int64_t marks_from, marks_to   # offsets, both included

    def __cinit__(self, int64_t memory_bytes, double load_factor, const uint8_t[::1] secret not None):
        memset(self.parts, 0, sizeof(self.parts))
        if secret.shape[0] != 16:
            raise ValueError("the secret has 16 bytes")
        if memory_bytes < 0 or not load_factor >= 0:
            raise ValueError((memory_bytes, load_factor))
        memcpy(&self.k0, &secret[0], 8)
        memcpy(&self.k1, &secret[8], 8)
        self.slots = memory_bytes // ENTRY_BYTES
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
        """Bytes that the entries take now."""
        cdef int i
        cdef int64_t total = 0
        for i in range(PARTS):
            total += self.parts[i].capacity * sizeof(MapSlot)
        return total

    cdef inline MapSlot *home(self, uint64_t high, uint64_t low) noexcept nogil:
        """Where the entry is looked for first; NULL in a part that has none."""
        cdef MapPart *part = &self.parts[high >> 58]
        if part.capacity == 0:
            return NULL
        return &part.slots[<int64_t>((<uint64_t><uint32_t>low * <uint64_t>part.capacity) >> 32)]

    cdef inline MapSlot *find(self, uint64_t high, uint64_t low) noexcept nogil:
        """The slot of the key, or the empty one where it would go; NULL in a part without slots."""
        cdef MapPart *part = &self.parts[high >> 58]
        cdef MapSlot *slot = self.home(high, low)
        if slot == NULL:
            return NULL
        while slot.next_offset and (slot.high != high or slot.low != low):
            slot += 1
            if slot == &part.slots[part.capacity]:
                slot = part.slots
        return slot

    cdef inline int64_t latest(self, uint64_t high, uint64_t low) noexcept nogil:
        """The key's latest offset; -1 for one that is not in the map."""
        cdef MapSlot *slot = self.find(high, low)
        return -1 if slot == NULL else <int64_t>(slot.next_offset - 1)

    cdef int _grow(self, MapPart *part) except -1 nogil:
        cdef int64_t old_capacity = part.capacity, i
        cdef MapSlot *old = part.slots
        cdef MapSlot *slot
        cdef int64_t capacity = max(old_capacity + (old_capacity >> 1), <int64_t>16)
        if old_capacity < self.part_limit < capacity:
            capacity = self.part_limit
        elif old_capacity >= self.part_limit:
            capacity = old_capacity + (old_capacity >> 3) + 8       # this part got more than its share
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
            # denser only where the memory is used up
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
        """Put the keys of a window, in the order of the log. True where the map was full before the last of them:
        `reach` then says how far it got."""
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
        """The map is filled from the records at `first_offset` and behind. True where it has bits for them now: not
        where offsets do not rise, nor where the memory that is left does not do.

        `reach` is what the names of segments say, too: keys may have been written behind it. They have no bit, and
        records up to it are superseded by them."""
        cdef int64_t words, last, i, at
        cdef int k
        if not self.in_order or first_offset < 0 or self.reach < first_offset:
            return False
        last = self.reach - first_offset
        words = last // 64 + 1
        if words * 8 > self.slots * ENTRY_BYTES - self.memory_bytes:
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

    cdef inline bint has_marks_for(self, Batch *b) noexcept nogil:
        """Are the records of this magic 2 batch, which is not of a transaction, judged by bits?"""
        return self.marks != NULL and self.marks_from <= b.base_offset <= b.last_offset <= self.marks_to

    cdef inline bint is_latest(self, int64_t offset) noexcept nogil:
        """For an offset that has a bit; one that has none stays."""
        cdef int64_t at = minus(offset, self.marks_from)
        return not self.marks_from <= offset <= self.marks_to or self.marks[at >> 6] >> (at & 63) & 1

    cdef bint none_latest(self, int64_t first, int64_t last) noexcept nogil:
        """No record in [first, last], which have bits, is the latest of its key."""
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
        """Is every record in [first, last] known to have a key that was written again? False without bits for them."""
        return (self.marks != NULL and not self.null_keys and self.marks_from <= first <= last <= self.marks_to
                and self.none_latest(first, last))

    def get(self, const uint8_t[::1] key not None):
        """The latest offset of a key; -1 for one that is not in the map."""
        cdef uint64_t high = 0, low = 0
        sip_hash(&key[0] if key.shape[0] else NULL, key.shape[0], self.k0, self.k1, &high, &low)
        return self.latest(high, low)


cdef class KeyHashes(_Table):
    """Hashes of the keys of one window's records, with their offsets; filled without the map, hence by any thread."""

    cdef int64_t batch
    cdef int64_t end
    cdef bint null_keys, out_of_batch
    # Of a window of uncompressed batches that no producer id and no transaction has marked; else -1.
    cdef readonly int64_t plain_records, plain_bytes

    def __cinit__(self):
        self.width = sizeof(KeyHash) // sizeof(int64_t)
        self.batch = -1
        self.end = -1

    cdef inline KeyHash *at(self, Py_ssize_t i) noexcept nogil:
        return (<KeyHash *>self.cells) + i

    def run(self, KeyMap offset_map not None, const uint8_t[::1] buf not None, BatchTable batches not None,
            const uint8_t[::1] discarded not None, Py_ssize_t first, Py_ssize_t last, int64_t from_offset):
        """The same for the uncompressed batches [first, last) of a window as far as they are of magic 2, which needs no
        table. The row that it ends at: `last`, a message of magic 0 or 1, or a batch with a record that cannot be read.
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
            if read_record(buf, &p, stop, &r, &delta, &soft) or soft & C_BAD_RECORD:
                return False
            self._key(offset_map, buf, &r, plus(b.base_offset, delta), b, row, batches, from_offset)
        return p == stop

    cdef inline void _key(self, KeyMap offset_map, const uint8_t *buf, Record *r, int64_t offset, Batch *b,
                          Py_ssize_t row, BatchTable batches, int64_t from_offset) noexcept nogil:
        """The key of one record; the room is there."""
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
        """The keys of the records in the table's slice, from an offset on, but those of discarded batches (one byte a
        batch)."""
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
        """All records are in: the map will reach to the end of the last batch."""
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


cdef enum:
    DISCARD = 1                # the records go: of an aborted transaction, or a marker whose horizon has passed
    RETAIN_EMPTY = 2           # the header stays even if no record does
    EMPTY_TXN = 4              # a marker whose transaction has no records left: its horizon is to be set
    MARKER = 8                 # a control batch
    ABORT_MARKER = 0
    COMMIT_MARKER = 1

cdef class CleanedTransactions:
    """Which transactions were aborted, as batches are read in order; and which of them still have records.

    Source: CleanedTransactionMetadata. `cleaned_index` takes the aborted transactions whose marker outlives this pass
    because records of them were seen: the transaction index of the segment being written.
    """

    cdef set committed
    cdef dict aborted
    cdef list queue
    cdef public list cleaned_index

    def __init__(self):
        self.committed = set()
        self.aborted = {}
        self.queue = []
        self.cleaned_index = []

    def add_aborted(self, transactions):
        """Aborted transactions that begin behind what has been read: (version, producer id, first offset, ...)."""
        for transaction in transactions:
            heappush(self.queue, (transaction[2], len(self.queue), transaction))

    cdef _consume(self, int64_t offset):
        while self.queue and self.queue[0][0] <= offset:
            transaction = heappop(self.queue)[2]
            self.aborted.setdefault(transaction[1], [transaction, False])

    cdef bint _on_batch(self, Batch *b):
        """True for a batch of an aborted transaction."""
        self._consume(b.last_offset)
        found = self.aborted.get(b.producer_id)
        if found is None:
            self.committed.add(b.producer_id)
            return False
        found[1] = True
        return True

    cdef bint _on_marker(self, Batch *b, int kind):
        """True for a control batch that may go. kind: -1 without a record, else the type of the first."""
        self._consume(b.last_offset)
        if kind == -1:
            return True
        if kind == ABORT_MARKER:
            found = self.aborted.pop(b.producer_id, None)
            if found is not None and found[1]:
                self.cleaned_index.append(found[0])
                return False
            return True
        if kind == COMMIT_MARKER:
            if b.producer_id in self.committed:
                self.committed.remove(b.producer_id)
                return False
            return True
        return False

    def judge(self, const uint8_t[::1] buf not None, BatchTable batches not None, payload, *, dict producers=None,
              int64_t end_offset=-1, int64_t now_ms=0):
        """One byte of CLEAN_* flags for each batch of a window, read in order.

        payload(row): that of a control batch which somebody compressed. producers: the last data offset (-1: none) and
        epoch of each active producer: the last batch of each outlives its records, as does the one that ends at
        end_offset. Without them only data of aborted transactions and control batches have flags.
        A control batch whose type cannot be read gets FAULT_BAD_RECORD or FAULT_CONTROL_KEY.
        """
        cdef Py_ssize_t i
        cdef Batch *b
        cdef int flags, kind
        cdef bint may_go
        cdef bytes whole
        cdef bytearray out = bytearray(batches.count)
        for i in range(batches.count):
            b = batches.at(i)
            if not lies_in(b, buf.shape[0]):
                foreign(i)
            flags = 0
            if plus(b.last_offset, 1) == end_offset:
                flags = RETAIN_EMPTY
            if b.magic >= 2 and b.attributes & 0x30:
                if b.attributes & 0x20:
                    if b.attributes & 7 and not b.faults & (C_SHORT_HEADER | C_BAD_CODEC):
                        whole = payload(i)
                        kind = self._marker_kind(whole, 0, len(whole), b)
                    else:
                        kind = self._marker_kind(buf, b.start + V2_HEADER, b.start + b.size, b)
                    may_go = self._on_marker(b, kind)
                    flags |= MARKER
                    if may_go:
                        flags |= EMPTY_TXN
                        if b.attributes & 0x40 and b.base_timestamp <= now_ms:
                            flags |= DISCARD
                elif self._on_batch(b):
                    flags |= DISCARD
            if b.magic >= 2 and b.producer_id >= 0 and producers is not None:
                last = producers.get(b.producer_id)
                if last is not None and (b.last_offset == last[0] if last[0] >= 0 else
                                         (b.attributes & 0x20 and b.producer_epoch == last[1])):
                    flags |= RETAIN_EMPTY
            out[i] = flags
        return out

    cdef int _marker_kind(self, const uint8_t[::1] buf, int64_t start, int64_t stop, Batch *b) except -2:
        """Type of the first control record; -1 where there is none. A key without one marks the batch as faulty."""
        cdef Record r
        cdef int64_t delta = 0, soft = 0
        cdef const uint8_t *base
        cdef const uint8_t *p
        if b.count == 0 or b.faults & (C_SHORT_HEADER | C_BAD_CODEC):
            return -1
        if start >= stop:
            b.faults |= C_BAD_RECORD
            return -1
        base = &buf[0]
        p = base + start
        if read_record(base, &p, base + stop, &r, &delta, &soft):
            b.faults |= C_BAD_RECORD
            return -1
        if r.key_length < 4 or <int16_t>be16(base + r.key_start) < 0:
            b.faults |= C_CONTROL_KEY
            return -1
        return be16(base + r.key_start + 2)


CLEAN_DISCARD = DISCARD
CLEAN_RETAIN_EMPTY = RETAIN_EMPTY
CLEAN_EMPTY_TXN = EMPTY_TXN
CLEAN_MARKER = MARKER

# What BatchFilter counts, records and their bytes (uncompressed) each; in the order of CLEAN_REASONS.
CLEAN_REASONS = ("superseded", "tombstone", "aborted", "marker", "null key")

cdef enum:
    WHY_SUPERSEDED = 0
    WHY_TOMBSTONE = 1
    WHY_ABORTED = 2
    WHY_MARKER = 3
    WHY_NULL_KEY = 4
    WHYS = 5

# Why a batch stops a cleaning; see FILTER_FAULTS.
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


cdef inline void set_be16(uint8_t *p, uint16_t v) noexcept nogil:
    p[0] = <uint8_t>(v >> 8)
    p[1] = <uint8_t>v


cdef inline void set_be32(uint8_t *p, uint32_t v) noexcept nogil:
    set_be16(p, <uint16_t>(v >> 16))
    set_be16(p + 2, <uint16_t>v)


cdef inline void set_be64(uint8_t *p, uint64_t v) noexcept nogil:
    set_be32(p, <uint32_t>(v >> 32))
    set_be32(p + 4, <uint32_t>v)


cdef inline void put_field(TextBuffer out, const uint8_t *field, int64_t length) noexcept nogil:
    """A length, -1 for null, and the bytes; the room is there."""
    put_varint(out, length)
    if length > 0:
        out.put(<const char *>field, length)


cdef int put_record(TextBuffer out, const uint8_t *base, const uint8_t *end, Record *r, int64_t offset_delta,
                    int64_t timestamp_delta) except -1 nogil:
    """A magic 2 record with the fields of row r, as DefaultRecord.writeTo: attributes 0, shortest varints. Its bytes lie
    in [base, end)."""
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


cdef void put_header(uint8_t *p, int64_t size, Batch *head, int64_t base_timestamp) noexcept nogil:
    """The header of the batch of `size` bytes at p, whose records are there: its CRC is over them."""
    set_be64(p, <uint64_t>head.base_offset)
    set_be32(p + 8, <uint32_t>(size - LOG_OVERHEAD))
    set_be32(p + 12, <uint32_t>head.leader_epoch)
    p[16] = 2
    set_be16(p + 21, <uint16_t>head.attributes)
    set_be32(p + 23, <uint32_t>minus(head.last_offset, head.base_offset))
    set_be64(p + 27, <uint64_t>base_timestamp)
    set_be64(p + 35, <uint64_t>head.max_timestamp)
    set_be64(p + 43, <uint64_t>head.producer_id)
    set_be16(p + 51, <uint16_t>head.producer_epoch)
    set_be32(p + 53, <uint32_t>head.base_sequence)
    set_be32(p + 57, <uint32_t>head.count)
    set_be32(p + 17, crc32c_update(0, p + 21, size - 21))


cdef class BatchFilter:
    """Writes what stays of a window's batches, as Kafka's cleaner does.

        row = filter.run(data, batches, flags, 0)     # every batch up to a compressed one, row
        if filter.payload(data, batches, row, flags[row], payload): filter.finish(compress(codec, filter.records))

    A batch of which all records stay is copied; else it is built again around those that do, with its own offsets,
    epochs and sequence, and with the delete horizon where a tombstone or an idle marker was first seen now. `out` is
    what has been written. `fault` (index in FILTER_FAULTS) and `fault_batch` say what Kafka would have stopped at.
    """

    cdef KeyMap map
    cdef int64_t now_ms, delete_retention_ms
    cdef bint keep_legacy_deletes
    cdef readonly TextBuffer out
    cdef readonly TextBuffer records      # of the batch being built again, to be compressed
    cdef uint8_t *bits
    cdef Py_ssize_t bits_capacity
    cdef Record rows[CHUNK]
    cdef uint64_t high[CHUNK]
    cdef uint64_t low[CHUNK]
    cdef int64_t counts[2 * WHYS]
    cdef readonly int64_t records_read, records_kept, batches_read, batches_kept, batches_emptied, horizons_set
    cdef readonly int fault
    cdef readonly Py_ssize_t fault_batch
    # of the batch at hand
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
        """(records, bytes) that go, for each of CLEAN_REASONS."""
        return [(self.counts[2 * k], self.counts[2 * k + 1]) for k in range(WHYS)]

    def run(self, const uint8_t[::1] buf not None, BatchTable batches not None, const uint8_t[::1] flags not None,
            Py_ssize_t first):
        """Do the batches from row `first` on, up to a compressed one whose records must be looked at. Its row; the
        number of batches where all are done; the row of the batch with the fault where `fault` is set."""
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
        """Do the compressed magic 2 batch i. True where its records, in `records`, are to be compressed and given to
        `finish`; False where it is done, or faulty."""
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
        """Do the compressed magic 0 or 1 message i, all of whose records are in the table; as `payload`."""
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
            if flags & RETAIN_EMPTY:
                return self._fail(X_LEGACY_EMPTY, i)
            return False
        self._head(b, flags)
        for k in range(records.count):
            if self.bits[k >> 3] >> (k & 7) & 1 and not self._append(self.records, records.buf, records.end(),
                                                                     records.at(k)):
                return self._fail(self.fault, i)
        return True

    def finish(self, const uint8_t[::1] compressed not None):
        """Write the batch that `payload` or `wrapped` left, around its compressed records."""
        if compressed.shape[0] > LARGEST_BATCH:
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
        """A batch that goes unseen."""
        self.batches_read += 1
        if flags & (DISCARD | RETAIN_EMPTY) != DISCARD:
            return False
        self.records_read += b.count
        self._count(WHY_MARKER if flags & MARKER else WHY_ABORTED, b.count, b.size)
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
        """Does the record stay? latest: at least the latest offset of its key, where it has one that was written again.
        Source: Cleaner.shouldRetainRecord."""
        cdef bint keeps_deletes
        cdef int why
        self.records_read += 1
        if flags & DISCARD:
            why = WHY_MARKER if flags & MARKER else WHY_ABORTED
        elif flags & MARKER or r.offset > self.map.reach:
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
        """The same for a message of magic 0 or 1."""
        cdef uint64_t high = 0, low = 0
        cdef int64_t size = (34 if b.magic else 26) + max(r.key_length, <int64_t>0) + max(r.value_length, <int64_t>0)
        cdef int64_t latest = -1
        if r.key_length >= 0:
            sip_hash(base + r.key_start, r.key_length, self.map.k0, self.map.k1, &high, &low)
            latest = self.map.latest(high, low)
        return self._judge(b, flags, r, latest, size)

    cdef int _batch(self, const uint8_t *base, const uint8_t *p, const uint8_t *stop, Batch *b, int flags,
                    const uint8_t *original, TextBuffer target) except -1 nogil:
        """One magic 2 batch with its records in [p, stop), rows relative to base. 0: faulty; 1: done; 2: its records
        are in `target`, which is not `out`."""
        cdef const uint8_t *at = p
        cdef Record *r
        cdef int64_t done = 0, delta = 0, soft = 0, start
        cdef int32_t length = 0
        cdef int n, k
        cdef bint kept, append_time = (b.attributes & 8) != 0, set_horizon
        cdef bint hashed = not flags & (DISCARD | MARKER)
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
            if flags & RETAIN_EMPTY:
                self._empty(b)
            return 1
        self._need_bits(b.count)
        while done < b.count:
            n = 0
            while n < CHUNK and done + n < b.count:
                r = &self.rows[n]
                if read_record(base, &at, stop, r, &delta, &soft) or soft & C_BAD_RECORD:
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
                    latest = -1 if self.map.is_latest(r.offset) else MAX
                elif hashed and r.key_length >= 0:
                    latest = self.map.latest(self.high[k], self.low[k])
                kept = self._judge(b, flags, r, latest, r.batch)
                self._mark(done + k, kept)
            done += n
        if at != stop:
            self.fault = X_COUNT
            return 0
        if self.kept == 0:
            if flags & RETAIN_EMPTY:
                self._empty(b)
            return 1
        set_horizon = (self.tombstone or flags & EMPTY_TXN) and not b.attributes & 0x40
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
        """One uncompressed message of magic 0 or 1, which becomes a batch of magic 2."""
        cdef Record *r = &self.rows[0]
        cdef int64_t start = self.out.size
        if read_message(base, base + b.start + LOG_OVERHEAD, b.size - LOG_OVERHEAD, r):
            self.fault = X_RECORD
            return 0
        r.offset = b.base_offset
        self._begin(b)
        if not self._judge_one(b, flags, base, r):
            if flags & RETAIN_EMPTY:
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
        """The header of the batch that will hold the kept records of b. Source: buildRetainedRecordsInto."""
        cdef Batch *head = &self.head
        cdef bint append_time = b.magic >= 1 and b.attributes & 8
        head[0] = b[0]
        self.horizon = b.base_timestamp if b.magic >= 2 and b.attributes & 0x40 else -1
        if (self.tombstone or flags & EMPTY_TXN) and not (b.magic >= 2 and b.attributes & 0x40):
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
        """One more record of the batch being built. False, and a fault, where Kafka's builder refuses it."""
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
        """Fill in the header of the batch that begins at byte `start` of out and ends where out ends."""
        if self.head.magic < 2:
            self.head.last_offset = self.last_offset
        self.batches_kept += 1
        self._put_header(start, &self.head, self.head.base_timestamp)

    cdef int _empty(self, Batch *b) except -1 nogil:
        """A header without records. Source: DefaultRecordBatch.writeEmptyHeader."""
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


cdef class SegmentIndexes:
    """Offset and time index of a segment, entry by entry as batches are appended. Source: LogSegment.append."""

    cdef readonly TextBuffer offsets
    cdef readonly TextBuffer times
    cdef readonly int64_t position        # bytes appended
    cdef readonly int64_t max_timestamp   # -1: none
    cdef readonly bint overflow           # an offset that no index of this segment can hold
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
        """Whole magic 2 batches, end to end, that are appended now. Raises ValueError where they are not."""
        cdef int64_t at = 0, size, last_offset, timestamp
        cdef const uint8_t *p
        while at < batches.shape[0]:
            size = whole_batch(batches, at)
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
        """The segment is complete: its largest timestamp goes into the time index."""
        self._time()

    cdef int _time(self) except -1:
        if self.max_timestamp > self.last_time:
            self.times.need(12)
            set_be64(<uint8_t *>self.times.data + self.times.size, <uint64_t>self.max_timestamp)
            set_be32(<uint8_t *>self.times.data + self.times.size + 8, <uint32_t>minus(self.max_at, self.base_offset))
            self.times.size += 12
            self.last_time = self.max_timestamp
        return 0
