"""Reads a coordinator's partition from its start: batches with their records, and transaction markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from formats.control_record import ControlType
from formats.file_name import FileKind, FileName, build
from kcli.coordinator.machine import Pair
from kcli.log.live.partition_log import PartitionLog
from kcli.log.stored_batches import read_batches


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch in the log. commits: for a transaction marker, whether it commits; None for a batch of records. records:
    (offset, (key, value)) of each record."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool
    commits: bool | None
    records: list[tuple[int, Pair]]


def read_log(log: PartitionLog) -> Iterator[LoggedBatch]:
    """Yield all batches of a log, from its first segment on. Raises UnreadableInput for damaged bytes."""
    for base_offset in log.base_offsets:
        yield from read_segment(log.directory / build(FileName(FileKind.LOG, base_offset)))


def read_segment(path: Path) -> Iterator[LoggedBatch]:
    """Yield the batches of one segment. Raises UnreadableInput for damaged bytes."""
    for row, records in read_batches(path):
        if not row.is_control:
            pairs = [(each.offset, (each.key, each.value)) for each in records]
            yield LoggedBatch(row.producer_id, row.producer_epoch, row.is_transactional, None, pairs)
            continue
        kind = int.from_bytes((records[0].key or b"")[2:4]) if records else -1
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            commits = kind == ControlType.COMMIT
            yield LoggedBatch(row.producer_id, row.producer_epoch, row.is_transactional, commits, [])
