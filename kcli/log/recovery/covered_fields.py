"""Header fields of a batch that its CRC covers: the batch with another value in one of them, and its records read.

Where the CRC is right and such a field is wrong, the field was wrong before the CRC was computed, as from bad memory.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.crc import crc32c
from formats.kernels.records import RecordTable
from kcli.log.batch_records import decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.batch_length import CRC_AT, CRC_FROM
from kcli.log.segment_reader import Damage, Window, read_segment

RECORDS_AT_ONCE = 4096
_INT = struct.Struct(">i")
_CRC = struct.Struct(">I")


class ReadBatch(NamedTuple):
    """The header of a batch whose records have been decoded, with its faults; the number of records that can be read,
    and the offset of the last one, None if there is none."""

    row: BatchRow
    records: int
    last_offset: int | None


def with_int(name: str, batch: Content, at: int, value: int) -> Content:
    """Return a batch with another int32 at byte `at`, and with the right CRC for that. Raises UnreadableInput."""
    source = ContentSource(name, batch)
    try:
        covered = bytearray(batch.size - CRC_FROM)
        source.read_at(CRC_FROM, memoryview(covered))
    finally:
        source.close()
    _INT.pack_into(covered, at - CRC_FROM, value)
    head = batch.between(0, CRC_AT).parts
    middle = batch.between(CRC_FROM, at).parts
    behind = batch.between(at + _INT.size, batch.size).parts
    return Content((*head, _CRC.pack(crc32c(memoryview(covered))), *middle, _INT.pack(value), *behind))


def read_batch(name: str, batch: Content) -> ReadBatch | None:
    """Read the records of a batch; None if the bytes are no batch. Raises UnreadableInput."""
    source = ContentSource(name, batch)
    try:
        for part in read_segment(source, resync=False):
            return None if isinstance(part, Damage) else _read(part)
    finally:
        source.close()
    return None


def _read(window: Window) -> ReadBatch:
    records, count, last_offset = RecordTable(RECORDS_AT_ONCE), 0, None
    for _ in decode(window, records):
        count += records.count
        if records.count:
            last_offset = RecordRow._make(records.row(records.count - 1)).offset
    return ReadBatch(BatchRow._make(window.batches.row(0)), count, last_offset)
