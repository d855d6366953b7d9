"""The partitions of a coordinator's topic as files: every record that can be read, and the markers of transactions.

Behind damage reading goes on, and what was passed over is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import FAULT_BAD_CRC, RecordTable
from kcli.errors import UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource

NONE = -1
Told = Callable[[str | UnreadableInput], None]
"""Hears of damage that was passed over, and of files that could not be read."""


class CoordinatorRecord(NamedTuple):
    """A record as it is read. marker: of a transaction, committed or not; None where the record is data."""

    offset: int
    producer_id: int
    marker: bool | None
    key: bytes | None
    value: bytes | None


def segments(directory: Path) -> list[tuple[int, Path]]:
    """The segments in a partition's directory, each with its base offset, in order. Raises UnreadableInput."""
    try:
        named = [(name, path) for path in directory.iterdir() if (name := parse(path.name)) is not None]
    except OSError as error:
        raise UnreadableInput(str(directory), error.strerror or str(error)) from error
    return sorted((name.base_offset or 0, path) for name, path in named if name.kind is FileKind.LOG and not name.state)


def read_records(directory: Path, told: Told) -> Iterator[tuple[Path, CoordinatorRecord]]:
    """All records of a partition's directory, each with its segment; segments that cannot be read are told. Raises
    UnreadableInput for the directory."""
    for _, path in segments(directory):
        try:
            for record in _read(path, told):
                yield path, record
        except UnreadableInput as error:
            told(error)


def _read(path: Path, told: Told) -> Iterator[CoordinatorRecord]:
    source = FileSource(path)
    table = RecordTable(4096)
    try:
        for part in read_segment(source):
            if not isinstance(part, Window):
                told(f"{path}: {part.length:,} bytes at {part.position:,} are no batch: {part.error.reason}")
                continue
            for buffer in decode(part, table):
                yield from _records(part, table, buffer)
            at = part.batches.first_fault()
            while at >= 0:
                for error in faults_of(part, at):
                    told(f"{path}: {error}")
                at = part.batches.first_fault(at + 1)
            part.release()
    finally:
        source.close()


def _records(window: Window, table: RecordTable, buffer: memoryview) -> Iterator[CoordinatorRecord]:
    for i in range(table.count):
        row = RecordRow._make(table.row(i))
        batch = BatchRow._make(window.batches.row(row.batch))
        if batch.faults & (UNREADABLE | FAULT_BAD_CRC):
            continue
        key = row.key(buffer)
        if not batch.is_control:
            producer_id = batch.producer_id if batch.is_transactional else NONE
            yield CoordinatorRecord(row.offset, producer_id, None, key, row.value(buffer))
            continue
        try:
            kind = control_record.parse_key(key).type
        except FormatError:
            continue  # it ends no transaction
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            yield CoordinatorRecord(row.offset, batch.producer_id, kind == ControlType.COMMIT, None, None)
