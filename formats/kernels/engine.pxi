"""What an open log does with the batches that it appends: index entries and producers, one pass over their headers."""


cdef class AppendIndexer:
    """The index entries of a segment that grows by whole batches, as Kafka's LogSegment.append makes them.

        indexer = AppendIndexer(base_offset, interval_bytes, indexed_timestamp, max_timestamp, max_timestamp_offset)
        offset_entries, time_entries = indexer.append(batches, position, offset_slots, time_slots)

    An entry is due for the first batch behind more than interval_bytes without one. indexed_timestamp: of the last entry
    of the time index. max_timestamp and max_timestamp_offset: the largest timestamp so far and the last offset of the
    batch that has it.
    """

    cdef int64_t base, interval, unindexed, indexed_timestamp
    cdef readonly int64_t max_timestamp, max_timestamp_offset
    cdef TextBuffer offsets, times

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
        """The entries (bytes of both files) that the next batches bring, which begin at byte `position` of the log.

        The slots are how many entries each file has room for; entries beyond are left out. Raises ValueError, with
        nothing changed, where an index cannot hold a batch's offset or position.
        """
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
        if not self.offsets.size and not self.times.size:
            return b"", b""
        return (PyBytes_FromStringAndSize(self.offsets.data, self.offsets.size),
                PyBytes_FromStringAndSize(self.times.data, self.times.size))

    cdef inline bint takes(self, int64_t position, int64_t first, int64_t count) noexcept nogil:
        """Can the indexes hold a batch at this byte whose offsets these are?"""
        return position <= 0x7fffffff and fits_index(first, self.base) and fits_index(plus(first, count - 1), self.base)

    def last_time_entry(self):
        """The entry (bytes) that closes the time index, empty where it has the largest timestamp already."""
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


def survey_batches(BatchTable table not None, int64_t leader_epoch_max):
    """What a follower looks at before it appends; batches from the first of a later leader epoch on leave the table.

    Returns (bytes left, row of the first batch with a bad CRC or header or -1, whether offsets grow, largest timestamp,
    [(leader epoch, offset where it begins)]); magic 0 and 1 have no epoch: -1.
    """
    cdef Py_ssize_t i
    cdef Batch *b
    cdef int64_t size = 0, last_offset = -1, max_timestamp = -1, epoch = -2
    cdef Py_ssize_t bad = -1
    cdef bint ordered = True
    epochs = []
    for i in range(table.count):
        b = table.at(i)
        if b.leader_epoch > leader_epoch_max and b.magic >= 2:
            table.count = i
            break
        if bad < 0 and b.faults & (C_BAD_CRC | C_SHORT_HEADER):
            bad = i
        if last_offset >= b.last_offset:
            ordered = False
        last_offset = b.last_offset
        max_timestamp = max(max_timestamp, b.max_timestamp)
        if (b.leader_epoch if b.magic >= 2 else -1) != epoch:
            epoch = b.leader_epoch if b.magic >= 2 else -1
            epochs.append((epoch, b.base_offset))
        size += b.size
    return size, bad, ordered, max_timestamp, epochs


def follow_producers(ProducerTable producers not None, BatchTable table not None, const uint8_t[::1] data not None):
    """Take in batches that are appended together. Returns (a RECOVERY_* constant, completed transactions).

    A transaction: (producer id, first offset, offset of its marker, last stable offset behind it, aborted). Kafka begins
    all transactions of one append before it completes any, and so does this last stable offset.
    """
    cdef Py_ssize_t i, open_before
    cdef int how = G_MORE
    cdef Batch *b
    completed = []
    waiting = []                # those behind whose marker no transaction of another producer is open
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
    """What is known of one producer: the fields of ProducerEntry, or None."""
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
    """Forget producers without an open transaction whose last batch or marker is from `before_ms` or older. Returns how
    many."""
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


