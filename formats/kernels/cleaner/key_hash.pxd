"""SipHash-1-3 with 128 bits out: keyed, so that no producer can make two keys meet."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy


cdef inline uint64_t rotl(uint64_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (64 - bits))


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[1] = rotl(v[1], 13) ^ v[0]
    v[0] = rotl(v[0], 32)
    v[2] += v[3]
    v[3] = rotl(v[3], 16) ^ v[2]
    v[0] += v[3]
    v[3] = rotl(v[3], 21) ^ v[0]
    v[2] += v[1]
    v[1] = rotl(v[1], 17) ^ v[2]
    v[2] = rotl(v[2], 32)


cdef inline void sip_hash(const uint8_t *p, int64_t n, uint64_t k0, uint64_t k1, uint64_t *high,
                          uint64_t *low) noexcept nogil:
    """SipHash-1-3 with 128 bits out: keyed, so that no producer can make two keys meet."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef int64_t whole = n & ~<int64_t>7, i = 0
    v[0] = <uint64_t>0x736f6d6570736575 ^ k0
    v[1] = <uint64_t>0x646f72616e646f6d ^ k1 ^ 0xee
    v[2] = <uint64_t>0x6c7967656e657261 ^ k0
    v[3] = <uint64_t>0x7465646279746573 ^ k1
    while i < whole:
        memcpy(&word, p + i, 8)
        v[3] ^= word
        sip_round(v)
        v[0] ^= word
        i += 8
    word = <uint64_t>n << 56
    while i < n:
        word |= <uint64_t>p[i] << (8 * (i & 7))
        i += 1
    v[3] ^= word
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xee
    sip_round(v)
    sip_round(v)
    sip_round(v)
    high[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xdd
    sip_round(v)
    sip_round(v)
    sip_round(v)
    low[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
