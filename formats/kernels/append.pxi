"""What a broker does to records that a client sends: check each, and write them anew where the batch must change."""

cdef enum:
    A_NO_KEY = 1
    A_TIMESTAMP = 2
    A_APPEND_TIME = 3

APPEND_NO_KEY = A_NO_KEY
APPEND_TIMESTAMP_OUT_OF_RANGE = A_TIMESTAMP
APPEND_TIMESTAMP_TYPE = A_APPEND_TIME


def check_append(RecordTable records not None, int64_t first_index, *, bint keyed, bint create_time, int64_t earliest,
                 int64_t latest):
    """Check the current slice of one batch's records as Kafka's LogValidator does.

    first_index: how many records of the batch came before; keyed: null keys are refused; create_time: the topic keeps the
    producer's timestamps, which must lie in [earliest, latest]. Returns ([(index in batch, APPEND_* code), ...], whether
    offset deltas count up by one from first_index).
    """
    cdef Py_ssize_t i
    cdef Record *r
    cdef Batch *b
    cdef bint consecutive = True
    cdef int code
    errors = []
    for i in range(records.count):
        r = records.at(i)
        b = records.batches.at(r.batch)
        if minus(r.offset, b.base_offset) != plus(first_index, i):
            consecutive = False
        code = 0
        if keyed and r.key_length < 0:
            code = A_NO_KEY
        elif create_time and r.timestamp != -1:
            if r.timestamp < earliest or r.timestamp > latest:
                code = A_TIMESTAMP
        elif b.attributes & 8:
            code = A_APPEND_TIME
        if code:
            errors.append((plus(first_index, i), code))
    return errors, consecutive


cdef inline int varint_size(uint64_t value) noexcept nogil:
    cdef int n = 1
    while value >= 0x80:
        value >>= 7
        n += 1
    return n


cdef inline void put_varint(TextBuffer out, int64_t value) noexcept nogil:
    """Zigzag, for int32 and int64 alike: 10 bytes at most."""
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw >= 0x80:
        out.data[out.size] = <char>(raw | 0x80)
        out.size += 1
        raw >>= 7
    out.data[out.size] = <char>raw
    out.size += 1


cdef inline int64_t zigzag_size(int64_t value) noexcept nogil:
    return varint_size((<uint64_t>value << 1) ^ <uint64_t>(value >> 63))


def write_records(RecordTable records not None, TextBuffer out not None, int64_t first_delta, int64_t base_timestamp, *,
                  bint keep_timestamps=True):
    """Append the current slice as magic 2 records: attributes 0, offset deltas counting up from first_delta, timestamps
    relative to base_timestamp (or all delta 0), keys, values and headers as they are."""
    cdef Py_ssize_t i
    cdef Record *r
    cdef const uint8_t *end
    cdef int64_t k, body, headers, timestamp_delta, delta, key_length, value_length
    with nogil:
        for i in range(records.count):
            r = records.at(i)
            end = records.buf + r.headers_start
            for k in range(r.headers_count * 2):
                end += max(next_field(&end, records.end()), <int64_t>0)
            headers = end - (records.buf + r.headers_start) if r.headers_count else 0
            timestamp_delta = minus(r.timestamp, base_timestamp) if keep_timestamps else 0
            delta = plus(first_delta, i)
            key_length, value_length = max(r.key_length, <int64_t>-1), max(value_size(r), <int64_t>-1)
            body = (1 + zigzag_size(timestamp_delta) + zigzag_size(delta) + zigzag_size(key_length)
                    + max(key_length, <int64_t>0) + zigzag_size(value_length) + max(value_length, <int64_t>0)
                    + zigzag_size(r.headers_count) + headers)
            out.need(body + 10)
            put_varint(out, body)
            out.data[out.size] = 0
            out.size += 1
            put_varint(out, timestamp_delta)
            put_varint(out, delta)
            put_varint(out, key_length)
            if key_length > 0:
                out.put(<const char *>records.buf + r.key_start, key_length)
            put_varint(out, value_length)
            if value_length > 0:
                out.put(<const char *>records.buf + r.value_start, value_length)
            put_varint(out, r.headers_count)
            if headers:
                out.put(<const char *>records.buf + r.headers_start, headers)
