"""The field types of variable size in records and batches.

    varint           zigzag, 7 bits a byte, low ones first, high bit set on all but the last: 1..5 bytes for 32 bits
    varlong          the same, 1..10 bytes for 64 bits
    bytes (varint)   varint length, -1 = null, then the bytes
    bytes (int32)    int32 length, -1 = null, then the bytes
    array            varint count, then that many items
    sized            varint length, then a structure of exactly that many bytes

Source: ByteUtils, DefaultRecord.

They are Constructs, used through `parse` and `build`. Construct's own types do not suit log data: VarInt is unbounded,
GreedyRange hides errors, Prefixed ignores excess bytes. Here every length and count is checked against the bytes that
remain.
"""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any

import construct

from formats.errors import BadCount, BadLength, BadValue, BadVarint, FormatError, Truncated

if TYPE_CHECKING:
    AnyConstruct = construct.Construct[Any, Any]
else:
    AnyConstruct = construct.Construct


def parse(definition: AnyConstruct, data: bytes | memoryview, position: int = 0) -> tuple[Any, int]:
    """Return the value that begins at byte `position` of `data`, and the position behind it. Raises FormatError."""
    stream = io.BytesIO(data)
    stream.seek(position)
    try:
        value = definition.parse_stream(stream)
    except construct.StreamError:
        raise Truncated("the bytes end inside a field", position) from None
    except construct.ConstructError as error:
        raise BadValue(str(error), position) from None
    return value, stream.tell()


def build(definition: AnyConstruct, value: object) -> bytes:
    """Return the bytes of `value`. Raises BadValue for a value that the definition cannot hold."""
    try:
        built: bytes = definition.build(value)
    except (construct.ConstructError, KeyError, TypeError, ValueError) as error:
        raise BadValue(f"cannot be built: {error}") from None
    return built


class _Varint(AnyConstruct):
    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits
        self.length_max = (bits + 6) // 7

    def _parse(self, stream: IO[bytes], _context: Any, _path: str) -> int:
        position = stream.tell()
        raw = 0
        for index in range(self.length_max):
            byte = stream.read(1)
            if not byte:
                raise Truncated("the bytes end inside a varint", position)
            raw |= (byte[0] & 0x7F) << 7 * index
            if byte[0] < 0x80:
                raw &= (1 << self.bits) - 1
                return raw >> 1 ^ -(raw & 1)
        raise BadVarint(f"a varint of more than {self.length_max} bytes", position)

    def _build(self, value: int, stream: IO[bytes], _context: Any, _path: str) -> Any:
        if not -(1 << self.bits - 1) <= value < 1 << self.bits - 1:
            raise BadValue(f"{value} does not fit in {self.bits} bits")
        raw = (value << 1 ^ value >> self.bits - 1) & (1 << self.bits) - 1
        while raw > 0x7F:
            stream.write(bytes([raw & 0x7F | 0x80]))
            raw >>= 7
        stream.write(bytes([raw]))
        return value


class _NullableBytes(AnyConstruct):
    def __init__(self, length: AnyConstruct, *, nullable: bool = True) -> None:
        super().__init__()
        self.length = length
        self.length_min = -1 if nullable else 0

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> bytes | None:
        position = stream.tell()
        length: int = self.length._parsereport(stream, context, path)  # noqa: SLF001 (as Construct's own composites do)
        if length < self.length_min:
            raise BadLength(f"a length of {length}", position)
        if length < 0:
            return None
        data = stream.read(length)
        if len(data) < length:
            raise BadLength(f"a length of {length:,}, but only {len(data):,} bytes remain", position)
        return data

    def _build(self, value: bytes | None, stream: IO[bytes], context: Any, path: str) -> Any:
        if value is None and self.length_min == 0:
            raise BadValue("null where bytes are required")
        self.length._build(-1 if value is None else len(value), stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)
        stream.write(value or b"")
        return value


class Array(AnyConstruct):
    """The Construct of a varint count and that many items. title: the name of the items in kcli-formats(5)."""

    def __init__(self, item: AnyConstruct, title: str) -> None:
        super().__init__()
        self.item = item
        self.title = title

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> list[Any]:
        position = stream.tell()
        count: int = Varint._parsereport(stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)
        start = stream.tell()
        remain = stream.seek(0, io.SEEK_END) - start
        stream.seek(start)
        if not 0 <= count <= remain:
            raise BadCount(f"a count of {count:,}, but only {remain:,} bytes remain", position)
        return [self.item._parsereport(stream, context, path) for _ in range(count)]  # noqa: SLF001 (Construct's methods for subclasses)

    def _build(self, value: list[Any], stream: IO[bytes], context: Any, path: str) -> Any:
        Varint._build(len(value), stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)
        for item in value:
            self.item._build(item, stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)
        return value


class Sized(AnyConstruct):
    """The Construct of a varint length and a `body` of exactly that many bytes."""

    def __init__(self, body: AnyConstruct) -> None:
        super().__init__()
        self.body = body

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:
        start = stream.tell()
        data = BytesOfVarint._parsereport(stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)
        try:
            value, end = parse(self.body, data)
        except FormatError as error:
            raise error.at(stream.tell() - len(data)) from None
        if end != len(data):
            raise BadLength(f"a length of {len(data):,}, but its fields take {end:,} bytes", start)
        return value

    def _build(self, value: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        return BytesOfVarint._build(build(self.body, value), stream, context, path)  # noqa: SLF001 (Construct's methods for subclasses)


Varint = _Varint(32)
Varlong = _Varint(64)
BytesOfVarint = _NullableBytes(Varint, nullable=False)
NullableBytesOfVarint = _NullableBytes(Varint)
NullableBytesOfInt32 = _NullableBytes(construct.Int32sb)
