"""Reads a coordinator's partition from its start: batches with their records, and markers of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from formats.control_record import ControlType
from formats.file_name import FileKind, FileName, build
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import RecordTable
from kcli.coordinator import Pair
from kcli.errors import UnreadableInput
from kcli.log.batch_records import decode
from kcli.log.partition_log import PartitionLog
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource

TABLE_RECORDS = 4096


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch as it is in the log. commits: of a marker, whether it commits; else None."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool
    commits: bool | None
    records: list[tuple[int, Pair]]


def read_log(log: PartitionLog) -> Iterator[LoggedBatch]:
    """All batches. Raises UnreadableInput for bytes that are damaged."""
    for base_offset in log.base_offsets:
        path = log.directory / build(FileName(FileKind.LOG, base_offset))
        source = FileSource(path)
        try:
            for part in read_segment(source, resync=False):
                if isinstance(part, Damage):
                    raise UnreadableInput(str(path), f"byte {part.position:,}: {part.error.reason}")
                yield from _window(part)
                part.release()
        finally:
            source.close()


def _window(window: Window) -> Iterator[LoggedBatch]:
    rows = [BatchRow._make(window.batches.row(i)) for i in range(window.batches.count)]
    records: list[list[tuple[int, Pair]]] = [[] for _ in rows]
    table = RecordTable(TABLE_RECORDS)
    for buffer in decode(window, table):
        for i in range(table.count):
            record = RecordRow._make(table.row(i))
            key = _bytes(buffer, record.key_start, record.key_length)
            value = _bytes(buffer, record.value_start, record.value_length)
            records[record.batch].append((record.offset, (key, value)))
    for row, own in zip(rows, records, strict=True):
        commits = None
        if row.is_control:
            kind = int.from_bytes((own[0][1][0] or b"")[2:4]) if own else -1
            if kind not in (ControlType.COMMIT, ControlType.ABORT):
                continue
            commits = kind == ControlType.COMMIT
        pairs = [] if row.is_control else own
        yield LoggedBatch(row.producer_id, row.producer_epoch, row.is_transactional, commits, pairs)


def _bytes(buffer: memoryview, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(buffer[start : start + length])
