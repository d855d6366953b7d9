"""Makes kio's message objects of plain values, for requests to other nodes, and for tests.

A plain UUID is its 22 characters in base64, a duration its milliseconds, an array a sequence, an object a dictionary. A
value that is already an object of kio's is used as it is.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
import uuid
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any

from kcli.metadata.partition import to_uuid

ZERO = "A" * 22
"""The UUID of zeros, which kio represents as None."""


def message(cls: type, value: Mapping[str, Any]) -> Any:
    """Return an object of `cls`, one of kio's classes. value: plain values by field name. Fields that have neither a
    value nor a default are False if they are booleans, and empty if they are arrays."""
    converters, defaults = _fields(cls)
    given = defaults.copy()
    for name, each in value.items():
        convert = converters[name]
        given[name] = each if convert is None or each is None else convert(each)
    return cls(**given)


@cache
def _fields(cls: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two dicts by field name: the converters of plain values, None for a field whose plain value needs no
    conversion; and the empty values (False, an empty array) of those booleans and arrays that have no default in
    kio."""
    types = hints(cls)
    required = [field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING]
    defaults: dict[str, Any] = {name: False for name in required if types[name] is bool}
    defaults |= {name: () for name in required if typing.get_origin(types[name]) is tuple}
    return {name: _converter(hint) for name, hint in types.items()}, defaults


@cache
def hints(cls: type) -> dict[str, Any]:
    """Return field name -> type, for the fields of a class."""
    return typing.get_type_hints(cls)


def without_none(hint: Any) -> Any:
    """Return the type without `| None`."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return next(each for each in typing.get_args(hint) if each is not NoneType)
    return hint


def item_of(hint: Any) -> Any:
    """Return the type of an array's items; None if the type is no array."""
    hint = without_none(hint)
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


@cache
def _converter(hint: Any) -> Any:
    """Return the function that converts a plain value to that type; None if no conversion is needed."""
    hint = without_none(hint)
    item = item_of(hint)
    if item is not None:
        convert = _converter(item)
        return tuple if convert is None else lambda values: tuple([convert(each) for each in values])
    if dataclasses.is_dataclass(hint):
        return lambda value: message(hint, value) if isinstance(value, Mapping) else value  # type: ignore[arg-type]
    if "Timedelta" in getattr(hint, "__name__", "") or hint is dt.timedelta:
        return lambda value: dt.timedelta(milliseconds=value) if isinstance(value, int) else value
    if hint is uuid.UUID:
        return _uuid
    return None


def _uuid(value: Any) -> uuid.UUID | None:
    if isinstance(value, uuid.UUID):
        return value
    return to_uuid(value) if value != ZERO else None
