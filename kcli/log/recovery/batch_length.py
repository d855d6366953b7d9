"""Finding the right length of a batch whose header has a wrong one, by its CRC.

No CRC covers the length in a batch's header. If the length is wrong, all bytes of the batch count as damage. If the CRC
is right for the bytes up to the next sound batch, or to the end of the file, these bytes are the batch.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from formats.kernels.batches import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from kcli.log.partition_view import Content, ContentSource
from kcli.log.segment_reader import LOG_OVERHEAD_BYTES, MAX_BATCH_BYTES, Damage, read_segment
from kcli.log.source import Source

HEADER_BYTES = 61
LENGTH_AT = 8
MAGIC_AT = 16
MAGIC = 2
CRC_AT = 17
CRC_FROM = 21
LENGTH = struct.Struct(">i")


class WrongLength(NamedTuple):
    """The wrong length in a batch's header (`before`) and the right one (`length`). Both count the bytes behind the
    length field."""

    before: int
    length: int


def wrong_length(source: Source, position: int, size: int) -> WrongLength | None:
    """Return the wrong length of a batch of magic 2 that is all of bytes [position, position + size) of a .log file;
    None if these bytes are no such batch. Raises UnreadableInput."""
    if not HEADER_BYTES <= size <= MAX_BATCH_BYTES:
        return None
    header = bytearray(HEADER_BYTES)
    if source.read_at(position, memoryview(header)) < HEADER_BYTES or header[MAGIC_AT] != MAGIC:
        return None
    batch = bytearray(size)
    is_whole = source.read_at(position, memoryview(batch)) == size
    stored = int.from_bytes(batch[CRC_AT:CRC_FROM])
    before, length = LENGTH.unpack_from(batch, LENGTH_AT)[0], size - LOG_OVERHEAD_BYTES
    if not is_whole or before == length or crc32c(memoryview(batch)[CRC_FROM:]) != stored:
        return None
    return WrongLength(before, length)


class Resized(NamedTuple):
    """A batch with its length corrected. before: the length in the file. row: its header, with the batch's position in
    the file."""

    content: Content
    before: int
    row: BatchRow


def resized(name: str, content: Content, damage: Damage) -> Resized | None:
    """Return the batch with a wrong length that is all of the damage; None if the damage is something else.

    name, content: the name and content of the .log file. Raises UnreadableInput.
    """
    source = ContentSource(name, content)
    try:
        wrong = wrong_length(source, damage.position, damage.length)
    finally:
        source.close()
    if wrong is None:
        return None
    batch = content.between(damage.position, damage.position + damage.length)
    before, behind = batch.between(0, LENGTH_AT), batch.between(LENGTH_AT + LENGTH.size, damage.length)
    batch = Content((*before.parts, LENGTH.pack(wrong.length), *behind.parts))
    row = sound_row(name, batch)
    return None if row is None else Resized(batch, wrong.before, row._replace(position=damage.position))


def sound_row(name: str, batch: Content) -> BatchRow | None:
    """Return the header of a batch; None if the batch is not sound. Raises UnreadableInput."""
    source = ContentSource(name, batch)
    try:
        for part in read_segment(source, resync=False):
            row = None if isinstance(part, Damage) else BatchRow._make(part.batches.row(0))
            return None if row is None or row.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER) else row
    finally:
        source.close()
    return None
