"""The Construct definition of a message in one version, made from its layout: the specification of the bytes.

fixed    bool 1 byte, int8 .. int64, uint16, uint32, float64: big endian; uuid 16 bytes
string   length int16 (flexible: unsigned varint, plus one), UTF-8;   bytes: length int32 (flexible as above)
array    count int32 (flexible: unsigned varint, plus one), elements; a length or count of -1 (flexible: 0) is null
struct   its fields; if nullable one byte before it, -1 for null
tags     in flexible versions, behind the fields of every struct: count, then tag, size and content of each, by tag
"""

from io import BytesIO
from typing import IO, Any, Final

import construct

from formats.errors import BadLength, BadValue, FormatError
from formats.message_compiler import read_uvarint, uuid_bytes, uuid_text
from formats.message_schema import (
    FIXED,
    UNKNOWN_TAGS,
    Layout,
    Slot,
    cut,
    is_null,
    long_array,
    long_string,
    refused_tag,
    refused_version,
    short_bytes,
)
from formats.primitives import AnyConstruct

_FIXED: Final[dict[str, AnyConstruct]] = {
    "bool": construct.Flag,
    "int8": construct.Int8sb,
    "int16": construct.Int16sb,
    "uint16": construct.Int16ub,
    "int32": construct.Int32sb,
    "uint32": construct.Int32ub,
    "int64": construct.Int64sb,
    "float64": construct.Float64b,
    "uuid": construct.Bytes(16),
}
_TYPES: Final[dict[str, Any]] = {"bool": bool, "float64": int | float, "uuid": str}
_RANGES: Final = {
    "int8": (-0x80, 0x7F),
    "int16": (-0x8000, 0x7FFF),
    "uint16": (0, 0xFFFF),
    "int32": (-0x80000000, 0x7FFFFFFF),
    "uint32": (0, 0xFFFFFFFF),
    "int64": (-0x8000000000000000, 0x7FFFFFFFFFFFFFFF),
}


def message_construct(layout: Layout) -> "Fields":
    """Return the Construct of one message in one version; it parses to, and builds from, plain dicts."""
    return Fields(layout)


def _remaining(stream: IO[bytes]) -> int:
    here = stream.tell()
    end = stream.seek(0, 2)
    stream.seek(here)
    return end - here


class Part(AnyConstruct):
    """A Construct whose errors are FormatErrors with a position, never ConstructErrors."""

    def read(self, stream: IO[bytes]) -> Any:
        """Return the value that begins at the stream's position."""
        raise NotImplementedError

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        """Write the bytes of one value to the stream."""
        raise NotImplementedError

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:  # noqa: ARG002 (the signature in Construct)
        return self.read(stream)

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:  # noqa: ARG002 (the signature in Construct)
        self.write(obj, stream)
        return obj


