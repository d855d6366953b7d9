"""Records as lines of JSON, without loss."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from formats.kernels.batches cimport Batch
from formats.kernels.buffer cimport HEX, TextBuffer, put_text
from formats.kernels.numbers cimport minus
from formats.kernels.records cimport Record, RecordTable, next_field, value_size
from formats.kernels.text.lines cimport CODECS, increment_sequence, put_timestamp_type, python_bytes
from formats.kernels.utf8 cimport is_utf8

cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


cdef int put_json_bytes(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil:
    """Append n bytes as JSON: null for n < 0, a string if they are UTF-8, otherwise {"base64": ...}."""
    cdef int64_t i = 0, run
    cdef uint32_t group, c
    if n < 0:
        out.need(4)
        put_text(out, b"null")
        return 0
    if not is_utf8(p, n):
        out.need(20 + (n + 2) // 3 * 4)
        put_text(out, b'{"base64":"')
        while i + 2 < n:
            group = (<uint32_t>p[i] << 16) | (<uint32_t>p[i + 1] << 8) | p[i + 2]
            out.data[out.size] = BASE64[group >> 18]
            out.data[out.size + 1] = BASE64[(group >> 12) & 63]
            out.data[out.size + 2] = BASE64[(group >> 6) & 63]
            out.data[out.size + 3] = BASE64[group & 63]
            out.size += 4
            i += 3
        if i < n:
            group = (<uint32_t>p[i] << 16) | ((<uint32_t>p[i + 1] << 8) if i + 1 < n else 0)
            out.data[out.size] = BASE64[group >> 18]
            out.data[out.size + 1] = BASE64[(group >> 12) & 63]
            out.data[out.size + 2] = BASE64[(group >> 6) & 63] if i + 1 < n else 61
            out.data[out.size + 3] = 61
            out.size += 4
        put_text(out, b'"}')
        return 0
    out.need(2 + 6 * n)
    put_text(out, b'"')
    while i < n:
        run = i
        while i < n and p[i] >= 0x20 and p[i] != 0x22 and p[i] != 0x5c and p[i] != 0x7f and (
                p[i] < 0x80 or not hidden_size(p + i, n - i)):
            i += 1
        out.put(<const char *>p + run, i - run)
        if i < n:
            c = p[i]
            if c >= 0x80:
                run = hidden_size(p + i, n - i)
                c = ((c & 0x1f) << 6) | (p[i + 1] & 0x3f) if run == 2 else (
                    0x2000 | (<uint32_t>(p[i + 1] & 0x3f) << 6) | (p[i + 2] & 0x3f))
                i += run - 1
            i += 1
            if c == 0x22:
                put_text(out, b'\\"')
            elif c == 0x5c:
                put_text(out, b"\\\\")
            elif c == 10:
                put_text(out, b"\\n")
            elif c == 13:
                put_text(out, b"\\r")
            elif c == 9:
                put_text(out, b"\\t")
            else:
                put_text(out, b"\\u")
                for run in range(4):
                    out.data[out.size + run] = HEX[(c >> (12 - 4 * run)) & 15]
                out.size += 4
    put_text(out, b'"')
    return 0


cdef class JsonPrinter:
    """Prints each record as a line with one JSON object, lossless.

    lead: the bytes that each line begins with, `{"topic":...,"partition":...,`;
    decode(offset, key, value, is_control) -> JSON text or None, appended as "decoded".
    """

    cdef bytes lead
    cdef const char *lead_start
    cdef Py_ssize_t lead_length
    cdef object decode

    def __init__(self, bytes lead not None, decode=None):
        self.lead = lead
        self.lead_start = lead
        self.lead_length = len(lead)
        self.decode = decode

    def records(self, RecordTable records not None, TextBuffer out not None):
        """Append the lines of the table's current slice."""
        cdef Py_ssize_t i
        with nogil:
            for i in range(records.count):
                self._record(records.batches.at(records.at(i).batch), records.at(i), records.buf, records.end(), out)

    cdef int _record(self, Batch *b, Record *r, const uint8_t *buf, const uint8_t *end,
                     TextBuffer out) except -1 nogil:
        cdef bint control = b.magic >= 2 and b.attributes & 32 != 0
        out.need(self.lead_length + 200)
        out.put(self.lead_start, self.lead_length)
        put_text(out, b'"offset":')
        out.put_int(r.offset)
        put_text(out, b',"timestamp":')
        out.put_int(r.timestamp)
        put_text(out, b',"timestamp_type":"')
        put_timestamp_type(out, b)
        put_text(out, b'","key":')
        put_json_bytes(out, buf + r.key_start, r.key_length)
        out.need(20)
        put_text(out, b',"value":')
        put_json_bytes(out, buf + r.value_start, value_size(r))
        out.need(20)
        put_text(out, b',"headers":[')
        self._headers(r, buf, end, out)
        out.need(500)
        put_text(out, b'],"producer_id":')
        out.put_int(b.producer_id)
        put_text(out, b',"producer_epoch":')
        out.put_int(b.producer_epoch)
        put_text(out, b',"sequence":')
        if b.base_sequence >= 0:
            out.put_int(increment_sequence(b.base_sequence, minus(r.offset, b.base_offset)))
        else:
            out.put_int(-1)
        put_text(out, b',"leader_epoch":')
        out.put_int(b.leader_epoch)
        put_text(out, b',"is_control":')
        out.put_flag(control)
        put_text(out, b',"is_transactional":')
        out.put_flag(b.magic >= 2 and b.attributes & 16 != 0)
        put_text(out, b',"codec":"')
        put_text(out, CODECS[b.attributes & 7])
        put_text(out, b'","batch_base_offset":')
        out.put_int(b.base_offset)
        put_text(out, b',"position":')
        out.put_int(b.position)
        if self.decode is not None:
            with gil:
                self._decoded(r, buf, control, out)
        out.need(2)
        put_text(out, b"}\n")
        return 0

    cdef int _decoded(self, Record *r, const uint8_t *buf, bint control, TextBuffer out) except -1:
        text = self.decode(r.offset, python_bytes(buf, r.key_start, r.key_length),
                           python_bytes(buf, r.value_start, r.value_length), control)
        if text is not None:
            out.put_object(',"decoded":' + text)
        return 0

    cdef int _headers(self, Record *r, const uint8_t *buf, const uint8_t *end, TextBuffer out) except -1 nogil:
        cdef const uint8_t *p
        cdef int64_t k, n
        if r.headers_count == 0:
            return 0
        p = buf + r.headers_start
        for k in range(r.headers_count):
            out.need(4)
            if k:
                put_text(out, b",")
            put_text(out, b"[")
            n = next_field(&p, end)
            put_json_bytes(out, p, n)
            p += max(n, <int64_t>0)
            n = next_field(&p, end)
            out.need(2)
            put_text(out, b",")
            put_json_bytes(out, p, n)
            p += max(n, <int64_t>0)
            out.need(1)
            put_text(out, b"]")
        return 0
