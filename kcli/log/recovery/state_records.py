"""Records that salvage appends to a coordinator's partition, in place of lost ones.

Each is appended behind the last batch of the log, in a batch of its own, as a coordinator does it. The recovery point
stays below that batch, and no other file changes: Kafka's start checks the batch, and adds it to the indexes.
"""

from __future__ import annotations

from pathlib import Path

from formats.file_name import FileKind, parse
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from kcli.log.disk import Disk
from kcli.log.partition_view import offset_of
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource


def append_record(directory: Path, disk: Disk, key: bytes | None, value: bytes | None, timestamp_ms: int) -> int:
    """Append a record to the last .log file of a partition's directory, whose batches are sound. Returns the record's
    offset.

    timestamp_ms: the record's timestamp, epoch ms. Raises UnreadableInput, OSError.
    """
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
        last_offset_delta=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=1,
    )
    data = build_batch(RecordBatch(header, (Record(0, 0, 0, key, value, ()),)))
    with disk.open(logs[-1]) as file:
        file.write([data], file.size())
        file.sync()
    return offset
