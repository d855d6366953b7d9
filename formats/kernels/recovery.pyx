"""The recovery of a segment from its batches: index entries, aborted transactions, leader epochs, producers.

Source: LogSegment.recover.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from formats.kernels.batches cimport FAULT_BAD_CRC, FAULT_SHORT_HEADER, Batch, BatchTable, foreign, lies_in
from formats.kernels.buffer cimport TextBuffer, put_be32
from formats.kernels.numbers cimport fits_index, minus, plus
from formats.kernels.producers cimport (
    RECOVERY_INVALID, RECOVERY_MORE, RECOVERY_ORDER, RECOVERY_OVERFLOW, RECOVERY_REFUSED, ProducerTable
)


cdef class SegmentRecovery:
    """The recovery of one segment, window by window.

        recovery = SegmentRecovery(producers, base_offset, latest_epoch)
        while recovery.batches(window.batches, window.data) == RECOVERY_MORE: ...
        recovery.end()
        recovery.valid_bytes, offset_index, time_index, aborted, epochs

    A batch gets an index entry if it begins more than index_interval_bytes behind the last batch with an entry.
    `offset_index` and `time_index` are the bytes of the files, aborted the entries of the transaction index, epochs the
    leader epochs above latest_epoch with the offset of their first batch. batch_count, next_offset, max_timestamp: of
    the batches up to valid_bytes. fault_position: the byte at which recovery ended early; `reason`: of that.
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
        """Recover the next rows, whose CRCs `scan` has computed. Returns a RECOVERY_* constant; all but RECOVERY_MORE
        end it.
        """
        cdef Py_ssize_t i
        cdef int how = RECOVERY_MORE
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
        """Add the last entry of the time index. Returns a RECOVERY_* constant."""
        return self._time_entry(True)

    cdef int _batch(self, Batch *b, const uint8_t *data) except -1 nogil:
        cdef int how
        if b.faults & FAULT_BAD_CRC or (b.magic >= 2 and b.faults & FAULT_SHORT_HEADER):
            with gil:
                if b.faults & FAULT_BAD_CRC:
                    self.reason = f"CRC is {b.crc:#010x}, bytes give {b.crc_computed:#010x}"
                else:
                    self.reason = f"a batch of {b.size} bytes is smaller than its header"
            return RECOVERY_INVALID
        if not fits_index(b.last_offset, self.base):
            with gil:
                self.reason = f"last offset {b.last_offset} is not within an int32 above the base offset {self.base}"
            return RECOVERY_OVERFLOW
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
            return RECOVERY_MORE
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
                        return RECOVERY_REFUSED
                    self.last_aborted = b.base_offset
                    self.aborted.append((b.producer_id, self.producers.completed_first, b.base_offset,
                                         self.producers.completed_stable))
        self.map_end = plus(b.last_offset, 1)
        return RECOVERY_MORE

    cdef int _entries(self, Batch *b) except -1 nogil:
        cdef int how
        if self.valid_bytes > 0x7fffffff:
            with gil:
                self.reason = f"the batch begins behind the {0x7fffffff} bytes that an index can point into"
            return RECOVERY_REFUSED
        if self.offset_index.size >= 8 * self.offset_entries_max:
            with gil:
                self.reason = "the offset index is full"
            return RECOVERY_REFUSED
        if self.offset_index.size and b.last_offset <= self.indexed_offset:
            with gil:
                self.reason = f"offset {b.last_offset} comes behind offset {self.indexed_offset} in the index"
            return RECOVERY_ORDER
        self.offset_index.need(8)
        put_be32(self.offset_index, <uint32_t>minus(b.last_offset, self.base))
        put_be32(self.offset_index, <uint32_t>self.valid_bytes)
        self.indexed_offset = b.last_offset
        how = self._time_entry(False)
        if how:
            return how
        self.last_entry = self.valid_bytes
        return RECOVERY_MORE

    cdef int _time_entry(self, bint closing) except -1 nogil:
        if not closing and self.time_index.size >= 12 * (self.time_entries_max - 1):
            with gil:
                self.reason = "the time index is full"
            return RECOVERY_REFUSED
        if self.time_index.size and self.max_timestamp_offset < self.indexed_time_offset:
            with gil:
                self.reason = f"offset {self.max_timestamp_offset} comes behind offset {self.indexed_time_offset} in the time index"
            return RECOVERY_ORDER
        if self.max_timestamp > self.indexed_timestamp:
            self.time_index.need(12)
            put_be32(self.time_index, <uint32_t>(<uint64_t>self.max_timestamp >> 32))
            put_be32(self.time_index, <uint32_t><uint64_t>self.max_timestamp)
            put_be32(self.time_index, <uint32_t>minus(self.max_timestamp_offset, self.base))
            self.indexed_timestamp = self.max_timestamp
            self.indexed_time_offset = self.max_timestamp_offset
        return RECOVERY_MORE
