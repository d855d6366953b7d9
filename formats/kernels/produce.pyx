"""Plain Produce requests: read, checked, appended and answered without an object for each field.

    lanes = ProduceLanes(at_once_bytes)
    lane = lanes.add(name, topic_id, index, partition, log, alone=True)
    lanes.answer(frame, now_ms, may_write)  # the response's frame; None: the request is not plain, nothing has changed
    lanes.waits                             # with acks=-1: the batches that other replicas have to have first
    lanes.serve(fd, buffer, ...)            # the same from socket to socket, for requests that wait for nothing
    lanes.beside()                          # the same partitions, for another thread

A request is plain if it has no transactional id and no tagged field, each of its partitions has a lane and comes once,
the client may write to its topic, and the Runway of each partition's log takes its batch. All batches are checked
before the first is appended. From the first check to the last append, the thread holds the logs of all partitions. It
waits for a log that another thread holds, but holds none meanwhile.

    request    api key int16, version int16, correlation id int32, client id (int16 length), tagged fields (9+),
               transactional id, acks int16, timeout int32, topics: name (3-12) or id (13), partitions: index int32,
               records, tagged fields (9+); tagged fields (9+); tagged fields (9+)
    lengths    of an array and of records int32, of a string int16; from version 9 on a varint, one more than it is
    response   see kcli/broker/wire/produce_layout.py

Source: ProduceRequest.json, RequestHeader.json, KIP-482. The rules for a request: kcli/broker/api/produce.py.
"""

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from formats.compression import DEFAULT_LIMIT, most_bytes

from formats.kernels.append cimport LogState, Runway
from formats.kernels.buffer cimport TextBuffer
from formats.kernels.batches cimport V2_HEADER
from formats.kernels.numbers cimport be16, be32, set_be16, set_be32, set_be64

cdef enum:
    LEAST_VERSION = 3
    START_OFFSET_VERSION = 5     # the response has the log start offset
    ZSTD_VERSION = 7
    ERRORS_VERSION = 8           # the response has the errors of records, KIP-467
    FLEXIBLE_VERSION = 9
    IDS_VERSION = 13             # topics are named by id, KIP-516
    MOST_VERSION = 13
    CODEC_MASK = 7
    ZSTD = 4
    LENGTH_BYTES = 4             # in front of a request
    HEADER_BYTES = 10
    ID_BYTES = 16
    NAME_MAX = 249               # bytes of a topic's name
    ALL_ACKS = -1
    STORAGE_ERROR = 56           # KAFKA_STORAGE_ERROR
    PARTITION_BYTES = 4 + 2 + 8 + 8        # index, error, base offset, log append time
    START_OFFSET_BYTES = 8
    NO_ERRORS_BYTES = 4 + 2                # no errors of records, no message
    FLEXIBLE_END_BYTES = 1 + 1 + 1         # the same, no tagged fields


cdef extern from *:
    """
    #include <sys/socket.h>
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    """
    const int MSG_NOSIGNAL


cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int fd, void *data, size_t size, int flags)
    ssize_t send(int fd, const void *data, size_t size, int flags)


cdef inline int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef struct Walk:
    const uint8_t *p
    const uint8_t *stop
    bint flexible


cdef inline bint length(Walk *walk, int size, int64_t *found) noexcept nogil:
    """A length or count; False for null, and where it is longer than what is left. size: of the field in bytes before
    the flexible versions, 2 or 4."""
    cdef int64_t value = 0
    cdef int shift = 0
    if not walk.flexible:
        if walk.stop - walk.p < size:
            return False
        found[0] = <int32_t>be32(walk.p) if size == 4 else <int16_t>be16(walk.p)
        walk.p += size
        return 0 <= found[0] <= walk.stop - walk.p
    while shift < 28 and walk.p < walk.stop:
        value |= <int64_t>(walk.p[0] & 0x7f) << shift
        walk.p += 1
        if walk.p[-1] < 0x80:
            found[0] = value - 1
            return 0 <= found[0] <= walk.stop - walk.p
        shift += 7
    return False


cdef inline bint no_tags(Walk *walk) noexcept nogil:
    """No tagged fields: a byte 0 in the flexible versions."""
    if not walk.flexible:
        return True
    if walk.p >= walk.stop or walk.p[0]:
        return False
    walk.p += 1
    return True


