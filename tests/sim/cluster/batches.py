"""Batches as the simulation's clients read them: magic 2, not compressed, with a few records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

CONTROL, TRANSACTIONAL = 0x20, 0x10
_HEADER = struct.Struct(">qiibIhiqqqhii")
OVERHEAD = 12
HEADER_SIZE = _HEADER.size


class Batch(NamedTuple):
    """A batch, with the fields that the checks need."""

    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    is_control: bool
    is_transactional: bool
    producer_id: int
    body: memoryview
    records: int

    def values(self) -> list[bytes]:
        """The records' values, in order."""
        return [value for _, value in self._records()]

    @property
    def commits(self) -> bool:
        """Return whether a control batch is a commit marker."""
        ((key, _),) = self._records()
        return key[2:4] == b"\0\1"

    def _records(self) -> list[tuple[bytes, bytes]]:
        data, position, found = bytes(self.body), 0, []
        for _ in range(self.records):
            size, position = _varint(data, position)
            end = position + size
            _, position = _varint(data, position + 1)
            _, position = _varint(data, position)
            length, position = _varint(data, position)
            key = data[position : position + max(length, 0)]
            length, position = _varint(data, position + max(length, 0))
            found.append((key, data[position : position + max(length, 0)]))
            position = end
        return found


def batches(data: bytes | bytearray | memoryview) -> Iterator[Batch]:
    """Yield the batches that are whole."""
    view, position = memoryview(data), 0
    while position + HEADER_SIZE <= len(view):
        base, length, epoch, _, crc, attributes, delta, _, _, producer_id, _, _, count = _HEADER.unpack_from(
            view, position
        )
        end = position + OVERHEAD + length
        if end > len(view):
            return
        is_control, is_transactional = bool(attributes & CONTROL), bool(attributes & TRANSACTIONAL)
        body = view[position + HEADER_SIZE : end]
        yield Batch(base, base + delta, epoch, crc, is_control, is_transactional, producer_id, body, count)
        position = end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
