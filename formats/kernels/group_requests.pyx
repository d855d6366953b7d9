# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Read the requests that members of groups send all the time, and lay out their answers: OffsetCommit and Heartbeat.
Repeat commits.

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
throttle time is 0.

A consumer commits the same partitions again and again. KeptCommits keeps the bytes of a commit that was accepted, with
those of its batch and its answer. A request that differs from it in correlation id, offsets and leader epochs alone
gets the same batch and the same answer with its own numbers, as long as nothing has changed that the acceptance
depended on:

    interval = Interval(lane)                                # `end` is called when the coordinator's state may change
    kept.keep(frame, answer, batch, interval, apply)
    kept.at(version, now_ms).answer(frame)                   # the response's frame; None: not repeated

Source: OffsetCommitRequest.json, HeartbeatRequest.json and their responses, KIP-482.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from formats.kernels.append cimport LogState, Runway
from formats.kernels.batches cimport V2_HEADER
from formats.kernels.buffer cimport TextBuffer
from formats.kernels.crc cimport crc32c_update
from formats.kernels.numbers cimport be16, be32, be64, set_be32, set_be64
from formats.kernels.produce cimport Lane, PlainRequests
from formats.kernels.records cimport R_NONE, Record, read_record
from formats.kernels.walk cimport (
    ID_BYTES, Walk, begin, count, int32, int64, no_tags, string, string_length, take)

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
    ANSWER_LEAST_BYTES = 8  # size and correlation id

cdef enum:  # the value of a commit's record, see kcli/group/offset_value.py
    VALUE_VERSION = 4
    VALUE_OFFSET = 2        # where the offset is, and the leader epoch behind it
    VALUE_METADATA = 14
    ENTRY_BYTES = 2 << 10   # counted for each kept commit besides its frame, its answer and its batch

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
    cdef int version = begin(&walk, &frame[0], frame.shape[0], OFFSET_COMMIT, COMMIT_LEAST, COMMIT_MOST, COMMIT_FLEXIBLE)
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
    cdef int size, version = begin(&walk, &frame[0], frame.shape[0], HEARTBEAT, 0, BEAT_MOST, BEAT_FLEXIBLE)
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


cdef struct Places:
    int32_t count
    int32_t size                # of an offset, with its leader epoch from version 6 on
    int32_t[ITEMS_MAX] at       # where the offsets are


cdef inline void pass_string(Walk *walk) noexcept nogil:
    take(walk, max(string_length(walk), <int64_t>0))


cdef bytes masked(const uint8_t *data, int64_t size, Places *places):
    """Return the bytes of an ordinary OffsetCommit with zeros in place of the correlation id, the offsets and the leader
    epochs, and set the places of the offsets. None for any other request. Strings need not be UTF-8 here."""
    cdef Walk walk
    cdef const uint8_t *p
    cdef uint8_t *out
    cdef int32_t i
    cdef int version = begin(&walk, data, size, OFFSET_COMMIT, COMMIT_LEAST, COMMIT_MOST, COMMIT_FLEXIBLE)
    if version < 0:
        return None
    places.count, places.size = 0, 12 if version >= COMMIT_EPOCHS else 8
    pass_string(&walk)
    take(&walk, 4)
    pass_string(&walk)
    if version >= COMMIT_INSTANCES:
        pass_string(&walk)
    for _ in range(count(&walk, ITEMS_MAX)):
        if version >= COMMIT_IDS:
            take(&walk, ID_BYTES)
        else:
            pass_string(&walk)
        for _ in range(count(&walk, ITEMS_MAX - places.count)):
            take(&walk, 4)
            p = take(&walk, places.size)
            if p == NULL:
                return None
            places.at[places.count] = <int32_t>(p - data)
            places.count += 1
            pass_string(&walk)
            no_tags(&walk)
        no_tags(&walk)
    no_tags(&walk)
    if walk.is_other or walk.p != walk.end:
        return None
    key = PyBytes_FromStringAndSize(<const char *>data, size)
    out = <uint8_t *>PyBytes_AS_STRING(key)
    zeros(out + 4, 4)
    for i in range(places.count):
        zeros(out + places.at[i], places.size)
    return key


cdef class Interval:
    """The time between two steps of a coordinator's state machine. As long as it lasts, the state machine accepts the
    same commits. lane: that of the state machine's partition."""

    cdef Lane lane

    def __init__(self, Lane lane not None):
        self.lane = lane

    @property
    def is_open(self):
        """Whether commits may still be repeated: it has not ended, and the partition's state has not changed."""
        return self.lane is not None and self.lane.log is not None

    def end(self):
        """End it: no commit that was kept in it is repeated any more."""
        self.lane = None


