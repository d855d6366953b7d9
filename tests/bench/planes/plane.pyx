"""A prototype of a data-plane thread without the interpreter lock: frames of Produce requests from sockets to files.

Each frame has one batch, at the same place. A thread receives from its connections in turn, checks the batch's CRC,
sets its base offset under the partition's lock, writes it with one pwrite, and sends the response.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove
from posix.unistd cimport pwrite

from formats.kernels.crc cimport crc32c_update
from formats.kernels.numbers cimport be32, set_be32, set_be64

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *, void *)
    int pthread_mutex_lock(pthread_mutex_t *)
    int pthread_mutex_unlock(pthread_mutex_t *)

cdef extern from "<sys/socket.h>" nogil:
    ssize_t recv(int, void *, size_t, int)
    ssize_t send(int, const void *, size_t, int)

cdef enum:
    LANES_MAX = 64
    BUFFER_BYTES = 256 << 10
    RESPONSE_BYTES = 48

cdef struct Lane:
    pthread_mutex_t lock
    int fd
    int64_t next_offset, position


cdef class Lanes:
    """The partitions. fds: of their files, by number."""

    cdef Lane[LANES_MAX] lanes

    def __init__(self, fds):
        cdef int i
        for i, fd in enumerate(fds):
            pthread_mutex_init(&self.lanes[i].lock, NULL)
            self.lanes[i].fd, self.lanes[i].next_offset, self.lanes[i].position = fd, 0, 0

    def end_offset(self, int i):
        return self.lanes[i].next_offset


def serve(Lanes lanes not None, fds, int partition_at, int batch_at):
    """Answer the frames of sockets until each is at its end. partition_at, batch_at: where in a frame, its size
    included, its partition and its batch are. Returns the number of requests; -1 after an error."""
    cdef int count = len(fds)
    cdef int i, open_count = count
    cdef int64_t requests = 0, done
    cdef int[LANES_MAX] sockets
    cdef int64_t[LANES_MAX] filled
    cdef uint8_t *buffers = <uint8_t *>PyMem_Malloc(count * BUFFER_BYTES)
    cdef ssize_t got
    for i in range(count):
        sockets[i], filled[i] = fds[i], 0
    try:
        with nogil:
            while open_count and requests >= 0:
                for i in range(count):
                    if sockets[i] < 0:
                        continue
                    got = recv(sockets[i], buffers + i * BUFFER_BYTES + filled[i], BUFFER_BYTES - filled[i], 0)
                    if got <= 0:
                        sockets[i] = -1
                        open_count -= 1
                        continue
                    filled[i] += got
                    done = take(lanes, buffers + i * BUFFER_BYTES, &filled[i], sockets[i], partition_at, batch_at)
                    if done < 0:
                        requests = -1
                        break
                    requests += done
    finally:
        PyMem_Free(buffers)
    return requests


cdef int64_t take(Lanes lanes, uint8_t *data, int64_t *filled, int fd, int partition_at, int batch_at) noexcept nogil:
    """Answer the whole frames in a buffer, and move the rest to its beginning."""
    cdef int64_t at = 0, size, batch_size, count = 0, first
    cdef uint8_t *batch
    cdef Lane *lane
    cdef uint8_t[RESPONSE_BYTES] response
    while filled[0] - at >= 4:
        size = 4 + <int64_t>be32(data + at)
        if filled[0] - at < size:
            break
        batch = data + at + batch_at
        batch_size = 12 + <int64_t>be32(batch + 8)
        if batch_at + batch_size > size or crc32c_update(0, batch + 21, batch_size - 21) != be32(batch + 17):
            return -1
        lane = &lanes.lanes[be32(data + at + partition_at) % LANES_MAX]
        pthread_mutex_lock(&lane.lock)
        first = lane.next_offset
        set_be64(batch, <uint64_t>first)
        if pwrite(lane.fd, batch, batch_size, lane.position) != batch_size:
            pthread_mutex_unlock(&lane.lock)
            return -1
        lane.next_offset += <int64_t>be32(batch + 57)
        lane.position += batch_size
        pthread_mutex_unlock(&lane.lock)
        set_be32(response, RESPONSE_BYTES - 4)
        set_be32(response + 4, be32(data + at + 8))
        set_be64(response + 20, <uint64_t>first)
        if send(fd, response, RESPONSE_BYTES, 0) != RESPONSE_BYTES:
            return -1
        count += 1
        at += size
    memmove(data, data + at, filled[0] - at)
    filled[0] -= at
    return count
