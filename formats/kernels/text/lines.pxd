"""What lines about batches and records have in common."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from formats.kernels.batches cimport Batch
from formats.kernels.buffer cimport TextBuffer

cdef extern from *:
    """
    CYTHON_UNUSED static const char *const kcli_codecs[8] = {
        "none", "gzip", "snappy", "lz4", "zstd", "unknown(5)", "unknown(6)", "unknown(7)"};
    """
    const char **CODECS "kcli_codecs"   # by attribute bits 0 to 2


cdef inline int64_t increment_sequence(int64_t sequence, int64_t increment) noexcept nogil:
    """Sequences wrap from 2^31 - 1 to 0; the arithmetic is Java's int."""
    if sequence > <int64_t>(<int32_t>(<uint32_t>0x7fffffff - <uint32_t>increment)):
        return <int32_t>(<uint32_t>increment - (<uint32_t>0x7fffffff - <uint32_t>sequence) - 1)
    return <int32_t>(<uint32_t>sequence + <uint32_t>increment)


cdef inline void put_timestamp_type(TextBuffer out, Batch *b) noexcept nogil:
    if b.magic <= 0:
        out.put(b"NoTimestampType", 15)
    elif b.attributes & 8:
        out.put(b"LogAppendTime", 13)
    else:
        out.put(b"CreateTime", 10)


cdef inline object python_bytes(const uint8_t *buf, int64_t start, int64_t length):
    if length < 0 or start < 0:
        return None
    return (<const char *>buf + start)[:length]