cdef class Kept:
    """A commit that was accepted. size: the bytes of its batch. values, times: where in the batch the values of the
    records begin, and where their timestamps are."""

    cdef Interval interval
    cdef int64_t version, size, kept_bytes
    cdef bytearray batch
    cdef bytes answer
    cdef object apply
    cdef int32_t[ITEMS_MAX] values, times

    cdef bint find(self, const uint8_t *data, Places *places):
        """Set `values` and `times`. False if the batch has other records than those of the request, in its order, or
        their values have another form."""
        cdef Walk walk
        cdef Record record
        cdef const uint8_t *start = <const uint8_t *>PyByteArray_AS_STRING(self.batch)
        cdef const uint8_t *p = start + V2_HEADER
        cdef const uint8_t *value
        cdef int64_t delta = 0, soft = 0
        cdef int32_t i
        if self.size < V2_HEADER:
            return False
        for i in range(places.count):
            if read_record(start, &p, start + self.size, &record, &delta, &soft) != R_NONE:
                return False
            if record.value_length <= VALUE_METADATA:
                return False
            value = start + record.value_start
            walk.p, walk.end = value + VALUE_METADATA, value + record.value_length
            walk.flexible, walk.is_other = True, False
            pass_string(&walk)
            self.values[i], self.times[i] = <int32_t>record.value_start, <int32_t>(walk.p - start)
            if take(&walk, 8) == NULL or be16(value) != VALUE_VERSION or (
                    be64(value + VALUE_OFFSET) != be64(data + places.at[i])):
                return False
        return p == start + self.size

    cdef list fill(self, const uint8_t *data, Places *places, int64_t now_ms):
        """Write the numbers of a request into the batch. Return the pairs of offset and leader epoch."""
        cdef uint8_t *batch = <uint8_t *>PyByteArray_AS_STRING(self.batch)
        cdef uint8_t *value
        cdef list numbers = []
        cdef int32_t i
        set_be64(batch, 0)
        set_be64(batch + 27, <uint64_t>now_ms)
        set_be64(batch + 35, <uint64_t>now_ms)
        for i in range(places.count):
            value = put(batch + self.values[i] + VALUE_OFFSET, data + places.at[i], places.size) - places.size
            set_be64(batch + self.times[i], <uint64_t>now_ms)
            numbers.append((<int64_t>be64(value), <int32_t>be32(value + 8)))
        set_be32(batch + 17, crc32c_update(0, batch + 21, self.size - 21))
        return numbers


cdef class KeptCommits(PlainRequests):
    """Commits that were accepted, by the bytes of their requests. bytes_max: the most bytes that they take up together;
    above that, all are dropped."""

    cdef dict kept
    cdef TextBuffer out
    cdef int64_t bytes_max, kept_bytes, version, now_ms

    def __init__(self, int64_t bytes_max):
        self.kept, self.out, self.bytes_max = {}, TextBuffer(), bytes_max

    def __len__(self):
        return len(self.kept)

    def at(self, int64_t version, int64_t now_ms):
        """Set the version of the metadata that commits depend on, and the time of the commits that come next. Return
        this object."""
        self.version, self.now_ms = version, now_ms
        return self

    def keep(self, const uint8_t[::1] frame not None, answer not None, batch not None, Interval interval not None,
             apply not None):
        """Keep a commit that was accepted with the present version of the metadata, and appended at the end of the log
        of the interval's lane. frame: the request, without the size in front. answer: the whole frame of the response.
        batch: the appended batch. apply(now_ms, record_offset, numbers): applies the records of a repetition to the
        state, once they are appended from record_offset on; numbers: a pair of offset and leader epoch for each."""
        cdef Places places
        cdef Kept known, kept = Kept.__new__(Kept)
        cdef bytes key = masked(&frame[0], frame.shape[0], &places)
        if key is None or len(answer) < ANSWER_LEAST_BYTES:
            return
        kept.interval, kept.version, kept.apply = interval, self.version, apply
        kept.batch, kept.answer = bytearray(batch), bytes(answer)
        kept.size = len(kept.batch)
        if not kept.find(&frame[0], &places):
            return
        kept.kept_bytes = ENTRY_BYTES + len(key) + len(kept.answer) + kept.size
        known = self.kept.get(key)
        if known is not None:
            self.kept_bytes -= known.kept_bytes
        elif self.kept_bytes + kept.kept_bytes > self.bytes_max:
            self.kept.clear()
            self.kept_bytes = 0
        self.kept[key] = kept
        self.kept_bytes += kept.kept_bytes

    def answer(self, const uint8_t[::1] frame not None):
        """Repeat a commit, and return the whole frame of the response. None if no such commit is kept, or it cannot be
        repeated now; nothing has changed then."""
        self.out.clear()
        if not self.answer_to(&frame[0], frame.shape[0], self.out):
            return None
        return PyBytes_FromStringAndSize(self.out.data, self.out.size)

    cdef bint answer_to(self, const uint8_t *data, int64_t size, TextBuffer out) except -1:
        cdef Places places
        cdef Kept kept
        cdef Lane lane
        cdef LogState log
        cdef uint8_t *answer
        cdef int64_t first_offset
        cdef list numbers
        cdef bytes key = masked(data, size, &places) if self.kept else None
        if key is None:
            return False
        kept = self.kept.get(key)
        if kept is None or kept.version != self.version:
            return False
        lane = kept.interval.lane
        log = None if lane is None else lane.log
        if log is None or not lane.alone or log.high_watermark != log.log_end_offset or not log.try_hold():
            return False
        try:
            first_offset = log.log_end_offset
            numbers = kept.fill(data, &places, self.now_ms)
            if not self._append(kept, lane, log):
                return False
            lane.lanes._appended(lane, log, first_offset)
        finally:
            log.let_go()
        kept.apply(self.now_ms, first_offset, numbers)
        out.need(len(kept.answer))
        answer = <uint8_t *>out.data + out.size
        out.put(PyBytes_AS_STRING(kept.answer), len(kept.answer))
        put(answer + 4, data + 4, 4)
        return True

    cdef bint _append(self, Kept kept, Lane lane, LogState log) except -1:
        """Append the batch. False if it needs the full append, or cannot be written."""
        cdef Runway runway = log.runway
        cdef uint8_t *batch = <uint8_t *>PyByteArray_AS_STRING(kept.batch)
        if runway is None or not runway.takes(batch, kept.size, kept.batch, 0, self.now_ms):
            return False
        try:
            runway.run(batch, kept.size, kept.batch, 0)
        except OSError as error:
            lane.partition.failed(error)
            return False
        return True
