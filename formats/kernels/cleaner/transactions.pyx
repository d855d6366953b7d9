"""Find the batches of aborted transactions, and the markers of transactions without records left.

Source: CleanedTransactionMetadata, Cleaner.
"""

from heapq import heappop, heappush

from libc.stdint cimport int16_t, int64_t, uint8_t

from formats.kernels.batches cimport (
    FAULT_BAD_CODEC, FAULT_BAD_RECORD, FAULT_CONTROL_KEY, FAULT_SHORT_HEADER, V2_HEADER, Batch, BatchTable, foreign, lies_in
)
from formats.kernels.numbers cimport be16, plus
from formats.kernels.records cimport Record, read_record

# Types of a control record.
cdef enum:
    ABORT_MARKER = 0
    COMMIT_MARKER = 1


cdef class CleanedTransactions:
    """The transactions of the batches that a cleaning pass reads in order: aborted or committed, with records or
    without.

    Source: CleanedTransactionMetadata. `cleaned_index`: the aborted transactions whose marker this pass keeps, because
    it read records of them; they become the transaction index of the segment being written.
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
        """Add aborted transactions that begin behind the batches read: (version, producer id, first offset, ...)."""
        for transaction in transactions:
            heappush(self.queue, (transaction[2], len(self.queue), transaction))

    cdef _consume(self, int64_t offset):
        while self.queue and self.queue[0][0] <= offset:
            transaction = heappop(self.queue)[2]
            self.aborted.setdefault(transaction[1], [transaction, False])

    cdef bint _on_batch(self, Batch *b):
        """Whether a transactional batch belongs to an aborted transaction."""
        self._consume(b.last_offset)
        found = self.aborted.get(b.producer_id)
        if found is None:
            self.committed.add(b.producer_id)
            return False
        found[1] = True
        return True

    cdef bint _on_marker(self, Batch *b, int kind):
        """Whether a control batch may be removed. kind: the type of its first record, -1 if it has none."""
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
        """Return a byte of CLEAN_* flags for each batch of a window; windows are read in order.

        payload(row): returns the decompressed records of a compressed control batch. producers: last data offset (-1:
        none) and epoch by id of each active producer; the last batch of each is kept, empty if need be, as is the batch
        that ends at end_offset. A control batch whose type cannot be read gets FAULT_BAD_RECORD or FAULT_CONTROL_KEY.
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
                flags = CLEAN_RETAIN_EMPTY
            if b.magic >= 2 and b.attributes & 0x30:
                if b.attributes & 0x20:
                    if b.attributes & 7 and not b.faults & (FAULT_SHORT_HEADER | FAULT_BAD_CODEC):
                        whole = payload(i)
                        kind = self._marker_kind(whole, 0, len(whole), b)
                    else:
                        kind = self._marker_kind(buf, b.start + V2_HEADER, b.start + b.size, b)
                    may_go = self._on_marker(b, kind)
                    flags |= CLEAN_MARKER
                    if may_go:
                        flags |= CLEAN_EMPTY_TXN
                        if b.attributes & 0x40 and b.base_timestamp <= now_ms:
                            flags |= CLEAN_DISCARD
                elif self._on_batch(b):
                    flags |= CLEAN_DISCARD
            if b.magic >= 2 and b.producer_id >= 0 and producers is not None:
                last = producers.get(b.producer_id)
                if last is not None and (b.last_offset == last[0] if last[0] >= 0 else
                                         (b.attributes & 0x20 and b.producer_epoch == last[1])):
                    flags |= CLEAN_RETAIN_EMPTY
            out[i] = flags
        return out

    cdef int _marker_kind(self, const uint8_t[::1] buf, int64_t start, int64_t stop, Batch *b) except -2:
        """Return the type of the first control record, -1 if there is none. A key without a type sets a fault bit."""
        cdef Record r
        cdef int64_t delta = 0, soft = 0
        cdef const uint8_t *base
        cdef const uint8_t *p
        if b.count == 0 or b.faults & (FAULT_SHORT_HEADER | FAULT_BAD_CODEC):
            return -1
        if start >= stop:
            b.faults |= FAULT_BAD_RECORD
            return -1
        base = &buf[0]
        p = base + start
        if read_record(base, &p, base + stop, &r, &delta, &soft):
            b.faults |= FAULT_BAD_RECORD
            return -1
        if r.key_length < 4 or <int16_t>be16(base + r.key_start) < 0:
            b.faults |= FAULT_CONTROL_KEY
            return -1
        return be16(base + r.key_start + 2)
