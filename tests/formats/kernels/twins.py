"""The kernels' slow twins: the rows and lines they must give, from the Construct definitions and plain Python."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from formats import compression, legacy
from formats.crc32c import crc32c
from formats.java_text import java_utf8
from formats.kernels.batches import (
    FAULT_CONTROL_KEY,
    FAULT_HEADER_NOT_UTF8,
    FAULT_MAX_TIMESTAMP,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
)
from formats.kernels.columns import BatchRow
from formats.record_batch import HEADER, Record, build_record, parse_batch
from kcli.printable import has_hidden

ControlText = Callable[[bytes | None, bytes | None], str]


@dataclass(frozen=True)
class RecordTwin:
    """A record; `start` is its byte in the log, or in the decompressed payload of its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]
    start: int
    crc: int = -1
    valid: bool = True


@dataclass(frozen=True)
class BatchTwin:
    """A batch; `payload_bytes` is what its records take once decompressed."""

    row: BatchRow
    records: tuple[RecordTwin, ...]
    payload_bytes: int


def int64(value: int) -> int:
    """Java's long: the lower 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def int32(value: int) -> int:
    """Java's int."""
    return (value + 2**31) % 2**32 - 2**31


def sequence_after(sequence: int, increment: int) -> int:
    """DefaultRecordBatch.incrementSequence, in Java's int arithmetic."""
    if sequence > int32(2**31 - 1 - increment):
        return int32(increment - int32(2**31 - 1 - sequence) - 1)
    return int32(sequence + increment)


def read_log(data: bytes) -> list[BatchTwin]:
    """The batches of a log in which everything is well framed."""
    found: list[BatchTwin] = []
    position = 0
    while position < len(data):
        found.append(_batch(data, position) if data[position + 16] == 2 else _message(data, position))
        position += found[-1].row.size
    return found


def _batch(data: bytes, position: int) -> BatchTwin:
    batch = parse_batch(data, position)
    header = batch.header
    start = 0 if header.codec else position + HEADER.size
    records: list[RecordTwin] = []
    for each in batch.records:
        offset, time = int64(batch.offset(each)), int64(batch.timestamp_ms(each))
        records.append(RecordTwin(offset, time, each.key, each.value, tuple(map(tuple, each.headers)), start))  # type: ignore[arg-type]
        start += len(build_record(each))
    row = BatchRow(
        position=position,
        start=position,
        size=header.size,
        base_offset=header.base_offset,
        last_offset=int64(header.last_offset),
        leader_epoch=header.partition_leader_epoch,
        magic=2,
        attributes=header.attributes if header.attributes < 2**15 else header.attributes - 2**16,
        crc=header.crc,
        crc_computed=crc32c(data[position + 21 : position + header.size]),
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        count=header.record_count,
        faults=0,
    )
    row = row._replace(faults=_faults(row, batch.records, records))
    return BatchTwin(row, tuple(records), sum(len(build_record(each)) for each in batch.records))


def _faults(row: BatchRow, stored: tuple[Record, ...], records: list[RecordTwin]) -> int:
    found, last_delta = 0, -1
    for each, record in zip(stored, records, strict=True):
        if each.offset_delta <= last_delta:
            found |= FAULT_OFFSETS_NOT_INCREASING
        last_delta = each.offset_delta
        if each.offset_delta < 0 or record.offset > row.last_offset:
            found |= FAULT_OFFSET_OUT_OF_RANGE
        if row.is_control and (each.key is None or len(each.key) < 4 or each.key[0] > 127):
            found |= FAULT_CONTROL_KEY
        if not all(is_utf8(name) for name, _ in each.headers):
            found |= FAULT_HEADER_NOT_UTF8
    largest = max((record.timestamp for record in records), default=-1)
    if records and max(largest, -1) != row.max_timestamp and not (largest <= -1 and row.max_timestamp < 0):
        found |= FAULT_MAX_TIMESTAMP
    return found


