"""Records that salvage appends to a coordinator's partition, in place of lost ones.

Each is appended behind the last batch of the log, in a batch of its own, as a coordinator does it. The recovery point
stays below that batch: Kafka's start checks the batch, and adds it to the indexes. A log that had no batch also gets an
entry in the time index and one in leader-epoch-checkpoint, since Kafka does not rebuild these after a clean shutdown.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from formats.checkpoint import EpochEntry, build_leader_epochs, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, parse
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.disk import Disk
from kcli.log.partition_view import offset_of
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, read_whole

TIME_ENTRY = struct.Struct(">qi")


def append_record(directory: Path, disk: Disk, key: bytes | None, value: bytes | None, timestamp_ms: int) -> int:
    """Append a record to the last .log file of a partition's directory, whose batches are sound. Returns the record's
    offset.

    timestamp_ms: the record's timestamp, epoch ms. Raises UnreadableInput, OSError.
    """
    return append_records(directory, disk, [(key, value)], timestamp_ms)


def append_records(
    directory: Path, disk: Disk, records: Sequence[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> int:
    """Append records, as pairs of key and value, like append_record, in one batch. Returns the first one's offset."""
    parsed = ((path, parse(path.name)) for path in directory.iterdir())
    logs = sorted(path for path, name in parsed if name is not None and name.kind is FileKind.LOG and not name.state)
    offset, leader_epoch = offset_of(logs[-1].name), 0
    for log in reversed(logs):
        source = FileSource(log)
        try:
            last = max(sound_batches(source), key=lambda row: row.last_offset, default=None)
        finally:
            source.close()
        if last is not None:
            offset, leader_epoch = max(offset, last.last_offset + 1), last.leader_epoch
            break
    header = BatchHeader(
        base_offset=offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    data = build_batch(RecordBatch(header, tuple(Record(0, 0, n, *each, ()) for n, each in enumerate(records))))
    with disk.open(logs[-1]) as file:
        is_first = not file.size() and len(logs) == 1
        file.write([data], file.size())
        file.sync()
    if is_first:
        last_offset = offset + len(records) - 1
        relative = last_offset - offset_of(logs[-1].name)
        _begin(directory, disk, EpochEntry(leader_epoch, offset), logs[-1], (timestamp_ms, relative))
    return offset


def _begin(directory: Path, disk: Disk, epoch: EpochEntry, log: Path, last_timestamp: tuple[int, int]) -> None:
    """Write the first entries of a partition's leader-epoch-checkpoint and time index, if they have none yet. epoch: a
    leader epoch and its first offset. last_timestamp: a timestamp and the relative offset of its batch's last
    record."""
    checkpoint, times = directory / FileKind.LEADER_EPOCHS, log.with_suffix(FileKind.TIME_INDEX)
    with suppress(FormatError):  # a damaged file stays as it is
        if checkpoint.is_file() and not parse_leader_epochs(read_whole(checkpoint)):
            disk.write_file(checkpoint, build_leader_epochs([epoch]))
    if times.is_file() and not times.stat().st_size:
        disk.write_file(times, TIME_ENTRY.pack(*last_timestamp))
