"""Kafka's messages as plain values, through kio: to write requests, and to look at what was sent.

A uuid is its 22 characters, a timedelta or datetime milliseconds, bytes base64, an error code its number.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import typing
import uuid
from base64 import b64encode
from functools import cache
from types import NoneType, UnionType
from typing import Any

from formats.message import uuid_text
from kcli.broker.network.messages import EPOCH
from kcli.metadata.partition import to_uuid

ZERO = "A" * 22
"""A uuid that is none, as kio reads it."""


def plain(value: Any) -> Any:
    """A message, or a part of one, as JSON can hold it."""
    match value:
        case enum.Enum():
            return value.value
        case uuid.UUID():
            return uuid_text(value.bytes)
        case dt.timedelta():
            return round(value.total_seconds() * 1000)
        case dt.datetime():
            return round((value - EPOCH).total_seconds() * 1000)
        case bytes():
            return b64encode(value).decode()
        case tuple():
            return [plain(each) for each in value]
        case _ if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def message(cls: type, value: dict[str, Any]) -> Any:
    """A message of a class of kio's from its plain value; fields that are left out have their defaults, else False."""
    given = {name: _typed(hints(cls)[name], each) for name, each in value.items()}
    required = {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
    return cls(**{**{name: False for name in required if hints(cls)[name] is bool}, **given})


@cache
def hints(cls: type) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(cls)


def without_none(hint: Any) -> Any:
    """A type, without `| None`."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        return next(each for each in typing.get_args(hint) if each is not NoneType)
    return hint


def item_of(hint: Any) -> Any:
    """The type of an array's items, None where the type is no array."""
    hint = without_none(hint)
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def _typed(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    hint = without_none(hint)
    item = item_of(hint)
    if item is not None:
        return tuple(_typed(item, each) for each in value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type), "a class"
        return message(hint, value)
    name = getattr(hint, "__name__", "")
    if "Timedelta" in name or hint is dt.timedelta:
        return dt.timedelta(milliseconds=value)
    if hint is uuid.UUID:
        return to_uuid(value) if value != ZERO else None
    return value
