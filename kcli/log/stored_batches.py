"""The batches of a segment with their records, one by one: for the small logs that the broker replays.

Bulk work on records stays in columns: see segment_reader and batch_records.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.errors import UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource, Source

TABLE_RECORDS = 4096


class StoredRecord(NamedTuple):
    """One record; a null key or value is None."""

    offset: int
    key: bytes | None
    value: bytes | None


def read_batches(path: Path, from_offset: int = 0) -> Iterator[tuple[BatchRow, list[StoredRecord]]]:
    """Yield the batches of a segment or a snapshot, each with its records. The first one is the first batch whose base
    offset is from_offset or above.

    Raises UnreadableInput, with the position, for damaged bytes.
    """
    source = FileSource(path)
    try:
        yield from batches_of(source, from_offset)
    finally:
        source.close()


def batches_of(source: Source, from_offset: int = 0) -> Iterator[tuple[BatchRow, list[StoredRecord]]]:
    """Yield the same as `read_batches`, for the batches of `source`. Raises UnreadableInput."""
    for part in read_segment(source, resync=False):
        if isinstance(part, Damage):
            raise UnreadableInput(source.name, f"byte {part.position:,}: {part.error.reason}")
        yield from _window(source.name, part, from_offset)
        part.release()


def _window(name: str, window: Window, from_offset: int) -> Iterator[tuple[BatchRow, list[StoredRecord]]]:
    rows = [BatchRow._make(window.batches.row(i)) for i in range(window.batches.count)]
    first = next((i for i, row in enumerate(rows) if row.base_offset >= from_offset), len(rows))
    records: list[list[StoredRecord]] = [[] for _ in rows]
    table = RecordTable(TABLE_RECORDS)
    for buffer in decode(window, table, first=first):
        for i in range(table.count):
            record = RecordRow._make(table.row(i))
            records[record.batch].append(StoredRecord(record.offset, record.key(buffer), record.value(buffer)))
    for i in range(first, len(rows)):
        row = BatchRow._make(window.batches.row(i))  # decode() has set the fault bits of the batches
        if row.faults & (UNREADABLE | FAULT_BAD_CRC):
            raise UnreadableInput(name, f"byte {row.position:,}: a damaged batch")
        yield row, records[i]
