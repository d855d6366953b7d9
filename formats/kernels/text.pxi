"""Text of batches and records: what kafka-dump-log prints, and JSON lines."""

cdef const char *DIGITS = (
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
    b"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899"
)
cdef const char *BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef const char *HEX = b"0123456789abcdef"
cdef const char *CODECS[8]
CODECS[0] = b"none"
CODECS[1] = b"gzip"
CODECS[2] = b"snappy"
CODECS[3] = b"lz4"
CODECS[4] = b"zstd"
CODECS[5] = b"unknown(5)"
CODECS[6] = b"unknown(6)"
CODECS[7] = b"unknown(7)"


cdef class TextBuffer:
    """A growing byte buffer that kernels print into; `memoryview(buffer)` is what it holds."""

    cdef char *data
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int exports
    cdef Py_ssize_t shape[1]

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.size

    def clear(self):
        """Forget the bytes, keep the memory."""
        if self.exports:
            raise BufferError("a view of the text is still held")
        self.size = 0

    def write(self, const uint8_t[::1] data not None):
        """Append bytes."""
        if data.shape[0]:
            self.need(data.shape[0])
            self.put(<const char *>&data[0], data.shape[0])

    cdef int need(self, Py_ssize_t more) except -1 nogil:
        cdef Py_ssize_t capacity
        cdef char *grown
        if self.size + more <= self.capacity:
            return 0
        if self.exports:
            with gil:
                raise BufferError("the text cannot grow while a view of it is held")
        capacity = max(self.size + more, self.capacity + (self.capacity >> 1), 65536)
        grown = <char *>realloc(self.data, capacity)
        if grown == NULL:
            with gil:
                raise MemoryError
        self.data = grown
        self.capacity = capacity
        return 0

    cdef inline void put(self, const char *text, Py_ssize_t n) noexcept nogil:
        """Append n bytes; the room is there (see need)."""
        memcpy(self.data + self.size, text, n)
        self.size += n

    cdef inline void put_int(self, int64_t value) noexcept nogil:
        """Append a decimal number: 20 bytes at most."""
        cdef char scratch[24]
        cdef int at = 24
        cdef uint64_t v = <uint64_t>value
        cdef uint64_t q
        if value < 0:
            v = 0 - v
        while v >= 100:
            q = v // 100
            at -= 2
            memcpy(&scratch[at], DIGITS + 2 * (v - q * 100), 2)
            v = q
        if v >= 10:
            at -= 2
            memcpy(&scratch[at], DIGITS + 2 * v, 2)
        else:
            at -= 1
            scratch[at] = <char>(48 + v)
        if value < 0:
            at -= 1
            scratch[at] = 45
        self.put(&scratch[at], 24 - at)

    cdef inline void put_flag(self, bint flag) noexcept nogil:
        if flag:
            self.put(b"true", 4)
        else:
            self.put(b"false", 5)

    cdef int put_object(self, object text) except -1:
        cdef bytes raw = text.encode("utf-8", "replace")
        self.need(len(raw))
        self.put(<const char *>raw, len(raw))
        return 0

    def __getbuffer__(self, Py_buffer *view, int flags):
        if flags & 1:  # PyBUF_WRITABLE
            raise BufferError("read-only")
        self.shape[0] = self.size
        view.buf = self.data if self.data != NULL else <char *>HEX   # pyarrow wants a place, also for no bytes
        view.obj = self
        view.len = self.size
        view.readonly = 1
        view.itemsize = 1
        view.format = b"B"
        view.ndim = 1
        view.shape = self.shape
        view.strides = NULL
        view.suboffsets = NULL
        view.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.exports -= 1


cdef inline bint continues(uint8_t byte) noexcept nogil:
    return (byte & 0xc0) == 0x80


cdef inline int64_t java_step(const uint8_t *p, int64_t n, bint *sound) noexcept nogil:
    """Bytes that Java's UTF-8 decoder takes from p for one character (sound) or one U+FFFD (not sound). p[0] >= 0x80.

    Java differs from Python: a whole encoded surrogate is one replacement, a sequence cut off by the end is one.
    """
    cdef uint8_t a = p[0]
    sound[0] = False
    if 0xc2 <= a <= 0xdf:
        if n < 2 or not continues(p[1]):
            return 1
        sound[0] = True
        return 2
    if 0xe0 <= a <= 0xef:
        if n >= 2 and ((a == 0xe0 and (p[1] & 0xe0) == 0x80) or not continues(p[1])):
            return 1
        if n < 3:
            return n
        if not continues(p[2]):
            return 2
        sound[0] = not (a == 0xed and p[1] >= 0xa0)
        return 3
    if 0xf0 <= a <= 0xf4:
        if n >= 2 and ((a == 0xf0 and (p[1] < 0x90 or p[1] > 0xbf)) or (a == 0xf4 and (p[1] & 0xf0) != 0x80)
                       or not continues(p[1])):
            return 1
        if n >= 3 and not continues(p[2]):
            return 2
        if n < 4:
            return n
        if not continues(p[3]):
            return 3
        sound[0] = True
        return 4
    return 1


