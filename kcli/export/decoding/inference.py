"""The type of JSON values, from the values: what Spark's reader would infer.

    true, 3, 3.5, "text"    boolean, bigint (double beyond 64 bits), double, string
    [..], {..}              array of what its items have in common, struct of all fields seen, sorted by name
    null, {}, []            nothing is known: where nothing else is ever seen, a string

Where values have nothing in common (3 here, "x" there) the type is string, and shows each value's own JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from kcli.export.decoding.unify import unify, unify_all

DEPTH_MAX = 64


def infer_json(payloads: Iterable[bytes | None]) -> pa.DataType:
    """The type of these JSON texts, with null where nothing is known; those that are not JSON do not count."""
    found = pa.null()
    for payload in payloads:
        if payload is not None:
            try:
                value = json.loads(payload)
            except (ValueError, RecursionError):
                continue
            kind = _type_of(value, DEPTH_MAX)
            if kind != found:
                found = unify(found, kind, text=True)
    return found


def json_type(values: Iterable[Any]) -> pa.DataType:
    """What these values have in common."""
    return unify_all((_type_of(value, DEPTH_MAX) for value in values), text=True)


def by_name(found: pa.DataType) -> pa.DataType:
    """The type with the fields of all structs sorted by name, so that it is the same in whatever order records come."""
    if pt.is_list(found):
        return pa.list_(by_name(found.value_type))
    if pt.is_struct(found):
        return pa.struct([(field.name, by_name(field.type)) for field in sorted(found, key=lambda field: field.name)])
    return found


def _type_of(value: Any, depth_left: int) -> pa.DataType:
    if depth_left == 0:
        return pa.string()
    if isinstance(value, dict):
        return pa.struct([(name, _type_of(item, depth_left - 1)) for name, item in value.items()])
    if isinstance(value, list):
        return pa.list_(unify_all((_type_of(item, depth_left - 1) for item in value), text=True))
    return _scalar_type(value)


def _scalar_type(value: object) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
    if isinstance(value, float):
        return pa.float64()
    return pa.string() if isinstance(value, str) else pa.null()
