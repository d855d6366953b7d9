"""The partitions of a column of keys: as Java's murmur2 has them, and no byte outside the column is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.arrow.key_partitions import key_partitions
from kcli.java.hashing import murmur2

VECTORS = Path(__file__).parents[2] / "client/java-murmur2.txt"


def partitions(keys: list[bytes], count: int) -> list[int]:
    _, offsets, data = pa.array(keys, pa.large_binary()).buffers()
    into = np.empty(len(keys), np.int64)
    key_partitions(np.frombuffer(offsets, np.int64)[: len(keys) + 1], np.frombuffer(data or b"", np.uint8), count, into)
    return list(into.tolist())


def test_java_has_written_them() -> None:
    lines = [line.split(" ") for line in VECTORS.read_text().splitlines()]
    keys = [bytes.fromhex(key) for key, _ in lines]
    assert partitions(keys, 2**31 - 1) == [int(value) % (2**31 - 1) for _, value in lines]


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 2**31 - 1))
def test_any_keys(keys: list[bytes], count: int) -> None:
    assert partitions(keys, count) == [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]


@pytest.mark.parametrize(
    ("offsets", "rows", "count"),
    [([0, 5], 1, 1), ([-1, 0], 1, 1), ([2, 1], 1, 1), ([2**62, 2**63 - 1], 1, 1), ([0], 1, 1), ([0, 1], 1, 0)],
)
def test_offsets_are_not_trusted(offsets: list[int], rows: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"^\("):
        key_partitions(np.array(offsets, np.int64), np.zeros(4, np.uint8), count, np.empty(rows, np.int64))
