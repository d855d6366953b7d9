"""MurmurHash3 for x64 with 128 bits, by which Kafka Streams tells in a foreign-key join whether a row has changed.

Source: Austin Appleby's MurmurHash3; Murmur3 (hash128) of Kafka Streams.
"""

from __future__ import annotations

import struct

SEED = 104729
MASK = (1 << 64) - 1
FACTOR_1, FACTOR_2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
BLOCK = struct.Struct("<QQ")


def murmur3(data: bytes, seed: int = SEED) -> bytes:
    """Return the hash of the bytes: two 64-bit integers, big endian."""
    one = two = seed
    whole = len(data) & ~15
    for first, second in BLOCK.iter_unpack(data[:whole]):
        one = ((_rotated(one ^ _mixed_1(first), 27) + two) * 5 + 0x52DCE729) & MASK
        two = ((_rotated(two ^ _mixed_2(second), 31) + one) * 5 + 0x38495AB5) & MASK
    if rest := data[whole:]:
        one ^= _mixed_1(int.from_bytes(rest[:8], "little"))
        two ^= _mixed_2(int.from_bytes(rest[8:], "little"))
    one, two = one ^ len(data), two ^ len(data)
    one = (one + two) & MASK
    two = (two + one) & MASK
    one, two = _final(one), _final(two)
    one = (one + two) & MASK
    return struct.pack(">QQ", one, (two + one) & MASK)


def _mixed_1(value: int) -> int:
    return _rotated(value * FACTOR_1 & MASK, 31) * FACTOR_2 & MASK


def _mixed_2(value: int) -> int:
    return _rotated(value * FACTOR_2 & MASK, 33) * FACTOR_1 & MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & MASK


def _final(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & MASK
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return value ^ value >> 33
