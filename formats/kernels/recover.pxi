"""What a log keeps in mind of its batches as they follow each other: producers, transactions, index entries, epochs."""

# How SegmentRecovery.batches ended.
cdef enum:
    G_MORE = 0           # every row was taken in
    G_INVALID = 1        # Kafka cuts the segment at valid_bytes
    G_OVERFLOW = 2       # an offset that is no int32 above the base offset
    G_ORDER = 3          # an index entry that does not lie above the one before it: Kafka empties the segment
    G_REFUSED = 4        # Kafka would not start

RECOVERY_MORE = G_MORE
RECOVERY_INVALID = G_INVALID
RECOVERY_OVERFLOW = G_OVERFLOW
RECOVERY_ORDER = G_ORDER
RECOVERY_REFUSED = G_REFUSED

cdef enum:
    BATCHES_KEPT = 5

PRODUCER_BATCHES_KEPT = BATCHES_KEPT

cdef struct LastBatch:
    int64_t last_offset
    int64_t timestamp           # its max timestamp, ms
    int32_t last_sequence
    int32_t offset_delta        # last less first offset

cdef struct ProducerState:
    int64_t id
    int64_t timestamp           # of its last batch or marker, ms
    int64_t txn_first           # first offset of its open transaction; -1: none
    int32_t coordinator_epoch   # -1: none
    int16_t epoch               # -1: none
    int8_t used
    int8_t kept                 # batches, the oldest first
    LastBatch batches[BATCHES_KEPT]

cdef struct OngoingTxn:
    int64_t first_offset
    int64_t producer_id


cdef inline int32_t sequence_after(int64_t sequence, int64_t more) noexcept nogil:
    """Sequences run from 0 to 2^31 - 1 and begin again; as Java's ints do it."""
    if sequence > 0x7fffffff - more:
        return <int32_t>(<uint64_t>(more - (0x7fffffff - sequence) - 1))
    return <int32_t>(<uint64_t>(sequence + more))


cdef inline void set_last(LastBatch *last, Batch *b) noexcept nogil:
    last.last_offset = b.last_offset
    last.timestamp = b.max_timestamp
    last.offset_delta = <int32_t>minus(b.last_offset, b.base_offset)
    last.last_sequence = -1
    if b.base_sequence != -1:
        last.last_sequence = sequence_after(b.base_sequence, last.offset_delta)


cdef inline void put_be32(TextBuffer out, uint32_t value) noexcept nogil:
    cdef char scratch[4]
    scratch[0] = <char>(value >> 24)
    scratch[1] = <char>(value >> 16 & 0xff)
    scratch[2] = <char>(value >> 8 & 0xff)
    scratch[3] = <char>(value & 0xff)
    out.put(scratch, 4)


