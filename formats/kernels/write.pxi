"""One batch from keys and values: what a broker writes by itself. See formats.batch_writer."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE


cdef inline int64_t part_size(object part) except -1:
    """Of a key or a value, with its length in front."""
    cdef int64_t size
    if part is None:
        return 1
    size = PyBytes_GET_SIZE(<bytes?>part)
    return zigzag_size(size) + size


cdef inline uint8_t *varint_at(uint8_t *p, int64_t value) noexcept nogil:
    """Of what is not negative; returns the byte behind."""
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
    """The bytes of a batch with these records, a sequence of keys and values, at consecutive offsets.

    attributes: formats.record_batch.TRANSACTIONAL and CONTROL.
    """
    # measured, then written: nobody may change them between
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
