"""The type of JSON texts, inferred from their values as Spark's JSON reader does.

    true, 3, 3.5, "text"    boolean, bigint (double beyond 64 bits), double, string
    [..], {..}              array of the common type of all items, struct of all fields, sorted by name
    null, {}, []            unknown; if no other value occurs, a string

Integers and fractions at one path become double, from 2^53 on the nearest double, as in Spark.
Values without a common type (3 and "x") become string; each string is the JSON text of its value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

DEPTH_MAX = 64


def infer_json(payloads: Iterable[bytes | None]) -> pa.DataType:
    """Return the common type of JSON texts; the null type if they are only null, {} and []. Payloads that are not
    JSON are ignored."""
    return json_type(_values(payloads))


def json_type(values: Iterable[Any]) -> pa.DataType:
    """Return the common type of values as `json.loads` returns them; the null type if they are only None,
    {} and []."""
    shape = _JsonShape()
    for value in values:
        shape.add(value, DEPTH_MAX)
    return shape.type()


def by_name(found: pa.DataType) -> pa.DataType:
    """Return the type with the fields of all structs sorted by name, so that the type does not depend on the order in
    which records are read."""
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


class _JsonShape:
    """The values at one path in all JSON texts (such as one field of the top-level objects): their kinds, the fields of
    their objects and the items of their arrays."""

    __slots__ = ("fields", "items", "kinds")

    def __init__(self) -> None:
        self.kinds: set[type] = set()
        self.fields: dict[str, _JsonShape] = {}
        self.items: _JsonShape | None = None

    def add(self, value: Any, depth_left: int) -> None:
        kind = type(value)
        if kind is dict and depth_left:
            fields = self.fields
            for name, item in value.items():
                inner = fields.get(name)
                if inner is None:
                    inner = fields[name] = _JsonShape()
                inner.add(item, depth_left - 1)
        elif kind is list and depth_left:
            if self.items is None:
                self.items = _JsonShape()
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
