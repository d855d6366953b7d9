"""The type of JSON values, from the values: what Spark's reader would infer.

    true, 3, 3.5, "text"    boolean, bigint (double beyond 64 bits), double, string
    [..], {..}              array of what its items have in common, struct of all fields seen, sorted by name
    null, {}, []            nothing is known: where nothing else is ever seen, a string

Integers in a place where fractions were seen too are doubles, from 2^53 on the nearest, as in Spark.
Where values have nothing in common (3 here, "x" there) the type is string, and shows each value's own JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

DEPTH_MAX = 64


def infer_json(payloads: Iterable[bytes | None]) -> pa.DataType:
    """The type of these JSON texts, with null where nothing is known; those that are not JSON do not count."""
    return json_type(_values(payloads))


def json_type(values: Iterable[Any]) -> pa.DataType:
    """What these values have in common."""
    seen = _Seen()
    for value in values:
        seen.add(value, DEPTH_MAX)
    return seen.type()


def by_name(found: pa.DataType) -> pa.DataType:
    """The type with the fields of all structs sorted by name, so that it is the same in whatever order records come."""
    if pt.is_list(found):
        return pa.list_(by_name(found.value_type))
    if pt.is_struct(found):
        return pa.struct([(field.name, by_name(field.type)) for field in sorted(found, key=lambda field: field.name)])
    return found


def _values(payloads: Iterable[bytes | None]) -> Iterator[Any]:
    for payload in payloads:
        if payload is not None:
            try:
                value = json.loads(payload)
            except (ValueError, RecursionError):
                continue
            yield value


class _Seen:
    """What was seen in one place: which kinds of values, and what was seen within them."""

    __slots__ = ("fields", "items", "kinds")

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.fields: dict[str, _Seen] = {}
        self.items: _Seen | None = None

    def add(self, value: Any, depth_left: int) -> None:
        kind = type(value)
        if kind is dict and depth_left:
            fields = self.fields
            for name, item in value.items():
                inner = fields.get(name)
                if inner is None:
                    inner = fields[name] = _Seen()
                inner.add(item, depth_left - 1)
        elif kind is list and depth_left:
            if self.items is None:
                self.items = _Seen()
            for item in value:
                self.items.add(item, depth_left - 1)
        elif kind is int and not -(2**63) <= value < 2**63:
            kind = float
        elif not depth_left:
            kind = str
        self.kinds.add(kind)

    def type(self) -> pa.DataType:
        kinds = self.kinds - {type(None)}
        if not kinds:
            return pa.null()
        if kinds == {int, float}:
            return pa.float64()
        if len(kinds) > 1:
            return pa.string()
        (kind,) = kinds
        if kind is dict:
            return pa.struct([(name, inner.type()) for name, inner in self.fields.items()])
        if kind is list:
            return pa.list_(self.items.type() if self.items else pa.null())
        return _SCALARS[kind]


_SCALARS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
