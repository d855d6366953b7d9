"""Batches and records as kafka-dump-log prints them. Source: DumpLogSegments."""

from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.batches cimport FAULT_BAD_CRC, FAULT_SHORT_HEADER, Batch, BatchTable
from formats.kernels.buffer cimport TextBuffer, put_text
from formats.kernels.numbers cimport be16, be32, minus, plus
from formats.kernels.records cimport Record, RecordTable, next_field
from formats.kernels.text.java cimport put_java_text
from formats.kernels.text.lines cimport CODECS, increment_sequence, put_timestamp_type, python_bytes


cdef int put_kafka_batch(TextBuffer out, Batch *b) except -1 nogil:
    out.need(700)
    if b.magic >= 2:
        put_text(out, b"baseOffset: ")
        out.put_int(b.base_offset)
        put_text(out, b" lastOffset: ")
        out.put_int(b.last_offset)
        put_text(out, b" count: ")
        out.put_int(b.count)
        put_text(out, b" baseSequence: ")
        out.put_int(b.base_sequence)
        put_text(out, b" lastSequence: ")
        if b.base_sequence == -1:
            out.put_int(-1)
        else:
            out.put_int(increment_sequence(b.base_sequence, minus(b.last_offset, b.base_offset)))
        put_text(out, b" producerId: ")
        out.put_int(b.producer_id)
        put_text(out, b" producerEpoch: ")
        out.put_int(b.producer_epoch)
        put_text(out, b" partitionLeaderEpoch: ")
        out.put_int(b.leader_epoch)
        put_text(out, b" isTransactional: ")
        out.put_flag(b.attributes & 16 != 0)
        put_text(out, b" isControl: ")
        out.put_flag(b.attributes & 32 != 0)
        put_text(out, b" deleteHorizonMs: OptionalLong")
        if b.attributes & 64:
            put_text(out, b"[")
            out.put_int(b.base_timestamp)
            put_text(out, b"]")
        else:
            put_text(out, b".empty")
    else:
        put_text(out, b"offset: ")
        out.put_int(b.last_offset)
    put_text(out, b" position: ")
    out.put_int(b.position)
    put_text(out, b" ")
    put_timestamp_type(out, b)
    put_text(out, b": ")
    out.put_int(b.max_timestamp)
    put_text(out, b" size: ")
    out.put_int(b.size)
    put_text(out, b" magic: ")
    out.put_int(b.magic)
    put_text(out, b" compresscodec: ")
    put_text(out, CODECS[b.attributes & 7])
    put_text(out, b" crc: ")
    out.put_int(b.crc)
    put_text(out, b" isvalid: ")
    out.put_flag(not b.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER))
    put_text(out, b"\n")
    return 0


