"""Append records to a broker's logs and read them, without a client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from formats.file_name import FileKind, FileName, build
from formats.kernels.columns import BatchRow, RecordRow, sized_bytes
from formats.kernels.records import RecordTable
from kcli.broker.partition.partitions import Partition
from kcli.errors import UnreadableInput
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource
from kcli.testing.seed import SeedRecord

TABLE_RECORDS = 4_096


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log.

    timestamp_ms: milliseconds since 1970, -1 for none. key, value: None for null. headers: in the order of the record,
    names may repeat.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


def append(partition: Partition, records: Sequence[SeedRecord], now_ms: int) -> None:
    """Append records as one batch. now_ms: timestamp of records without one. Raises AppendRefused, LogFailed,
    OSError."""
    if any(each.headers or each.timestamp_ms is not None for each in records):
        batch = _described_batch(records, now_ms)
    else:
        from formats.batch_writer import write_batch

        batch = write_batch([(each.key, each.value) for each in records], now_ms)
    partition.append_as_leader(batch, now_ms)


def _described_batch(records: Sequence[SeedRecord], now_ms: int) -> bytearray:
    from formats import record_batch

    times = [now_ms if each.timestamp_ms is None else each.timestamp_ms for each in records]
    header = record_batch.BatchHeader(
        base_offset=0,
        batch_length=0,
        partition_leader_epoch=-1,
        magic=record_batch.MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=len(records) - 1,
        base_timestamp=times[0],
        max_timestamp=max(times),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=len(records),
    )
    built = [
        record_batch.Record(0, time_ms - times[0], i, each.key, each.value, _headers(each.headers))
        for i, (each, time_ms) in enumerate(zip(records, times, strict=True))
    ]
    return bytearray(record_batch.build_batch(record_batch.RecordBatch(header, tuple(built))))


def _headers(headers: Mapping[str, bytes | None]) -> tuple:  # type: ignore[type-arg]  # of a type that is loaded late
    from formats.record_batch import RecordHeader

    return tuple(RecordHeader(name.encode(), value) for name, value in headers.items())


def read(partition: Partition) -> list[Record]:
    """Return the records from the log start offset on whose offsets are below the high watermark, without control
    records.

    Raises UnreadableInput, LogFailed, OSError.
    """
    log = partition.log
    found: list[Record] = []
    for base_offset in log.base_offsets:
        path = log.directory / build(FileName(FileKind.LOG, base_offset))
        with closing(FileSource(path)) as source:
            for part in read_segment(source, resync=False):
                if isinstance(part, Damage):
                    raise UnreadableInput(str(path), f"byte {part.position:,}: {part.error.reason}")
                found += _window(partition, part)
                part.release()
    return [each for each in found if log.log_start_offset <= each.offset < log.high_watermark]


def _window(partition: Partition, window: Window) -> Iterator[Record]:
    is_control = [BatchRow._make(window.batches.row(i)).is_control for i in range(window.batches.count)]
    table = RecordTable(TABLE_RECORDS)
    for buffer in decode(window, table):
        for i in range(table.count):
            row = RecordRow._make(table.row(i))
            if not is_control[row.batch]:
                headers = _read_headers(buffer, row.headers_start, row.headers_count)
                place = partition.topic, partition.number, row.offset
                yield Record(*place, row.timestamp, row.key(buffer), row.value(buffer), headers)


def _read_headers(buffer: memoryview, position: int, count: int) -> tuple[tuple[str, bytes | None], ...]:
    """Return the `count` record headers that begin at byte `position` of the buffer, which `decode` has validated."""
    headers = []
    for _ in range(count):
        length, position = _varint(buffer, position)
        name = str(buffer[position : position + length], "utf-8", "replace")
        length, position = _varint(buffer, position + length)
        headers.append((name, sized_bytes(buffer, position, length)))
        position += max(length, 0)
    return tuple(headers)


def _varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
