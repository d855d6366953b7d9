"""The records of a partition of a coordinator's topic, read from its files: every readable record, and the transaction
markers.

Damage is reported, and reading goes on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.errors import UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.partition_view import PartitionView
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource, Source

NONE = -1
ErrorHandler = Callable[[str | UnreadableInput], None]
"""Called with a text for each damaged range that is skipped and each fault of a batch, and with the error of each file
that cannot be read."""


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's partition. producer_id: -1 outside of a transaction. marker: for a transaction
    marker, whether it commits; None for any other record. timestamp_ms: of the record, epoch ms."""

    offset: int
    producer_id: int
    marker: bool | None
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def segments(directory: Path) -> list[tuple[int, Path]]:
    """Return base offset and path of each .log file in a partition's directory, in order. Raises UnreadableInput."""
    try:
        paths = {path.name: path for path in directory.iterdir()}
    except OSError as error:
        raise UnreadableInput.of(directory, error) from error
    return [(base, paths[name]) for base, name in _logs(paths)]


def _logs(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return base offset and name for each of `names` that is the name of a .log file, by base offset."""
    parsed = ((parse(name), name) for name in names)
    logs = ((each, name) for each, name in parsed if each is not None and each.kind is FileKind.LOG and not each.state)
    return sorted((each.base_offset or 0, name) for each, name in logs)


def read_records(directory: Path, on_error: ErrorHandler) -> Iterator[tuple[Path, CoordinatorRecord]]:
    """Yield the readable records in a partition's directory, each with the path of its .log file. on_error: called with
    a text for each damaged range and each fault of a batch, and with the error of each file that cannot be read. Raises
    UnreadableInput if the directory cannot be read."""
    for _, path in segments(directory):
        try:
            for record in _read(path, FileSource(path), on_error):
                yield path, record
        except UnreadableInput as error:
            on_error(error)


def read_view(
    view: PartitionView, on_error: ErrorHandler, end: tuple[str, int] | None = None
) -> Iterator[tuple[Path, CoordinatorRecord]]:
    """Yield the readable records of a partition with the changes in `view`, such as those of a recovery that is only
    simulated.

    on_error: as for read_records. end: the name of the .log file, and the byte in it, at which the records end; None
    for the end of the log.
    """
    for _, name in _logs(view.names()):
        path = view.directory / name
        is_last = end is not None and name == end[0]
        try:
            for record in _read(path, view.source(name), on_error, end[1] if end is not None and is_last else None):
                yield path, record
        except UnreadableInput as error:
            on_error(error)
        if is_last:
            return


def _read(path: Path, source: Source, on_error: ErrorHandler, end: int | None = None) -> Iterator[CoordinatorRecord]:
    """Yield the readable records of a .log file. source: reads the file; it is closed at the end. end: batches that
    begin at or after this byte are left out; None: no batch is."""
    table = RecordTable(4096)
    try:
        for part in read_segment(source):
            if not isinstance(part, Window):
                on_error(f"{path}: {part.length:,} bytes at {part.position:,} are no batch: {part.error.reason}")
                continue
            for buffer in decode(part, table):
                yield from _records(part, table, buffer, end)
            at = part.batches.first_fault()
            while at >= 0:
                for error in faults_of(part, at):
                    on_error(f"{path}: {error}")
                at = part.batches.first_fault(at + 1)
            part.release()
    finally:
        source.close()


def _records(window: Window, table: RecordTable, buffer: memoryview, end: int | None) -> Iterator[CoordinatorRecord]:
    for i in range(table.count):
        row = RecordRow._make(table.row(i))
        batch = BatchRow._make(window.batches.row(row.batch))
        if batch.faults & (UNREADABLE | FAULT_BAD_CRC):
            continue
        if end is not None and batch.position >= end:
            return
        key = row.key(buffer)
        if not batch.is_control:
            producer_id = batch.producer_id if batch.is_transactional else NONE
            yield CoordinatorRecord(row.offset, producer_id, None, key, row.value(buffer), row.timestamp)
            continue
        try:
            kind = control_record.parse_key(key).type
        except FormatError:
            continue  # no type can be read: the control record is no transaction marker
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            yield CoordinatorRecord(
                row.offset, batch.producer_id, kind == ControlType.COMMIT, None, None, row.timestamp
            )
