"""Find the batches of a log: positions, headers and CRCs.

Layouts: KIP-98 (magic 2), KIP-32 (magic 1). Kafka's rules: FileLogInputStream.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from formats.kernels.batches cimport (
    FAULT_BAD_CODEC, FAULT_BAD_CRC, FAULT_BAD_MAGIC, FAULT_SHORT_HEADER, LEGACY_MIN_LENGTH, LOG_OVERHEAD, V2_HEADER,
    Batch, BatchTable
)
from formats.kernels.crc cimport crc32_update, crc32c_update
from formats.kernels.numbers cimport be16, be32, be64, plus

cdef enum:
    HEADER_PREFIX = 17        # up to the magic byte, inclusive


cdef inline void read_header(const uint8_t *p, int64_t size, Batch *b) noexcept nogil:
    """Read the header of a magic 2 batch. A batch with an unknown magic above 2 is read in the same way, as in
    Kafka."""
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
        b.faults |= FAULT_SHORT_HEADER
    elif (b.attributes & 7) > 4:
        b.faults |= FAULT_BAD_CODEC
    if b.magic > 2:
        b.faults |= FAULT_BAD_MAGIC


cdef inline void read_legacy_header(const uint8_t *p, int64_t size, Batch *b) noexcept nogil:
    """Read the header of a magic 0 or 1 message, which is a batch of its own."""
    b.last_offset = b.base_offset
    b.leader_epoch = -1
    b.crc = be32(p + 12)
    b.attributes = <int8_t>p[17]
    b.base_timestamp = -1
    b.producer_id = b.producer_epoch = b.base_sequence = b.count = -1
    if b.magic == 1:
        if size < LOG_OVERHEAD + 22:
            b.faults |= FAULT_SHORT_HEADER
        else:
            b.base_timestamp = <int64_t>be64(p + 18)
    elif b.magic < 0:
        b.faults |= FAULT_SHORT_HEADER
    b.max_timestamp = b.base_timestamp
    if (b.attributes & 7) > 3:
        b.faults |= FAULT_BAD_CODEC


cdef int no_whole_batch(int64_t at, int64_t end) except -1:
    raise ValueError(f"no whole batch at byte {at} of {end}")


cdef int scan_window(const uint8_t *buf, int64_t start, int64_t stop, int64_t file_position, BatchTable table,
                     bint check_crc, bint stop_at_bad_crc, int64_t *next_start, int64_t *needed) except -1 nogil:
    cdef int64_t p = start, left, length, size
    cdef Batch *b
    cdef int how = SCAN_END
    needed[0] = 0
    while p < stop:
        left = stop - p
        if left <= HEADER_PREFIX:
            how = SCAN_INCOMPLETE
            needed[0] = HEADER_PREFIX + 1
            break
        length = <int32_t>be32(buf + p + 8)
        if length < LEGACY_MIN_LENGTH:
            how = SCAN_BAD_LENGTH
            break
        size = LOG_OVERHEAD + length
        if left < size or (left < V2_HEADER and <int8_t>buf[p + 16] >= 2):
            how = SCAN_INCOMPLETE
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
                    b.faults |= FAULT_BAD_CRC
        else:
            read_legacy_header(buf + p, size, b)
            if check_crc:
                b.crc_computed = crc32_update(0, buf + p + 16, size - 16)
                if b.crc_computed != b.crc:
                    b.faults |= FAULT_BAD_CRC
        table.count += 1
        p += size
        if stop_at_bad_crc and b.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
            how = SCAN_STOPPED
            break
    next_start[0] = p
    return how


def scan(const uint8_t[::1] buf not None, int64_t start, int64_t stop, int64_t file_position, BatchTable table not None,
         *, bint check_crc=True, bint stop_at_bad_crc=False):
    """Append a row to `table` for every whole batch in buf[start:stop].

    file_position: the position of buf[start] in the file. Returns (next, how, needed): the first byte not consumed, a
    SCAN_* constant, and for SCAN_INCOMPLETE the size in bytes of the next batch from `next` on (18 if its length field
    is incomplete).
    """
    cdef int64_t next_start = start, needed = 0
    cdef int how
    if start < 0 or stop > buf.shape[0] or start > stop:
        raise ValueError((start, stop))
    if start == stop:
        return start, SCAN_END, 0
    with nogil:
        how = scan_window(&buf[0], start, stop, file_position, table, check_crc, stop_at_bad_crc, &next_start, &needed)
    return next_start, how, needed


cdef inline bint plausible(const uint8_t *p, int64_t size) noexcept nogil:
    """Whether a batch of that size can begin here, by cheap checks that random bytes seldom pass."""
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
    """Find the first byte at or after `start` at which a batch with a correct CRC begins.

    file_left: bytes of the file from buf[start] on; no batch ends behind them. work: bytes whose CRC was computed so
    far, for the limit below. Returns (byte, whole, work). whole: True for a batch that lies completely in
    buf[start:stop]; False for the first byte that cannot be decided without more bytes (at most 60 before `stop` if no
    batch was found). A byte is not tried if `work` would exceed 256 MiB plus 8 times the bytes passed, which bounds the
    time for hostile bytes.
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


def batches_within(const uint8_t[::1] batches not None, int64_t room, int64_t last_offset_max):
    """Return the size in bytes of the first batches that fit into `room` bytes and have no offset above
    last_offset_max.

    batches: whole magic 2 batches, end to end. Raises ValueError for other bytes.
    """
    cdef int64_t at = 0, size
    cdef const uint8_t *p
    while at < batches.shape[0]:
        size = whole_batch(&batches[0], at, batches.shape[0])
        p = &batches[at]
        if at + size > room or plus(<int64_t>be64(p), <int32_t>be32(p + 23)) > last_offset_max:
            break
        at += size
    return at
