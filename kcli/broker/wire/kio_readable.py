"""Rewrites a request that Kafka reads and kio does not, so that kio reads it as Kafka does.

    tagged fields   unknown tagged fields are left out; a newer client may send them in any flexible version (KIP-482)
    booleans        every byte but 0 is true
    strings         bytes that are not UTF-8 become Java's replacement characters
    durations       of 64 bits are cut to the longest that kio reads; some clients send Long.MAX_VALUE for "for ever"

`readable` copies the request field by field, following kio's classes, which is slow, and is only done for a request
that kio does not read. Source: ByteBufferAccessor, MessageUtil; KIP-482 for the lengths of flexible versions.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any

from formats.errors import LimitExceeded, Truncated
from formats.java_text import java_utf8
from formats.message_compiler import read_uvarint
from formats.varint import put_uvarint
from kcli.broker.wire.request_check import LENGTH_SIZES, SIZES

STRING_MAX = 0x7FFF
DURATION_BYTES = 8
DURATION_MS_MAX = (2**63 - 1) // 1000
"""The longest duration that kio reads, in ms: 292,000 years."""
Copier = Callable[[bytes, int, bytearray], int]
"""(data, position, out) -> end: reads the value that begins at the position in `data`, appends it, rewritten, to `out`,
and returns the position of the first byte after the value."""


def readable(request_type: type, data: bytes, position: int) -> bytes:
    """Return the body of the request, which begins at `position` in `data`, rewritten as the module's docstring says.

    request_type: kio's class of the request. Raises FormatError if the body is cut short or malformed, or if a string
    is longer than 32,767 bytes after replacement characters are put in place of its bytes that are not UTF-8.
    """
    out = bytearray()
    _struct(request_type)(data, position, out)
    return bytes(out)


@cache
def _struct(cls: type) -> Copier:
    hints = typing.get_type_hints(cls)
    flexible: bool = cls.__flexible__  # type: ignore[attr-defined]
    plain: list[Copier] = []
    tagged: dict[int, Copier] = {}
    for field in fields(cls):
        is_tagged = "tag" in field.metadata
        copier = _field(hints[field.name], field.metadata.get("kafka_type"), flexible=flexible, is_tagged=is_tagged)
        if is_tagged:
            tagged[field.metadata["tag"]] = copier
        else:
            plain.append(copier)

    def copy(data: bytes, position: int, out: bytearray) -> int:
        for each in plain:
            position = each(data, position, out)
        return _copy_tagged(tagged, data, position, out) if flexible else position

    return copy


def _copy_tagged(known: dict[int, Copier], data: bytes, position: int, out: bytearray) -> int:
    """Copy a section of tagged fields, without the fields whose tag is not in `known`. The section is the number of
    fields, then for each field its tag and size (all of these are unsigned varints), and the value. Return the position
    after the section."""
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


def _field(hint: Any, kafka_type: str | None, *, flexible: bool, is_tagged: bool = False) -> Copier:
    arguments = typing.get_args(hint)
    if NoneType in arguments:
        inner = next(each for each in arguments if each is not NoneType)
        copier = _field(inner, kafka_type, flexible=flexible)
        return _nullable(copier) if is_dataclass(inner) and not is_tagged else copier
    if typing.get_origin(hint) is tuple:
        item_bytes = None if kafka_type == "bool" else SIZES.get(kafka_type or "")
        return _array(_field(arguments[0], kafka_type, flexible=flexible), item_bytes, flexible=flexible)
    if is_dataclass(hint):
        assert isinstance(hint, type), "a class"
        return _struct(hint)
    assert kafka_type is not None, "kio has it for each primitive field"
    if kafka_type in LENGTH_SIZES:
        return _sized(LENGTH_SIZES[kafka_type], is_string=kafka_type == "string", flexible=flexible)
    if kafka_type == "timedelta_i64":
        return _copy_duration
    return _copy_bool if kafka_type == "bool" else _fixed(SIZES[kafka_type])


def _copy_bool(data: bytes, position: int, out: bytearray) -> int:
    end = _bounded(data, position, 1)
    out.append(data[position] != 0)
    return end


def _copy_duration(data: bytes, position: int, out: bytearray) -> int:
    end = _bounded(data, position, DURATION_BYTES)
    duration_ms = int.from_bytes(data[position:end], signed=True)
    out += max(-DURATION_MS_MAX, min(duration_ms, DURATION_MS_MAX)).to_bytes(DURATION_BYTES, signed=True)
    return end


def _fixed(size: int) -> Copier:
    def copy(data: bytes, position: int, out: bytearray) -> int:
        end = _bounded(data, position, size)
        out += data[position:end]
        return end

    return copy


def _read_length(data: bytes, position: int, width: int, *, flexible: bool) -> tuple[int, int]:
    """Read a length or count. width: the number of its bytes in a version that is not flexible; in flexible versions it
    is a varint. Return the length or count, -1 for null, and the position of the first byte after it."""
    if flexible:
        length, end = read_uvarint(data, position)
        return length - 1, end
    end = _bounded(data, position, width)
    return int.from_bytes(data[position:end], signed=True), end


def _put_length(out: bytearray, length: int, width: int, *, flexible: bool) -> None:
    if flexible:
        put_uvarint(out, length + 1)
    else:
        out += length.to_bytes(width, signed=True)


def _sized(width: int, *, is_string: bool, flexible: bool) -> Copier:
    """Return the copier of a string, or of bytes: the length, -1 for null, then the value. width: the number of bytes
    of the length in a version that is not flexible; in flexible versions it is a varint."""

    def copy(data: bytes, position: int, out: bytearray) -> int:
        length, begin = _read_length(data, position, width, flexible=flexible)
        end = _bounded(data, begin, max(length, 0))
        value = data[begin:end]
        if is_string and length > 0:
            value = java_utf8(value).encode()
            length = len(value)
            if length > STRING_MAX:
                raise LimitExceeded(f"a string of more than {STRING_MAX:,} bytes", position)
        _put_length(out, length, width, flexible=flexible)
        out += value
        return end

    return copy


def _array(copier: Copier, item_bytes: int | None, *, flexible: bool) -> Copier:
    """Return the copier of an array. copier: that of its items. item_bytes: the size of an item if items are copied
    unchanged and all have the same size, else None."""

    def copy(data: bytes, position: int, out: bytearray) -> int:
        count, begin = _read_length(data, position, 4, flexible=flexible)
        out += data[position:begin]
        if item_bytes is not None:
            end = _bounded(data, begin, max(0, count) * item_bytes)
            out += data[begin:end]
            return end
        position = begin
        for _ in range(count):
            position = copier(data, position, out)
        return position

    return copy


def _nullable(copier: Copier) -> Copier:
    """Return the copier of a nullable struct: int8 -1 for null, or 1 and the struct (KIP-893)."""

    def copy(data: bytes, position: int, out: bytearray) -> int:
        end = _bounded(data, position, 1)
        out += data[position:end]
        return end if data[position] >= 0x80 else copier(data, end, out)

    return copy


def _bounded(data: bytes, position: int, size: int) -> int:
    if not 0 <= size <= len(data) - position:
        raise Truncated(f"{size:,} bytes, of which {len(data) - position:,} are there", position)
    return position + size
