"""The state of a partition's producers: their last batches and the open transactions.

Source: ProducerStateManager, ProducerAppendInfo.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove, memset

from formats.kernels.batches cimport V2_HEADER, Batch, BatchTable, foreign, lies_in
from formats.kernels.numbers cimport be16, be32, minus, plus
from formats.kernels.records cimport Record, read_record


cdef inline void set_last(LastBatch *last, Batch *b) noexcept nogil:
    last.last_offset = b.last_offset
    last.timestamp = b.max_timestamp
    last.offset_delta = <int32_t>minus(b.last_offset, b.base_offset)
    last.last_sequence = -1
    if b.base_sequence != -1:
        last.last_sequence = sequence_after(b.base_sequence, last.offset_delta)


cdef class ProducerTable:
    """The producers of a partition, each with its last five batches, and the open transactions.

        table = ProducerTable(control)
        table.load(entry)                       # the eight fields of ProducerEntry, from a snapshot
        table.batches(batches, data)            # batches of the log, in order, without checks
        table.entries(), table.ongoing()

    control(batch bytes) -> (how, type, coordinator epoch, timestamp, reason): called for control batches that are not a
    plain end marker. how: RECOVERY_MORE (type -1: no record in it), RECOVERY_INVALID or RECOVERY_REFUSED, with the
    reason. end_offset: the state includes the batches below this offset, as the caller says.
    """

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
        """Remove all producers and open transactions."""
        memset(self.states, 0, self.slots * sizeof(ProducerState))
        self.used = self.open_count = 0

    def load(self, entry):
        """Add the producer of a snapshot's entry. entry: the fields of ProducerEntry."""
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
        """Return the entries of a snapshot: tuples with the fields of ProducerEntry, by producer id."""
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
        """Return (last sequence, last offset, offset delta, timestamp) of up to five batches, the oldest first."""
        cdef ProducerState *p = self._find(producer_id)
        return [(p.batches[i].last_sequence, p.batches[i].last_offset, p.batches[i].offset_delta, p.batches[i].timestamp)
                for i in range(p.kept)] if p.used else []

    def recall(self, int64_t producer_id, BatchTable table not None):
        """Add batches of the producer's epoch from before its oldest known batch, up to five in all; return their
        count.
        """
        cdef ProducerState *p = self._find(producer_id)
        cdef Py_ssize_t i
        cdef int found = 0
        cdef Batch *b
        for i in range(table.count - 1, -1, -1):
            b = table.at(i)
            if not p.used or not 0 < p.kept < PRODUCER_BATCHES_KEPT:
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
        """Return (first offset, producer id) of every open transaction, the oldest first."""
        return [(self.open[i].first_offset, self.open[i].producer_id) for i in range(self.open_count)]

    def batches(self, BatchTable table not None, const uint8_t[::1] data not None):
        """Update the producers with the batches of a window, without checks. Returns a RECOVERY_* constant."""
        cdef Py_ssize_t i
        cdef int how = RECOVERY_MORE
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
        """Update the producer of one batch. Sets completed_* if it ends a transaction. Returns a RECOVERY_* constant.
        """
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
            return RECOVERY_MORE
        p = self._at(b.producer_id)
        if p.txn_first >= 0 and not b.attributes & 16:
            with gil:
                self.reason = f"producer {p.id} writes outside its open transaction at offset {b.base_offset}"
            return RECOVERY_REFUSED
        if p.epoch != b.producer_epoch:
            p.kept = 0
            p.epoch = <int16_t>b.producer_epoch
        if p.kept == PRODUCER_BATCHES_KEPT:
            memmove(&p.batches[0], &p.batches[1], (PRODUCER_BATCHES_KEPT - 1) * sizeof(LastBatch))
            p.kept -= 1
        set_last(&p.batches[p.kept], b)
        p.kept += 1
        p.timestamp = b.max_timestamp
        if p.txn_first < 0 and b.attributes & 16:
            p.txn_first = b.base_offset
            self._begin(b.base_offset, p.id)
        return RECOVERY_MORE

    cdef int _read_marker(self, Batch *b, const uint8_t *data, int64_t *kind, int64_t *coordinator_epoch,
                          int64_t *timestamp) except -1 nogil:
        """Read the first record of a control batch; kind stays -1 if it has none."""
        cdef Record r
        cdef int64_t delta, soft = 0
        cdef const uint8_t *p = data + V2_HEADER
        cdef const uint8_t *key
        cdef int how
        if b.count == 0:
            return RECOVERY_MORE
        if b.count == 1 and not b.attributes & 7 and not read_record(data, &p, data + b.size, &r, &delta, &soft) and (
                not soft and p == data + b.size and r.key_length == 4 and r.value_length >= 6):
            key = data + r.key_start
            if be16(key) == 0 and be16(key + 2) <= 1 and not data[r.value_start] & 0x80:
                kind[0] = be16(key + 2)
                coordinator_epoch[0] = <int32_t>be32(data + r.value_start + 2)
                timestamp[0] = b.max_timestamp if b.attributes & 8 else plus(b.base_timestamp, r.timestamp)
                return RECOVERY_MORE
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
            return RECOVERY_MORE
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
                return RECOVERY_MORE
        with gil:
            self.reason = f"the marker at offset {b.base_offset} ends a transaction of producer {p.id} that is not open"
        return RECOVERY_REFUSED

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
        """Return the producer's cell, or the free cell for it."""
        cdef uint64_t mask = self.slots - 1
        cdef uint64_t i = (<uint64_t>producer_id * 0x9e3779b97f4a7c15ULL >> 20) & mask
        while self.states[i].used and self.states[i].id != producer_id:
            i = (i + 1) & mask
        return &self.states[i]

    cdef ProducerState *_at(self, int64_t producer_id) except NULL nogil:
        """Return the producer's cell; that of a new producer has no epoch and no batches."""
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


