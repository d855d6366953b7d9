# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Lay out the frame of a Fetch response around its records, which are regions of log files, or bytes in memory.

The layout is that of kcli/broker/wire/fetch_layout.py. Source: FetchResponse.json, KIP-482.
"""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from formats.kernels.buffer cimport TextBuffer, put_be32
from formats.kernels.numbers cimport set_be16, set_be32, set_be64

cdef enum:
    START_OFFSET = 5
    SESSIONS = 7
    PREFERRED_REPLICA = 11
    FLEXIBLE = 12
    HEAD_MAX = 32              # more bytes than the frame has in front of its topics
    LENGTH_MAX = 10            # of a varint
    PARTITION_MAX = 4 + 2 + 8 + 8 + 8 + LENGTH_MAX + 4 + LENGTH_MAX   # up to the records, without aborted transactions
    ABORTED_MAX = 8 + 8 + 1
    DIVERGING_BYTES = 4 + 8 + 1
    TAGS_MAX = 1 + 2 + DIVERGING_BYTES + 1 + LENGTH_MAX               # without the leader's bytes


cdef inline void put_byte(TextBuffer out, int value) noexcept nogil:
    out.data[out.size] = <char>value
    out.size += 1


cdef inline void put_be16(TextBuffer out, int value) noexcept nogil:
    set_be16(<uint8_t *>out.data + out.size, <uint32_t>value)
    out.size += 2


cdef inline void put_be64(TextBuffer out, int64_t value) noexcept nogil:
    set_be64(<uint8_t *>out.data + out.size, <uint64_t>value)
    out.size += 8


cdef inline void put_uvarint(TextBuffer out, uint64_t value) noexcept nogil:
    while value >= 0x80:
        put_byte(out, value & 0x7f | 0x80)
        value >>= 7
    put_byte(out, <int>value)


cdef inline void put_length(TextBuffer out, int64_t value, bint flexible) noexcept nogil:
    """The length of an array or of bytes."""
    if flexible:
        put_uvarint(out, <uint64_t>value + 1)
    else:
        put_be32(out, <uint32_t>value)


cdef int put_topic(TextBuffer out, object topic, bint flexible) except -1:
    """Write the bytes of the topic's id, or its name as a string."""
    cdef bint is_name = isinstance(topic, str)
    cdef bytes data = topic.encode() if is_name else topic
    out.need(len(data) + 2 * LENGTH_MAX)
    if is_name and flexible:
        put_uvarint(out, <uint64_t>len(data) + 1)
    elif is_name:
        put_be16(out, <int>len(data))
    out.put(<const char *>data, len(data))
    return 0


cdef int put_partition(TextBuffer out, object answer, int64_t size, int version) except -1:
    """Write the fields of a partition in front of its records. size: that of the records."""
    cdef bint flexible = version >= FLEXIBLE
    aborted = answer.aborted
    out.need(PARTITION_MAX + (0 if aborted is None else len(aborted) * ABORTED_MAX))
    put_be32(out, <uint32_t><int32_t>answer.index)
    put_be16(out, answer.error_code)
    put_be64(out, answer.high_watermark)
    put_be64(out, answer.last_stable_offset)
    if version >= START_OFFSET:
        put_be64(out, answer.log_start_offset)
    put_length(out, -1 if aborted is None else len(aborted), flexible)
    if aborted:
        for each in aborted:
            put_be64(out, each.producer_id)
            put_be64(out, each.first_offset)
            if flexible:
                put_byte(out, 0)
    if version >= PREFERRED_REPLICA:
        put_be32(out, <uint32_t><int32_t>answer.preferred_replica)
    put_length(out, size, flexible)
    return 0


cdef int put_tags(TextBuffer out, object answer) except -1:
    """Write the tagged fields of a partition: 0 diverging epoch, 1 current leader."""
    cdef bytes leader = answer.leader
    diverging = answer.diverging
    out.need(TAGS_MAX + len(leader) + 1)
    put_byte(out, (diverging is not None) + (len(leader) > 0))
    if diverging is not None:
        epoch, end_offset = diverging
        put_byte(out, 0)
        put_byte(out, DIVERGING_BYTES)
        put_be32(out, <uint32_t><int32_t>epoch)
        put_be64(out, end_offset)
        put_byte(out, 0)
    if leader:
        put_byte(out, 1)
        put_uvarint(out, <uint64_t>len(leader))
        out.put(<const char *>leader, len(leader))
    return 0


def lay_out(int version, int32_t correlation_id, int32_t session_id, list answers not None, bytes endpoints not None, *,
            int error_code=0, int32_t throttle_ms=0):
    """Return the position of the throttle time in the first part, and the parts of the frame: a bytearray, then for
    each partition with records these and the bytes behind them.

    answers: pairs of a topic, by name or by the bytes of its id, and the answer about one of its partitions;
    consecutive answers about a topic become one topic of the response. endpoints: the encoded tagged fields at the end.
    """
    cdef TextBuffer out = TextBuffer()
    cdef bint flexible = version >= FLEXIBLE
    cdef Py_ssize_t i = 0, j, topics = 0, throttle_at, start, end
    cdef int64_t size, total = 0
    cdef list records = []           # with the position in `out` in front of which they come
    out.need(HEAD_MAX)
    put_be32(out, 0)
    put_be32(out, <uint32_t>correlation_id)
    if flexible:
        put_byte(out, 0)
    throttle_at = out.size
    put_be32(out, <uint32_t>throttle_ms)
    if version >= SESSIONS:
        put_be16(out, error_code)
        put_be32(out, <uint32_t>session_id)
    for j in range(len(answers)):
        if not j or answers[j][0] != answers[j - 1][0]:
            topics += 1
    put_length(out, topics, flexible)
    while i < len(answers):
        topic = answers[i][0]
        j = i + 1
        while j < len(answers) and answers[j][0] == topic:
            j += 1
        put_topic(out, topic, flexible)
        put_length(out, j - i, flexible)
        while i < j:
            answer = answers[i][1]
            i += 1
            region = answer.region
            size = 0 if region is None else answer.size
            put_partition(out, answer, size, version)
            if region is not None:
                records.append((out.size, region))
                total += size
            if flexible:
                put_tags(out, answer)
        if flexible:
            out.need(1)
            put_byte(out, 0)
    if flexible:
        out.need(len(endpoints))
        out.put(<const char *>endpoints, len(endpoints))
    set_be32(<uint8_t *>out.data, <uint32_t>(total + out.size - 4))
    end = records[0][0] if records else out.size
    parts = [PyByteArray_FromStringAndSize(out.data, end)]
    for i in range(len(records)):
        start, region = records[i]
        end = records[i + 1][0] if i + 1 < len(records) else out.size
        parts.append(region)
        parts.append(PyBytes_FromStringAndSize(out.data + start, end - start))
    return throttle_at, parts
