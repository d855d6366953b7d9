"""Batches and records as lines that people read, plain or coloured, and the sums that stand below them."""

cdef enum:
    STYLE_BATCH = 0
    STYLE_OFFSET = 1
    STYLE_TIME = 2
    STYLE_LABEL = 3
    STYLE_VALUE = 4
    STYLE_FAULT = 5
    STYLES = 6


cdef int64_t YEAR_1_MS = -62135596800000
cdef int64_t YEAR_10000_MS = 253402300800000


cdef inline int64_t days_to_civil(int64_t days, int64_t *month, int64_t *day) noexcept nogil:
    """Year of a day counted from 1970-01-01 (proleptic Gregorian; Howard Hinnant's algorithm)."""
    cdef int64_t era, day_of_era, year_of_era, day_of_year, shifted
    days += 719468
    era = (days if days >= 0 else days - 146096) // 146097
    day_of_era = days - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    day[0] = day_of_year - (153 * shifted + 2) // 5 + 1
    month[0] = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (1 if month[0] <= 2 else 0)


cdef inline void put_two(TextBuffer out, int64_t value) noexcept nogil:
    out.put(DIGITS + 2 * value, 2)


cdef void put_iso_time(TextBuffer out, int64_t ms) noexcept nogil:
    """2026-11-20T22:14:03.118Z; a raw number outside the years 1 to 9999, where ISO 8601 ends. 24 bytes at most."""
    cdef int64_t days, month = 0, day = 0, year, second
    if ms < YEAR_1_MS or ms >= YEAR_10000_MS:
        out.put_int(ms)
        return
    days = ms // 86400000
    ms = ms % 86400000
    if ms < 0:
        ms += 86400000
        days -= 1
    year = days_to_civil(days, &month, &day)
    put_two(out, year // 100)
    put_two(out, year % 100)
    put_text(out, b"-")
    put_two(out, month)
    put_text(out, b"-")
    put_two(out, day)
    put_text(out, b"T")
    second = ms // 1000
    put_two(out, second // 3600)
    put_text(out, b":")
    put_two(out, second // 60 % 60)
    put_text(out, b":")
    put_two(out, second % 60)
    put_text(out, b".")
    ms = ms % 1000
    out.data[out.size] = <char>(48 + ms // 100)
    out.size += 1
    put_two(out, ms % 100)
    put_text(out, b"Z")


def iso_time(int64_t ms):
    """Epoch milliseconds as 2026-11-20T22:14:03.118Z; the number itself where ISO 8601 has no such year."""
    cdef TextBuffer out = TextBuffer()
    out.need(32)
    put_iso_time(out, ms)
    return bytes(out).decode()


cdef void put_grouped(TextBuffer out, int64_t value) noexcept nogil:
    """A number with thousands separators: 26 bytes at most."""
    cdef char digits[32]
    cdef int n = 0
    cdef uint64_t v = <uint64_t>value
    if value < 0:
        put_text(out, b"-")
        v = 0 - v
    while True:
        digits[n] = <char>(48 + v % 10)
        n += 1
        v //= 10
        if v == 0:
            break
    while n:
        n -= 1
        out.put(&digits[n], 1)
        if n and n % 3 == 0:
            put_text(out, b",")


cdef bint is_plain(const uint8_t *p, int64_t n) noexcept nogil:
    """UTF-8 that can stand in a line as it is and be told from null and from the label that follows."""
    cdef int64_t i
    if n == 0 or p[0] == 0x20 or p[n - 1] == 0x20 or p[0] == 0x22 or (n == 4 and memcmp(p, b"null", 4) == 0):
        return False
    if n >= 2 and p[0] == 0x30 and p[1] == 0x78:         # 0x: how other bytes are shown
        return False
    for i in range(n):
        if p[i] < 0x20 or p[i] == 0x7f or (p[i] == 0xc2 and i + 1 < n and p[i + 1] < 0xa0):
            return False
    return True


cdef int put_shown(TextBuffer out, const uint8_t *p, int64_t n, int64_t fold) except -1 nogil:
    """A byte field for people: text as it is, quoted where it would mislead, 0x... where it is not UTF-8, null.

    fold: bytes shown at most (-1: all), the rest told as a count.
    """
    cdef int64_t shown = n, i
    cdef bint text
    if n < 0:
        out.need(4)
        put_text(out, b"null")
        return 0
    text = is_utf8(p, n)
    if fold >= 0 and n > fold:
        shown = fold
        while text and shown and continues(p[shown]):
            shown -= 1
    if not text:
        out.need(2 + 2 * shown)
        put_text(out, b"0x")
        for i in range(shown):
            out.data[out.size] = HEX[p[i] >> 4]
            out.data[out.size + 1] = HEX[p[i] & 15]
            out.size += 2
    elif is_plain(p, shown):
        out.need(shown)
        out.put(<const char *>p, shown)
    else:
        put_json_bytes(out, p, shown)
    if shown < n:
        out.need(40)
        put_text(out, b"... (")
        put_grouped(out, n)
        put_text(out, b" B)")
    return 0


cdef class TablePrinter:
    """Lines for people: one for each batch, one for each record under it, one for each fault of a batch.

    styles: 6 pairs of byte strings put before and after batch, offset, time, label, value and fault (None: plain);
    fold: bytes of a key, value or header shown at most, -1 for all; raw_time: timestamps as epoch ms;
    batches_only: no record lines; sparse: batches of which no record comes are left out; control_text and decode as for KafkaPrinter; explain(row number) -> lines of a batch
    that has faults.
    """

    cdef list opening, closing
    cdef int64_t fold
    cdef bint raw_time, batches_only, sparse, styled
    cdef object control_text, decode, explain
    cdef Py_ssize_t headed, closed

    def __init__(self, *, styles=None, int64_t fold=-1, bint raw_time=False, bint batches_only=False, bint sparse=False,
                 control_text=None, decode=None, explain=None):
        if styles is not None and len(styles) != STYLES:
            raise ValueError(f"{len(styles)} styles, not {STYLES}")
        self.styled = styles is not None
        self.opening = [before for before, _ in styles or ()]
        self.closing = [after for _, after in styles or ()]
        self.fold = fold
        self.raw_time = raw_time
        self.batches_only = batches_only
        self.sparse = sparse
        self.control_text = control_text
        self.decode = decode
        self.explain = explain

    def begin(self, Py_ssize_t first):
        """A new run of batches, from row `first` on, is coming through `records`."""
        if first < 0:
            raise IndexError(first)
        self.headed = first
        self.closed = first

    def records(self, RecordTable records not None, TextBuffer out not None):
        """The lines of the table's current slice, and of batches that ended without records."""
        cdef Py_ssize_t i
        cdef BatchTable table = records.batches
        cdef Record *r
        with nogil:
            for i in range(records.count):
                r = records.at(i)
                if self.sparse and self.headed < r.batch:
                    self._close(table, self.headed, out)
                    self.headed = self.closed = r.batch
                self._head(records, r.batch + 1, out)
                if not self.batches_only:
                    self._record(table.at(r.batch), r, records.buf, records.end(), out)
            if self.sparse:
                self._close(table, min(self.headed, records.batch, table.count), out)
            else:
                self._head(records, min(records.batch, table.count), out)
                self._close(table, min(records.batch, table.count), out)

    cdef int _head(self, RecordTable records, Py_ssize_t until, TextBuffer out) except -1 nogil:
        while self.headed < until:
            self._close(records.batches, self.headed, out)
            self._batch(records.batches.at(self.headed), records, out)
            self.headed += 1
        return 0

    cdef int _close(self, BatchTable table, Py_ssize_t until, TextBuffer out) except -1 nogil:
        while self.closed < until:
            if table.at(self.closed).faults and self.explain is not None:
                with gil:
                    for line in self.explain(self.closed):
                        self._open(STYLE_FAULT, out)
                        out.put_object("  ! " + line)
                        self._shut(STYLE_FAULT, out)
                        out.put_object("\n")
            self.closed += 1
        return 0

    cdef inline int _open(self, int style, TextBuffer out) except -1 nogil:
        if self.styled:
            with gil:
                out.write(self.opening[style])
        return 0

    cdef inline int _shut(self, int style, TextBuffer out) except -1 nogil:
        if self.styled:
            with gil:
                out.write(self.closing[style])
        out.need(300)
        return 0

    cdef inline int _labelled(self, const char *label, TextBuffer out) except -1 nogil:
        out.need(300)
        put_text(out, b"  ")
        self._open(STYLE_LABEL, out)
        out.need(100)
        put_text(out, label)
        self._shut(STYLE_LABEL, out)
        put_text(out, b" ")
        return 0

    cdef int _time(self, int64_t ms, TextBuffer out) except -1 nogil:
        out.need(100)
        put_text(out, b"  ")
        self._open(STYLE_TIME, out)
        out.need(100)
        if ms == -1 or self.raw_time:
            out.put_int(ms)
        else:
            put_iso_time(out, ms)
        self._shut(STYLE_TIME, out)
        return 0

    cdef int _batch(self, Batch *b, RecordTable records, TextBuffer out) except -1 nogil:
        cdef bint known = records.payload and not b.faults & C_BAD_PAYLOAD
        self._open(STYLE_BATCH, out)
        out.need(700)
        put_text(out, b"batch @")
        out.put_int(b.position)
        put_text(out, b"  ")
        if b.magic >= 2:
            out.put_int(b.base_offset)
            put_text(out, b"..")
            out.put_int(b.last_offset)
            put_text(out, b"  ")
            put_grouped(out, b.count)
            put_text(out, b" record" if b.count == 1 else b" records")
        else:
            out.put_int(b.base_offset)
            put_text(out, b"  magic ")
            out.put_int(b.magic)
        put_text(out, b"  ")
        put_text(out, CODECS[b.attributes & 7])
        put_text(out, b"  ")
        put_grouped(out, b.size)
        put_text(out, b" B")
        if b.attributes & 7 and known:
            put_text(out, b" -> ")
            put_grouped(out, records.view.shape[0] + (V2_HEADER if b.magic >= 2 else 0))
            put_text(out, b" B")
        if b.magic >= 1 and b.attributes & 8:
            put_text(out, b"  LogAppendTime")
        if b.magic >= 2:
            put_text(out, b"  leader epoch ")
            out.put_int(b.leader_epoch)
            if b.producer_id != -1:
                put_text(out, b"  producer ")
                out.put_int(b.producer_id)
                put_text(out, b" epoch ")
                out.put_int(b.producer_epoch)
                if b.base_sequence != -1:
                    put_text(out, b" sequence ")
                    out.put_int(b.base_sequence)
                    put_text(out, b"..")
                    out.put_int(increment_sequence(b.base_sequence, minus(b.last_offset, b.base_offset)))
            if b.attributes & 16:
                put_text(out, b"  transactional")
            if b.attributes & 32:
                put_text(out, b"  control")
            if b.attributes & 64:
                put_text(out, b"  delete horizon ")
                put_iso_time(out, b.base_timestamp)
        self._shut(STYLE_BATCH, out)
        put_text(out, b"\n")
        return 0

    cdef int _record(self, Batch *b, Record *r, const uint8_t *buf, const uint8_t *end,
                     TextBuffer out) except -1 nogil:
        out.need(100)
        put_text(out, b"  ")
        self._open(STYLE_OFFSET, out)
        out.need(50)
        out.put_int(r.offset)
        self._shut(STYLE_OFFSET, out)
        self._time(r.timestamp, out)
        if b.magic >= 2 and b.attributes & 32:
            with gil:
                if self.control_text is not None:
                    out.put_object(" " + self.control_text(python_bytes(buf, r.key_start, r.key_length),
                                                           python_bytes(buf, r.value_start, r.value_length)))
        elif self.decode is not None:
            with gil:
                self._decoded(r, buf, out)
        else:
            self._labelled(b"key", out)
            self._value(buf + r.key_start, r.key_length, out)
            self._labelled(b"value", out)
            self._value(buf + r.value_start, value_size(r), out)
        if r.headers_count:
            self._headers(r, buf, end, out)
        out.need(1)
        put_text(out, b"\n")
        return 0

    cdef int _value(self, const uint8_t *p, int64_t n, TextBuffer out) except -1 nogil:
        self._open(STYLE_VALUE, out)
        put_shown(out, p, n, self.fold)
        self._shut(STYLE_VALUE, out)
        return 0

    cdef int _decoded(self, Record *r, const uint8_t *buf, TextBuffer out) except -1:
        key, payload = self.decode(r.offset, python_bytes(buf, r.key_start, r.key_length),
                                   python_bytes(buf, r.value_start, r.value_length))
        if key is not None:
            self._labelled(b"key", out)
            out.put_object(key)
        if payload is not None:
            self._labelled(b"value", out)
            out.put_object(payload)
        return 0

    cdef int _headers(self, Record *r, const uint8_t *buf, const uint8_t *end, TextBuffer out) except -1 nogil:
        cdef const uint8_t *p = buf + r.headers_start
        cdef int64_t k, n
        self._labelled(b"headers", out)
        for k in range(r.headers_count):
            out.need(2)
            if k:
                put_text(out, b" ")
            n = next_field(&p, end)
            put_shown(out, p, n, self.fold)
            p += max(n, <int64_t>0)
            n = next_field(&p, end)
            out.need(1)
            put_text(out, b"=")
            put_shown(out, p, n, self.fold)
            p += max(n, <int64_t>0)
        return 0


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
        """Codec id to number of batches."""
        return {i: self.codec_batches[i] for i in range(8) if self.codec_batches[i]}

    def add_batches(self, BatchTable table not None, Py_ssize_t last=-1):
        """Batches [0, last) of a window (-1: all), once their records are decoded (so that their faults are known)."""
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
            if b.faults & C_BAD_CRC:
                self.crc_faults += 1
            if b.faults:
                self.faulty_batches += 1
            if b.producer_id != last_producer and b.producer_id >= 0:
                last_producer = b.producer_id
                self.producers.add(last_producer)

    def add_records(self, RecordTable records not None):
        """The current slice of records."""
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
        """A compressed batch's size when decompressed."""
        self.bytes_decompressed += size

    def merge(self, LogSummary other not None):
        """Take in what follows directly behind what has been seen."""
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
