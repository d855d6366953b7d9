"""Batch headers: where each batch begins and ends, what its header says, whether its CRC holds."""

# How a scan ended.
cdef enum:
    C_END = 0            # exactly at `stop`
    C_INCOMPLETE = 1     # the next batch needs more bytes than there are; Scan.needed says how many from its start
    C_BAD_LENGTH = 2     # a length no batch can have: nothing behind it can be located
    C_STOPPED = 3        # behind a batch with a bad CRC or no room for its header (stop_at_bad_crc)

SCAN_END = C_END
SCAN_INCOMPLETE = C_INCOMPLETE
SCAN_BAD_LENGTH = C_BAD_LENGTH
SCAN_STOPPED = C_STOPPED

cdef enum:
    LOG_OVERHEAD = 12          # base offset int64, length int32
    HEADER_PREFIX = 17         # up to and with the magic byte
    LEGACY_MIN_LENGTH = 14     # crc, magic, attributes, key length, value length
    V2_HEADER = 61


cdef inline uint16_t be16(const uint8_t *p) noexcept nogil:
    return (<uint16_t>p[0] << 8) | p[1]

cdef inline uint32_t be32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]

cdef inline uint64_t be64(const uint8_t *p) noexcept nogil:
    return (<uint64_t>be32(p) << 32) | be32(p + 4)


cdef inline void read_header(const uint8_t *p, int64_t size, Batch *b) noexcept nogil:
    """A magic 2 header (also read so for an unknown magic above 2, as Kafka does)."""
    b.leader_epoch = <int32_t>be32(p + 12)
    b.crc = be32(p + 17)
    b.attributes = <int16_t>be16(p + 21)
    b.last_offset = <int64_t>(<uint64_t>b.base_offset + <uint64_t><int64_t><int32_t>be32(p + 23))
    b.base_timestamp = <int64_t>be64(p + 27)
    b.max_timestamp = <int64_t>be64(p + 35)
    b.producer_id = <int64_t>be64(p + 43)
    b.producer_epoch = <int16_t>be16(p + 51)
    b.base_sequence = <int32_t>be32(p + 53)
    b.count = <int32_t>be32(p + 57)
    if size < V2_HEADER:
        b.faults |= C_SHORT_HEADER
    elif (b.attributes & 7) > 4:
        b.faults |= C_BAD_CODEC
    if b.magic > 2:
        b.faults |= C_BAD_MAGIC


cdef inline void read_legacy_header(const uint8_t *p, int64_t size, Batch *b) noexcept nogil:
    """A magic 0 or 1 message, which is its own batch."""
    b.last_offset = b.base_offset
    b.leader_epoch = -1
    b.crc = be32(p + 12)
    b.attributes = <int8_t>p[17]
    b.base_timestamp = -1
    b.producer_id = b.producer_epoch = b.base_sequence = b.count = -1
    if b.magic == 1:
        if size < LOG_OVERHEAD + 22:
            b.faults |= C_SHORT_HEADER
        else:
            b.base_timestamp = <int64_t>be64(p + 18)
    elif b.magic < 0:
        b.faults |= C_SHORT_HEADER
    b.max_timestamp = b.base_timestamp
    if (b.attributes & 7) > 3:
        b.faults |= C_BAD_CODEC


cdef int64_t whole_batch(const uint8_t[::1] batches, int64_t at) except -1:
    """The size of the magic 2 batch at a byte. Raises ValueError where no whole one is there."""
    cdef int64_t left = batches.shape[0] - at, size
    if left >= V2_HEADER:
        size = LOG_OVERHEAD + <int64_t><int32_t>be32(&batches[at + 8])
        if V2_HEADER <= size <= left:
            return size
    raise ValueError(f"no whole batch at byte {at} of {batches.shape[0]}")


cdef int scan_window(const uint8_t *buf, int64_t start, int64_t stop, int64_t file_position, BatchTable table,
                     bint check_crc, bint stop_at_bad_crc, int64_t *next_start, int64_t *needed) except -1 nogil:
    cdef int64_t p = start, left, length, size
    cdef Batch *b
    cdef int how = C_END
    needed[0] = 0
    while p < stop:
        left = stop - p
        if left <= HEADER_PREFIX:
            how = C_INCOMPLETE
            needed[0] = HEADER_PREFIX + 1
            break
        length = <int32_t>be32(buf + p + 8)
        if length < LEGACY_MIN_LENGTH:
            how = C_BAD_LENGTH
            break
        size = LOG_OVERHEAD + length
        if left < size or (left < V2_HEADER and <int8_t>buf[p + 16] >= 2):
            how = C_INCOMPLETE
            needed[0] = max(size, V2_HEADER) if <int8_t>buf[p + 16] >= 2 else size
            break
        table._reserve(table.count + 1)
        b = table.at(table.count)
        memset(b, 0, sizeof(Batch))
        b.position = plus(file_position, p - start)
        b.start = p
        b.size = size
        b.base_offset = <int64_t>be64(buf + p)
        b.magic = <int8_t>buf[p + 16]
        if b.magic >= 2:
            read_header(buf + p, size, b)
            if check_crc and size >= V2_HEADER:
                b.crc_computed = crc32c_update(0, buf + p + 21, size - 21)
                if b.crc_computed != b.crc:
                    b.faults |= C_BAD_CRC
        else:
            read_legacy_header(buf + p, size, b)
            if check_crc:
                b.crc_computed = crc32_update(0, buf + p + 16, size - 16)
                if b.crc_computed != b.crc:
                    b.faults |= C_BAD_CRC
        table.count += 1
        p += size
        if stop_at_bad_crc and b.faults & (C_BAD_CRC | C_SHORT_HEADER):
            how = C_STOPPED
            break
    next_start[0] = p
    return how


