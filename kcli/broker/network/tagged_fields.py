"""Tagged fields that this broker does not know: a newer client may send them in an old version, and they are skipped.

    section    unsigned varint count, then of each field: unsigned varint tag, unsigned varint size, the value
    where      at the end of every struct of a flexible version

kio's reader refuses a request that has one; `without_unknown` gives the request as it is without them. It goes through
the request field by field, as kio's classes have them: slowly, for the rare request that needs it. KIP-482.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any

from formats.errors import Truncated
from formats.message_compiler import read_uvarint
from formats.varint import put_uvarint
from kcli.broker.network.request_check import LENGTH_SIZES, SIZES

Copier = Callable[[bytes, int, bytearray], int]
"""(data, position, out): appends to `out` what is at the position, without unknown tagged fields; where it ends."""


def without_unknown(request_type: type, data: bytes, position: int) -> bytes:
    """The request of a flexible version that begins at `position`. Raises FormatError."""
    out = bytearray()
    _struct(request_type)(data, position, out)
    return bytes(out)


@cache
def _struct(cls: type) -> Copier:
    hints = typing.get_type_hints(cls)
    plain: list[Copier] = []
    tagged: dict[int, Copier] = {}
    for field in fields(cls):
        copier = _field(hints[field.name], field.metadata.get("kafka_type"), is_tagged="tag" in field.metadata)
        if "tag" in field.metadata:
            tagged[field.metadata["tag"]] = copier
        else:
            plain.append(copier)

    def copy(data: bytes, position: int, out: bytearray) -> int:
        for each in plain:
            position = each(data, position, out)
        return _copy_tagged(tagged, data, position, out)

    return copy


def _copy_tagged(known: dict[int, Copier], data: bytes, position: int, out: bytearray) -> int:
    count, position = read_uvarint(data, position)
    kept: list[tuple[int, bytearray]] = []
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        end = _bounded(data, position, size)
        if tag in known:
            value = bytearray()
            known[tag](data, position, value)
            kept.append((tag, value))
        position = end
    put_uvarint(out, len(kept))
    for tag, value in kept:
        put_uvarint(out, tag)
        put_uvarint(out, len(value))
        out += value
    return position


def _field(hint: Any, kafka_type: str | None, *, is_tagged: bool = False) -> Copier:
    arguments = typing.get_args(hint)
    if NoneType in arguments:
        inner = next(each for each in arguments if each is not NoneType)
        copier = _field(inner, kafka_type)
        return _nullable(copier) if is_dataclass(inner) and not is_tagged else copier
    if typing.get_origin(hint) is tuple:
        return _array(_field(arguments[0], kafka_type), SIZES.get(kafka_type or ""))
    if is_dataclass(hint):
        assert isinstance(hint, type), "a class"
        return _struct(hint)
    if kafka_type in LENGTH_SIZES:
        return _copy_sized
    assert kafka_type is not None, "kio says it of each primitive field"
    return _fixed(SIZES[kafka_type])


def _fixed(size: int) -> Copier:
    def copy(data: bytes, position: int, out: bytearray) -> int:
        end = _bounded(data, position, size)
        out += data[position:end]
        return end

    return copy


def _copy_sized(data: bytes, position: int, out: bytearray) -> int:
    """A string or bytes: their length and one, 0 for null."""
    length, begin = read_uvarint(data, position)
    end = _bounded(data, begin, max(0, length - 1))
    out += data[position:end]
    return end


def _array(copier: Copier, item_bytes: int | None) -> Copier:
    """item_bytes: the size of each item, where all have the same."""

    def copy(data: bytes, position: int, out: bytearray) -> int:
        count, begin = read_uvarint(data, position)
        out += data[position:begin]
        if item_bytes is not None:
            end = _bounded(data, begin, max(0, count - 1) * item_bytes)
            out += data[begin:end]
            return end
        position = begin
        for _ in range(count - 1):
            position = copier(data, position, out)
        return position

    return copy


def _nullable(copier: Copier) -> Copier:
    """A struct that may be null: int8 -1, or 1 and the struct (KIP-893)."""

    def copy(data: bytes, position: int, out: bytearray) -> int:
        end = _bounded(data, position, 1)
        out += data[position:end]
        return end if data[position] >= 0x80 else copier(data, end, out)

    return copy


def _bounded(data: bytes, position: int, size: int) -> int:
    if not 0 <= size <= len(data) - position:
        raise Truncated(f"{size:,} bytes, of which {len(data) - position:,} are there", position)
    return position + size
