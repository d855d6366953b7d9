"""The totals of batches and records that `dump-segment` prints at its end."""

from libc.stdint cimport int64_t

from formats.kernels.batches cimport FAULT_BAD_CRC, Batch, BatchTable
from formats.kernels.numbers cimport minus, plus
from formats.kernels.records cimport Record, RecordTable


cdef class LogSummary:
    """Sums over batches and records, added window by window in order. Times in ms; -1 where there is none."""

    cdef readonly int64_t batches, records, control_records, bytes_stored, bytes_decompressed
    cdef readonly int64_t first_offset, last_offset, min_timestamp, max_timestamp, gaps, missing_offsets
    cdef readonly int64_t crc_faults, faulty_batches
    cdef readonly set producers
    cdef int64_t codec_batches[8]

    def __init__(self):
        self.producers = set()
        self.first_offset = self.last_offset = self.min_timestamp = self.max_timestamp = -1

    @property
    def codecs(self):
        """The number of batches by codec id."""
        return {i: self.codec_batches[i] for i in range(8) if self.codec_batches[i]}

    def add_batches(self, BatchTable table not None, Py_ssize_t last=-1):
        """Add batches [0, last) of a window (-1: all), after their records are decoded and their faults are set."""
        cdef Py_ssize_t i
        cdef int64_t last_producer = -1
        cdef Batch *b
        for i in range(table.count if last < 0 or last > table.count else last):
            b = table.at(i)
            self.batches += 1
            self.codec_batches[b.attributes & 7] += 1
            self.bytes_stored += b.size
            if not b.attributes & 7:
                self.bytes_decompressed += b.size
            if b.faults & FAULT_BAD_CRC:
                self.crc_faults += 1
            if b.faults:
                self.faulty_batches += 1
            if b.producer_id != last_producer and b.producer_id >= 0:
                last_producer = b.producer_id
                self.producers.add(last_producer)

    def add_records(self, RecordTable records not None):
        """Add the current slice of records."""
        cdef Py_ssize_t i
        cdef Record *r
        for i in range(records.count):
            r = records.at(i)
            if self.first_offset == -1:
                self.first_offset = r.offset
            elif r.offset > self.last_offset and r.offset != plus(self.last_offset, 1):
                self.gaps += 1
                self.missing_offsets = plus(self.missing_offsets, minus(minus(r.offset, self.last_offset), 1))
            self.last_offset = r.offset
            if r.timestamp != -1:
                if self.min_timestamp == -1 or r.timestamp < self.min_timestamp:
                    self.min_timestamp = r.timestamp
                if r.timestamp > self.max_timestamp:
                    self.max_timestamp = r.timestamp
            if records.batches.at(r.batch).attributes & 32 and records.batches.at(r.batch).magic >= 2:
                self.control_records += 1
        self.records += records.count

    def add_payload(self, int64_t size):
        """Add the decompressed size of a compressed batch, in bytes."""
        self.bytes_decompressed += size

    def merge(self, LogSummary other not None):
        """Add the sums of the windows that directly follow this summary's."""
        cdef int i
        if other.first_offset != -1:
            if self.first_offset == -1:
                self.first_offset = other.first_offset
            elif other.first_offset > self.last_offset and other.first_offset != plus(self.last_offset, 1):
                self.gaps += 1
                self.missing_offsets = plus(self.missing_offsets, minus(minus(other.first_offset, self.last_offset), 1))
            self.last_offset = other.last_offset
        if other.min_timestamp != -1 and (self.min_timestamp == -1 or other.min_timestamp < self.min_timestamp):
            self.min_timestamp = other.min_timestamp
        self.max_timestamp = max(self.max_timestamp, other.max_timestamp)
        self.batches += other.batches
        self.records += other.records
        self.control_records += other.control_records
        self.bytes_stored += other.bytes_stored
        self.bytes_decompressed += other.bytes_decompressed
        self.gaps += other.gaps
        self.missing_offsets = plus(self.missing_offsets, other.missing_offsets)
        self.crc_faults += other.crc_faults
        self.faulty_batches += other.faulty_batches
        self.producers |= other.producers
        for i in range(8):
            self.codec_batches[i] += other.codec_batches[i]