def scan(const uint8_t[::1] buf not None, int64_t start, int64_t stop, int64_t file_position, BatchTable table not None,
         *, bint check_crc=True, bint stop_at_bad_crc=False):
    """Append a row to `table` for every whole batch in buf[start:stop].

    file_position is the byte of the file that buf[start] is. Returns (next, how, needed): the first byte not consumed,
    a SCAN_* constant, and for SCAN_INCOMPLETE the bytes that the next batch takes from `next` on (18 where even its
    length is not known yet).
    """
    cdef int64_t next_start = start, needed = 0
    cdef int how
    if start < 0 or stop > buf.shape[0] or start > stop:
        raise ValueError((start, stop))
    if start == stop:
        return start, C_END, 0
    with nogil:
        how = scan_window(&buf[0], start, stop, file_position, table, check_crc, stop_at_bad_crc, &next_start, &needed)
    return next_start, how, needed


cdef inline bint plausible(const uint8_t *p, int64_t size) noexcept nogil:
    """Could a sound batch of that size begin here? Cheap checks that random bytes seldom pass."""
    cdef int8_t magic = <int8_t>p[16]
    cdef int64_t count
    if <int64_t>be64(p) < 0:
        return False
    if magic == 2:
        if size < V2_HEADER or p[21] != 0 or (p[22] & 0x80) or (p[22] & 7) > 4:
            return False
        count = <int32_t>be32(p + 57)
        return <int32_t>be32(p + 23) >= 0 and count >= 0 and ((p[22] & 7) != 0 or count * 7 <= size - V2_HEADER)
    if magic == 0 or magic == 1:
        return p[17] < 16 and size >= LOG_OVERHEAD + (22 if magic == 1 else 14)
    return False


def find_batch(const uint8_t[::1] buf not None, int64_t start, int64_t stop, int64_t file_left, int64_t work=0):
    """The first byte at or after `start` where a batch begins whose CRC holds.

    file_left: bytes of the file from buf[start] on; a batch that would end behind it is none. work: bytes read and checked
    so far, less 8 times those passed. Returns (byte, whole, work): whole is True for a batch that lies in buf[start:stop] complete, False
    for the first place that only more bytes can decide (byte is `stop` at most 60 back where nothing was found).
    A place is not tried where its size would bring that above 256 MiB: hostile bytes cannot stall us.
    """
    cdef int64_t p = start, size, allowed
    cdef uint32_t crc
    cdef bint whole = False
    if start < 0 or stop > buf.shape[0] or start > stop:
        raise ValueError((start, stop))
    with nogil:
        while stop - p >= HEADER_PREFIX:
            if buf[p + 16] > 2:
                p += 1
                continue
            size = LOG_OVERHEAD + <int64_t><int32_t>be32(&buf[p + 8])
            if size < LOG_OVERHEAD + LEGACY_MIN_LENGTH or size > file_left - (p - start):
                p += 1
                continue
            if stop - p < V2_HEADER and stop - p < size:
                break
            if not plausible(&buf[p], size):
                p += 1
                continue
            allowed = (1 << 28) + 8 * (p - start)
            if work > allowed - size:
                p += 1
                continue
            if size > stop - p:
                break
            work += size
            if buf[p + 16] == 2:
                whole = crc32c_update(0, &buf[p + 21], size - 21) == be32(&buf[p + 17])
            else:
                whole = crc32_update(0, &buf[p + 16], size - 16) == be32(&buf[p + 12])
            if whole:
                break
            p += 1
    return p, whole, work


def crc32c(const uint8_t[::1] data not None, uint32_t value=0):
    """CRC-32C of `data`, continuing from `value`."""
    cdef uint32_t crc = value
    if data.shape[0]:
        with nogil:
            crc = crc32c_update(value, &data[0], data.shape[0])
    return crc


def crc32(const uint8_t[::1] data not None, uint32_t value=0):
    """CRC-32 (as zlib's) of `data`, continuing from `value`."""
    cdef uint32_t crc = value
    if data.shape[0]:
        with nogil:
            crc = crc32_update(value, &data[0], data.shape[0])
    return crc