def _message(data: bytes, position: int) -> BatchTwin:
    message = legacy.parse_message(data, position)
    crc = int.from_bytes(data[position + 12 : position + 16])
    records: list[RecordTwin] = []
    if message.codec:
        assert message.value is not None
        plain = compression.decompress(message.codec, message.value, magic=message.magic)
        at = 0
        for each in legacy.unwrap(message):
            inner_crc = int.from_bytes(plain[at + 12 : at + 16])
            records.append(RecordTwin(each.offset, each.timestamp, each.key, each.value, (), at, inner_crc))
            at += each.size
    else:
        records.append(RecordTwin(message.offset, message.timestamp, message.key, message.value, (), position, crc))
        at = 0
    faults = 0
    if message.codec and message.magic and max(each.timestamp for each in records) != message.timestamp:
        faults |= FAULT_MAX_TIMESTAMP
    row = BatchRow(
        position=position,
        start=position,
        size=message.size,
        base_offset=message.offset,
        last_offset=message.offset,
        leader_epoch=-1,
        magic=message.magic,
        attributes=message.attributes,
        crc=crc,
        crc_computed=zlib.crc32(data[position + 16 : position + message.size]),
        base_timestamp=message.timestamp,
        max_timestamp=message.timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=-1,
        faults=faults,
    )
    return BatchTwin(row, tuple(records), at)


def is_utf8(data: bytes) -> bool:
    """Does Python decode it?"""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _timestamp_type(row: BatchRow) -> str:
    return "NoTimestampType" if row.magic == 0 else "LogAppendTime" if row.is_append_time else "CreateTime"


def _sequence(row: BatchRow, record: RecordTwin) -> int:
    return sequence_after(row.base_sequence, int32(record.offset - row.base_offset)) if row.base_sequence >= 0 else -1


def kafka_batch_line(row: BatchRow) -> str:
    """What kafka-dump-log prints of a batch."""
    horizon = "OptionalLong.empty" if row.delete_horizon_ms is None else f"OptionalLong[{row.delete_horizon_ms}]"
    last = -1
    if row.base_sequence != -1:
        last = sequence_after(row.base_sequence, int32(row.last_offset - row.base_offset))
    begin = f"offset: {row.last_offset}"
    if row.magic == 2:
        begin = (
            f"baseOffset: {row.base_offset} lastOffset: {row.last_offset} count: {row.count} "
            f"baseSequence: {row.base_sequence} lastSequence: {last} "
            f"producerId: {row.producer_id} producerEpoch: {row.producer_epoch} "
            f"partitionLeaderEpoch: {row.leader_epoch} isTransactional: {str(row.is_transactional).lower()} "
            f"isControl: {str(row.is_control).lower()} deleteHorizonMs: {horizon}"
        )
    return (
        f"{begin} position: {row.position} {_timestamp_type(row)}: {row.max_timestamp} size: {row.size} "
        f"magic: {row.magic} compresscodec: {compression.CODEC_NAMES[row.codec]} crc: {row.crc} "
        f"isvalid: {str(row.crc == row.crc_computed).lower()}\n"
    )


def kafka_record_line(
    row: BatchRow, record: RecordTwin, *, contents: bool, metadata: bool, control_text: ControlText
) -> str:
    """What kafka-dump-log prints of a record."""
    parts: list[str] = []
    if metadata:
        sizes = [-1 if each is None else len(each) for each in (record.key, record.value)]
        line = (
            f"| offset: {record.offset} {_timestamp_type(row)}: {record.timestamp} "
            f"keySize: {sizes[0]} valueSize: {sizes[1]}"
        )
        if row.magic == 2:
            names = ",".join(java_utf8(name) for name, _ in record.headers)
            line += f" sequence: {_sequence(row, record)} headerKeys: [{names}]"
        else:
            line += f" isValid: {str(record.valid).lower()} crc: {record.crc}"
        parts.append(line + (control_text(record.key, record.value) if row.is_control else ""))
    if contents and not row.is_control:
        parts += [f"key: {java_utf8(record.key)}"] if record.key is not None else []
        parts += [f"payload: {java_utf8(record.value)}"] if record.value is not None else []
        if not metadata and parts:
            parts.insert(0, "|")
    return " ".join(parts) + "\n"