class UVarint(Part):
    """An unsigned varint of at most five bytes, read as a signed 32-bit integer. `name`: the field's name in errors."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.label = name

    def read(self, stream: IO[bytes]) -> int:
        begin = stream.tell()
        try:
            value, size = read_uvarint(stream.read(5), 0, self.label)
        except FormatError as error:
            raise error.at(begin) from None
        stream.seek(begin + size)
        return value

    def write(self, obj: int, stream: IO[bytes]) -> None:
        value = obj & 0xFFFFFFFF
        while value > 0x7F:
            stream.write(bytes((value & 0x7F | 0x80,)))
            value >>= 7
        stream.write(bytes((value,)))


class Fixed(Part):
    """A field of fixed size."""

    def __init__(self, type_: str, name: str) -> None:
        super().__init__()
        self.subcon = _FIXED[type_]
        self.type = type_
        self.label = name

    def read(self, stream: IO[bytes]) -> Any:
        begin = stream.tell()
        if _remaining(stream) < FIXED[self.type][1]:
            raise cut(self.label, begin)
        value = self.subcon.parse_stream(stream)
        return uuid_text(value) if self.type == "uuid" else value

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        if not isinstance(obj, _TYPES.get(self.type, int)) or (isinstance(obj, bool) and self.type != "bool"):
            raise BadValue(f"{self.label} is {obj!r}, not of type {self.type}")
        low, high = _RANGES.get(self.type, (None, None))
        if low is not None and high is not None and not low <= obj <= high:
            raise BadValue(f"{self.label} is {obj}, beyond {self.type}")
        self.subcon.build_stream(uuid_bytes(obj) if self.type == "uuid" else obj, stream)


class Length(Part):
    """The length of a string or bytes, or the count of an array; None for null.

    `plain`: the type of the length in versions that are not flexible.
    """

    def __init__(self, plain: str, label: str, *, flexible: bool, nullable: bool) -> None:
        super().__init__()
        self.subcon = UVarint(label) if flexible else Fixed(plain, label)
        self.label = label
        self.nullable = nullable
        self.offset = 1 if flexible else 0

    def read(self, stream: IO[bytes]) -> int | None:
        begin = stream.tell()
        raw: int = self.subcon.read(stream)
        length = raw - self.offset if raw > -(2**31) or not self.offset else 2**31 - 1
        if length >= 0:
            return length
        if not self.nullable:
            raise is_null(self.label, begin)
        return None

    def write(self, obj: int | None, stream: IO[bytes]) -> None:
        if obj is None and not self.nullable:
            raise BadValue(f"{self.label} is null, which this version does not allow")
        self.subcon.write((-1 if obj is None else obj) + self.offset, stream)


class Sized(Part):
    """A string (bytes that are not UTF-8 become lone surrogates: surrogateescape) or bytes, behind their length."""

    def __init__(self, slot: Slot, label: str, *, nullable: bool) -> None:
        super().__init__()
        self.label = label
        self.type = slot.type
        plain = "int16" if slot.type == "string" else "int32"
        self.length = Length(plain, label, flexible=slot.flexible, nullable=nullable)

    def read(self, stream: IO[bytes]) -> str | bytes | None:
        begin = stream.tell()
        length = self.length.read(stream)
        if length is None:
            return None
        if self.type == "string" and length > 0x7FFF:
            raise long_string(self.label, length, begin)
        if length > _remaining(stream):
            raise short_bytes(length, _remaining(stream), begin)
        raw = stream.read(length)
        return raw.decode("utf-8", "surrogateescape") if self.type == "string" else raw

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        if obj is None:
            self.length.write(None, stream)
            return
        if not isinstance(obj, str if self.type == "string" else bytes):
            raise BadValue(f"{self.label} is {obj!r}, not of type {self.type}")
        try:
            raw = obj.encode("utf-8", "surrogateescape") if isinstance(obj, str) else obj
        except UnicodeEncodeError as error:
            raise BadValue(f"{self.label} is not text that UTF-8 can hold") from error
        if self.type == "string" and len(raw) > 0x7FFF:
            raise BadLength(f"{self.label} has {len(raw)} bytes, more than a string may have")
        self.length.write(len(raw), stream)
        stream.write(raw)


class Counted(Part):
    """An array behind its count."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self.label = slot.name
        self.count = Length("int32", slot.name, flexible=slot.flexible, nullable=slot.nullable)
        self.element = _element(slot)

    def read(self, stream: IO[bytes]) -> list[Any] | None:
        begin = stream.tell()
        count = self.count.read(stream)
        if count is None:
            return None
        if count > _remaining(stream):
            raise long_array(count, _remaining(stream), begin)
        return [self.element.read(stream) for _ in range(count)]

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        if obj is not None and not isinstance(obj, list | tuple):
            raise BadValue(f"{self.label} is {obj!r}, not an array")
        self.count.write(None if obj is None else len(obj), stream)
        for element in obj or ():
            self.element.write(element, stream)


class Nullable(Part):
    """A nullable struct: a marker, then the fields. The marker is an int8, negative for null; in a tagged field it is
    an unsigned varint, zero for null.
    """

    def __init__(self, slot: Slot, subcon: Part) -> None:
        super().__init__()
        self.subcon = subcon
        self.tagged = slot.tag is not None
        self.marker = UVarint(slot.name) if self.tagged else Fixed("int8", slot.name)

    def read(self, stream: IO[bytes]) -> Any:
        marker = self.marker.read(stream)
        if marker < 0 or (self.tagged and marker == 0):
            return None
        return self.subcon.read(stream)

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        if obj is None:
            self.marker.write(0 if self.tagged else -1, stream)
        else:
            self.marker.write(1, stream)
            self.subcon.write(obj, stream)


