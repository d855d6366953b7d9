"""The logical type VARIANT in Parquet files: pyarrow writes the two binary columns, but not their logical type.

A Parquet file ends with its footer, the footer's length (4 bytes, little endian) and "PAR1". The footer is Thrift's
compact encoding of FileMetaData, whose field 2 is the schema: a list of elements, each with its number of children
(field 5), name (4) and logical type (10). A logical type is a union; its member 16, VARIANT, is a struct with the
version of the encoding (field 1), 1. All other parts of the footer are written back as they were read.

    field     byte: (its number - the number of the field before it) << 4 | type; if the difference is not in 1..15:
              byte: type, then the number as a zigzag varint; the value comes after either form
    types     1, 2: true, false; 3: byte; 4 to 6: zigzag varint; 7: double; 8: length and bytes; 9, 10: list; 12: struct
    list      byte: count (15: the count follows as a varint) << 4 | type of the items
    struct    fields, then 0

Source: parquet.thrift of Parquet 2.12, LogicalTypes "Variant"; the Thrift compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAGIC = b"PAR1"
BYTE, I32, DOUBLE, BINARY, LIST, SET, STRUCT = 3, 5, 7, 8, 9, 10, 12
SCHEMA, NAME, CHILDREN, LOGICAL_TYPE, VARIANT, VERSION = 2, 4, 5, 10, 16, 1

Struct = dict[int, tuple[int, Any]]  # field -> (type, value), in the order of the file


def mark_variants(path: Path, columns: Sequence[str]) -> None:
    """Set the logical type of these top-level columns, structs of `value` and `metadata`, to VARIANT in the file's
    footer.

    The file is not synced. Raises OSError; ValueError for a file that is no Parquet file, or lacks a column.
    """
    with path.open("r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 8, 0))
        tail = file.read(8)
        size = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or size > end - 8:
            raise ValueError(f"{path} is no Parquet file")
        start = end - 8 - size
        file.seek(start)
        footer = _marked(file.read(size), columns)
        file.seek(start)
        file.write(footer + len(footer).to_bytes(4, "little") + MAGIC)
        file.truncate()


def _marked(footer: bytes, columns: Sequence[str]) -> bytes:
    reader = _Reader(footer)
    metadata = reader.struct()
    unmarked = {name.encode() for name in columns}
    elements: list[Struct] = metadata[SCHEMA][1][1]
    at = 1
    while at < len(elements):
        element = elements[at]
        if element[NAME][1] in unmarked:
            unmarked.discard(element[NAME][1])
            element[LOGICAL_TYPE] = STRUCT, {VARIANT: (STRUCT, {VERSION: (BYTE, 1)})}
        at = _behind(elements, at)
    if unmarked:
        raise ValueError(f"no column {b', '.join(sorted(unmarked)).decode()}")
    out = bytearray()
    _write_struct(out, metadata)
    return bytes(out)


def _behind(elements: list[Struct], at: int) -> int:
    """Return the index of the first element that comes after element `at` and all its descendants."""
    left = 1
    while left:
        left += elements[at].get(CHILDREN, (I32, 0))[1] - 1
        at += 1
    return at


@dataclass(slots=True)
class _Reader:
    data: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 15
            # the type code of a Boolean field is its value: no byte follows (in a list, Booleans are bytes)
            found[number] = kind, None if kind < BYTE else self.value(kind)
        return found

    def value(self, kind: int) -> Any:
        if kind == STRUCT:
            return self.struct()
        if kind == BINARY:
            return self.take(self.varint())
        if kind in {LIST, SET}:
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            return head & 15, [self.value(head & 15) for _ in range(count)]
        if kind == DOUBLE:
            return self.take(8)
        return self.byte() if kind <= BYTE else self.zigzag()


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_struct(out: bytearray, fields: Struct) -> None:
    before = 0
    for number, (kind, value) in sorted(fields.items()):
        if 0 < number - before < 16:
            out.append(number - before << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, number)
        before = number
        if kind >= BYTE:
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind == STRUCT:
        _write_struct(out, value)
    elif kind == BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind in {LIST, SET}:
        item, items = value
        out.append(min(len(items), 15) << 4 | item)
        if len(items) >= 15:
            _write_varint(out, len(items))
        for each in items:
            _write_value(out, item, each)
    elif kind == DOUBLE:
        out += value
    elif kind <= BYTE:
        out.append(value)
    else:
        _write_zigzag(out, value)
