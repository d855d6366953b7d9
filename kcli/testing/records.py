"""Records into and out of a broker's logs, without a client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kcli.broker.partitions import Partition
from kcli.log.partition_log import PartitionLog
from kcli.testing.seed import SeedRecord

READ_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a log, of an open or an aborted transaction too."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = field(default=())


def append(partition: Partition, records: Sequence[SeedRecord], now_ms: int) -> None:
    """Append records as one batch. Raises AppendRefused, LogFailed, OSError."""
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


def read(partition: Partition) -> Iterator[Record]:
    """All records that are committed, control records left out. Raises LogFailed, OSError, FormatError."""
    log = partition.log
    offset = log.log_start_offset
    while (data := _read(log, offset)) is not None:
        from formats.record_batch import parse_batch

        position = 0
        while position < len(data):
            batch = parse_batch(data, position)
            position += batch.header.size
            for each in () if batch.header.is_control else batch.records:
                if batch.offset(each) >= offset:
                    headers = tuple((header.key.decode("utf-8", "replace"), header.value) for header in each.headers)
                    time_ms = batch.timestamp_ms(each)
                    where = partition.topic, partition.number, batch.offset(each), time_ms
                    yield Record(*where, each.key, each.value, headers)
            offset = batch.header.base_offset + batch.header.last_offset_delta + 1


def _read(log: PartitionLog, offset: int) -> bytes | None:
    found = log.read(offset, READ_BYTES)
    if found.region is None:
        return None
    return os.pread(found.region.fd, found.region.length, found.region.position)
