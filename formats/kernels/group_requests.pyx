# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read the requests that members of groups send all the time, and lay out their answers: OffsetCommit and Heartbeat.

    header         API key int16, version int16, correlation id int32, client id | tagged fields
    Heartbeat      group, generation int32, member | instance (3+) | tagged fields (4+)
    OffsetCommit   group, generation int32, member | instance (7+) | topics | tagged fields (8+)
    topic          name (5-9) or id, 16 bytes (10) | partitions | tagged fields (8+)
    partition      index int32, offset int64 | leader epoch int32 (6+) | metadata | tagged fields (8+)

    answers        size int32, correlation id | tagged fields (flexible OffsetCommit and Heartbeat) | throttle time int32
    Heartbeat      error int16 | tagged fields
    OffsetCommit   topics as above, with partitions of index int32, error int16 | tagged fields

These readers take ordinary requests alone: whole, without tagged fields, with strings that are UTF-8, of up to ITEMS_MAX
partitions. They return None for all others, which kio reads or refuses. Every error in their answers is NONE, and the
throttle time is 0. Source: OffsetCommitRequest.json, HeartbeatRequest.json and their responses, KIP-482.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from formats.kernels.numbers cimport be32, set_be32
from formats.kernels.walk cimport ID_BYTES, Walk, begin, count, int32, int64, no_tags, string, take

cdef enum:
    OFFSET_COMMIT = 8
    COMMIT_LEAST = 5
    COMMIT_EPOCHS = 6
    COMMIT_INSTANCES = 7
    COMMIT_FLEXIBLE = 8
    COMMIT_IDS = 10
    COMMIT_MOST = 10

cdef enum:
    HEARTBEAT = 12
    BEAT_THROTTLE = 1
    BEAT_INSTANCES = 3
    BEAT_FLEXIBLE = 4
    BEAT_MOST = 4

cdef enum:
    ITEMS_MAX = 100
    ANSWER_HEAD_BYTES = 16  # more than an answer has in front of its topics

cdef inline uint8_t *put(uint8_t *out, const uint8_t *data, int64_t size) noexcept nogil:
    memcpy(out, data, size)
    return out + size


cdef inline uint8_t *zeros(uint8_t *out, int64_t size) noexcept nogil:
    memset(out, 0, size)
    return out + size


def read_offset_commit(const uint8_t[::1] frame not None):
    """Return (version, group, generation, member, instance, topics, answer) of an ordinary OffsetCommit, else None.

    topics: [(name, or id of 16 bytes from version 10 on, [(index, offset, leader epoch, metadata or None), ...]), ...].
    answer: the response's whole frame, a bytearray.
    """
    cdef Walk walk
    cdef const uint8_t *p
    cdef const uint8_t *start
    cdef uint8_t *first
    cdef uint8_t *out
    cdef int32_t index, epoch, generation, topics_count, partitions_count, items = 0
    cdef int64_t offset
    cdef int version = begin(&walk, frame, OFFSET_COMMIT, COMMIT_LEAST, COMMIT_MOST, COMMIT_FLEXIBLE)
    if version < 0 or walk.is_other:
        return None
    group = string(&walk, False)
    generation = int32(&walk)
    member = string(&walk, False)
    instance = string(&walk, True) if version >= COMMIT_INSTANCES else None
    # each partition takes more bytes in the request than in the response
    answer = PyByteArray_FromStringAndSize(NULL, ANSWER_HEAD_BYTES + frame.shape[0])
    first = <uint8_t *>PyByteArray_AS_STRING(answer)
    out = put(first + 4, &frame[4], 4)
    out = zeros(out, 5 if walk.flexible else 4)
    start = walk.p
    topics_count = count(&walk, ITEMS_MAX)
    topics = []
    out = put(out, start, walk.p - start)
    for _ in range(topics_count):
        start = walk.p
        if version >= COMMIT_IDS:
            p = take(&walk, ID_BYTES)
            topic = None if p == NULL else PyBytes_FromStringAndSize(<const char *>p, ID_BYTES)
        else:
            topic = string(&walk, False)
        partitions_count = count(&walk, ITEMS_MAX)
        items += partitions_count
        if walk.is_other or items > ITEMS_MAX:
            return None
        out = put(out, start, walk.p - start)
        partitions = []
        for _ in range(partitions_count):
            p = take(&walk, 4)
            offset = int64(&walk)
            epoch = int32(&walk) if version >= COMMIT_EPOCHS else -1
            metadata = string(&walk, True)
            no_tags(&walk)
            if walk.is_other:
                return None
            partitions.append((<int32_t>be32(p), offset, epoch, metadata))
            out = zeros(put(out, p, 4), 3 if walk.flexible else 2)
        no_tags(&walk)
        if walk.flexible:
            out = zeros(out, 1)
        topics.append((topic, partitions))
    no_tags(&walk)
    if walk.is_other or walk.p != walk.end:
        return None
    if walk.flexible:
        out = zeros(out, 1)
    set_be32(first, <uint32_t>(out - first - 4))
    PyByteArray_Resize(answer, out - first)
    return version, group, generation, member, instance, topics, answer


def read_heartbeat(const uint8_t[::1] frame not None):
    """Return (group, generation, member, instance, answer) of an ordinary Heartbeat, else None. answer: the response's
    whole frame, a bytearray."""
    cdef Walk walk
    cdef uint8_t *out
    cdef int32_t generation
    cdef int size, version = begin(&walk, frame, HEARTBEAT, 0, BEAT_MOST, BEAT_FLEXIBLE)
    if version < 0 or walk.is_other:
        return None
    group = string(&walk, False)
    generation = int32(&walk)
    member = string(&walk, False)
    instance = string(&walk, True) if version >= BEAT_INSTANCES else None
    no_tags(&walk)
    if walk.is_other or walk.p != walk.end:
        return None
    size = 4 + (4 if version >= BEAT_THROTTLE else 0) + 2 + (2 if walk.flexible else 0)
    answer = PyByteArray_FromStringAndSize(NULL, 4 + size)
    out = <uint8_t *>PyByteArray_AS_STRING(answer)
    set_be32(out, size)
    zeros(put(out + 4, &frame[4], 4), size - 4)
    return group, generation, member, instance, answer
