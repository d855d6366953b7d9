"""Iceberg's buckets: the values of its specification, and those of its own Python library."""

from __future__ import annotations

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import UsageError
from kcli.export.buckets import buckets
from kcli.export.table_writer import TableFormat


def test_the_values_of_the_specification() -> None:
    """Appendix B: the hashes of `iceberg` and of the bytes 0 to 3."""
    count = 1 << 31
    assert buckets(pa.array(["iceberg", None]), count).tolist() == [1210000089, -1]
    assert buckets(pa.array([bytes(range(4))]), count).tolist() == [-188683207 & 0x7FFFFFFF]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(1, 1000), st.integers(0, 5))
def test_as_mmh3(keys: list[bytes | None], count: int, start: int) -> None:
    expected = [-1 if key is None else (mmh3.hash(key) & 0x7FFFFFFF) % count for key in keys]
    assert buckets(pa.array(keys, pa.binary()).slice(start), count).tolist() == expected[start:]


@pytest.mark.parametrize("term", ["bucket(0,key)", "bucket(4,value)", "month(timestamp)", "date", "day(offset)"])
def test_what_is_no_transform(term: str) -> None:
    with pytest.raises(UsageError, match=r"is none of topic, partition, day\(timestamp\)"):
        TableFormat((term,), is_whole=True).check()
