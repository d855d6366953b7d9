"""Batches as clients and coordinators send them."""

from __future__ import annotations

from formats.control_record import ControlRecordKey, ControlType
from formats.record_batch import CONTROL, TRANSACTIONAL, BatchHeader, Record, RecordBatch, build_batch

NOW_MS = 1_795_260_701_791


def batch(
    *values: bytes,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    transactional: bool = False,
    timestamp_ms: int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: int = 0,
) -> bytearray:
    """A batch with one record for each value, 1 ms apart. producer: id and epoch."""
    records = tuple(Record(0, i, i, b"key", value) for i, value in enumerate(values))
    attributes = codec | (TRANSACTIONAL if transactional else 0)
    return _built(records, attributes, producer, sequence, timestamp_ms, base_offset, leader_epoch)


def keyed(key: bytes | None, value: bytes | None, *, base_offset: int = 0, leader_epoch: int = 0) -> bytes:
    """A batch of one record, as a coordinator writes it."""
    return bytes(_built((Record(0, 0, 0, key, value),), 0, (-1, -1), -1, NOW_MS, base_offset, leader_epoch))


def marker(
    producer: tuple[int, int],
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    timestamp_ms: int = NOW_MS,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    key = ControlRecordKey(0, kind)
    value = bytes(2) + coordinator_epoch.to_bytes(4)
    records = (Record(0, 0, 0, b"".join(part.to_bytes(2) for part in key[:2]), value),)
    return _built(records, TRANSACTIONAL | CONTROL, producer, -1, timestamp_ms, base_offset, leader_epoch)


def _built(
    records: tuple[Record, ...],
    attributes: int,
    producer: tuple[int, int],
    sequence: int,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> bytearray:
    last = len(records) - 1
    times = timestamp_ms, timestamp_ms + last
    header = BatchHeader(
        base_offset, 0, leader_epoch, 2, 0, attributes, last, *times, *producer, sequence, len(records)
    )
    return bytearray(build_batch(RecordBatch(header, records)))