cdef class KafkaPrinter:
    """Prints batches and records as kafka-dump-log 4.3 does.

    contents: keys and payloads (--print-data-log); metadata: the part before them (off: --skip-record-metadata);
    control_text(key, value) -> str: the text behind the metadata of a control record;
    sparse: omit batches without selected records;
    decode(offset, key, value) -> (key text or None, payload text or None), in place of the raw bytes.
    `gaps`: (last offset, next offset) of each gap in the offsets, for the first 1,000 of `gap_count`.
    first_offset, last_offset: of the records printed, -1 if there were none.
    """

    cdef bint contents, metadata, sparse
    cdef object control_text, decode
    cdef Py_ssize_t headed
    cdef readonly int64_t first_offset, last_offset
    cdef readonly list gaps
    cdef readonly int64_t gap_count

    def __init__(self, *, bint contents=False, bint metadata=True, bint sparse=False, control_text=None, decode=None):
        self.contents = contents
        self.sparse = sparse
        self.metadata = metadata
        self.control_text = control_text
        self.decode = decode
        self.first_offset = -1
        self.last_offset = -1
        self.gaps = []

    def batches(self, BatchTable table not None, Py_ssize_t first, Py_ssize_t last, TextBuffer out not None):
        """Append the header lines of batches [first, last)."""
        if first < 0 or last > table.count:
            raise ValueError((first, last))
        with nogil:
            while first < last:
                put_kafka_batch(out, table.at(first))
                first += 1

    def begin(self, Py_ssize_t first):
        """Begin a run of batches, from row `first` on, whose records follow through `records`."""
        if first < 0:
            raise IndexError(first)
        self.headed = first

    def records(self, RecordTable records not None, TextBuffer out not None):
        """Append the header and record lines of the table's current slice, and of batches that ended without records.
        """
        cdef Py_ssize_t i
        cdef BatchTable table = records.batches
        cdef Record *r
        cdef Batch *b
        with nogil:
            for i in range(records.count):
                r = records.at(i)
                if self.sparse and self.headed < r.batch:
                    self.headed = r.batch
                while self.headed <= r.batch:
                    put_kafka_batch(out, table.at(self.headed))
                    self.headed += 1
                b = table.at(r.batch)
                if self.first_offset == -1:
                    self.first_offset = r.offset
                elif r.offset != plus(self.last_offset, 1):
                    self.gap_count += 1
                    if self.gap_count <= 1000:
                        with gil:
                            self.gaps.append((self.last_offset, r.offset))
                self.last_offset = r.offset
                self._record(b, r, records.buf, records.end(), out)
            while self.headed < min(records.batch, table.count) and not self.sparse:
                put_kafka_batch(out, table.at(self.headed))
                self.headed += 1

    cdef int _record(self, Batch *b, Record *r, const uint8_t *buf, const uint8_t *end,
                     TextBuffer out) except -1 nogil:
        cdef bint control = b.magic >= 2 and b.attributes & 32 != 0
        out.need(300)
        if self.metadata:
            put_text(out, b"| offset: ")
            out.put_int(r.offset)
            put_text(out, b" ")
            put_timestamp_type(out, b)
            put_text(out, b": ")
            out.put_int(r.timestamp)
            put_text(out, b" keySize: ")
            out.put_int(r.key_length)
            put_text(out, b" valueSize: ")
            out.put_int(r.value_length)
            if b.magic >= 2:
                put_text(out, b" sequence: ")
                if b.base_sequence >= 0:
                    out.put_int(increment_sequence(b.base_sequence, minus(r.offset, b.base_offset)))
                else:
                    out.put_int(-1)
                put_text(out, b" headerKeys: [")
                self._header_keys(r, buf, end, out)
                out.need(100)
                put_text(out, b"]")
            else:
                put_text(out, b" isValid: ")
                out.put_flag(r.valid != 0)
                put_text(out, b" crc: ")
                out.put_int(r.crc)
            if control:
                self._control(r, buf, out)
        if self.contents and not control:
            if self.decode is not None:
                with gil:
                    self._decoded(r, buf, out)
            else:
                self._raw(r, buf, out)
        out.need(1)
        put_text(out, b"\n")
        return 0

    cdef int _header_keys(self, Record *r, const uint8_t *buf, const uint8_t *end, TextBuffer out) except -1 nogil:
        cdef const uint8_t *p
        cdef int64_t k, n
        if r.headers_count == 0:
            return 0
        p = buf + r.headers_start
        for k in range(r.headers_count):
            if k:
                out.need(1)
                put_text(out, b",")
            n = max(next_field(&p, end), <int64_t>0)
            put_java_text(out, p, n)
            p += n
            p += max(next_field(&p, end), <int64_t>0)
        return 0

    cdef int _control(self, Record *r, const uint8_t *buf, TextBuffer out) except -1 nogil:
        cdef const uint8_t *key = buf + r.key_start
        cdef const uint8_t *value = buf + r.value_start
        if r.key_length == 4 and be16(key) == 0 and be16(key + 2) <= 1 and r.value_length == 6 and be16(value) == 0:
            put_text(out, b" endTxnMarker: ")           # commit and abort markers are most control records
            put_text(out, b"COMMIT" if key[3] else b"ABORT")
            put_text(out, b" coordinatorEpoch: ")
            out.put_int(<int32_t>be32(value + 2))
            return 0
        if self.control_text is not None:
            with gil:
                out.put_object(self.control_text(python_bytes(buf, r.key_start, r.key_length),
                                                 python_bytes(buf, r.value_start, r.value_length)))
        return 0

    cdef int _decoded(self, Record *r, const uint8_t *buf, TextBuffer out) except -1:
        key, payload = self.decode(r.offset, python_bytes(buf, r.key_start, r.key_length),
                                   python_bytes(buf, r.value_start, r.value_length))
        text = "" if self.metadata else "|"
        if key is not None:
            text += " key: " + key
        if payload is not None:
            text += " payload: " + payload
        out.put_object("" if text == "|" else text)
        return 0

    cdef int _raw(self, Record *r, const uint8_t *buf, TextBuffer out) except -1 nogil:
        cdef bint led = self.metadata
        out.need(20)
        if r.key_length >= 0:
            if not led:
                put_text(out, b"|")
                led = True
            put_text(out, b" key: ")
            put_java_text(out, buf + r.key_start, r.key_length)
            out.need(20)
        if r.value_length >= 0 and r.value_start >= 0:
            if not led:
                put_text(out, b"|")
            put_text(out, b" payload: ")
            put_java_text(out, buf + r.value_start, r.value_length)
        return 0
