# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read the Fetch requests that followers send all the time, and the responses to them.

    request    header: API key int16, version int16, correlation id int32, client id | tagged fields
               max_wait int32 (ms), min_bytes int32, max_bytes int32, isolation_level int8, session_id int32,
               session_epoch int32 | topics: id, partitions | forgotten | rack_id | tagged fields: 1 replica state
    partition  index int32, leader epoch int32, offset int64, last fetched epoch int32, log start int64,
               max bytes int32 | tagged fields
    response   see kcli/broker/wire/fetch_response.py

An ordinary request is of version 17, of a follower, within a session, forgets no partition, and names up to ITEMS_MAX;
in an ordinary response no partition has an error, aborted transactions, a preferred replica or a tagged field. Others
give None.
Source: FetchRequest.json, FetchResponse.json.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.numbers cimport be16, be32, be64
from formats.kernels.walk cimport ID_BYTES, Walk, begin, count, int32, int64, no_tags, take, varint

cdef enum:
    FETCH = 1
    VERSION = 17
    ITEMS_MAX = 100
    NO_REPLICA = 0xffffffff    # no preferred read replica
    REPLICA_STATE_TAG = 1
    REPLICA_STATE_BYTES = 4 + 8 + 1
    END_BYTES = 1 + 1 + 3 + REPLICA_STATE_BYTES        # forgotten, rack id, tagged fields
    PARTITION_BYTES = 4 + 2 + 8 + 8 + 8 + 1 + 4        # of a response, up to the records


cdef inline object id_bytes(Walk *walk):
    cdef const uint8_t *p = take(walk, ID_BYTES)
    return None if p == NULL else PyBytes_FromStringAndSize(<const char *>p, ID_BYTES)


def read_request(const uint8_t[::1] frame not None):
    """Return (correlation id, (replica id, replica epoch), max_wait, min_bytes, max_bytes, session id, session epoch,
    partitions) of an ordinary request, else None.

    partitions: [((topic id, index), (offset, max bytes, leader epoch, last fetched epoch, log start)), ...].
    """
    cdef Walk walk
    cdef const uint8_t *p
    cdef const uint8_t *head
    cdef int32_t index, epoch, last_epoch, max_bytes, partitions_count, items = 0
    cdef int64_t offset, log_start
    if begin(&walk, &frame[0], frame.shape[0], FETCH, VERSION, VERSION, VERSION) < 0:
        return None
    head = take(&walk, 4 + 4 + 4 + 1 + 4 + 4)
    if head == NULL or head[12] or <int32_t>be32(head + 13) <= 0 or <int32_t>be32(head + 17) <= 0:
        return None
    found = []
    for _ in range(count(&walk, ITEMS_MAX)):
        topic = id_bytes(&walk)
        partitions_count = count(&walk, ITEMS_MAX)
        items += partitions_count
        if walk.is_other or items > ITEMS_MAX:
            return None
        for _ in range(partitions_count):
            index, epoch, offset = int32(&walk), int32(&walk), int64(&walk)
            last_epoch, log_start, max_bytes = int32(&walk), int64(&walk), int32(&walk)
            no_tags(&walk)
            found.append(((topic, index), (offset, max_bytes, epoch, last_epoch, log_start)))
        no_tags(&walk)
    p = take(&walk, END_BYTES)
    if walk.is_other or walk.p != walk.end or not (
            p[0] == p[1] == 1 and p[2] == 1 and p[3] == REPLICA_STATE_TAG and p[4] == REPLICA_STATE_BYTES) or (
            p[END_BYTES - 1] or <int32_t>be32(p + 5) < 0):
        return None
    return (<int32_t>be32(&frame[4]), (<int32_t>be32(p + 5), <int64_t>be64(p + 9)), <int32_t>be32(head),
            <int32_t>be32(head + 4), <int32_t>be32(head + 8), <int32_t>be32(head + 13), <int32_t>be32(head + 17), found)


def read_response(const uint8_t[::1] frame not None, Py_ssize_t position):
    """Return (session id, topics) of an ordinary response whose body begins at `position`, else None.

    topics: [(id, [(index, high watermark, last stable offset, log start offset, start of the records in the frame,
    their size in bytes, -1 for null), ...]), ...].
    """
    cdef Walk walk
    cdef const uint8_t *p
    cdef int32_t session_id, size
    cdef int64_t start
    if not 0 <= position < frame.shape[0]:
        return None
    walk.p, walk.end, walk.flexible, walk.is_other = &frame[0] + position, &frame[0] + frame.shape[0], True, False
    p = take(&walk, 4 + 2 + 4)
    if p == NULL or be32(p) or be16(p + 4):
        return None
    session_id = <int32_t>be32(p + 6)
    topics = []
    for _ in range(count(&walk, ITEMS_MAX)):
        topic = id_bytes(&walk)
        partitions = []
        for _ in range(count(&walk, ITEMS_MAX)):
            p = take(&walk, PARTITION_BYTES)
            if p == NULL or be16(p + 4) or p[30] or be32(p + 31) != NO_REPLICA:
                return None
            size = <int32_t>varint(&walk) - 1
            start = walk.p - &frame[0]
            take(&walk, max(size, 0))
            no_tags(&walk)
            partitions.append((<int32_t>be32(p), <int64_t>be64(p + 6), <int64_t>be64(p + 14), <int64_t>be64(p + 22),
                               start, size))
        no_tags(&walk)
        topics.append((topic, partitions))
    no_tags(&walk)
    return None if walk.is_other or walk.p != walk.end else (session_id, topics)
