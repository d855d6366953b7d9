"""Record batch, magic 2: the content of a `.log` file, a KRaft snapshot, a Produce request and a Fetch response.

    header        61 bytes, big endian: the fields of BatchHeader. batch_length counts the bytes behind it (49 + those
                  of the records), crc covers the bytes behind it: not base offset and leader epoch, which brokers set
    attributes    bits 0-2 codec, 3 timestamp type (0 create, 1 log append: all records have max_timestamp),
                  4 transactional, 5 control, 6 base_timestamp is the delete horizon (KIP-534)
    records       record_count records, compressed together with the codec
      record      varint length of the bytes behind it, int8 attributes (unused), varlong timestamp delta, varint
                  offset delta, key, value, varint number of headers, headers
      key, value  varint length (-1: null), bytes
      header      varint length, bytes of a UTF-8 key; varint length (-1: null), bytes of a value

Compaction leaves gaps in the offset deltas, and empty batches that only keep a producer's last sequence.
Source: DefaultRecordBatch, DefaultRecord; KIP-98, KIP-82.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

import construct

from formats import compression
from formats.crc32c import crc32c
from formats.errors import BadChecksum, BadCount, BadLength, BadMagic, FormatError, Truncated
from formats.fixed import Field, FixedLayout
from formats.primitives import (
    Array,
    BytesOfVarint,
    NullableBytesOfVarint,
    Sized,
    Varint,
    Varlong,
    build,
    parse,
)

MAGIC = 2
MAGIC_AT = 16
LENGTH_AT = 8
CRC_AT = 17
CRC_FROM = 21
LENGTH_FROM = 12  # batch_length counts the bytes from here on
RECORD_SIZE_MIN = 7

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class BatchHeader(NamedTuple):
    """The 61 bytes before the records; times in milliseconds since 1970, -1 if there is none."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes, header included."""
        return LENGTH_FROM + self.batch_length

    @property
    def last_offset(self) -> int:
        """The batch's last offset; compaction may have removed the record at it."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> int:
        """The codec id: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamp type is LogAppendTime: all records have max_timestamp, which the broker set."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction: a read_committed consumer waits for the transaction marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds control records (formats.control_record), which no application receives."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time in milliseconds since 1970 from which the cleaner may drop the batch's tombstones or marker; None
        before the cleaner's first pass (KIP-534).
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


HEADER = FixedLayout(
    "batch header",
    BatchHeader,
    Field("base_offset", "int64", "offset of the first record; set by the broker"),
    Field("batch_length", "int32", "bytes behind this field: 49 and the records"),
    Field("partition_leader_epoch", "int32", "epoch of the leader that appended the batch; set by the broker"),
    Field("magic", "int8", "2"),
    Field("crc", "uint32", "CRC-32C of all that follows"),
    Field("attributes", "uint16", "codec, timestamp type, transactional, control, delete horizon: see above"),
    Field("last_offset_delta", "int32", "last offset that the batch takes, less base_offset"),
    Field("base_timestamp", "int64", "what timestamp deltas count from, ms; the delete horizon if bit 6 is set"),
    Field("max_timestamp", "int64", "largest timestamp of the batch, ms; with bit 3 that of every record"),
    Field("producer_id", "int64", "of an idempotent or transactional producer, else -1"),
    Field("producer_epoch", "int16", "its epoch, else -1"),
    Field("base_sequence", "int32", "sequence number of the first record, else -1; wraps to 0 after 2^31-1"),
    Field("record_count", "int32", "records that are here (compaction takes some away)"),
)

RecordBatchHeader = HEADER.construct

RecordHeaderBody = construct.Struct(
    "key" / BytesOfVarint * "UTF-8, never null",
    "value" / NullableBytesOfVarint * "any bytes",
)

RecordBody = construct.Struct(
    "attributes" / construct.Int8sb * "unused, 0",
    "timestamp_delta" / Varlong * "timestamp less base_timestamp, ms",
    "offset_delta" / Varint * "offset less base_offset",
    "key" / NullableBytesOfVarint * "any bytes",
    "value" / NullableBytesOfVarint * "any bytes; null is a tombstone on a compacted topic",
    "headers" / Array(RecordHeaderBody, "headers") * "names may repeat, order counts (KIP-82)",
)

RecordStruct = Sized(RecordBody)