cdef class ProducerTable:
    """Every producer of a partition, with its last five batches, and the transactions that are open.

        table = ProducerTable(control)
        table.load(entry)                       # the eight fields of a snapshot's entry
        table.batches(batches, data)            # what a log holds, unchecked, in order
        table.entries(), table.ongoing()

    control(batch bytes) -> (how, type, coordinator epoch, timestamp, reason): for control batches that are not one plain
    end marker. how: RECOVERY_MORE (type -1: no record in it), RECOVERY_INVALID or RECOVERY_REFUSED, with the reason.
    """

    cdef object control
    cdef ProducerState *states
    cdef Py_ssize_t slots, used
    cdef OngoingTxn *open
    cdef Py_ssize_t open_count, open_slots
    cdef readonly str reason                # why `batches` ended early
    # Of the marker seen last: the transaction that it ended.
    cdef int64_t completed_first, completed_stable
    cdef bint completed_abort

    def __cinit__(self, control):
        self.control = control
        self.completed_first = -1
        self._grow(64)

    def __dealloc__(self):
        free(self.states)
        free(self.open)

    def __len__(self):
        return self.used

    def clear(self):
        """Forget all."""
        memset(self.states, 0, self.slots * sizeof(ProducerState))
        self.used = self.open_count = 0

    def load(self, entry):
        """Take in the entry of a snapshot: the fields of ProducerEntry."""
        cdef ProducerState *p
        cdef int64_t offset_delta
        p = self._at(entry[0])
        p.epoch, p.coordinator_epoch, p.timestamp = entry[1], entry[6], entry[5]
        p.kept = 0
        if entry[3] >= 0:
            p.kept = 1
            p.batches[0].last_sequence, p.batches[0].last_offset = entry[2], entry[3]
            p.batches[0].offset_delta, p.batches[0].timestamp = entry[4], entry[5]
        p.txn_first = -1
        if entry[7] >= 0:
            p.txn_first = entry[7]
            self._begin(p.txn_first, p.id)

    def entries(self):
        """What a snapshot holds: tuples with the fields of ProducerEntry, by producer id."""
        cdef Py_ssize_t i
        cdef ProducerState *p
        found = []
        for i in range(self.slots):
            p = &self.states[i]
            if p.used:
                if p.kept:
                    found.append((p.id, p.epoch, p.batches[p.kept - 1].last_sequence, p.batches[p.kept - 1].last_offset,
                                  p.batches[p.kept - 1].offset_delta, p.timestamp, p.coordinator_epoch, p.txn_first))
                else:
                    found.append((p.id, p.epoch, -1, -1, 0, p.timestamp, p.coordinator_epoch, p.txn_first))
        found.sort()
        return found

    def last_batches(self, int64_t producer_id):
        """(last sequence, last offset, offset delta, timestamp) of up to five batches, the oldest first."""
        cdef ProducerState *p = self._find(producer_id)
        return [(p.batches[i].last_sequence, p.batches[i].last_offset, p.batches[i].offset_delta, p.batches[i].timestamp)
                for i in range(p.kept)] if p.used else []

    def recall(self, int64_t producer_id, BatchTable table not None):
        """Take in batches of the producer's epoch that lie in front of those it has, as far as there is room. Returns
        how many."""
        cdef ProducerState *p = self._find(producer_id)
        cdef Py_ssize_t i
        cdef int found = 0
        cdef Batch *b
        for i in range(table.count - 1, -1, -1):
            b = table.at(i)
            if not p.used or not 0 < p.kept < BATCHES_KEPT:
                break
            if (b.magic < 2 or b.attributes & 32 or b.producer_id != producer_id or b.producer_epoch != p.epoch
                    or b.last_offset >= p.batches[0].last_offset):
                continue
            memmove(&p.batches[1], &p.batches[0], p.kept * sizeof(LastBatch))
            set_last(&p.batches[0], b)
            p.kept += 1
            found += 1
        return found

    def ongoing(self):
        """(first offset, producer id) of every open transaction, the oldest first."""
        return [(self.open[i].first_offset, self.open[i].producer_id) for i in range(self.open_count)]

    def batches(self, BatchTable table not None, const uint8_t[::1] data not None):
        """Take in the batches of a window without checking them. Returns a RECOVERY_* constant."""
        cdef Py_ssize_t i
        cdef int how = G_MORE
        cdef Batch *b
        if table.count:
            with nogil:
                for i in range(table.count):
                    b = table.at(i)
                    if not lies_in(b, data.shape[0]):
                        foreign(i)
                    if b.magic >= 2 and b.producer_id >= 0:
                        how = self._batch(b, &data[b.start])
                        if how:
                            break
        return how

    cdef int _batch(self, Batch *b, const uint8_t *data) except -1 nogil:
        """One batch with a producer id. Sets completed_* where it ends a transaction. Returns a G_* constant."""
        cdef int64_t kind = -1, coordinator_epoch = -1, timestamp = -1
        cdef int how
        cdef ProducerState *p
        self.completed_first = -1
        if b.attributes & 32:
            how = self._read_marker(b, data, &kind, &coordinator_epoch, &timestamp)
            if how:
                return how
            p = self._at(b.producer_id)
            if kind >= 0:
                return self._marker(p, b, kind == 0, <int32_t>coordinator_epoch, timestamp)
            return G_MORE
        p = self._at(b.producer_id)
        if p.txn_first >= 0 and not b.attributes & 16:
            with gil:
                self.reason = f"producer {p.id} writes outside its open transaction at offset {b.base_offset}"
            return G_REFUSED
        if p.epoch != b.producer_epoch:
            p.kept = 0
            p.epoch = <int16_t>b.producer_epoch
        if p.kept == BATCHES_KEPT:
            memmove(&p.batches[0], &p.batches[1], (BATCHES_KEPT - 1) * sizeof(LastBatch))
            p.kept -= 1
        set_last(&p.batches[p.kept], b)
        p.kept += 1
        p.timestamp = b.max_timestamp
        if p.txn_first < 0 and b.attributes & 16:
            p.txn_first = b.base_offset
            self._begin(b.base_offset, p.id)
        return G_MORE

    cdef int _read_marker(self, Batch *b, const uint8_t *data, int64_t *kind, int64_t *coordinator_epoch,
                          int64_t *timestamp) except -1 nogil:
        """The first record of a control batch; kind stays -1 where there is none."""
        cdef Record r
        cdef int64_t delta, soft = 0
        cdef const uint8_t *p = data + V2_HEADER
        cdef const uint8_t *key
        cdef int how
        if b.count == 0:
            return G_MORE
        if b.count == 1 and not b.attributes & 7 and not read_record(data, &p, data + b.size, &r, &delta, &soft) and (
                not soft and p == data + b.size and r.key_length == 4 and r.value_length >= 6):
            key = data + r.key_start
            if be16(key) == 0 and be16(key + 2) <= 1 and not data[r.value_start] & 0x80:
                kind[0] = be16(key + 2)
                coordinator_epoch[0] = <int32_t>be32(data + r.value_start + 2)
                timestamp[0] = b.max_timestamp if b.attributes & 8 else plus(b.base_timestamp, r.timestamp)
                return G_MORE
        with gil:
            how, kind[0], coordinator_epoch[0], timestamp[0], self.reason = self.control(
                PyBytes_FromStringAndSize(<const char *>data, b.size))
        return how

    cdef int _marker(self, ProducerState *p, Batch *b, bint abort, int32_t coordinator_epoch,
                     int64_t timestamp) except -1 nogil:
        cdef int64_t first = p.txn_first
        cdef Py_ssize_t i
        if p.epoch != b.producer_epoch:
            p.kept = 0
            p.epoch = <int16_t>b.producer_epoch
        p.coordinator_epoch = coordinator_epoch
        p.timestamp = timestamp
        p.txn_first = -1
        if first < 0:
            return G_MORE
        self.completed_stable = plus(b.base_offset, 1)
        for i in range(self.open_count):
            if self.open[i].producer_id != p.id:
                self.completed_stable = self.open[i].first_offset
                break
        for i in range(self.open_count):
            if self.open[i].first_offset == first:
                memmove(&self.open[i], &self.open[i + 1], (self.open_count - i - 1) * sizeof(OngoingTxn))
                self.open_count -= 1
                self.completed_first = first
                self.completed_abort = abort
                return G_MORE
        with gil:
            self.reason = f"the marker at offset {b.base_offset} ends a transaction of producer {p.id} that is not open"
        return G_REFUSED

    cdef int _begin(self, int64_t first_offset, int64_t producer_id) except -1 nogil:
        cdef Py_ssize_t at = self.open_count, slots
        cdef OngoingTxn *grown
        if self.open_count == self.open_slots:
            slots = max(16, self.open_slots * 2)
            grown = <OngoingTxn *>realloc(self.open, slots * sizeof(OngoingTxn))
            if grown == NULL:
                with gil:
                    raise MemoryError
            self.open, self.open_slots = grown, slots
        while at > 0 and self.open[at - 1].first_offset > first_offset:
            at -= 1
        if at > 0 and self.open[at - 1].first_offset == first_offset:
            self.open[at - 1].producer_id = producer_id
            return 0
        memmove(&self.open[at + 1], &self.open[at], (self.open_count - at) * sizeof(OngoingTxn))
        self.open[at].first_offset, self.open[at].producer_id = first_offset, producer_id
        self.open_count += 1
        return 0

    cdef ProducerState *_find(self, int64_t producer_id) noexcept nogil:
        """The producer's cell, or the free one where it would go."""
        cdef uint64_t mask = self.slots - 1
        cdef uint64_t i = (<uint64_t>producer_id * 0x9e3779b97f4a7c15ULL >> 20) & mask
        while self.states[i].used and self.states[i].id != producer_id:
            i = (i + 1) & mask
        return &self.states[i]

    cdef ProducerState *_at(self, int64_t producer_id) except NULL nogil:
        """The producer's cell; a new one knows nothing."""
        cdef ProducerState *p = self._find(producer_id)
        if p.used:
            return p
        if 2 * (self.used + 1) > self.slots:
            self._grow(self.slots * 2)
            p = self._find(producer_id)
        p.id = producer_id
        p.used = 1
        p.epoch = -1
        p.coordinator_epoch = -1
        p.timestamp = p.txn_first = -1
        p.kept = 0
        self.used += 1
        return p

    cdef int _grow(self, Py_ssize_t slots) except -1 nogil:
        cdef ProducerState *old = self.states
        cdef ProducerState *grown = <ProducerState *>malloc(slots * sizeof(ProducerState))
        cdef Py_ssize_t i, before = self.slots
        if grown == NULL:
            with gil:
                raise MemoryError
        memset(grown, 0, slots * sizeof(ProducerState))
        self.states, self.slots = grown, slots
        for i in range(before):
            if old[i].used:
                self._find(old[i].id)[0] = old[i]
        free(old)
        return 0


