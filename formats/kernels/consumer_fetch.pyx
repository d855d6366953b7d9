# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read the Fetch requests that consumers send all the time.

    header     API key int16, version int16, correlation id int32, client id | tagged fields (12+)
    request    replica_id int32 (4-14), max_wait int32 (ms), min_bytes int32, max_bytes int32, isolation_level int8,
               session_id int32, session_epoch int32 (7+) | topics | forgotten topics (7+) | rack_id (11+)
               | tagged fields (12+)
    topic      name (4-12) or id, 16 bytes (13+) | partitions | tagged fields (12+)
    partition  index int32, leader epoch int32 (9+), offset int64, last fetched epoch int32 (12+),
               log start int64 (5+), max bytes int32 | tagged fields (12+)

An ordinary request is whole, without tagged fields, with strings that are UTF-8, of a consumer, of isolation level 0 or
1, with a max_wait of at least 0; it forgets no topic, and each of its topics has a partition. Others give None.
Source: FetchRequest.json.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.numbers cimport be32
from formats.kernels.walk cimport ID_BYTES, Walk, begin, count, int32, int64, no_tags, string, take

cdef enum:
    FETCH = 1
    LEAST = 4
    LOG_STARTS = 5
    SESSIONS = 7
    LEADER_EPOCHS = 9
    RACKS = 11
    FLEXIBLE = 12              # also the last fetched epochs
    IDS = 13
    REPLICA_STATES = 15        # in place of the replica id: a tagged field, which consumers leave out
    MOST = 18
    NO_SESSION = 0
    NO_EPOCH = -1


def read_request(const uint8_t[::1] frame not None, int32_t items_max):
    """Return (version, correlation id, max_wait, (min_bytes, max_bytes), isolation level, session id, session epoch,
    rack, partitions) of an ordinary request with up to `items_max` partitions, else None.

    partitions: [((topic name or id, index), (offset, max bytes, leader epoch, last fetched epoch, log start)), ...].
    """
    cdef Walk walk
    cdef const uint8_t *head
    cdef const uint8_t *p
    cdef int32_t index, epoch, last_epoch, max_bytes, partitions_count, items = 0
    cdef int32_t session_id = NO_SESSION, session_epoch = NO_EPOCH
    cdef int64_t offset, log_start
    cdef int version = begin(&walk, &frame[0], frame.shape[0], FETCH, LEAST, MOST, FLEXIBLE)
    if version < 0 or (version < REPLICA_STATES and int32(&walk) != -1):
        return None
    head = take(&walk, 4 + 4 + 4 + 1)
    if head == NULL or <int32_t>be32(head) < 0 or head[12] > 1:
        return None
    if version >= SESSIONS:
        session_id, session_epoch = int32(&walk), int32(&walk)
    found = []
    for _ in range(count(&walk, items_max)):
        if version >= IDS:
            p = take(&walk, ID_BYTES)
            topic = None if p == NULL else PyBytes_FromStringAndSize(<const char *>p, ID_BYTES)
        else:
            topic = string(&walk, False)
        partitions_count = count(&walk, items_max - items)
        items += partitions_count
        if walk.is_other or not partitions_count:
            return None
        for _ in range(partitions_count):
            index = int32(&walk)
            epoch = int32(&walk) if version >= LEADER_EPOCHS else NO_EPOCH
            offset = int64(&walk)
            last_epoch = int32(&walk) if version >= FLEXIBLE else NO_EPOCH
            log_start = int64(&walk) if version >= LOG_STARTS else NO_EPOCH
            max_bytes = int32(&walk)
            no_tags(&walk)
            if walk.is_other:
                return None
            found.append(((topic, index), (offset, max_bytes, epoch, last_epoch, log_start)))
        no_tags(&walk)
    if version >= SESSIONS:
        count(&walk, 0)                # forgotten topics
    rack = string(&walk, False) if version >= RACKS else ""
    no_tags(&walk)
    if walk.is_other or walk.p != walk.end:
        return None
    return (version, <int32_t>be32(&frame[4]), <int32_t>be32(head),
            (<int32_t>be32(head + 4), <int32_t>be32(head + 8)), head[12], session_id, session_epoch, rack, found)