def check_plain_records(const uint8_t[::1] data not None, BatchTable table not None, *, bint keyed, bint create_time,
                        int64_t earliest, int64_t latest):
    """Check the records of the one batch in `table`, which is not compressed, without keeping any.

    As RecordTable and check_append, but says only that all is well: (records, whether offset deltas count up by one,
    largest timestamp), or None where anything is amiss.
    """
    cdef Batch *b
    cdef const uint8_t *p
    cdef const uint8_t *stop
    cdef Record r
    cdef int64_t delta, timestamp, soft = 0, seen = 0, newest = -1
    cdef bint sound, consecutive = True
    if table.count != 1:
        raise ValueError(f"{table.count} batches, not one")
    b = table.at(0)
    sound = not b.attributes & 15 and lies_in(b, data.shape[0]) and b.size >= V2_HEADER
    if not sound:
        return None
    with nogil:
        p = &data[b.start] + V2_HEADER
        stop = &data[b.start] + b.size
        while p < stop and seen <= b.count:
            if read_record(&data[0], &p, stop, &r, &delta, &soft) or soft & C_BAD_RECORD:
                sound = False
                break
            timestamp = plus(b.base_timestamp, r.timestamp)
            if (keyed and r.key_length < 0) or (
                    create_time and timestamp != -1 and (timestamp < earliest or timestamp > latest)):
                sound = False
                break
            newest = max(newest, timestamp)
            consecutive = consecutive and delta == seen
            seen += 1
    if not sound or p != stop or seen != b.count:
        return None
    return seen, consecutive, newest


cdef bint plain_batch(const uint8_t[::1] data, BatchTable table, bint keyed, int64_t earliest, int64_t latest,
                      int64_t max_bytes) except -1:
    """Is it a batch of a client as most are: one, not compressed, CreateTime, sound? Leaves its row in `table`."""
    cdef Batch *b
    cdef int64_t next_start = 0, needed = 0
    cdef int how
    table.clear()
    if data.shape[0] < V2_HEADER or data.shape[0] > max_bytes or data[16] != 2 or data[21] or data[22] & ~16:
        return False
    with nogil:
        how = scan_window(&data[0], 0, data.shape[0], 0, table, True, False, &next_start, &needed)
    if how != C_END or table.count != 1:
        return False
    b = table.at(0)
    if (b.faults or b.base_offset != 0 or b.count <= 0 or b.last_offset + 1 != b.count
            or (b.producer_id != -1 and b.base_sequence < 0)):
        return False
    checked = check_plain_records(data, table, keyed=keyed, create_time=True, earliest=earliest, latest=latest)
    return checked is not None and <int64_t>checked[2] == b.max_timestamp


cdef void lead_batch(uint8_t[::1] data, Batch *b, int64_t next_offset, int32_t leader_epoch) noexcept:
    """Set offset and leader epoch, in the bytes and in the row."""
    cdef int i
    set_be64(&data[0], <uint64_t>next_offset)
    for i in range(4):
        data[12 + i] = <uint8_t>(<uint32_t>leader_epoch >> (24 - 8 * i))
    b.base_offset = next_offset
    b.last_offset = plus(next_offset, b.count - 1)
    b.leader_epoch = leader_epoch


def accept_plain(uint8_t[::1] data not None, BatchTable table not None, int64_t next_offset, int32_t leader_epoch, *,
                 bint keyed, int64_t earliest, int64_t latest, int64_t max_bytes):
    """What a leader does to the batch of a client that is as most are: one batch, not compressed, CreateTime, sound.

    Sets offset and leader epoch, and leaves the one row in `table`. Returns False, with `data` as it was, for any other
    batch: that one has to be looked at in full.
    """
    if not plain_batch(data, table, keyed, earliest, latest, max_bytes):
        return False
    if next_offset < 0 or table.at(0).count > MAX - next_offset:
        return False
    lead_batch(data, table.at(0), next_offset, leader_epoch)
    return True