cdef inline bint null_string(Walk *walk) noexcept nogil:
    if walk.flexible:
        return no_tags(walk)                                                 # a byte 0 as well
    if walk.stop - walk.p < 2 or be16(walk.p) != 0xffff:
        return False
    walk.p += 2
    return True


cdef inline uint8_t *put_length(uint8_t *to, int64_t value, int size, bint flexible) noexcept nogil:
    """size: of the field in bytes before the flexible versions."""
    cdef uint64_t left = <uint64_t>value + 1
    if not flexible:
        if size == 2:
            set_be16(to, <uint32_t>value)
        else:
            set_be32(to, <uint32_t>value)
        return to + size
    while left >= 0x80:
        to[0] = <uint8_t>(left & 0x7f | 0x80)
        to += 1
        left >>= 7
    to[0] = <uint8_t>left
    return to + 1


cdef inline int64_t length_bytes(int64_t value, int size, bint flexible) noexcept nogil:
    return size if not flexible else 1 if value < 0x7f else 2 if value < 0x3fff else 3


cdef inline int64_t partition_bytes(int version) noexcept nogil:
    """The size of a partition in the response."""
    if version < START_OFFSET_VERSION:
        return PARTITION_BYTES
    if version < ERRORS_VERSION:
        return PARTITION_BYTES + START_OFFSET_BYTES
    return PARTITION_BYTES + START_OFFSET_BYTES + (NO_ERRORS_BYTES if version < FLEXIBLE_VERSION else FLEXIBLE_END_BYTES)


cdef class PlainRequests:
    """Plain requests of another API, which `ProduceLanes.serve` answers as well."""

    cdef bint answer_to(self, const uint8_t *data, int64_t size, TextBuffer out) except -1:
        """Answer a request, and append the response's frame to `out`. False for a request that is not plain, and nothing
        has changed."""
        return False


cdef class Lane:
    """A partition to which plain requests may be appended, until `close`."""

    def close(self):
        """Take the partition out of the lanes. When this returns, no thread appends to it through the lane."""
        cdef LogState log = self.log
        if self.lanes is not None:
            if self.lanes.by_name.get(self.by_name) is self:
                del self.lanes.by_name[self.by_name]
            if self.lanes.by_id.get(self.by_id) is self:
                del self.lanes.by_id[self.by_id]
            log.hold()
            self.lanes = self.partition = self.log = None
            log.let_go()

    def tell(self):
        """Tell the partition of the appends of another thread; do nothing if the lane is closed."""
        self.is_told = False
        if self.partition is not None:
            self.partition.appended_aside()