cdef int put_java_text(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil:
    """Append bytes as Java's `new String(bytes, UTF_8)` would show them, encoded as UTF-8 again."""
    cdef int64_t i = 0, run, step
    cdef bint sound = False
    out.need(3 * n)
    while i < n:
        run = i
        while i < n and p[i] < 0x80:
            i += 1
        if i > run:
            out.put(<const char *>p + run, i - run)
        if i < n:
            step = java_step(p + i, n - i, &sound)
            if sound:
                out.put(<const char *>p + i, step)
            else:
                out.put(b"\xef\xbf\xbd", 3)
            i += step
    return 0


def java_text(const uint8_t[::1] data not None):
    """Bytes as Java's `new String(bytes, UTF_8)` shows them: UTF-8 bytes with U+FFFD where Java puts it."""
    cdef TextBuffer out = TextBuffer()
    if data.shape[0]:
        put_java_text(out, &data[0], data.shape[0])
    return bytes(out)


cdef inline int64_t increment_sequence(int64_t sequence, int64_t increment) noexcept nogil:
    """Sequences wrap from 2^31 - 1 to 0; the arithmetic is Java's int."""
    if sequence > <int64_t>(<int32_t>(<uint32_t>0x7fffffff - <uint32_t>increment)):
        return <int32_t>(<uint32_t>increment - (<uint32_t>0x7fffffff - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>increment)


cdef inline void put_timestamp_type(TextBuffer out, Batch *b) noexcept nogil:
    if b.magic <= 0:
        out.put(b"NoTimestampType", 15)
    elif b.attributes & 8:
        out.put(b"LogAppendTime", 13)
    else:
        out.put(b"CreateTime", 10)


cdef inline void put_text(TextBuffer out, const char *text) noexcept nogil:
    cdef Py_ssize_t n = 0
    while text[n]:
        n += 1
    out.put(text, n)


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
    out.put_flag(not b.faults & (C_BAD_CRC | C_SHORT_HEADER))
    put_text(out, b"\n")
    return 0


cdef object python_bytes(const uint8_t *buf, int64_t start, int64_t length):
    if length < 0 or start < 0:
        return None
    return (<const char *>buf + start)[:length]


cdef class KafkaPrinter:
    """Lines as kafka-dump-log 4.3 prints them.

    contents: keys and payloads (--print-data-log); metadata: the part before them (off: --skip-record-metadata);
    control_text(key, value) -> str: what follows the metadata of a control record;
    sparse: batches of which no record comes are left out;
    decode(offset, key, value) -> (key text or None, payload text or None), in place of the raw bytes.
    `gaps` collects (last offset, next offset) pairs that do not follow each other, the first 1,000 of `gap_count`.
    first_offset and last_offset are those of the records seen, -1 where there were none.
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
        """The header lines of batches [first, last)."""
        if first < 0 or last > table.count:
            raise ValueError((first, last))
        with nogil:
            while first < last:
                put_kafka_batch(out, table.at(first))
                first += 1

    def begin(self, Py_ssize_t first):
        """A new run of batches, from row `first` on, is coming through `records`."""
        if first < 0:
            raise IndexError(first)
        self.headed = first

    def records(self, RecordTable records not None, TextBuffer out not None):
        """The header and record lines of the table's current slice, and of batches that ended without records."""
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
            put_text(out, b" endTxnMarker: ")           # commit and abort markers: by far the most of them
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


cdef int put_json_bytes(TextBuffer out, const uint8_t *p, int64_t n) except -1 nogil:
    """A byte field: null (n < 0), a string where it is UTF-8, else {"base64": ...}."""
    cdef int64_t i = 0, run
    cdef uint32_t group
    cdef uint8_t c
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
                p[i] != 0xc2 or p[i + 1] >= 0xa0):
            i += 1
        out.put(<const char *>p + run, i - run)
        if i < n:
            if p[i] == 0xc2:                            # U+0080 to U+009F: control characters, too
                i += 1
            c = p[i]
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
                put_text(out, b"\\u00")
                out.data[out.size] = HEX[c >> 4]
                out.data[out.size + 1] = HEX[c & 15]
                out.size += 2
    put_text(out, b'"')
    return 0


cdef class JsonPrinter:
    """One JSON object a line and record, lossless.

    lead: the bytes each line opens with, `{"topic":...,"partition":...,`;
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
        """The lines of the table's current slice."""
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
