"""Structures of fixed size: fields end to end, nothing between them.

    int8    1 byte      int16, uint16  2      all big endian, signed ones in two's complement
    int64   8           int32, uint32  4

Source: ByteBuffer, in which Kafka reads and writes all of them.

Each structure is declared once, as a table of fields. `struct` reads and writes it; `FixedLayout.construct` makes a
Construct of it on demand, since an entry costs Construct microseconds (an index can have a million) and importing it
takes 70 ms.
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
    """Return the size in bytes of a type, given by its name ("int16")."""
    return struct.calcsize(">" + _CODES[type_name])


class Field(NamedTuple):
    """One field: its name, its type ("int64"), and its meaning in one line."""

    name: str
    type: str
    meaning: str


class FixedLayout(Generic[T]):
    """The layout of a structure with a fixed size: its fields, and the named tuple that a parsed structure is, with the
    same fields in the same order."""

    def __init__(self, name: str, value: Callable[..., T], *fields: Field) -> None:
        self.name = name
        self.fields = fields
        self._value = value
        self._struct = struct.Struct(">" + "".join(_CODES[field.type] for field in fields))
        self.size = self._struct.size

    def unpack(self, data: bytes | memoryview, position: int = 0) -> T:
        """Return the structure that begins at byte `position`. Raises Truncated."""
        if not 0 <= position <= len(data) - self.size:
            missing = position + self.size - len(data)
            raise Truncated(f"{self.name} takes {self.size} bytes, {missing} are missing", position)
        return self._value(*self._struct.unpack_from(data, position))

    def unpack_all(self, data: bytes | memoryview, size_bytes: int | None = None) -> list[T]:
        """Return the structures that lie in `data` end to end. size_bytes: return only those in the first `size_bytes`
        bytes. Raises BadLength if `data` is not a whole number of structures."""
        if len(data) % self.size:
            whole = len(data) // self.size * self.size
            raise BadLength(f"{len(data):,} bytes are not a whole number of {self.size}-byte entries", whole)
        return [self._value(*values) for values in self._struct.iter_unpack(data[:size_bytes])]

    def used(self, data: bytes) -> int:
        """Return the size in bytes of `data` without the preallocated structures of zeros at its end."""
        return -(-len(data.rstrip(b"\0")) // self.size) * self.size

    def pack(self, value: Sequence[int]) -> bytes:
        """Return the bytes of one structure. Raises BadValue for a number that does not fit its field."""
        try:
            return self._struct.pack(*value)
        except struct.error as error:
            raise BadValue(f"{self.name}: {error}") from None

    def pack_all(self, values: Sequence[Sequence[int]]) -> bytes:
        """Return the bytes of many structures, end to end. Raises BadValue."""
        return b"".join(map(self.pack, values))

    @cached_property
    def construct(self) -> construct.Construct[Any, Any]:
        """The structure as a Construct."""
        import construct

        return construct.Struct(
            *(field.name / construct.FormatField(">", _CODES[field.type]) * field.meaning for field in self.fields)
        )