class RecordHeader(NamedTuple):
    """One header of a record. The key should be UTF-8, which no broker checks. value: None for null."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record. timestamp_delta (ms) and offset_delta are relative to the batch's base_timestamp and base_offset;
    key and value are None for null.
    """

    attributes: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch: the header as stored, the records decompressed."""

    header: BatchHeader
    records: tuple[Record, ...]

    def offset(self, record: Record) -> int:
        """Return the offset of one of the records."""
        return self.header.base_offset + record.offset_delta

    def timestamp_ms(self, record: Record) -> int:
        """Return the timestamp of one of the records, in milliseconds since 1970, -1 for none."""
        if self.header.is_log_append_time:
            return self.header.max_timestamp
        return self.header.base_timestamp + record.timestamp_delta


def parse_header(data: bytes | memoryview, position: int = 0) -> BatchHeader:
    """Return the header of the batch that begins at byte `position`. Raises Truncated, BadMagic, BadLength."""
    if len(data) <= position + MAGIC_AT:
        raise Truncated(f"{max(0, len(data) - position)} bytes where a batch should begin", position)
    if data[position + MAGIC_AT] != MAGIC:
        raise BadMagic(f"magic {data[position + MAGIC_AT]}, not {MAGIC}", position + MAGIC_AT)
    header = HEADER.unpack(data, position)
    if header.size < HEADER.size:
        raise BadLength(f"batch length {header.batch_length}, less than the header takes", position + LENGTH_AT)
    return header


def parse_batch(data: bytes | memoryview, position: int = 0, *, limit: int = compression.DEFAULT_LIMIT) -> RecordBatch:
    """Return the batch that begins at byte `position`; its lengths, CRC, codec, record count and records are checked.

    limit: the most bytes that the records may decompress to. Raises FormatError; the position of a fault inside
    compressed records is that of the first compressed byte, and its reason names the byte of the decompressed records.
    """
    header = parse_header(data, position)
    end = position + header.size
    if end > len(data):
        raise Truncated(f"a batch of {header.size:,} bytes, {end - len(data):,} of them missing", position)
    batch = memoryview(data)[position:end]
    computed = crc32c(batch[CRC_FROM:])
    if computed != header.crc:
        raise BadChecksum(f"CRC is 0x{header.crc:08x}, bytes give 0x{computed:08x}", position + CRC_AT)
    payload, start = batch[HEADER.size :], position + HEADER.size
    if header.codec == compression.NONE or not (payload or header.record_count):
        try:
            return RecordBatch(header, parse_records(payload, header.record_count))
        except FormatError as error:
            raise error.at(start) from None
    try:
        plain = compression.decompress(header.codec, payload, limit=limit)
    except FormatError as error:
        raise error.at(start) from None
    try:
        return RecordBatch(header, parse_records(plain, header.record_count))
    except FormatError as error:
        raise type(error)(f"{error.reason}, at byte {error.position} of the decompressed records", start) from None


def parse_records(data: bytes | memoryview, count: int) -> tuple[Record, ...]:
    """Return the `count` records that lie in `data`, decompressed, end to end.

    Raises FormatError with positions in `data`.
    """
    if not 0 <= count <= len(data) // RECORD_SIZE_MIN:
        raise BadCount(f"a record count of {count:,} for {len(data):,} bytes of records", 0)
    data = bytes(data)
    records: list[Record] = []
    position = 0
    for index in range(count):
        if position == len(data):
            raise BadCount(f"a record count of {count:,}, but only {index:,} records", position)
        record, position = parse_record(data, position)
        records.append(record)
    if position < len(data):
        raise BadCount(f"{len(data) - position:,} bytes behind the last of {count:,} records", position)
    return tuple(records)


def parse_record(data: bytes, position: int = 0) -> tuple[Record, int]:
    """Return the record that begins at byte `position` of decompressed records, and the position behind it.

    Raises FormatError.
    """
    fields, end = parse(RecordStruct, data, position)
    headers = tuple(RecordHeader(header.key, header.value) for header in fields.headers)
    deltas = fields.timestamp_delta, fields.offset_delta
    return Record(fields.attributes, *deltas, fields.key, fields.value, headers), end


def build_record(record: Record) -> bytes:
    """Return the bytes of one record, its length first. Raises BadValue."""
    headers = [header._asdict() for header in record.headers]
    return build(RecordStruct, asdict(record) | {"headers": headers})


def build_batch(batch: RecordBatch, *, level: int | None = None) -> bytes:
    """Return the bytes of a batch. Length, CRC and record count are computed, the other fields taken as they are.

    Records are compressed with the header's codec at `level`, None for its default. Raises BadValue, BadCodec.
    """
    plain = b"".join(map(build_record, batch.records))
    payload = compression.compress(batch.header.codec, plain, level=level)
    header = batch.header._replace(
        batch_length=HEADER.size - LENGTH_FROM + len(payload), crc=0, record_count=len(batch.records)
    )
    covered = HEADER.pack(header)[CRC_FROM:] + payload
    return HEADER.pack(header._replace(crc=crc32c(covered)))[:CRC_FROM] + covered
