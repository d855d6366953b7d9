"""Structures of fixed size: fields end to end, nothing between them.

    int8    1 byte      int16, uint16  2      all big endian, signed ones in two's complement
    int64   8           int32, uint32  4

Source: ByteBuffer, in which Kafka reads and writes all of them.

Each structure is stated once, as a table of fields that is read through `struct` and doubles as a Construct. Reading
an entry through Construct costs microseconds and importing Construct 70 ms: nothing to spend on an index of a million
entries, hence the two faces of one table.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from formats.errors import BadLength, BadValue, Truncated

if TYPE_CHECKING:
    import construct

T = TypeVar("T", bound=tuple[Any, ...])

_CODES = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "l",
    "uint32": "L",
    "int64": "q",
}


def size_of(type_name: str) -> int:
    """Bytes that a type of the table above takes."""
    return struct.calcsize(">" + _CODES[type_name])


class Field(NamedTuple):
    """One field: its name, its type (a row of the table above) and what it means, in one line."""

    name: str
    type: str
    meaning: str


class FixedLayout(Generic[T]):
    """The fields of one structure and the named tuple that holds them, in the same order."""

    def __init__(self, name: str, value: Callable[..., T], *fields: Field) -> None:
        self.name = name
        self.fields = fields
        self._value = value
        self._struct = struct.Struct(">" + "".join(_CODES[field.type] for field in fields))
        self.size = self._struct.size

    def unpack(self, data: bytes | memoryview, position: int = 0) -> T:
        """The structure that begins at byte `position`. Raises Truncated."""
        if not 0 <= position <= len(data) - self.size:
            missing = position + self.size - len(data)
            raise Truncated(f"{self.name} takes {self.size} bytes, {missing} are missing", position)
        return self._value(*self._struct.unpack_from(data, position))

    def unpack_all(self, data: bytes | memoryview) -> list[T]:
        """The structures that `data` is made of, end to end. Raises BadLength at one that is not whole."""
        if len(data) % self.size:
            whole = len(data) // self.size * self.size
            raise BadLength(f"{len(data):,} bytes are not a whole number of {self.size}-byte entries", whole)
        return [self._value(*values) for values in self._struct.iter_unpack(data)]

    def used(self, data: bytes) -> int:
        """Bytes up to the end of the last structure that is not all zeros: what lies behind is preallocated."""
        return -(-len(data.rstrip(b"\0")) // self.size) * self.size

    def pack(self, value: Sequence[int]) -> bytes:
        """The bytes of one structure. Raises BadValue where a number does not fit its field."""
        try:
            return self._struct.pack(*value)
        except struct.error as error:
            raise BadValue(f"{self.name}: {error}") from None

    def pack_all(self, values: Sequence[Sequence[int]]) -> bytes:
        """The bytes of many structures, end to end. Raises BadValue."""
        return b"".join(map(self.pack, values))

    @cached_property
    def construct(self) -> construct.Construct[Any, Any]:
        """The same structure as a Construct."""
        import construct

        return construct.Struct(
            *(field.name / construct.FormatField(">", _CODES[field.type]) * field.meaning for field in self.fields)
        )
