"""Batches and records as lines that people read, plain or coloured."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from formats.kernels.batches cimport FAULT_BAD_PAYLOAD, V2_HEADER, Batch, BatchTable
from formats.kernels.buffer cimport DIGITS, HEX, TextBuffer, put_text
from formats.kernels.numbers cimport minus
from formats.kernels.records cimport Record, RecordTable, next_field, value_size
from formats.kernels.text.json_lines cimport hidden_size, put_json_bytes
from formats.kernels.text.lines cimport CODECS, increment_sequence, python_bytes
from formats.kernels.utf8 cimport continues, is_utf8

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
    """Return the year of a day counted from 1970-01-01 (proleptic Gregorian; Howard Hinnant's algorithm)."""
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
    """Append a time, as 2026-11-20T22:14:03.118Z; as a raw number outside the years 1 to 9999, where ISO 8601 ends. 24
    bytes at most."""
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
    """Return a time in epoch milliseconds as 2026-11-20T22:14:03.118Z; as the number itself if ISO 8601 does not have
    the year."""
    cdef TextBuffer out = TextBuffer()
    out.need(32)
    put_iso_time(out, ms)
    return bytes(out).decode()


cdef void put_grouped(TextBuffer out, int64_t value) noexcept nogil:
    """Append a number with thousands separators: 26 bytes at most."""
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
    """Whether UTF-8 text can be printed without quotes: it has no hidden characters and cannot be taken for `null`, for
    bytes printed as `0x...`, or for spaces around the field."""
    cdef int64_t i
    if n == 0 or p[0] == 0x20 or p[n - 1] == 0x20 or p[0] == 0x22 or (n == 4 and memcmp(p, b"null", 4) == 0):
        return False
    if n >= 2 and p[0] == 0x30 and p[1] == 0x78:         # 0x begins bytes that are not UTF-8
        return False
    for i in range(n):
        if p[i] < 0x20 or p[i] == 0x7f or (p[i] >= 0x80 and hidden_size(p + i, n - i)):
            return False
    return True


cdef int put_shown(TextBuffer out, const uint8_t *p, int64_t n, int64_t fold) except -1 nogil:
    """Append n bytes as text: as they are, quoted if that would be ambiguous, as 0x... if they are not UTF-8, or as
    null for n < 0.

    fold: the most bytes to print (-1: all); the rest is printed as a count.
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
    """Prints a table: a line for each batch, for each of its records, and for each fault of a batch.

    styles: 6 pairs of byte strings put before and after batch, offset, time, label, value and fault (None: plain);
    fold: the most bytes printed of a key, value or header, -1 for all; raw_time: timestamps as epoch ms; batches_only:
    no record lines; sparse: batches without selected records are left out; control_text and decode as for KafkaPrinter;
    explain(row number) -> lines of a batch that has faults.
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
        """Begin a run of batches, from row `first` on, whose records follow through `records`."""
        if first < 0:
            raise IndexError(first)
        self.headed = first
        self.closed = first

    def records(self, RecordTable records not None, TextBuffer out not None):
        """Append the lines of the table's current slice, and of batches that ended without records."""
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
        cdef bint known = records.payload and not b.faults & FAULT_BAD_PAYLOAD
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
