"""Checks a request before kio decodes it: all lengths in it must fit into the frame.

kio allocates as many items as an array's length says, accepts null for every array, and refuses unknown tagged fields.
This module turns kio's classes into schemas for `formats.kernels.wire`, which checks the request's bytes first.
"""

from __future__ import annotations

import typing
from array import array
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Final

from formats.kernels.wire import ARRAY_FIXED, ARRAY_SIZED, ARRAY_STRUCT, FIXED, SIZED, STRUCT, check

ITEMS_MAX: Final = 2_000_000
"""The greatest number of items in all arrays of a request together, as each of them becomes an object."""
SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "float64": 8,
    "uuid": 16,
}
LENGTH_SIZES: Final = {"string": 2, "bytes": 4, "records": 4}
"""Type of a field -> size, in bytes, of the length of its value, in versions whose lengths are not varints."""
ARRAYS: Final = {FIXED: ARRAY_FIXED, SIZED: ARRAY_SIZED, STRUCT: ARRAY_STRUCT}

Field = tuple[int, int, int]


def has_unknown_tags(request_type: type, data: bytes | memoryview, position: int) -> bool:
    """Check the request that begins at `position`. Return whether it has unknown tagged fields. Raises FormatError."""
    return check(schema(request_type), data, position, ITEMS_MAX)


@cache
def schema(request_type: type) -> array[int]:
    """Return the schema of one of kio's classes, as numbers for formats.kernels.wire."""
    found: array[int] = array("i")
    _add(request_type, found)
    return found


def _add(cls: type, schema: array[int]) -> int:
    """Append the schema of a struct and of the structs inside it. Return the index in `schema` at which the struct's
    schema begins."""
    hints = typing.get_type_hints(cls)
    plain = [each for each in fields(cls) if "tag" not in each.metadata]
    tagged = [each for each in fields(cls) if "tag" in each.metadata]
    begin = len(schema)
    flexible: bool = cls.__flexible__  # type: ignore[attr-defined]
    schema.extend((len(plain), flexible, len(tagged)))
    at = len(schema)
    schema.extend([0] * (3 * len(plain) + 4 * len(tagged)))
    for each in plain:
        schema[at : at + 3] = array("i", _field(hints[each.name], each.metadata.get("kafka_type"), schema))
        at += 3
    for each in tagged:
        kind, argument, nullable = _field(hints[each.name], each.metadata.get("kafka_type"), schema)
        is_struct = kind == STRUCT  # a tagged struct has no null marker, as a null field is left out
        schema[at : at + 4] = array("i", (each.metadata["tag"], kind, argument, nullable and not is_struct))
        at += 4
    return begin


def _field(hint: Any, kafka_type: str | None, schema: array[int]) -> Field:
    arguments = typing.get_args(hint)
    if NoneType in arguments:
        kind, argument, _ = _field(next(each for each in arguments if each is not NoneType), kafka_type, schema)
        return kind, argument, 1
    if typing.get_origin(hint) is tuple:
        kind, argument, _ = _field(arguments[0], kafka_type, schema)
        return ARRAYS[kind], argument, 0
    if is_dataclass(hint):
        assert isinstance(hint, type), "a class"
        return STRUCT, _add(hint, schema), 0
    assert kafka_type is not None, "kio has it for each primitive field"
    if kafka_type in LENGTH_SIZES:
        return SIZED, LENGTH_SIZES[kafka_type], 0
    return FIXED, SIZES[kafka_type], 0
