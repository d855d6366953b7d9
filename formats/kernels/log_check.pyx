"""Checks across the batches of a log: offsets, leader epochs, producers, transactions, and index entries."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memset

from formats.kernels.batches cimport (
    FAULT_BAD_CRC, FAULT_MAX_TIMESTAMP, FAULT_SHORT_HEADER, V2_HEADER, Batch, BatchTable, foreign, lies_in
)
from formats.kernels.numbers cimport be16, be32, be64, minus, plus
from formats.kernels.records cimport Record, read_record

# The kinds of LogCheck.events: (name, position, size, offset, expected, found, sound_batches, sound_bytes).
# position, size and offset are those of the batch at fault; sound_* count the sound batches before it in the segment.
cdef enum:
    E_FAULTS = 0              # found: FAULT_* bits
    E_MAGIC = 1               # found: the magic
    E_SOUND = 2               # the first sound batch behind a faulty one
    E_NEGATIVE = 3
    E_NAME = 4                # the first batch lies below the segment's base offset
    E_BELOW = 5
    E_BEYOND_INT = 6          # the offset less the segment's base offset exceeds int32
    E_NEXT_SEGMENT = 7        # expected: an offset below this, the next segment's base offset
    E_BACK = 8                # base offset not above the last offset before it
    E_AHEAD = 9               # the batches behind it continue the offsets of those before it
    E_RUNS_INTO_NEXT = 10     # the last offset, which has no record, lies in the next batch
    E_GAP = 11                # expected: the next offset
    E_MORE_GAPS = 12          # found: the count of further gaps
    E_LEADER_EPOCH = 13       # expected: the limit that the neighbouring batches set
    E_NO_PRODUCER = 14        # transactional without a producer id
    E_NO_SEQUENCE = 15        # a producer id without a sequence
    E_SEQUENCE_BACK = 16
    E_SEQUENCE_GAP = 17
    E_PRODUCER_EPOCH = 18
    E_CONTROL = 19            # found: the reason as text
    E_NEW_EPOCH = 20           # found: the leader epoch, not that of the batch before

EVENT_NAMES = (
    "faults", "magic", "sound", "negative-offset", "below-name", "below-base", "beyond-int", "into-next-segment",
    "back", "ahead", "runs-into-next", "gap", "more-gaps", "leader-epoch", "no-producer", "no-sequence",
    "sequence-back", "sequence-gap", "producer-epoch", "control", "new-epoch",
)

# LogCheck.index_events: (entry number, cause, expected). For a time index entry `expected` is a timestamp or an offset.
INDEX_NOT_AT_BATCH = "not-at-batch"        # no batch begins at that position, or none ends at that offset
INDEX_WRONG_OFFSET = "wrong-offset"        # expected: the last offset of the batch there
INDEX_WRONG_TIMESTAMP = "wrong-timestamp"  # expected: the max timestamp of the batch at the entry's position
INDEX_NOT_LARGEST = "not-largest"          # expected: the larger timestamp of an earlier batch
INDEX_BEYOND_END = "beyond-end"
INDEX_ORDER = "order"                      # not above the entry before it

cdef enum:
    GAPS_SHOWN = 8
    INDEX_EVENTS_MAX = 1000
    PRODUCERS_MAX = 1 << 19
    V_UNSEEN = 0
    V_TRUE = 1
    V_FALSE = 2
    V_UNKNOWN = 3

cdef struct Producer:
    int64_t id
    int64_t last_offset         # last offset of its last batch; -1: none in this epoch
    int64_t timestamp           # ms; -1: not known
    int64_t txn_first           # first offset of its open transaction; -1: none
    int64_t txn_slot            # its place in LogCheck.open
    int32_t last_sequence       # -1: none in this epoch, -2: not known
    int32_t offset_delta
    int32_t coordinator_epoch
    int64_t seen_breaks         # LogCheck.breaks at the producer's last batch
    int64_t sequence_breaks     # LogCheck.breaks when last_sequence, if it is not -2, was known to be the last
    int64_t txn_breaks          # LogCheck.breaks when its open transaction began
    int16_t epoch
    int8_t used
    int8_t txn_certain          # nothing of the open transaction can lie before txn_first

cdef struct OpenTxn:
    int64_t producer_id
    int64_t first_offset        # -1: completed

cdef struct IndexKey:
    int64_t key
    int64_t entry

cdef struct Spot:
    int64_t position            # byte where a batch begins
    int64_t size
    int64_t base_offset
    int64_t sound_batches       # before it
    int64_t sound_bytes


cdef int compare_index_keys(const void *a, const void *b) noexcept nogil:
    cdef IndexKey *x = <IndexKey *>a
    cdef IndexKey *y = <IndexKey *>b
    if x.key != y.key:
        return -1 if x.key < y.key else 1
    return (x.entry > y.entry) - (x.entry < y.entry)


cdef inline int64_t offset_behind(int64_t offset) noexcept nogil:
    """Return the offset after `offset`; for the largest offset, return the offset itself."""
    return offset + 1 if offset < INT64_MAX else offset


cdef class IndexCursor:
    """Compares the entries of an offset index (width 8 bytes) or time index (width 12) with batches in log order."""

    cdef const uint8_t[::1] view
    cdef const uint8_t *data
    cdef Py_ssize_t width, count, next
    cdef IndexKey *order          # NULL: the entries are sorted in the file
    cdef uint8_t *verdicts
    cdef list events
    cdef readonly Py_ssize_t more

    def __cinit__(self, const uint8_t[::1] data not None, Py_ssize_t width):
        cdef Py_ssize_t i
        if width != 8 and width != 12:
            raise ValueError(width)
        self.view = data
        self.width = width
        self.count = data.shape[0] // width
        self.data = &data[0] if self.count else NULL
        self.events = []
        self.verdicts = <uint8_t *>malloc(self.count + 1)
        if self.verdicts == NULL:
            raise MemoryError
        memset(self.verdicts, V_UNSEEN, self.count + 1)
        for i in range(1, self.count):
            if self.key(i) < self.key(i - 1):
                self._sort()
                break

    def __dealloc__(self):
        free(self.order)
        free(self.verdicts)

    cdef _sort(self):
        cdef Py_ssize_t i
        self.order = <IndexKey *>malloc(self.count * sizeof(IndexKey))
        if self.order == NULL:
            raise MemoryError
        for i in range(self.count):
            self.order[i].key = self.key(i)
            self.order[i].entry = i
        qsort(self.order, self.count, sizeof(IndexKey), compare_index_keys)

    cdef inline int64_t key(self, Py_ssize_t i) noexcept nogil:
        """Return the field of an entry by which the cursor orders the entries: the position (offset index) or the
        relative offset (time index).
        """
        return <int32_t>be32(self.data + i * self.width + self.width - 4)

    cdef inline int64_t lead(self, Py_ssize_t i) noexcept nogil:
        """Return the other field of an entry: the relative offset (offset index) or the timestamp (time index)."""
        if self.width == 8:
            return <int32_t>be32(self.data + i * 8)
        return <int64_t>be64(self.data + i * 12)

    cdef inline Py_ssize_t entry(self) noexcept nogil:
        """Return the number of the next entry, -1 at the end."""
        if self.next >= self.count:
            return -1
        return self.order[self.next].entry if self.order != NULL else self.next

    cdef int judge(self, Py_ssize_t i, object cause, int64_t expected) except -1:
        self.verdicts[i] = V_FALSE
        if len(self.events) < INDEX_EVENTS_MAX:
            self.events.append((i, cause, expected))
        else:
            self.more += 1
        return 0

    cdef int skip(self, int64_t below) except -1 nogil:
        """Skip the entries with a key below `below`, as they cannot be checked."""
        cdef Py_ssize_t i
        while True:
            i = self.entry()
            if i < 0 or self.key(i) >= below:
                return 0
            self.verdicts[i] = V_UNKNOWN
            self.next += 1

    cdef int finish(self, bint known) except -1:
        """Report the entries left over as beyond the end (if `known`), then check the order of all entries not
        reported.
        """
        cdef Py_ssize_t i
        cdef int64_t key = -1, lead = -1
        while True:
            i = self.entry()
            if i < 0:
                break
            if known:
                self.judge(i, INDEX_BEYOND_END, 0)
            self.next += 1
        for i in range(self.count):
            if self.verdicts[i] != V_FALSE:
                if self.key(i) <= key or (self.lead(i) <= lead and i > 0):
                    self.judge(i, INDEX_ORDER, 0)
                else:
                    key, lead = self.key(i), self.lead(i)
        self.events.sort()
        return 0


cdef class LogCheck:
    """The state of one partition across its batches, segment after segment.

        check = LogCheck(control)
        check.begin(base_offset, next_base, offset_index, time_index)   # index entries without preallocated zeros
        check.batches(window.batches, window.data)      # rows with the faults of their records
        check.events(), check.aborted()
        check.damage(position, length)                  # bytes without a sound batch
        check.end()                                     # then read offset_index_events, time_index_events

    sequences: whether to check sequence numbers; batches that group coordinators write for producers have none.
    control(batch bytes) -> (type, coordinator epoch, reason): called for control batches that are not a plain end
    marker. Counters of the segment: sound_batches, sound_bytes. `max_timestamp` of the segment in ms, -1 for none. When
    there are more than 524,288 producers, the state of all is dropped to bound the memory, without a report.
    """

    cdef object control
    cdef Producer *producers
    cdef Py_ssize_t slots, used
    cdef OpenTxn *open
    cdef Py_ssize_t open_head, open_count, open_slots
    cdef readonly bint complete         # no batch since offset 0 is missing
    cdef readonly bint cleaned          # a batch has fewer records than offsets: the cleaner removed some
    cdef readonly int64_t breaks        # the number of gaps and faults so far
    cdef int64_t last_offset            # largest offset of the partition so far; -1 before its first batch
    cdef Spot previous                  # the batch before the current one
    cdef int64_t previous_count, before_previous
    cdef bint has_previous, after_fault, name_is_wrong, unsound, sequences
    cdef int64_t base, next_base
    cdef int64_t gaps
    cdef Spot gap
    cdef int64_t gap_expected
    cdef bint gap_pending
    cdef int64_t epoch, epoch_before, epoch_run
    cdef Spot epoch_start
    cdef IndexCursor offsets, times
    cdef list _events, _aborted
    cdef readonly int64_t sound_batches, sound_bytes, batch_count, max_timestamp

    def __cinit__(self, control, bint sequences=True):
        self.control = control
        self.sequences = sequences
        self.complete = True
        self.last_offset = -1
        self.epoch = self.epoch_before = -1
        self._events = []
        self._aborted = []
        self.offsets = IndexCursor(b"", 8)
        self.times = IndexCursor(b"", 12)
        self._grow(256)

    def __dealloc__(self):
        free(self.producers)
        free(self.open)

    def begin(self, int64_t base, int64_t next_base=INT64_MAX, const uint8_t[::1] offset_index not None=b"",
              const uint8_t[::1] time_index not None=b""):
        """Begin a segment with base offset `base`; next_base: that of the next segment, INT64_MAX for none."""
        if base < 0 or next_base < 0:
            raise ValueError((base, next_base))
        if self.last_offset < 0:
            self.complete = base == 0
        self.base = base
        self.next_base = next_base
        self.offsets = IndexCursor(offset_index, 8)
        self.times = IndexCursor(time_index, 12)
        self.has_previous = self.after_fault = self.name_is_wrong = self.unsound = self.gap_pending = False
        self.gaps = 0
        self.sound_batches = self.sound_bytes = self.batch_count = 0
        self.max_timestamp = -1
        if self.last_offset < base - 1:
            self.before_previous = base - 1
        else:
            self.before_previous = self.last_offset

    @property
    def last_position(self):
        """The position of the segment's last batch whose offsets are in order; 0 before the first."""
        return self.previous.position if self.has_previous else 0

    @property
    def next_offset(self):
        """The offset after the largest offset so far; 0 before the first batch."""
        return <object>self.last_offset + 1

    def events(self):
        """Return the events since the last call, and clear them."""
        taken = self._events
        self._events = []
        return taken

    def aborted(self):
        """Return the transactions aborted since the last call: (producer_id, first_offset, last_offset,
        last_stable_offset, indexed, certain).

        first_offset -1: the transaction's first batch is not known, or it has none. indexed: no batch of the
        transaction can be missing, so the transaction index must list it. certain: the offsets are exact, not the
        highest possible.
        """
        taken = self._aborted
        self._aborted = []
        return taken

    @property
    def offset_index_events(self):
        return self.offsets.events

    @property
    def time_index_events(self):
        return self.times.events

    @property
    def more_index_events(self):
        return self.offsets.more, self.times.more

    def batches(self, BatchTable table not None, const uint8_t[::1] data not None, Py_ssize_t first=0,
                until_offset=None):
        """Check the rows from `first` on, up to the first with a base offset of until_offset or more; return that row.

        Raises ValueError for rows that do not lie in `data`."""
        cdef Py_ssize_t i = first
        cdef Batch *b
        cdef bint has_until = until_offset is not None
        cdef int64_t until = until_offset if has_until else INT64_MAX
        if first < 0 or first > table.count:
            raise ValueError(first)
        with nogil:
            while i < table.count:
                b = table.at(i)
                if not lies_in(b, data.shape[0]):
                    foreign(i)
                if has_until and b.base_offset >= until and not b.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
                    break
                self._batch(b, &data[b.start], b + 1 if i + 1 < table.count else NULL)
                i += 1
        return i

    def damage(self, int64_t position, int64_t length):
        """Note that bytes [position, position + length) hold no sound batch."""
        if position < 0 or length < 0 or position > INT64_MAX - length:
            raise ValueError((position, length))
        self._flush_gap()
        self._lost()
        self.unsound = True
        self.offsets.skip(position)
        self.offsets.skip(position + length)

    def end(self):
        """End the segment: report gaps, and the index entries behind its end."""
        self._flush_gap()
        if self.gaps > GAPS_SHOWN:
            self._event(E_MORE_GAPS, &self.previous, 0, self.gaps - GAPS_SHOWN)
        self.offsets.finish(True)
        self.times.finish(not self.after_fault)

    def producer(self, int64_t producer_id):
        """(epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, txn_first_offset, txn_certain)
        of a producer at this point of the log; None for an unknown producer, or after damage behind its last batch.

        -1 means none; a last_sequence of -2, and a timestamp or coordinator epoch of -1, mean unknown. txn_certain:
        whether txn_first_offset is exact; else the transaction may have begun before."""
        cdef Producer *p = self._find(producer_id)
        if not p.used or p.seen_breaks != self.breaks:
            return None
        # The cleaner may have removed the last batch with a sequence, and kept the end marker behind it.
        sequence = p.last_sequence if p.sequence_breaks == self.breaks else -2
        return (p.epoch, sequence, p.last_offset, p.offset_delta, p.timestamp, p.coordinator_epoch, p.txn_first,
                p.txn_first >= 0 and p.txn_certain or p.txn_first < 0 and (self.complete or p.coordinator_epoch >= 0))

    def least(self, int64_t producer_id):
        """(epoch, last_offset) of a producer's last batch so far, below which its state cannot fall, whatever batches
        are missing; None for an unknown producer. last_offset -1: none in this epoch."""
        cdef Producer *p = self._find(producer_id)
        return (p.epoch, p.last_offset) if p.used else None

    def later_producers(self, int64_t timestamp, int64_t offset):
        """The ids of the producers whose last batch has a larger timestamp (ms) and a last offset behind `offset`,
        without those of which batches may be missing since."""
        cdef Py_ssize_t i
        cdef Producer *p
        found = []
        for i in range(self.slots):
            p = &self.producers[i]
            if p.used and p.seen_breaks == self.breaks and p.timestamp > timestamp and p.last_offset > offset:
                found.append(p.id)
        return found

    def open_transactions(self):
        """(producer_id, first_offset) of each transaction that is open at this point of the log, in order, without
        those whose end may be among missing or damaged batches."""
        cdef Py_ssize_t i
        cdef OpenTxn *each
        found = []
        for i in range(self.open_head, self.open_count):
            each = &self.open[i]
            if each.first_offset >= 0 and self._find(each.producer_id).txn_breaks == self.breaks:
                found.append((each.producer_id, each.first_offset))
        return found

    @property
    def producer_count(self):
        return self.used

    # events

    cdef int _event(self, int name, Spot *spot, object expected, object found) except -1:
        self._events.append((EVENT_NAMES[name], spot.position, spot.size, spot.base_offset, expected, found, spot.sound_batches,
                             spot.sound_bytes))
        return 0

    cdef int _flush_gap(self) except -1:
        if self.gap_pending:
            self.gap_pending = False
            self._event(E_GAP, &self.gap, self.gap_expected, self.gap.base_offset)
        return 0

    cdef void _lost(self) noexcept nogil:
        """Note that batches of the log are missing or damaged."""
        self.after_fault = True
        self.complete = False
        self.breaks += 1

    # one batch

    cdef int _batch(self, Batch *b, const uint8_t *data, Batch *following) except -1 nogil:
        cdef Spot here
        cdef int64_t faults = b.faults
        cdef bint sound = True, trusted, lost = self.after_fault, placed
        here.position = b.position
        here.size = b.size
        here.base_offset = b.base_offset
        here.sound_batches = self.sound_batches
        here.sound_bytes = self.sound_bytes
        if b.magic == 2 and b.base_timestamp < 0:
            faults &= ~<int64_t>FAULT_MAX_TIMESTAMP         # no base timestamp, so no timestamps
        trusted = not faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER) and b.magic <= 2
        if b.magic > 2 or b.magic < 0:
            sound = False
            with gil:
                self._event(E_MAGIC, &here, 2, b.magic)
        elif faults:
            sound = False
            with gil:
                self._event(E_FAULTS, &here, 0, faults)
        if not trusted:
            if self.gap_pending:
                with gil:
                    self._flush_gap()
            self._lost()
            self.offsets.skip(b.position + 1)
        else:
            placed = self._offsets(b, &here, following)
            sound = sound and placed
            if b.magic == 2:
                self._leader_epoch(b, &here)
                sound = self._producer(b, data, &here, faults != 0) and sound
            if placed:
                self._indexes(b, lost)
            else:
                self.offsets.skip(b.position + 1)
        self.batch_count += 1
        if sound:
            if self.unsound:
                self.unsound = False
                with gil:
                    self._event(E_SOUND, &here, 0, 0)
            self.sound_batches += 1
            self.sound_bytes += b.size
        else:
            self.unsound = True
        return 0

    cdef bint _offsets(self, Batch *b, Spot *here, Batch *following) except -1 nogil:
        """Check order and range of the batch's offsets; return whether they are sound."""
        cdef int64_t first = b.base_offset, last = max(b.last_offset, b.base_offset), expected
        if first < 0:
            return self._misplaced(E_NEGATIVE, here, 0, first)
        if first < self.base and not self.name_is_wrong:
            if self.batch_count:
                return self._misplaced(E_BELOW, here, self.base, first)
            self.name_is_wrong = True
            with gil:
                self._event(E_NAME, here, self.base, first)
            self.before_previous = first - 1
        if last - self.base > 0x7fffffff or last == INT64_MAX:    # there is no offset after INT64_MAX
            return self._misplaced(E_BEYOND_INT, here, min(self.base, INT64_MAX - <int64_t>0x80000000) + <int64_t>0x7fffffff, last)
        if last >= self.next_base:
            return self._misplaced(E_NEXT_SEGMENT, here, self.next_base - 1, last)
        if self.has_previous and first <= self.last_offset:
            if first > self.previous.base_offset and self.previous_count > 0 and (
                    self.previous_count <= first - self.previous.base_offset):
                self._blame_previous(E_RUNS_INTO_NEXT, first - 1, self.last_offset)
            elif self._stands_ahead(first, last, following):
                self._blame_previous(E_AHEAD, offset_behind(self.before_previous), self.previous.base_offset)
            else:
                return self._misplaced(E_BACK, here, offset_behind(self.last_offset), first)
            self.last_offset = self.before_previous
        elif self.gap_pending:
            with gil:
                self._flush_gap()
        self.gap_pending = False
        expected = offset_behind(self.last_offset if self.has_previous else self.before_previous)
        if b.magic >= 2 or not b.attributes & 7:
            if first > expected:
                self.complete = False
                self.breaks += 1
                if not self.after_fault:
                    self.gaps += 1
                    if self.gaps <= GAPS_SHOWN:
                        self.gap_pending = True
                        self.gap = here[0]
                        self.gap_expected = expected
        if b.magic == 2 and b.count != last - first + 1:
            self.complete = False                       # compaction removed records of the batch
            self.cleaned = True
            self.breaks += 1
        self.before_previous = self.last_offset if self.has_previous else self.before_previous
        self.previous = here[0]
        self.previous_count = b.count
        self.has_previous = True
        self.last_offset = last
        self.after_fault = False
        return True

    cdef bint _stands_ahead(self, int64_t first, int64_t last, Batch *following) noexcept nogil:
        """Of two batches that are out of order, whether the earlier one (`previous`) is at fault, rather than the batch
        [first, last] after it.

        It is at fault if exactly as many offsets as `previous` has lie between before_previous and `first`. If more
        offsets lie between them (in a compacted log), it is at fault if the batch `following` begins at or below the
        end of `previous`, too; at the end of the log, if `previous` begins further above `last` than there is room
        before `first`.
        """
        cdef int64_t room = first - self.before_previous - 1
        cdef int64_t span = self.last_offset - self.previous.base_offset + 1
        if first >= self.previous.base_offset or room < span:
            return False
        if room == span:
            return True
        if following == NULL:
            return self.previous.base_offset - last > room
        return following.base_offset <= self.last_offset

    cdef bint _misplaced(self, int name, Spot *here, int64_t expected, int64_t found) except -1 nogil:
        with gil:
            self._event(name, here, expected, found)
        self._lost()
        return False

    cdef int _blame_previous(self, int name, int64_t expected, int64_t found) except -1 nogil:
        self.gap_pending = False
        self.sound_batches -= 1
        self.sound_bytes -= self.previous.size
        with gil:
            self._event(name, &self.previous, expected, found)
        self.unsound = True
        self._lost()
        return 0

    cdef int _leader_epoch(self, Batch *b, Spot *here) except -1 nogil:
        """Check that leader epochs never fall; a single batch above both its neighbours is the one at fault.

        -1 says that a batch has no epoch.
        """
        cdef bint odd
        if b.leader_epoch == -1 or b.leader_epoch == self.epoch:
            self.epoch_run += 1
            return 0
        if b.leader_epoch < self.epoch:
            odd = self.epoch_run == 1 and b.leader_epoch >= self.epoch_before
            with gil:
                if odd:
                    self._event(E_LEADER_EPOCH, &self.epoch_start, b.leader_epoch, self.epoch)
                else:
                    self._event(E_LEADER_EPOCH, here, self.epoch, b.leader_epoch)
        else:
            self.epoch_before = self.epoch
        with gil:
            self._event(E_NEW_EPOCH, here, self.epoch, b.leader_epoch)
        self.epoch = b.leader_epoch
        self.epoch_run = 1
        self.epoch_start = here[0]
        return 0

    # producers and transactions

    cdef bint _producer(self, Batch *b, const uint8_t *data, Spot *here, bint faulty) except -1 nogil:
        cdef Producer *p
        cdef int64_t kind = -1, coordinator_epoch = -1
        cdef bint control = b.attributes & 32 != 0, sound = True
        if control and not faulty and b.count:
            if not self._plain_marker(b, data, &kind, &coordinator_epoch):
                with gil:
                    kind, coordinator_epoch, reason = self.control(PyBytes_FromStringAndSize(<const char *>data, b.size))
                    if reason is not None:
                        self._event(E_CONTROL, here, None, reason)
                        sound = False
        if b.producer_id < 0:
            if b.attributes & 16:
                with gil:
                    self._event(E_NO_PRODUCER, here, 0, b.producer_id)
            return sound
        p = self._find(b.producer_id)
        if not p.used:
            p = self._add(b.producer_id)
        elif b.producer_epoch < p.epoch:
            with gil:
                self._event(E_PRODUCER_EPOCH, here, p.epoch, b.producer_epoch)
            return sound
        if control:
            if 0 <= kind <= 1:
                self._marker(p, b, kind == 0, coordinator_epoch)
        elif self.sequences and b.base_sequence < 0:
            with gil:
                self._event(E_NO_SEQUENCE, here, 0, b.base_sequence)
            return False
        else:
            sound = self._sequence(p, b, here) and sound
            if b.attributes & 16 and p.txn_first < 0:
                self._begin_txn(p, b.base_offset)
        p.seen_breaks = self.breaks
        return sound

    cdef bint _sequence(self, Producer *p, Batch *b, Spot *here) except -1 nogil:
        """Check that the sequence continues the producer's last batch; a gap is legal where batches between are
        missing. Without a producer epoch a leader appends any sequence.
        """
        cdef int64_t span = minus(b.last_offset, b.base_offset)
        cdef int32_t expected = 0 if p.last_sequence == 0x7fffffff else p.last_sequence + 1
        cdef bint sound = True
        cdef bint checked = self.sequences and p.epoch == b.producer_epoch and p.epoch >= 0
        if checked and p.last_sequence >= 0 and b.base_sequence != expected:
            if 0 < b.base_sequence - <int64_t>expected or <int64_t>expected - b.base_sequence > 0x3fffffff:
                if p.sequence_breaks == self.breaks:
                    with gil:
                        self._event(E_SEQUENCE_GAP, here, expected, b.base_sequence)
            else:
                sound = False
                with gil:
                    self._event(E_SEQUENCE_BACK, here, expected, b.base_sequence)
        p.epoch = b.producer_epoch
        p.last_sequence = <int32_t>((b.base_sequence + max(span, <int64_t>0)) & 0x7fffffff)
        p.last_offset = b.last_offset
        p.offset_delta = <int32_t>span
        p.timestamp = b.max_timestamp if b.count == span + 1 else -1    # cleaning changes the max timestamp
        p.sequence_breaks = self.breaks
        return sound

    cdef bint _plain_marker(self, Batch *b, const uint8_t *data, int64_t *kind, int64_t *coordinator_epoch) noexcept nogil:
        """Read a plain end marker: version 0, alone and uncompressed in its batch, as brokers write it."""
        cdef Record r
        cdef int64_t delta, soft = 0
        cdef const uint8_t *p = data + V2_HEADER
        cdef const uint8_t *key
        if b.count != 1 or b.attributes & 7 or read_record(data, &p, data + b.size, &r, &delta, &soft):
            return False
        key = data + r.key_start
        if r.key_length != 4 or be16(key) != 0 or be16(key + 2) > 1 or r.value_length != 6 or (
                be16(data + r.value_start) != 0):
            return False
        kind[0] = be16(key + 2)
        coordinator_epoch[0] = <int32_t>be32(data + r.value_start + 2)
        return True

    cdef int _marker(self, Producer *p, Batch *b, bint abort, int64_t coordinator_epoch) except -1 nogil:
        cdef int64_t first = p.txn_first, stable
        cdef bint indexed, certain, fresh = p.last_offset < 0 and p.coordinator_epoch < 0 and p.epoch < 0
        if p.epoch != b.producer_epoch:
            p.last_sequence = -1 if p.epoch >= 0 else -2
            if p.seen_breaks == self.breaks:
                p.sequence_breaks = self.breaks
            p.epoch = b.producer_epoch
            p.last_offset = -1
            p.offset_delta = 0
        p.coordinator_epoch = <int32_t>coordinator_epoch
        p.timestamp = b.max_timestamp
        indexed = first >= 0 and p.txn_breaks == self.breaks
        certain = indexed and self.complete
        if first >= 0:
            p.txn_first = -1
            self.open[p.txn_slot].first_offset = -1
        elif self.complete or (not fresh and p.seen_breaks == self.breaks):
            return 0                                    # the transaction has no records
        if abort:
            stable = self._first_open()
            with gil:
                self._aborted.append((b.producer_id, first, b.base_offset, stable if stable >= 0 else plus(b.base_offset, 1),
                                      bool(indexed), bool(certain)))
        return 0

    cdef int64_t _first_open(self) noexcept nogil:
        """Return the first offset of the oldest open transaction, -1 if none is open."""
        while self.open_head < self.open_count and self.open[self.open_head].first_offset < 0:
            self.open_head += 1
        return self.open[self.open_head].first_offset if self.open_head < self.open_count else -1

    cdef int _begin_txn(self, Producer *p, int64_t offset) except -1 nogil:
        cdef Py_ssize_t i, kept = 0, slots
        cdef OpenTxn *grown
        if self.open_count == self.open_slots:
            for i in range(self.open_head, self.open_count):
                if self.open[i].first_offset >= 0:
                    self.open[kept] = self.open[i]
                    self._find(self.open[kept].producer_id).txn_slot = kept
                    kept += 1
            self.open_head = 0
            self.open_count = kept
            if kept * 2 >= self.open_slots:
                slots = max(64, self.open_slots * 2)
                grown = <OpenTxn *>realloc(self.open, slots * sizeof(OpenTxn))
                if grown == NULL:
                    with gil:
                        raise MemoryError
                self.open = grown
                self.open_slots = slots
        p.txn_certain = self.complete or (p.coordinator_epoch >= 0 and p.seen_breaks == self.breaks)
        p.txn_first = offset
        p.txn_breaks = self.breaks
        p.txn_slot = self.open_count
        self.open[self.open_count].producer_id = p.id
        self.open[self.open_count].first_offset = offset
        self.open_count += 1
        return 0

    cdef Producer *_find(self, int64_t producer_id) noexcept nogil:
        """Return the cell of a producer in the hash table, or the free cell where it belongs."""
        cdef uint64_t mask = self.slots - 1
        cdef uint64_t i = (<uint64_t>producer_id * 0x9e3779b97f4a7c15ULL >> 20) & mask
        while self.producers[i].used and self.producers[i].id != producer_id:
            i = (i + 1) & mask
        return &self.producers[i]

    cdef Producer *_add(self, int64_t producer_id) except NULL nogil:
        cdef Producer *p
        if self.used >= PRODUCERS_MAX:
            memset(self.producers, 0, self.slots * sizeof(Producer))
            self.used = self.open_head = self.open_count = 0
            self._lost()
        elif 2 * (self.used + 1) > self.slots:
            self._grow(self.slots * 2)
        p = self._find(producer_id)
        p.id = producer_id
        p.used = 1
        p.epoch = -1
        p.last_offset = p.txn_first = p.timestamp = -1
        p.coordinator_epoch = p.seen_breaks = p.sequence_breaks = -1
        p.last_sequence = -2
        self.used += 1
        return p

    cdef int _grow(self, Py_ssize_t slots) except -1 nogil:
        cdef Producer *old = self.producers
        cdef Py_ssize_t i, before = self.slots
        self.producers = <Producer *>malloc(slots * sizeof(Producer))
        if self.producers == NULL:
            self.producers = old
            with gil:
                raise MemoryError
        memset(self.producers, 0, slots * sizeof(Producer))
        self.slots = slots
        for i in range(before):
            if old[i].used:
                self._find(old[i].id)[0] = old[i]
        free(old)
        return 0

    # index entries

    cdef int _indexes(self, Batch *b, bint lost) except -1 nogil:
        cdef Py_ssize_t i
        cdef int64_t relative = minus(b.last_offset, self.base)
        while True:
            i = self.offsets.entry()
            if i < 0 or self.offsets.key(i) > b.position:
                break
            self.offsets.next += 1
            if self.offsets.key(i) < b.position:
                with gil:
                    self.offsets.judge(i, INDEX_NOT_AT_BATCH, 0)
            elif self.offsets.lead(i) != relative:
                with gil:
                    self.offsets.judge(i, INDEX_WRONG_OFFSET, b.last_offset)
            else:
                self.offsets.verdicts[i] = V_TRUE
        while True:
            i = self.times.entry()
            if i < 0 or self.times.key(i) > relative:
                break
            self.times.next += 1
            if self.times.key(i) < relative:
                if lost and self.times.key(i) < b.base_offset - self.base:
                    self.times.verdicts[i] = V_UNKNOWN
                    continue
                with gil:
                    self.times.judge(i, INDEX_NOT_AT_BATCH, 0)
            elif self.times.lead(i) != b.max_timestamp:
                with gil:
                    self.times.judge(i, INDEX_WRONG_TIMESTAMP, b.max_timestamp)
            elif self.max_timestamp > b.max_timestamp:
                with gil:
                    self.times.judge(i, INDEX_NOT_LARGEST, self.max_timestamp)
            else:
                self.times.verdicts[i] = V_TRUE
        self.max_timestamp = max(self.max_timestamp, b.max_timestamp)
        return 0