def kafka_lines(batches: list[BatchTwin], **options: Any) -> Iterator[str]:
    """All of it, as with --deep-iteration."""
    for batch in batches:
        yield kafka_batch_line(batch.row)
        for record in batch.records:
            yield kafka_record_line(batch.row, record, **options)


def json_object(row: BatchRow, record: RecordTwin) -> dict[str, Any]:
    """Return a record as the kernel's JSON line has it."""

    def field(data: bytes | None) -> Any:
        if data is None or is_utf8(data):
            return None if data is None else data.decode()
        return {"base64": base64.b64encode(data).decode()}

    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": _timestamp_type(row),
        "key": field(record.key),
        "value": field(record.value),
        "headers": [[field(name), field(value)] for name, value in record.headers],
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "sequence": _sequence(row, record),
        "leader_epoch": row.leader_epoch,
        "is_control": row.is_control,
        "is_transactional": row.is_transactional,
        "codec": compression.CODEC_NAMES[row.codec],
        "batch_base_offset": row.base_offset,
        "position": row.position,
    }


def iso(ms: int) -> str:
    """UTC with milliseconds, the number itself outside of the years 1 to 9999."""
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f".{moment.microsecond // 1000:03}Z"


def shown(data: bytes | None, fold: int = -1) -> str:
    """A byte field in the table."""
    if data is None:
        return "null"
    cut = data if fold < 0 else data[:fold]
    more = f"... ({len(data):,} B)" if len(cut) < len(data) else ""
    if not is_utf8(data):
        return f"0x{cut.hex()}{more}"
    text = cut.decode(errors="ignore")
    if not text or text.strip(" ") != text or text[0] == '"' or text == "null" or text[:2] == "0x" or has_hidden(text):
        text = f'"{"".join(map(_escaped, text))}"'
    return text + more


def _escaped(char: str) -> str:
    names = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return names.get(char) or (f"\\u{ord(char):04x}" if has_hidden(char) else char)


def table_batch_line(batch: BatchTwin) -> str:
    """What the table says of a batch."""
    row = batch.row
    parts = [f"batch @{row.position}"]
    if row.magic == 2:
        parts += [f"{row.base_offset}..{row.last_offset}", f"{row.count:,} record{'' if row.count == 1 else 's'}"]
    else:
        parts += [str(row.base_offset), f"magic {row.magic}"]
    size = f"{row.size:,} B"
    if row.codec:
        size += f" -> {batch.payload_bytes + (HEADER.size if row.magic == 2 else 0):,} B"
    parts += [compression.CODEC_NAMES[row.codec], size]
    parts += ["LogAppendTime"] if row.is_append_time else []
    if row.magic == 2:
        parts.append(f"leader epoch {row.leader_epoch}")
        if row.producer_id != -1:
            producer = f"producer {row.producer_id} epoch {row.producer_epoch}"
            if row.base_sequence != -1:
                last = sequence_after(row.base_sequence, int32(row.last_offset - row.base_offset))
                producer += f" sequence {row.base_sequence}..{last}"
            parts.append(producer)
        parts += ["transactional"] if row.is_transactional else []
        parts += ["control"] if row.is_control else []
        parts += [f"delete horizon {iso(row.base_timestamp)}"] if row.delete_horizon_ms is not None else []
    return "  ".join(parts) + "\n"


def table_record_line(
    row: BatchRow, record: RecordTwin, *, fold: int, raw_time: bool, control_text: ControlText
) -> str:
    """What the table says of a record."""
    time = str(record.timestamp) if raw_time or record.timestamp == -1 else iso(record.timestamp)
    line = f"  {record.offset}  {time}"
    if row.is_control:
        line += " " + control_text(record.key, record.value)
    else:
        line += f"  key {shown(record.key, fold)}  value {shown(record.value, fold)}"
    if record.headers:
        pairs = (f"{shown(name, fold)}={shown(value, fold)}" for name, value in record.headers)
        line += f"  headers {' '.join(pairs)}"
    return line + "\n"


def table_lines(batches: list[BatchTwin], **options: Any) -> Iterator[str]:
    """All of it."""
    for batch in batches:
        yield table_batch_line(batch)
        for record in batch.records:
            yield table_record_line(batch.row, record, **options)
