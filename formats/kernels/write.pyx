"""Write magic 2 batches: one batch from keys and values, and the records of existing batches again."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from formats.kernels.batches cimport LOG_OVERHEAD, V2_HEADER, Batch
from formats.kernels.buffer cimport TextBuffer, put_varint
from formats.kernels.crc cimport crc32c_update
from formats.kernels.numbers cimport minus, plus, set_be16, set_be32, set_be64
from formats.kernels.records cimport Record, RecordTable, next_field, value_size
from formats.kernels.varint cimport zigzag_size


cdef void put_header(uint8_t *p, int64_t size, Batch *head, int64_t base_timestamp) noexcept nogil:
    """Write the header of the batch of `size` bytes at p, after its records, which the CRC covers."""
    set_be64(p, <uint64_t>head.base_offset)
    set_be32(p + 8, <uint32_t>(size - LOG_OVERHEAD))
    set_be32(p + 12, <uint32_t>head.leader_epoch)
    p[16] = 2
    set_be16(p + 21, <uint16_t>head.attributes)
    set_be32(p + 23, <uint32_t>minus(head.last_offset, head.base_offset))
    set_be64(p + 27, <uint64_t>base_timestamp)
    set_be64(p + 35, <uint64_t>head.max_timestamp)
    set_be64(p + 43, <uint64_t>head.producer_id)
    set_be16(p + 51, <uint16_t>head.producer_epoch)
    set_be32(p + 53, <uint32_t>head.base_sequence)
    set_be32(p + 57, <uint32_t>head.count)
    set_be32(p + 17, crc32c_update(0, p + 21, size - 21))


def write_records(RecordTable records not None, TextBuffer out not None, int64_t first_delta, int64_t base_timestamp, *,
                  bint keep_timestamps=True):
    """Append the current slice as magic 2 records: attributes 0, offset deltas counting up from first_delta, timestamps
    relative to base_timestamp (without keep_timestamps: all deltas 0), keys, values and headers unchanged; all varints
    have as few bytes as they need."""
    cdef Py_ssize_t i
    cdef Record *r
    cdef const uint8_t *end
    cdef int64_t k, body, headers, stored, size, timestamp_delta, delta, key_length, value_length
    cdef bint as_stored
    with nogil:
        for i in range(records.count):
            r = records.at(i)
            end = records.buf + r.headers_start
            headers, as_stored = 0, True
            for k in range(r.headers_count * 2):
                size = next_field(&end, records.end())
                as_stored = as_stored and size >= 0             # any negative length is that of a null
                headers += zigzag_size(size) + max(size, <int64_t>0)
                end += max(size, <int64_t>0)
            stored = end - (records.buf + r.headers_start) if r.headers_count else 0
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
            if as_stored and headers == stored:
                if headers:
                    out.put(<const char *>records.buf + r.headers_start, headers)
                continue
            end = records.buf + r.headers_start
            for k in range(r.headers_count * 2):
                size = next_field(&end, records.end())
                out.need(10)
                put_varint(out, size)
                if size > 0:
                    out.put(<const char *>end, size)
                    end += size


cdef inline int64_t part_size(object part) except -1:
    """Return the size in bytes of a key or a value with its length."""
    cdef int64_t size
    if part is None:
        return 1
    size = PyBytes_GET_SIZE(<bytes?>part)
    return zigzag_size(size) + size


cdef inline uint8_t *varint_at(uint8_t *p, int64_t value) noexcept nogil:
    """Write a number that is not negative as a zigzag varint; return the address after it."""
    cdef uint64_t raw = <uint64_t>value << 1
    while raw >= 0x80:
        p[0] = <uint8_t>(raw | 0x80)
        p += 1
        raw >>= 7
    p[0] = <uint8_t>raw
    return p + 1


cdef inline uint8_t *part_at(uint8_t *p, object part) noexcept:
    cdef int64_t size
    if part is None:
        p[0] = 1
        return p + 1
    size = PyBytes_GET_SIZE(part)
    p = varint_at(p, size)
    memcpy(p, PyBytes_AS_STRING(part), size)
    return p + size


def write_batch(records not None, int64_t timestamp_ms, *, int64_t base_offset=0, int32_t leader_epoch=-1,
                int attributes=0, int64_t producer_id=-1, int producer_epoch=-1, int32_t base_sequence=-1):
    """Return the bytes of a batch with these records, pairs of key and value, at consecutive offsets.

    attributes: formats.record_batch.TRANSACTIONAL and CONTROL.
    """
    # tuples, which cannot change between the computation of the size and the write
    cdef list pairs = [pair if type(pair) is tuple else tuple(pair) for pair in records]
    cdef int64_t size = V2_HEADER, body, count = 0
    cdef uint8_t *p
    cdef Batch head
    for key, value in pairs:
        body = 3 + zigzag_size(count) + part_size(key) + part_size(value)  # attributes, timestamp delta, headers
        size += zigzag_size(body) + body
        count += 1
    assert count, "a batch has records"
    assert size <= 0x7fffffff, "a batch has a size"
    out = PyByteArray_FromStringAndSize(NULL, size)
    p = <uint8_t *>PyByteArray_AS_STRING(out) + V2_HEADER
    count = 0
    for key, value in pairs:
        p = varint_at(p, 3 + zigzag_size(count) + part_size(key) + part_size(value))
        p[0] = p[1] = 0
        p = varint_at(p + 2, count)
        p = part_at(part_at(p, key), value)
        p[0] = 0
        p += 1
        count += 1
    head.base_offset, head.last_offset, head.leader_epoch = base_offset, plus(base_offset, count - 1), leader_epoch
    head.attributes, head.max_timestamp, head.count = attributes, timestamp_ms, count
    head.producer_id, head.producer_epoch, head.base_sequence = producer_id, producer_epoch, base_sequence
    put_header(<uint8_t *>PyByteArray_AS_STRING(out), size, &head, timestamp_ms)
    return out