cdef class SegmentRecovery:
    """What a segment's recovery makes of its batches, window by window.

        recovery = SegmentRecovery(producers, base_offset, latest_epoch)
        while recovery.batches(window.batches, window.data) == RECOVERY_MORE: ...
        recovery.end()
        recovery.valid_bytes, offset_index, time_index, aborted, epochs

    An index entry is due for the first batch that begins more than index_interval_bytes behind the last one that has an
    entry. `offset_index` and `time_index` are the bytes of the files, aborted the entries of the transaction index,
    epochs the leader epochs above latest_epoch with the offset of their first batch. batch_count, next_offset,
    max_timestamp: of the batches up to valid_bytes. fault_position: where it ended early; `reason`: why.
    """

    cdef ProducerTable producers
    cdef int64_t base, interval, last_entry, latest_epoch
    cdef int64_t offset_entries_max, time_entries_max
    cdef int64_t indexed_offset, indexed_timestamp, indexed_time_offset, max_timestamp_offset, last_aborted
    cdef readonly int64_t valid_bytes, batch_count, next_offset, map_end, max_timestamp, fault_position
    cdef readonly str reason
    cdef readonly list aborted, epochs
    cdef readonly TextBuffer offset_index, time_index

    def __init__(self, ProducerTable producers not None, int64_t base, int64_t latest_epoch=-1, *,
                 int64_t index_interval_bytes=4096, int64_t max_index_bytes=10485760):
        self.producers = producers
        self.base = base
        self.latest_epoch = latest_epoch
        self.interval = index_interval_bytes
        self.offset_entries_max = max_index_bytes // 8
        self.time_entries_max = max_index_bytes // 12
        self.max_timestamp = self.indexed_timestamp = self.last_aborted = self.map_end = self.fault_position = -1
        self.max_timestamp_offset = self.indexed_time_offset = self.next_offset = base
        self.aborted = []
        self.epochs = []
        self.offset_index = TextBuffer()
        self.time_index = TextBuffer()

    def batches(self, BatchTable table not None, const uint8_t[::1] data not None):
        """Take in the next rows, with their CRCs checked. Returns a RECOVERY_* constant; all but RECOVERY_MORE end it."""
        cdef Py_ssize_t i
        cdef int how = G_MORE
        cdef Batch *b
        if table.count:
            with nogil:
                for i in range(table.count):
                    b = table.at(i)
                    if not lies_in(b, data.shape[0]):
                        foreign(i)
                    how = self._batch(b, &data[b.start])
                    if how:
                        self.fault_position = b.position
                        break
        return how

    def end(self):
        """The entry of the time index that closes it. Returns a RECOVERY_* constant."""
        return self._time_entry(True)

    cdef int _batch(self, Batch *b, const uint8_t *data) except -1 nogil:
        cdef int how
        if b.faults & C_BAD_CRC or (b.magic >= 2 and b.faults & C_SHORT_HEADER):
            with gil:
                if b.faults & C_BAD_CRC:
                    self.reason = f"CRC is {b.crc:#010x}, bytes give {b.crc_computed:#010x}"
                else:
                    self.reason = f"a batch of {b.size} bytes is smaller than its header"
            return G_INVALID
        if not fits_index(b.last_offset, self.base):
            with gil:
                self.reason = f"last offset {b.last_offset} is not within an int32 above the base offset {self.base}"
            return G_OVERFLOW
        if b.max_timestamp > self.max_timestamp:
            self.max_timestamp = b.max_timestamp
            self.max_timestamp_offset = b.last_offset
        if self.valid_bytes - self.last_entry > self.interval:
            how = self._entries(b)
            if how:
                return how
        self.valid_bytes += b.size
        self.batch_count += 1
        self.next_offset = plus(b.last_offset, 1)
        if b.magic < 2:
            return G_MORE
        if b.leader_epoch >= 0 and b.leader_epoch > self.latest_epoch:
            self.latest_epoch = b.leader_epoch
            with gil:
                self.epochs.append((b.leader_epoch, b.base_offset))
        if b.producer_id >= 0:
            how = self.producers._batch(b, data)
            if how:
                with gil:
                    self.reason = self.producers.reason
                return how
            if self.producers.completed_first >= 0 and self.producers.completed_abort:
                with gil:
                    if b.base_offset <= self.last_aborted:
                        self.reason = f"the aborted transaction that ends at {b.base_offset} does not end behind the last"
                        return G_REFUSED
                    self.last_aborted = b.base_offset
                    self.aborted.append((b.producer_id, self.producers.completed_first, b.base_offset,
                                         self.producers.completed_stable))
        self.map_end = plus(b.last_offset, 1)
        return G_MORE

    cdef int _entries(self, Batch *b) except -1 nogil:
        cdef int how
        if self.valid_bytes > 0x7fffffff:
            with gil:
                self.reason = f"the batch begins behind the {0x7fffffff} bytes that an index can point into"
            return G_REFUSED
        if self.offset_index.size >= 8 * self.offset_entries_max:
            with gil:
                self.reason = "the offset index is full"
            return G_REFUSED
        if self.offset_index.size and b.last_offset <= self.indexed_offset:
            with gil:
                self.reason = f"offset {b.last_offset} comes behind offset {self.indexed_offset} in the index"
            return G_ORDER
        self.offset_index.need(8)
        put_be32(self.offset_index, <uint32_t>minus(b.last_offset, self.base))
        put_be32(self.offset_index, <uint32_t>self.valid_bytes)
        self.indexed_offset = b.last_offset
        how = self._time_entry(False)
        if how:
            return how
        self.last_entry = self.valid_bytes
        return G_MORE

    cdef int _time_entry(self, bint closing) except -1 nogil:
        if not closing and self.time_index.size >= 12 * (self.time_entries_max - 1):
            with gil:
                self.reason = "the time index is full"
            return G_REFUSED
        if self.time_index.size and self.max_timestamp_offset < self.indexed_time_offset:
            with gil:
                self.reason = f"offset {self.max_timestamp_offset} comes behind offset {self.indexed_time_offset} in the time index"
            return G_ORDER
        if self.max_timestamp > self.indexed_timestamp:
            self.time_index.need(12)
            put_be32(self.time_index, <uint32_t>(<uint64_t>self.max_timestamp >> 32))
            put_be32(self.time_index, <uint32_t><uint64_t>self.max_timestamp)
            put_be32(self.time_index, <uint32_t>minus(self.max_timestamp_offset, self.base))
            self.indexed_timestamp = self.max_timestamp
            self.indexed_time_offset = self.max_timestamp_offset
        return G_MORE