class Tags(Part):
    """The tagged fields of a struct: known tags by field name, unknown ones as (tag, bytes) under UNKNOWN_TAGS."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.version = layout.version
        self.slots = {slot.tag: slot for slot in layout.tagged if slot.tag is not None}
        self.subcons = {tag: _whole(slot) for tag, slot in self.slots.items()}
        self.refused = layout.refused_tags
        self.count = UVarint("the count of tagged fields")
        self.tag = UVarint("a tag")
        self.size = UVarint("the size of a tagged field")

    def read(self, stream: IO[bytes]) -> dict[str, Any]:
        known: dict[str, Any] = {}
        unknown: list[tuple[int, bytes]] = []
        for _ in range(self.count.read(stream)):
            begin = stream.tell()
            tag = self.tag.read(stream)
            size = self.size.read(stream)
            if tag in self.subcons:
                known[self.slots[tag].name] = self.subcons[tag].read(stream)
            elif tag in self.refused:
                raise refused_tag(tag, self.version, begin)
            elif size < 0 or size > _remaining(stream):
                raise short_bytes(size, _remaining(stream), begin)
            else:
                unknown.append((tag, stream.read(size)))
        if unknown:
            known[UNKNOWN_TAGS] = unknown
        return known

    def write(self, obj: dict[str, Any], stream: IO[bytes]) -> None:
        parts: list[tuple[int, bytes]] = []
        unknown = _unknown_parts(obj, {*self.subcons, *self.refused})
        for tag, subcon in self.subcons.items():
            slot = self.slots[tag]
            value = obj.get(slot.name, slot.default)
            if value != slot.default or type(value) is not type(slot.default):
                out = BytesIO()
                subcon.write(value, out)
                while unknown and unknown[0][0] < tag:
                    parts.append(unknown.pop(0))
                parts.append((tag, out.getvalue()))
        parts += unknown
        self.count.write(len(parts), stream)
        for tag, content in parts:
            self.tag.write(tag, stream)
            self.size.write(len(content), stream)
            stream.write(content)


def _unknown_parts(obj: dict[str, Any], known: set[int]) -> list[tuple[int, bytes]]:
    parts = obj.get(UNKNOWN_TAGS, [])
    for part in parts:
        match part:
            case (int(tag), bytes()) if -(2**31) <= tag < 2**31 and tag not in known:
                continue
        raise BadValue(f"{part!r} is not an unknown tag and its bytes")
    return list(parts)


class Fields(Part):
    """A struct in one version: its fields in order, then in flexible versions its tagged fields."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.layout = layout
        self.label = layout.name
        self.fields = {slot.name: _whole(slot) for slot in layout.slots}
        self.tags = Tags(layout) if layout.flexible else None

    def read(self, stream: IO[bytes]) -> dict[str, Any]:
        if not self.layout.readable:
            raise refused_version(self.layout, stream.tell())
        found = {name: subcon.read(stream) for name, subcon in self.fields.items()}
        if self.tags is not None:
            found |= self.tags.read(stream)
        default = self.layout.default()
        value = {name: found.get(name, default[name]) for name in self.layout.names}
        if UNKNOWN_TAGS in found:
            value[UNKNOWN_TAGS] = found[UNKNOWN_TAGS]
        return value

    def write(self, obj: Any, stream: IO[bytes]) -> None:
        if not isinstance(obj, dict):
            raise BadValue(f"{self.label} is {obj!r}, not a struct")
        for key in obj:
            if key not in self.layout.names and not (key == UNKNOWN_TAGS and self.tags is not None):
                raise BadValue(f"{self.label} has no field {key!r} in version {self.layout.version}")
        default = self.layout.default()
        for name, subcon in self.fields.items():
            subcon.write(obj.get(name, default[name]), stream)
        if self.tags is not None:
            self.tags.write(obj, stream)


def _whole(slot: Slot) -> Part:
    if slot.is_array:
        return Counted(slot)
    if slot.element is not None:
        fields = Fields(slot.element)
        return Nullable(slot, fields) if slot.nullable else fields
    if slot.type in FIXED:
        return Fixed(slot.type, slot.name)
    return Sized(slot, slot.name, nullable=slot.nullable)


def _element(slot: Slot) -> Part:
    if slot.element is not None:
        return Fields(slot.element)
    if slot.type in FIXED:
        return Fixed(slot.type, slot.name)
    return Sized(slot, f"{slot.name} element", nullable=False)