cdef class ProduceLanes:
    """The partitions to which plain requests are appended. at_once_bytes: the most bytes to which all batches of a
    plain request together may decompress.

    Of the last plain request: has_failed: whether a batch could not be written. waits: a list of (partition, offset
    behind the batch, number of the batch in the request), for each batch that was appended with acks=-1 to a partition
    with other replicas. timeout_ms: how long it waits for these, by the request.

    A data-plane thread has lanes of its own (`beside`), which call no partition, as these are the event loop's. told:
    the lanes whose `tell` the event loop is to call; failures: the partitions whose `failed` it is to call, with the
    errors. The thread takes these lists and empties them.
    """

    def __init__(self, int64_t at_once_bytes):
        self.by_name, self.by_id, self.waits = {}, {}, []
        self.told, self.failures = [], []
        self.out = TextBuffer()
        self.at_once_bytes = at_once_bytes

    def beside(self):
        """Return lanes to the same partitions for another thread, of which only `serve` may be called."""
        cdef ProduceLanes lanes = ProduceLanes(self.at_once_bytes)
        lanes.by_name, lanes.by_id, lanes.is_aside = self.by_name, self.by_id, True
        return lanes

    def __len__(self):
        return len(self.by_name)

    def add(self, bytes name not None, bytes topic_id not None, int32_t index, partition, LogState log not None, *,
            bint alone, tuple watchers):
        """Open the lane of a partition, until its `close`.

        partition.plain_appended(): called after an append that somebody waits for, returns the log start offset;
        partition.appended_aside(): the same for the appends of other threads, once they are told;
        partition.failed(error): with the error of a write; partition.lacks_replicas: whether a batch with acks=-1 is
        refused. alone: no other replica has to have a batch before it is acknowledged with acks=-1, and the high
        watermark moves with each append. watchers: two dicts; while both are empty, nobody waits for an append to a
        partition whose lane is alone.
        """
        cdef Lane lane = Lane.__new__(Lane)
        cdef bytes at = index.to_bytes(4, "big", signed=True)
        lane.lanes, lane.partition, lane.log, lane.alone = self, partition, log, alone
        lane.watchers, lane.end_watchers = watchers
        lane.topic, lane.by_name, lane.by_id = name.decode(), name + at, topic_id + at
        self.by_name[lane.by_name] = self.by_id[lane.by_id] = lane
        return lane

    def answer(self, frame not None, int64_t now_ms, may_write=None):
        """Answer a plain request. frame: without the size in front; writable, offsets are written into its batches.
        may_write: returns whether the client may write to the topic of a name; None: to all.

        Returns the response with its size in front, b"" for a request with acks=0; None for a request that is not
        plain, and nothing has changed.
        """
        cdef Py_buffer view
        cdef Plain plain
        self.out.clear()
        self.is_serving = False
        PyObject_GetBuffer(frame, &view, PyBUF_WRITABLE)
        try:
            if not self._read(<const uint8_t *>view.buf, view.len, &plain) or not self._append(
                    <uint8_t *>view.buf, frame, 0, &plain, now_ms, may_write):
                return None
            return PyBytes_FromStringAndSize(self.out.data, self.out.size)
        finally:
            PyBuffer_Release(&view)

    def serve(self, int fd, buffer not None, int64_t kept_bytes, int64_t request_max_bytes, int64_t turn_ns,
              int64_t now_ms, may_write=None, PlainRequests others=None):
        """Receive bytes from a socket, answer the plain requests at their front, and send the responses. A request with
        acks=-1 whose batches have to wait for other replicas ends the row, as does a request that is not plain or not
        whole, a failed write, and the time turn_ns. After a failed write nothing is sent; with acks=0 it can only be
        told by closing the connection (`hangs_up`).

        fd: the socket, non-blocking. buffer: for the received bytes; writable. Its first kept_bytes bytes are those of a
        request that has been received in part. request_max_bytes: a longer request ends the row. may_write: as that of
        `answer`. others: plain requests of another API, which are answered as well; None for none.

        Returns (received, answered, unsent): the number of bytes received, 0 at the end of the stream; how many bytes,
        from the buffer's first on, are answered requests; the bytes of responses that the socket has not taken. Raises
        OSError if the socket cannot be read or written, BlockingIOError if there is nothing to read.
        """
        cdef Py_buffer view
        cdef Plain plain
        cdef uint8_t *data
        cdef ssize_t received
        cdef int64_t size, length, at = 0, until = 0
        self.out.clear()
        self.is_serving, self.hangs_up = True, False
        PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
        try:
            if not 0 <= kept_bytes < view.len:
                raise ValueError(f"{kept_bytes} bytes kept in a buffer of {view.len}")
            data = <uint8_t *>view.buf
            with nogil:
                received = recv(fd, data + kept_bytes, view.len - kept_bytes, 0)
            if received < 0:
                PyErr_SetFromErrno(OSError)
            size = kept_bytes + received
            while size - at > LENGTH_BYTES:
                length = <int32_t>be32(data + at)
                if not 0 <= length <= request_max_bytes or length > size - at - LENGTH_BYTES:
                    break
                self.has_failed = False
                if not self._read(data + at + LENGTH_BYTES, length, &plain):
                    if others is None or not others.answer_to(data + at + LENGTH_BYTES, length, self.out):
                        break
                elif not self._append(data + at + LENGTH_BYTES, buffer, at + LENGTH_BYTES, &plain, now_ms, may_write):
                    break
                at += LENGTH_BYTES + length
                if self.has_failed:
                    self.hangs_up = not plain.acks
                    return received, at, PyBytes_FromStringAndSize(self.out.data, self.out.size)
                if at < size:                                                # the clock is not read for a single one
                    if not until:
                        until = monotonic_ns() + turn_ns
                    elif monotonic_ns() > until:
                        break
            return received, at, self._send(fd)
        finally:
            PyBuffer_Release(&view)

    cdef bytes _send(self, int fd):
        """Send what `out` has. Returns the bytes that the socket has not taken. Raises OSError."""
        cdef ssize_t sent = 0
        if self.out.size:
            with nogil:
                sent = send(fd, self.out.data, self.out.size, MSG_NOSIGNAL)
            if sent < 0:
                if errno != EAGAIN and errno != EINTR:
                    PyErr_SetFromErrno(OSError)
                sent = 0
        return PyBytes_FromStringAndSize(self.out.data + sent, self.out.size - sent)

    cdef bint _read(self, const uint8_t *data, int64_t size, Plain *plain) noexcept nogil:
        """Find topics, partitions and records. False for a request that is not plain."""
        cdef Walk walk
        cdef int64_t count, items, found
        cdef int client_id
        cdef int t
        if size < HEADER_BYTES or be16(data):
            return False
        plain.version = <int16_t>be16(data + 2)
        plain.correlation_id = be32(data + 4)
        client_id = <int16_t>be16(data + 8)
        if not LEAST_VERSION <= plain.version <= MOST_VERSION or client_id < -1 or client_id > size - HEADER_BYTES:
            return False
        walk.p, walk.stop = data + HEADER_BYTES + max(client_id, 0), data + size
        walk.flexible = plain.version >= FLEXIBLE_VERSION
        if not no_tags(&walk) or not null_string(&walk) or walk.stop - walk.p < 6:   # of the header, transactional id
            return False
        plain.acks = <int16_t>be16(walk.p)
        plain.timeout_ms = <int32_t>be32(walk.p + 2)
        walk.p += 6
        if not -1 <= plain.acks <= 1 or not length(&walk, 4, &count) or not 0 < count <= PARTITIONS_MAX:
            return False
        plain.topics, plain.parts = <int>count, 0
        for t in range(plain.topics):
            if plain.version >= IDS_VERSION:
                found = ID_BYTES
                if walk.stop - walk.p < ID_BYTES:
                    return False
            elif not length(&walk, 2, &found) or found > NAME_MAX:
                return False
            self.topics[t].start, self.topics[t].size = walk.p - data, found
            walk.p += found
            if not length(&walk, 4, &items) or not 0 < items <= PARTITIONS_MAX - plain.parts:
                return False
            self.topics[t].count = <int32_t>items
            while items > 0:
                items -= 1
                if walk.stop - walk.p < 4:
                    return False
                self.parts[plain.parts].index = <int32_t>be32(walk.p)
                walk.p += 4
                if not length(&walk, 4, &found):
                    return False
                self.parts[plain.parts].topic = t
                self.parts[plain.parts].start, self.parts[plain.parts].size = walk.p - data, found
                walk.p += found
                plain.parts += 1
                if not no_tags(&walk):
                    return False
            if not no_tags(&walk):
                return False
        return no_tags(&walk) and walk.p == walk.stop

    cdef bint _append(self, uint8_t *data, object buffer, int64_t start, Plain *plain, int64_t now_ms,
                      object may_write) except -1:
        """Check all batches of the request at byte `start` of `buffer`, then append them and write the response to
        `out`. False for a request that is not plain."""
        cdef list taken = []                 # (lane, log, runway) of each partition whose log is held
        cdef LogState busy
        try:
            while not self._take(data, buffer, start, plain, may_write, taken):
                if self.busy is None:
                    return False
                self._let_go(taken)
                busy, self.busy = self.busy, None
                busy.wait()
            if not self._check_and_write(data, buffer, start, plain, now_ms):
                return False
            self.has_failed, self.waits, self.timeout_ms = False, [], plain.timeout_ms
            self._respond(data, buffer, start, plain, taken)
            return True
        finally:
            self._let_go(taken)

    cdef bint _take(self, const uint8_t *data, object buffer, int64_t start, Plain *plain, object may_write,
                    list taken) except -1:
        """Hold the logs of the request's partitions, and make the checks that need no more of the batches than their
        first bytes. False for a request that is not plain, and for one with a log that another thread holds: that log is
        `busy` then. taken: gets what is held, also before False is returned."""
        cdef Lane lane
        cdef LogState log
        cdef Runway runway
        cdef Part *part
        cdef int i, codec
        self.busy, plain.is_packed, plain.work_bytes = None, False, 0
        for i in range(plain.parts):
            part = &self.parts[i]
            lane = self._lane(data, part, plain.version)
            if lane is None or (
                    plain.acks == ALL_ACKS and not lane.alone and (self.is_serving or lane.partition.lacks_replicas)):
                return False
            if may_write is not None and (i == 0 or self.parts[i - 1].topic != part.topic) and not may_write(lane.topic):
                return False
            log = lane.log
            if log is None or log.is_held():                                 # closed meanwhile; named twice
                return False
            if not log.try_hold():
                self.busy = log
                return False
            runway = log.runway
            taken.append((lane, log, runway))
            if runway is None or not runway.may_take(data + part.start, part.size) or (
                    self.is_aside and not runway.writes_directly):
                return False
            codec = data[part.start + 22] & CODEC_MASK
            if codec == ZSTD and plain.version < ZSTD_VERSION:
                return False
            if codec:
                payload = memoryview(buffer)[start + part.start + V2_HEADER:start + part.start + part.size]
                plain.is_packed = True
                plain.work_bytes += min(most_bytes(codec, payload), DEFAULT_LIMIT)
                if plain.work_bytes > self.at_once_bytes:
                    return False
            part.runway, part.is_written = <PyObject *>runway, False
        return True

    cdef int _let_go(self, list taken) except -1:
        """Let go of the logs that a request holds."""
        for _, log, _ in taken:
            (<LogState>log).let_go()
        taken.clear()
        return 0

    cdef bint _check_and_write(self, uint8_t *data, object buffer, int64_t start, Plain *plain,
                               int64_t now_ms) except -1:
        """Check all bytes of the batches, then write them up to the first one that is not written. False if one is not
        sound, and then none is written."""
        cdef Part *part
        cdef int i
        cdef bint sound
        with nogil:
            sound = self._are_sound(data, plain, now_ms)
            if sound and not plain.is_packed:
                self._write(data, plain)
        if not sound:
            return False
        if plain.is_packed:
            for i in range(plain.parts):
                part = &self.parts[i]
                if data[part.start + 22] & CODEC_MASK and not (<Runway>part.runway).takes_payload(
                        data + part.start, buffer, start + part.start, now_ms):
                    return False
            with nogil:
                self._write(data, plain)
        return True

    cdef int _respond(self, uint8_t *data, object buffer, int64_t start, Plain *plain, list taken) except -1:
        """Append the batches, and write the response to `out`."""
        cdef int64_t size = self._response_bytes(plain)
        cdef uint8_t *to
        cdef int i
        self.out.need(size)
        to = self._begin(<uint8_t *>self.out.data + self.out.size, size, plain)
        for i in range(plain.parts):
            lane, log, runway = taken[i]
            to = self._one(to, data, buffer, start, plain, i, <Lane>lane, <LogState>log, <Runway>runway)
        set_be32(to, 0)                                                      # throttle time
        if plain.version >= FLEXIBLE_VERSION:
            to[4] = 0
        if plain.acks:
            self.out.size += size
        return 0

    cdef int64_t _appended(self, Lane lane, LogState log, int64_t first_offset) except? -1:
        """Move the high watermark where no other replica has to have the batch first, and tell those who wait. Returns
        the log start offset."""
        cdef bint moves = lane.alone and log.high_watermark == first_offset
        cdef bint is_awaited = not moves or lane.watchers or lane.end_watchers
        if moves and (self.is_aside or not is_awaited):
            log.high_watermark = log.log_end_offset
        if is_awaited and not self.is_aside:
            return lane.partition.plain_appended()
        if is_awaited and not lane.is_told:
            lane.is_told = True
            self.told.append(lane)
        return log.log_start_offset

    cdef bint _are_sound(self, const uint8_t *data, Plain *plain, int64_t now_ms) except -1 nogil:
        cdef int i
        for i in range(plain.parts):
            if not (<Runway>self.parts[i].runway).is_sound(data + self.parts[i].start, self.parts[i].size, now_ms):
                return False
        return True

    cdef void _write(self, uint8_t *data, Plain *plain) noexcept nogil:
        """Write the batches, up to the first one that is not written."""
        cdef Part *part
        cdef int i
        for i in range(plain.parts):
            part = &self.parts[i]
            part.is_written = (<Runway>part.runway).writes(data + part.start, part.size)
            if not part.is_written:
                break

    cdef Lane _lane(self, const uint8_t *data, Part *part, int version):
        cdef TopicParts *topic = &self.topics[part.topic]
        cdef uint8_t[NAME_MAX + 4] key
        memcpy(key, data + topic.start, topic.size)
        set_be32(key + topic.size, <uint32_t>part.index)
        found = PyBytes_FromStringAndSize(<char *>key, topic.size + 4)
        return (self.by_id if version >= IDS_VERSION else self.by_name).get(found)

    cdef int64_t _response_bytes(self, Plain *plain) noexcept nogil:
        cdef bint flexible = plain.version >= FLEXIBLE_VERSION
        cdef int64_t size = 4 + 4 + length_bytes(plain.topics, 4, flexible) + 4
        cdef int t
        size += plain.parts * partition_bytes(plain.version)
        if flexible:
            size += 2 + plain.topics                                         # tagged fields
        for t in range(plain.topics):
            size += self.topics[t].size + length_bytes(self.topics[t].count, 4, flexible)
            if plain.version < IDS_VERSION:
                size += length_bytes(self.topics[t].size, 2, flexible)
        return size

    cdef uint8_t *_begin(self, uint8_t *to, int64_t size, Plain *plain) noexcept nogil:
        set_be32(to, <uint32_t>(size - 4))
        set_be32(to + 4, plain.correlation_id)
        to += 8
        if plain.version >= FLEXIBLE_VERSION:
            to[0] = 0
            to += 1
        return put_length(to, plain.topics, 4, plain.version >= FLEXIBLE_VERSION)

    cdef uint8_t *_one(self, uint8_t *to, uint8_t *data, object buffer, int64_t start, Plain *plain, int i,
                       Lane lane, LogState log, Runway runway) except NULL:
        """Append a batch, and write its part of the response; with the topic around it, if it is the first or the last
        of its topic."""
        cdef Part *part = &self.parts[i]
        cdef TopicParts *topic = &self.topics[part.topic]
        cdef int64_t first_offset = -1, log_start_offset = -1
        cdef int error = STORAGE_ERROR
        cdef bint flexible = plain.version >= FLEXIBLE_VERSION
        if i == 0 or self.parts[i - 1].topic != part.topic:
            if plain.version < IDS_VERSION:
                to = put_length(to, topic.size, 2, flexible)
            memcpy(to, data + topic.start, topic.size)
            to = put_length(to + topic.size, topic.count, 4, flexible)
        partition = lane.partition
        if partition is not None and log.runway is runway:                   # else its log directory has just failed
            try:
                first_offset = log.log_end_offset
                if part.is_written:
                    runway.written(data + part.start, part.size)
                else:
                    runway.run(data + part.start, part.size, buffer, start + part.start)
                log_start_offset = self._appended(lane, log, first_offset)
                error = 0
            except OSError as failure:
                if self.is_aside:
                    self.failures.append((partition, failure))
                else:
                    partition.failed(failure)
                first_offset = -1
        if error:
            self.has_failed = True
        elif plain.acks == ALL_ACKS and not lane.alone:
            self.waits.append((partition, log.log_end_offset, i))
        set_be32(to, <uint32_t>part.index)
        set_be16(to + 4, <uint32_t>error)
        set_be64(to + 6, <uint64_t>first_offset)
        set_be64(to + 14, <uint64_t>-1)
        to += PARTITION_BYTES
        if plain.version >= START_OFFSET_VERSION:
            set_be64(to, <uint64_t>log_start_offset)
            to += START_OFFSET_BYTES
        if flexible:
            to[0], to[1], to[2] = 1, 0, 0
            to += FLEXIBLE_END_BYTES
        elif plain.version >= ERRORS_VERSION:
            set_be32(to, 0)
            set_be16(to + 4, 0xffff)
            to += NO_ERRORS_BYTES
        if flexible and (i + 1 == plain.parts or self.parts[i + 1].topic != part.topic):
            to[0] = 0
            to += 1
        return to
