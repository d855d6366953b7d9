"""Kafka's messages as plain JSON values, through kio: to send requests, and to compare answers.

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

from formats.message import build, parse, uuid_text
from kcli.broker.messages import EPOCH
from kcli.metadata.partition import to_uuid


def whole(name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """The fields of a metadata record as they come back from the log."""
    return parse(name, version, build(name, version, value))


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


ZERO = "A" * 22
"""A uuid that is none, as kio reads it."""


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def message(cls: type, value: dict[str, Any]) -> Any:
    """A message of a class of kio's from its plain value; fields that are left out have their defaults, else False."""
    given = {name: _typed(_hints(cls)[name], each) for name, each in value.items()}
    required = {field.name for field in dataclasses.fields(cls) if field.default is dataclasses.MISSING}
    return cls(**{**{name: False for name in required if _hints(cls)[name] is bool}, **given})


def _typed(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType):
        return _typed(next(each for each in arguments if each is not NoneType), value)
    if origin is tuple:
        return tuple(_typed(arguments[0], each) for each in value)
    if dataclasses.is_dataclass(hint):
        assert isinstance(hint, type), "a class"
        return message(hint, value)
    name = getattr(hint, "__name__", "")
    if "Timedelta" in name or hint is dt.timedelta:
        return dt.timedelta(milliseconds=value)
    if hint is uuid.UUID:
        return to_uuid(value) if value != ZERO else None
    return value
