"""Columns brought to a table's type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kcli.export.conform import conform, conform_rows

NARROW = pa.struct(
    [
        ("b", pa.int16()),
        ("a", pa.string()),
        ("list", pa.list_(pa.struct([("x", pa.int32())]))),
        ("map", pa.map_(pa.string(), pa.int32())),
    ]
)
WIDE = pa.struct(
    [
        ("a", pa.string()),
        ("new", pa.list_(pa.int64())),
        ("b", pa.int32()),
        ("list", pa.list_(pa.field("element", pa.struct([("y", pa.string()), ("x", pa.int64())])))),
        ("map", pa.map_(pa.string(), pa.int64())),
    ]
)
VALUES: list[dict[str, Any] | None] = [
    {"b": 1, "a": "x", "list": [{"x": 1}, None], "map": [("k", 1)]},
    None,
    {"b": None, "a": None, "list": None, "map": None},
    {"b": 2, "a": "y", "list": [], "map": [("k", None), ("l", 2)]},
]


def wide(value: dict[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    inner = value["list"]
    wider = inner and [each and {"y": None, "x": each["x"]} for each in inner]
    return {"a": value["a"], "new": None, "b": value["b"], "list": wider, "map": value["map"]}


@pytest.mark.parametrize("start", range(4))
def test_nested_columns(start: int) -> None:
    found = conform(pa.array(VALUES, NARROW).slice(start), WIDE)
    found.validate(full=True)
    assert found.type == WIDE
    assert found.to_pylist() == [wide(value) for value in VALUES[start:]]


def test_rows_keep_what_places_them() -> None:
    rows = pa.RecordBatch.from_pydict({"offset": [1, 2], "value": ["x", None], "topic": ["t", "t"]})
    found = conform_rows(rows, pa.schema([("value", pa.string()), ("key", pa.binary())]), ("topic", "offset"))
    assert found.schema.names == ["value", "key", "topic", "offset"]
    assert found.to_pylist()[1] == {"value": None, "key": None, "topic": "t", "offset": 2}


def test_a_number_that_does_not_fit() -> None:
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.array([1 << 40]), pa.int32())
