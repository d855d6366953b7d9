"""Decodes and encodes the records of the metadata log, in batches of its segments and snapshots.

    value of a record   frame 1, type, version as unsigned varints, message (formats.internal_topic)
    control batch       leader change, kraft.version, voters; header and footer of a snapshot (formats.control_record)

Source: MetadataRecordSerde, BatchAccumulator, BatchBuilder, RecordsIterator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from formats import control_record, internal_topic
from formats.batch_writer import Pair, write_batch
from formats.control_record import ControlRecord, ControlType
from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC
from formats.kernels.columns import BatchRow
from formats.message_schema import schema
from formats.message_writer import write
from formats.varint import put_uvarint
from kcli.errors import UnreadableInput
from kcli.log import stored_batches
from kcli.log.source import BytesSource
from kcli.log.stored_batches import StoredRecord
from kcli.metadata.image import Record

CONTROL: Final = 0x20
BATCH_RECORDS_MAX: Final = 10_000
BATCH_BYTES_MAX: Final = 8 << 20
OVERHEAD_BYTES: Final = 32
"""The most bytes that a record takes in a batch, without its value."""
HEADER_BYTES: Final = 61


class Replayed(NamedTuple):
    """A batch of the metadata log that was read from a file: a control batch has `controls` and no `records`, another
    batch `records` and no `controls`. The offsets of its records are consecutive from base_offset."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    size_bytes: int
    controls: Sequence[ControlRecord]
    records: Sequence[Record]


def encode(record: Record) -> bytes:
    """Return the value of a metadata record. Raises FormatError for fields that its schema does not allow."""
    name, version, value = record
    return _frame(name, version) + write(name, version, value)


@cache
def _frame(name: str, version: int) -> bytes:
    api_key = schema(name).api_key
    assert api_key is not None, f"{name} is a record"
    out = bytearray()
    for number in (internal_topic.FRAME_VERSION, api_key, version):
        put_uvarint(out, number)
    return bytes(out)


def decode_value(value: bytes | None) -> Record:
    """Return name, version and fields of the message in a record's value. Raises FormatError."""
    record = internal_topic.decode(METADATA_TOPIC, None, value)
    assert record.value is not None, "metadata records have values"
    assert record.value_version is not None, "and these a version"
    return record.value_name, record.value_version, record.value


def encode_control(kind: ControlType, value: dict[str, Any]) -> Pair:
    """Key and value of a control record of the metadata log. value: the fields of its message, without the version,
    which is 0."""
    key = control_record.KEY.pack((control_record.VERSION, kind))
    return key, write(control_record.MESSAGES[kind], 0, {"version": 0, **value})


def control_batch(records: Sequence[Pair], timestamp_ms: int, *, base_offset: int, epoch: int) -> bytearray:
    """Return a batch of control records, with consecutive offsets from base_offset on. timestamp_ms: the timestamp of
    all records. epoch: the leader epoch of the batch."""
    return write_batch(records, timestamp_ms, base_offset=base_offset, leader_epoch=epoch, attributes=CONTROL)


def split(values: Sequence[bytes], *, bytes_max: int = BATCH_BYTES_MAX) -> Iterator[Sequence[bytes]]:
    """Yield parts of `values`, in order, each small enough for one batch: of at most bytes_max bytes, unless a single
    value is longer, and of at most BATCH_RECORDS_MAX records, Kafka's limit."""
    begin = size = 0
    for i, value in enumerate(values):
        more = len(value) + OVERHEAD_BYTES
        if i > begin and (size + more > bytes_max - HEADER_BYTES or i - begin == BATCH_RECORDS_MAX):
            yield values[begin:i]
            begin, size = i, 0
        size += more
    if begin < len(values):
        yield values[begin:]


def read_batches(path: Path, from_offset: int = 0) -> Iterator[Replayed]:
    """Yield the batches of a segment or a snapshot, without those whose base offset is below from_offset.

    Raises UnreadableInput, with the byte position or the offset, for damaged bytes.
    """
    for row, records in stored_batches.read_batches(path, from_offset):
        yield _batch(str(path), row, records)


def batches_in(data: bytes, name: str, from_offset: int = 0) -> Iterator[Replayed]:
    """Yield the batches in the bytes of a part of the log, as `read_batches` does. name: the file's name in errors.
    from_offset: as for `read_batches`. Raises UnreadableInput."""
    for row, records in stored_batches.batches_of(BytesSource(data, name), from_offset):
        yield _batch(name, row, records)


def _batch(name: str, row: BatchRow, stored: list[StoredRecord]) -> Replayed:
    controls: list[ControlRecord] = []
    records: list[Record] = []
    for offset, key, value in stored:
        try:
            if row.is_control:
                controls.append(control_record.parse(key, value))
            else:
                records.append(decode_value(value))
        except FormatError as error:
            raise UnreadableInput(name, f"offset {offset:,}: {error.reason}") from None
    found = [each.offset for each in stored]
    if found != [*range(row.base_offset, row.base_offset + len(stored))] or found[-1:] != [row.last_offset]:
        reason = f"offsets {row.base_offset:,} to {row.last_offset:,} with a gap"
        raise UnreadableInput(name, f"byte {row.position:,}: {reason}")
    return Replayed(row.base_offset, row.last_offset, row.leader_epoch, row.max_timestamp, row.size, controls, records)
