"""The fast writer of messages: it builds the bytes of a value without importing Construct, which takes 70 ms.

The writer of a message in one version is composed of one small function for each field, at its first use. The Construct
definition (`formats.message_construct`) specifies the bytes; property tests check that both write the same bytes and
raise for the same values.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from formats.errors import BadLength, BadValue
from formats.message_compiler import uuid_bytes
from formats.message_schema import FIXED, UNKNOWN_TAGS, Layout, Slot, schema
from formats.varint import put_uvarint

Put = Callable[[bytearray, Any], None]
"""A function that appends a value's bytes to a bytearray. Raises BadValue, BadLength."""

_STRING_MAX: Final = 0x7FFF
_TYPES: Final[dict[str, Any]] = {"bool": bool, "float64": int | float}


def write(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message, the same as `formats.message.build`. A field that `value` lacks has its default.

    Raises UnknownType, UnknownVersion, and BadValue or BadLength, without a position, for a value that the schema does
    not allow.
    """
    out = bytearray()
    writer(name, version)(out, value)
    return bytes(out)


@cache
def writer(name: str, version: int) -> Put:
    """Return the writer of a message in one of its versions. Raises UnknownType, UnknownVersion."""
    schema(name).check(version)
    return _struct(schema(name).layout(version))


def _struct(layout: Layout) -> Put:
    puts = [(slot.name, slot.default, _field(slot)) for slot in layout.slots]
    put_tags = _tags(layout) if layout.flexible else None
    known = {*layout.names, UNKNOWN_TAGS} if put_tags else {*layout.names}

    def put(out: bytearray, value: Any) -> None:
        if not isinstance(value, dict):
            raise BadValue(f"{layout.name} is {value!r}, not a struct")
        if not value.keys() <= known:
            name = min(value.keys() - known)
            raise BadValue(f"{layout.name} has no field {name!r} in version {layout.version}")
        for name, default, put_field in puts:
            put_field(out, value.get(name, default))
        if put_tags is not None:
            put_tags(out, value)

    return put


def _tags(layout: Layout) -> Put:
    puts = [(slot.tag or 0, slot.name, slot.default, _field(slot)) for slot in layout.tagged]
    taken = {*layout.refused_tags, *(tag for tag, *_ in puts)}

    def put(out: bytearray, value: dict[str, Any]) -> None:
        unknown = list(value.get(UNKNOWN_TAGS, ()))
        if not (puts or unknown):
            out.append(0)
            return
        for part in unknown:
            match part:
                case (int(tag), bytes()) if -(2**31) <= tag < 2**31 and tag not in taken:
                    continue
            raise BadValue(f"{part!r} is not an unknown tag and its bytes")
        parts: list[tuple[int, bytes | bytearray]] = []
        for tag, name, default, put_field in puts:
            field = value.get(name, default)
            if field == default and type(field) is type(default):
                continue
            while unknown and unknown[0][0] < tag:
                parts.append(unknown.pop(0))
            content = bytearray()
            put_field(content, field)
            parts.append((tag, content))
        parts += unknown
        put_uvarint(out, len(parts))
        for tag, data in parts:
            put_uvarint(out, tag)
            put_uvarint(out, len(data))
            out += data

    return put


def _field(slot: Slot) -> Put:
    if slot.is_array:
        return _array(slot)
    if slot.element is None:
        return _fixed(slot) if slot.type in FIXED else _text(slot, slot.name, nullable=slot.nullable)
    put_struct = _struct(slot.element)
    if not slot.nullable:
        return put_struct
    null, present = (0, 1) if slot.tag is not None else (0xFF, 1)

    def put(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(present)
            put_struct(out, value)

    return put


def _fixed(slot: Slot) -> Put:
    code, _ = FIXED[slot.type]
    pack = struct.Struct(f">{code}").pack
    allowed = _TYPES.get(slot.type, int)
    is_bool = slot.type == "bool"

    def put(out: bytearray, value: Any) -> None:
        if not isinstance(value, allowed) or isinstance(value, bool) is not is_bool:
            raise BadValue(f"{slot.name} is {value!r}, not of type {slot.type}")
        try:
            out += pack(value)
        except (struct.error, OverflowError):
            raise BadValue(f"{slot.name} is {value}, beyond {slot.type}") from None

    def put_uuid(out: bytearray, value: Any) -> None:
        if not isinstance(value, str):
            raise BadValue(f"{slot.name} is {value!r}, not of type uuid")
        out += uuid_bytes(value)

    return put_uuid if slot.type == "uuid" else put


def _length(slot: Slot, label: str, plain: str, *, nullable: bool) -> Put:
    pack = struct.Struct(plain).pack

    def put(out: bytearray, length: int | None) -> None:
        if length is None and not nullable:
            raise BadValue(f"{label} is null, which this version does not allow")
        if slot.flexible:
            put_uvarint(out, 0 if length is None else length + 1)
        else:
            out += pack(-1 if length is None else length)

    return put


def _text(slot: Slot, label: str, *, nullable: bool) -> Put:
    is_string = slot.type == "string"
    allowed = str if is_string else bytes
    put_length = _length(slot, label, ">h" if is_string else ">i", nullable=nullable)

    def put(out: bytearray, value: Any) -> None:
        if value is None:
            put_length(out, None)
            return
        if not isinstance(value, allowed):
            raise BadValue(f"{label} is {value!r}, not of type {slot.type}")
        try:
            raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        except UnicodeEncodeError:
            raise BadValue(f"{label} is not text that UTF-8 can hold") from None
        if is_string and len(raw) > _STRING_MAX:
            raise BadLength(f"{label} has {len(raw)} bytes, more than a string may have")
        put_length(out, len(raw))
        out += raw

    return put


def _array(slot: Slot) -> Put:
    put_count = _length(slot, slot.name, ">i", nullable=slot.nullable)
    if slot.element is not None:
        put_element = _struct(slot.element)
    elif slot.type in FIXED:
        put_element = _fixed(slot)
    else:
        put_element = _text(slot, f"{slot.name} element", nullable=False)

    def put(out: bytearray, value: Any) -> None:
        if value is not None and not isinstance(value, list | tuple):
            raise BadValue(f"{slot.name} is {value!r}, not an array")
        put_count(out, None if value is None else len(value))
        for element in value or ():
            put_element(out, element)

    return put