cdef class Runway:
    """What can still be appended to a segment without a look at anything but the batch: the short way of most batches.

        runway = Runway(producers, indexer, leader_epoch, position, ...)
        found = runway.append(data, write, next_offset, now_ms)

    A batch goes this way when it is as `accept_plain` wants it, of no transaction, and its producer is new or continues
    where it was; and when the segment takes it: position (the byte where it goes) and its size up to size_max, its last
    offset up to offset_max, its timestamp up to timestamp_max, and a slot in both indexes. Whatever else appends to the
    segment, or changes what was given here, makes a new runway.
    """

    cdef ProducerTable producers
    cdef AppendIndexer indexer
    cdef BatchTable table
    cdef bint keyed
    cdef readonly int32_t leader_epoch
    cdef int64_t position, size_max, offset_max, timestamp_max, offset_slots, time_slots
    cdef int64_t before_max_ms, after_max_ms, max_message_bytes

    def __init__(self, ProducerTable producers not None, AppendIndexer indexer not None, int32_t leader_epoch, *,
                 int64_t position, int64_t size_max, int64_t offset_max, int64_t timestamp_max, int64_t offset_slots,
                 int64_t time_slots, bint keyed, int64_t before_max_ms, int64_t after_max_ms, int64_t max_message_bytes):
        if position < 0 or before_max_ms < 0 or after_max_ms < 0:
            raise ValueError((position, before_max_ms, after_max_ms))
        self.producers, self.indexer, self.table = producers, indexer, BatchTable()
        self.leader_epoch, self.position = leader_epoch, position
        self.size_max, self.offset_max, self.timestamp_max = size_max, offset_max, timestamp_max
        self.offset_slots, self.time_slots = offset_slots, time_slots
        self.keyed, self.before_max_ms, self.after_max_ms = keyed, before_max_ms, after_max_ms
        self.max_message_bytes = max_message_bytes

    def append(self, batch not None, write not None, int64_t next_offset, int64_t now_ms):
        """Append a batch: write((batch,), position) is called, producers and index entries follow.

        Returns (last offset, max timestamp, new entries of the offset index, of the time index); None, with nothing
        changed, for a batch that has to go the long way. What `write` raises goes through; the state is ahead then.
        """
        cdef uint8_t[::1] data = batch
        cdef Batch *b
        cdef int64_t size = data.shape[0]
        cdef int64_t now = max(now_ms, <int64_t>0)
        cdef int64_t latest = now + self.after_max_ms if self.after_max_ms <= INT64_MAX - now else INT64_MAX
        if size < V2_HEADER or data[22] or self.position > self.size_max or size > self.size_max - self.position:
            return None
        if not self.offset_slots or not self.time_slots:
            return None
        if not plain_batch(data, self.table, self.keyed, now - self.before_max_ms, latest, self.max_message_bytes):
            return None
        b = self.table.at(0)
        if not 0 <= next_offset <= self.offset_max or b.count - 1 > self.offset_max - next_offset:
            return None
        if b.max_timestamp > self.timestamp_max or not self.indexer.takes(self.position, next_offset, b.count):
            return None
        if b.producer_id != -1 and not comes_next(self.producers._find(b.producer_id), b):
            return None
        lead_batch(data, b, next_offset, self.leader_epoch)
        if b.producer_id != -1:
            self.producers._batch(b, &data[0])
        write((batch,), self.position)
        offset_entries, time_entries = self.indexer.append(
            self.table, self.position, self.offset_slots, self.time_slots)
        self.position += size
        self.offset_slots -= len(offset_entries) // 8
        self.time_slots -= len(time_entries) // 12
        return b.last_offset, b.max_timestamp, offset_entries, time_entries


cdef inline bint comes_next(ProducerState *producer, Batch *b) noexcept nogil:
    """Is it the producer's first batch, or the one behind its last, with nothing in between to look at?"""
    if b.producer_id < 0 or b.producer_epoch < 0:
        return False
    if not producer.used:
        return True
    return (producer.kept > 0 and producer.epoch == b.producer_epoch and producer.txn_first < 0
            and b.base_sequence == sequence_after(producer.batches[producer.kept - 1].last_sequence, 1))
