"""Batches of magic 2 with another magic in their header, found by their CRC.

No CRC covers the magic. If the CRC-32C at the place where a batch of magic 2 has it is right for the bytes that it
covers there, the batch is one of magic 2, and only the magic byte is wrong. A message of magic 0 or 1 has a CRC-32 at
another place: a sound one is never taken for a batch of magic 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from formats.kernels.batches import FAULT_BAD_CRC, FAULT_BAD_MAGIC, FAULT_SHORT_HEADER
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from kcli.log.partition_view import Content, ContentSource, Part
from kcli.log.recovery.batch_length import (
    CRC_AT,
    CRC_FROM,
    HEADER_BYTES,
    LENGTH,
    LENGTH_AT,
    MAGIC,
    MAGIC_AT,
    sound_row,
)
from kcli.log.segment_reader import LOG_OVERHEAD_BYTES, MAX_BATCH_BYTES, Damage, read_segment
from kcli.log.source import Source

WRONG_MAX = 1_000
"""The largest number of batches of a .log file whose magic is put right."""


@dataclass(frozen=True, slots=True)
class RightMagic:
    """A sound batch of magic 2 with another magic, `before`, in its header. size: that of the batch in bytes."""

    file: str
    position: int
    before: int
    size: int
    magic: ClassVar[int] = MAGIC


def wrong_magic(source: Source, position: int, size: int) -> RightMagic | None:
    """Return the batch of magic 2 with another magic that begins at byte `position` of a .log file, and ends within the
    next `size` bytes; None if there is no such batch. Raises UnreadableInput."""
    header = bytearray(HEADER_BYTES)
    if size < HEADER_BYTES or source.read_at(position, memoryview(header)) < HEADER_BYTES:
        return None
    own_size = LENGTH.unpack_from(header, LENGTH_AT)[0] + LOG_OVERHEAD_BYTES
    if header[MAGIC_AT] == MAGIC or not HEADER_BYTES <= own_size <= min(size, MAX_BATCH_BYTES):
        return None
    batch = bytearray(own_size)
    is_whole = source.read_at(position, memoryview(batch)) == own_size
    if not is_whole or crc32c(memoryview(batch)[CRC_FROM:]) != int.from_bytes(batch[CRC_AT:CRC_FROM]):
        return None
    before = int.from_bytes(batch[MAGIC_AT : MAGIC_AT + 1], signed=True)
    return RightMagic(source.name, position, before, own_size)


def wrong_magics(name: str, content: Content) -> list[RightMagic]:
    """Return the first WRONG_MAX batches of a .log file that are sound but for their magic. Raises UnreadableInput."""
    source = ContentSource(name, content)
    try:
        return list(islice(_wrong(source), WRONG_MAX))
    finally:
        source.close()


def with_right_magics(content: Content, wrong: Iterable[RightMagic]) -> Content:
    """Return the content of a .log file with the right magic in the batches `wrong`, which are in order."""
    parts: list[Part] = []
    end = 0
    for each in wrong:
        at = each.position + MAGIC_AT
        parts += [*content.between(end, at).parts, bytes([MAGIC])]
        end = at + 1
    return Content((*parts, *content.between(end, content.size).parts)) if parts else content


def mended_rows(name: str, content: Content, position: int, size: int) -> Iterator[BatchRow]:
    """Yield the headers of the successive batches with a wrong magic that bytes [position, position + size) of a .log
    file begin with, each as it is with the right one. Raises UnreadableInput."""
    source = ContentSource(name, content)
    try:
        for each in _successive(source, position, size):
            batch = content.between(each.position, each.position + each.size)
            row = sound_row(name, with_right_magics(batch, [RightMagic(name, 0, each.before, each.size)]))
            if row is not None:
                yield row._replace(position=each.position)
    finally:
        source.close()


def _wrong(source: Source) -> Iterator[RightMagic]:
    for part in read_segment(source):
        if isinstance(part, Damage):
            yield from _successive(source, part.position, part.length)
            continue
        at = part.batches.first_fault()
        while at >= 0:
            row = BatchRow._make(part.batches.row(at))
            if has_doubtful_magic(row):
                yield from _successive(source, row.position, row.size)
            at = part.batches.first_fault(at + 1)
        part.release()


def _successive(source: Source, position: int, size: int) -> Iterator[RightMagic]:
    end = position + size
    while (found := wrong_magic(source, position, end - position)) is not None:
        yield found
        position += found.size


def has_doubtful_magic(row: BatchRow) -> bool:
    """Whether the magic in a batch's header may be wrong: there is no such magic, or the CRC is wrong with it."""
    return row.magic != MAGIC and bool(row.faults & (FAULT_BAD_CRC | FAULT_BAD_MAGIC | FAULT_SHORT_HEADER))
