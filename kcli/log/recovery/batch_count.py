"""Finding the right record count of a batch whose header has a wrong one, by its records.

The CRC covers the count: where the CRC is right, the count was wrong before the CRC was computed, as from bad memory.
If the payload is whole records up to its last byte, and their offsets rise and lie in the batch, their number is the
right count.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from formats.kernels.batches import (
    FAULT_COUNT_TOO_HIGH,
    FAULT_COUNT_TOO_LOW,
    FAULT_NEGATIVE_COUNT,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
)
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.records import RecordTable
from kcli.log.batch_records import ENDS_CONSUMERS, decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.batch_length import CRC_AT, CRC_FROM, HEADER_BYTES, MAGIC
from kcli.log.segment_reader import Damage, Window, read_segment

WRONG_COUNT = FAULT_COUNT_TOO_HIGH | FAULT_COUNT_TOO_LOW | FAULT_NEGATIVE_COUNT
WRONG_OFFSETS = FAULT_OFFSETS_NOT_INCREASING | FAULT_OFFSET_OUT_OF_RANGE
COUNT_AT = 57
COUNT_MAX = 2**31 - 1
RECORDS_AT_ONCE = 4096
_INT = struct.Struct(">i")
_CRC = struct.Struct(">I")


class Recounted(NamedTuple):
    """A batch with its record count and CRC corrected. before: the count in the file. row: its header, with the batch's
    position in the file."""

    content: Content
    before: int
    row: BatchRow


def recounted(name: str, content: Content, row: BatchRow) -> Recounted | None:
    """Return the batch with the right record count, if that is all that is wrong with it; else None.

    name, content: the name and content of the .log file. row: the header of the batch, whose records were decoded.
    Raises UnreadableInput.
    """
    faults = row.faults & ENDS_CONSUMERS
    if row.magic != MAGIC or not faults or faults & ~WRONG_COUNT:
        return None
    batch = content.between(row.position, row.position + row.size)
    _, count = _decoded(name, _with_count(name, batch, COUNT_MAX))
    found = _with_count(name, batch, count)
    right, _ = _decoded(name, found)
    if right is None or not count or right.faults & (ENDS_CONSUMERS | WRONG_OFFSETS):
        return None
    return Recounted(found, row.count, right._replace(position=row.position))


def _with_count(name: str, batch: Content, count: int) -> Content:
    """Return a batch with another record count, and with the CRC that is right with it. Raises UnreadableInput."""
    source = ContentSource(name, batch)
    try:
        covered = bytearray(batch.size - CRC_FROM)
        source.read_at(CRC_FROM, memoryview(covered))
    finally:
        source.close()
    _INT.pack_into(covered, COUNT_AT - CRC_FROM, count)
    head = batch.between(0, CRC_AT).parts
    middle = batch.between(CRC_FROM, COUNT_AT).parts
    behind = batch.between(HEADER_BYTES, batch.size).parts
    return Content((*head, _CRC.pack(crc32c(memoryview(covered))), *middle, _INT.pack(count), *behind))


def _decoded(name: str, batch: Content) -> tuple[BatchRow | None, int]:
    """Return the header of a batch whose records have been decoded, with its faults, and the number of its records that
    can be read; None and 0 if it is no batch. Raises UnreadableInput."""
    source = ContentSource(name, batch)
    try:
        for part in read_segment(source, resync=False):
            return (None, 0) if isinstance(part, Damage) else _records_of(part)
    finally:
        source.close()
    return None, 0


def _records_of(window: Window) -> tuple[BatchRow, int]:
    records = RecordTable(RECORDS_AT_ONCE)
    count = sum(records.count for _ in decode(window, records))
    return BatchRow._make(window.batches.row(0)), count