def follow_producers(ProducerTable producers not None, BatchTable table not None, const uint8_t[::1] data not None):
    """Update the producers with batches of one append. Returns (a RECOVERY_* constant, completed transactions).

    A completed transaction: (producer id, first offset, offset of its marker, last stable offset behind it, aborted).
    The last stable offset is Kafka's: all transactions of an append begin before any of them completes.
    """
    cdef Py_ssize_t i, open_before
    cdef int how = RECOVERY_MORE
    cdef Batch *b
    completed = []
    waiting = []                # those at whose marker no other producer's transaction is open
    for i in range(table.count):
        b = table.at(i)
        if not lies_in(b, data.shape[0]):
            foreign(i)
        if b.magic < 2 or b.producer_id < 0:
            continue
        open_before = producers.open_count
        how = producers._batch(b, &data[b.start])
        if how:
            break
        if producers.open_count > open_before and waiting:
            for at in [each for each in waiting if completed[each][0] != b.producer_id]:
                completed[at] = completed[at][:3] + (b.base_offset, completed[at][4])
                waiting.remove(at)
        if producers.completed_first >= 0:
            if producers.completed_stable == plus(b.base_offset, 1):
                waiting.append(len(completed))
            completed.append((b.producer_id, producers.completed_first, b.base_offset, producers.completed_stable,
                              bool(producers.completed_abort)))
    return how, completed


def producer_entry(ProducerTable producers not None, int64_t producer_id):
    """Return the fields of ProducerEntry of one producer, or None for an unknown producer."""
    cdef ProducerState *p = producers._find(producer_id)
    cdef LastBatch *last
    if not p.used:
        return None
    if not p.kept:
        return p.id, p.epoch, -1, -1, 0, p.timestamp, p.coordinator_epoch, p.txn_first
    last = &p.batches[p.kept - 1]
    return (p.id, p.epoch, last.last_sequence, last.last_offset, last.offset_delta, p.timestamp, p.coordinator_epoch,
            p.txn_first)


def expire_producers(ProducerTable producers not None, int64_t before_ms):
    """Remove producers without an open transaction whose last timestamp is at most `before_ms`; return their count."""
    cdef ProducerState *old = producers.states
    cdef ProducerState *kept
    cdef Py_ssize_t i, gone = 0
    for i in range(producers.slots):
        if old[i].used and old[i].txn_first < 0 and old[i].timestamp <= before_ms:
            gone += 1
    if gone:
        kept = <ProducerState *>malloc(producers.slots * sizeof(ProducerState))
        if kept == NULL:
            raise MemoryError
        memset(kept, 0, producers.slots * sizeof(ProducerState))
        producers.states = kept
        for i in range(producers.slots):
            if old[i].used and (old[i].txn_first >= 0 or old[i].timestamp > before_ms):
                producers._find(old[i].id)[0] = old[i]
        producers.used -= gone
        free(old)
    return gone
