"""Iceberg's transform `bucket(N, key)`: the Murmur3 hash (32 bits, x86, seed 0) of a key's bytes, without its sign bit,
modulo N. Source: Iceberg's specification, "Bucket Transform Details", and its appendix B.

All keys are hashed together, four bytes a step, as columns of numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

FIRST, SECOND = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def buckets(keys: pa.Array, count: int) -> Any:
    """Return the bucket of each key, a binary or string array, as an array of int64; -1 for a null."""
    keys = keys.cast(pa.binary())
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    found = (_hashes(data, offsets[:-1].astype(np.int64), np.diff(offsets)) & 0x7FFFFFFF).astype(np.int64) % count
    return np.where(keys.is_null().to_numpy(zero_copy_only=False), -1, found)


def _hashes(data: Any, starts: Any, lengths: Any) -> Any:
    """Return the hashes (uint32) of the byte ranges [start, start + length) of `data`."""
    hashes = np.zeros(len(starts), np.uint32)
    at = starts.copy()
    rows = np.flatnonzero(lengths >= 4)
    step = 4
    while len(rows):
        word = np.zeros(len(rows), np.uint32)
        for byte in range(4):
            word |= data[at[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
        mixed = _rotated(hashes[rows] ^ _mixed(word), 13)
        hashes[rows] = mixed * np.uint32(5) + np.uint32(0xE6546B64)
        at[rows] += 4
        step += 4
        rows = rows[lengths[rows] >= step]
    word = np.zeros(len(starts), np.uint32)
    for byte in range(3):
        rows = np.flatnonzero(lengths % 4 > byte)
        word[rows] |= data[at[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    hashes ^= _mixed(word)  # of a key without a tail the word is 0, and so is what it becomes
    hashes ^= lengths.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    return hashes ^ (hashes >> np.uint32(16))


def _mixed(word: Any) -> Any:
    return _rotated(word * FIRST, 15) * SECOND


def _rotated(word: Any, bits: int) -> Any:
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))
