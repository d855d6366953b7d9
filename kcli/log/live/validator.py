"""A leader's validation of a batch before it appends it: checks, offsets, and conversion to the topic's codec.

    a client's batch is checked: magic 2, base offset 0, size, CRC, one batch, offsets 0..n-1, records, keys, timestamps
      in the topic's codec ("producer": any)  is patched in place: base offset, leader epoch, max timestamp, CRC
      in another codec                        is rewritten with the topic's codec

The other bytes of a batch stay as the producer sent them. Source: Kafka's UnifiedLog.analyzeAndValidateRecords and
LogValidator; error names and codes are the protocol's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from formats.compression import CODEC_NAMES, DEFAULT_LIMIT, compress, most_bytes
from formats.errors import BadCompression, BytesBehind, FormatError
from formats.kernels.append import RefusedRecords, accept_plain, check_append, check_plain_records
from formats.kernels.batches import FAULT_BAD_CODEC, FAULT_BAD_CRC, FAULT_BAD_PAYLOAD, FAULT_SHORT_HEADER, BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.columns import FAULTS, LAST_OFFSET, MAX_TIMESTAMP, BatchRow, RecordRow
from formats.kernels.crc import crc32c
from formats.kernels.records import LENGTH_VARINT, RecordTable
from formats.kernels.scan import SCAN_END, scan
from formats.kernels.write import write_records
from kcli.errors import KcliError
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.config import LogConfig
from kcli.log.live.schema_rules import SchemaRules
from kcli.log.segment_reader import Window
from kcli.protocol.error_code import ErrorCode

NO_TIMESTAMP = -1
ERRORS_SHOWN = 3
ERRORS_LISTED = 1 << 16
"""The largest number of invalid records of a batch for which RefusedRecords keeps index and reason; its `total` counts
all of them. Kafka has no such limit, but a batch of some hundred bytes may have millions of invalid records."""
NO_KEY = "Compacted topic cannot accept message without key"
COMPRESSING = 32  # compressing a byte takes at most 32 times as long as reading it
SLICE_RECORDS = 1024  # records decoded at a time: few enough that the allocator can reuse the table's memory
MAGIC = 2
HEADER_BYTES = 61
LENGTH = slice(8, 12)
LOG_APPEND_TIME = 8
TRANSACTIONAL, CONTROL, DELETE_HORIZON, CODEC_MASK = 16, 32, 64, 7


class AppendRefused(KcliError):
    """The batch is not appended. error: the code for the client. records: the invalid records, if these are the
    reason."""

    def __init__(self, error: ErrorCode, reason: str, records: RefusedRecords | None = None) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.records = records


class UnregisteredSchema(AppendRefused):
    """A record has no schema id, or one that is not registered for the topic. The response to the client has the
    reason."""


class Origin(Enum):
    """The origin of a batch: a client's Produce request, or a coordinator on this broker."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The topic's configurations that validation uses.

    Kafka's names: cleanup.policy (compacted), message.timestamp.type, message.timestamp.before.max.ms and
    .after.max.ms, max.message.bytes, compression.type (None: the producer's) with its level; schemas:
    confluent.key.schema.validation and confluent.value.schema.validation.
    """

    compacted: bool = False
    log_append_time: bool = False
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 3_600_000
    max_message_bytes: int = 1_048_588
    codec: int | None = None
    level: int | None = None
    schemas: SchemaRules | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a valid uncompressed batch is appended with its records as they are, and no key or value is looked
        at: not with LogAppendTime, with a compression.type that names a codec, or with schemas."""
        return not self.log_append_time and not self.codec and self.schemas is None

    def time_bounds(self, now_ms: int) -> tuple[int, int]:
        """Return the earliest and the latest timestamp that a record may have, in ms since 1970."""
        return max(now_ms - self.before_max_ms, -(2**63)), min(now_ms + self.after_max_ms, 2**63 - 1)


@lru_cache
def append_rules(config: LogConfig, schemas: SchemaRules | None = None) -> AppendRules:
    """Return the rules that follow from a topic's configuration. schemas: those of its records' schema ids."""
    kind = config.compression_type
    codec = None if kind == "producer" else 0 if kind == "uncompressed" else CODEC_NAMES.index(kind)
    level = config.compression_level
    return AppendRules(
        compacted=config.compact,
        log_append_time=config.message_timestamp_type == "LogAppendTime",
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        max_message_bytes=config.max_message_bytes,
        codec=codec,
        level=None if kind == "gzip" and level == -1 else level,
        schemas=schemas,
    )


@dataclass(frozen=True, slots=True)
class ValidBatch:
    """A batch ready to be written. max_timestamp: in ms since 1970; with LogAppendTime the broker's time. batches: a
    table with one row, for the batch as it is written."""

    data: bytearray
    base_offset: int
    last_offset: int
    max_timestamp: int
    batches: BatchTable


def validate(
    data: bytearray,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    rules: AppendRules,
    *,
    origin: Origin = Origin.CLIENT,
) -> ValidBatch:
    """Validate the one batch in `data`, and give its records offsets from next_offset on; `data` is changed in place if
    possible. leader_epoch: goes into the batch's header. origin: some checks are made only for a client's batch.

    Raises AppendRefused; `data` is then unchanged. Its error: CORRUPT_MESSAGE (CRC, or no whole header),
    MESSAGE_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT (magic 0, 1), INVALID_TIMESTAMP, UNKNOWN_SERVER_ERROR (a codec
    that does not exist, a payload that does not decompress), and INVALID_RECORD for every other fault of header or
    records, such as a record without a key on a compacted topic.
    """
    if origin is Origin.CLIENT and rules.is_plain:
        earliest, latest = rules.time_bounds(now_ms)
        table = BatchTable()
        if accept_plain(
            data,
            table,
            next_offset,
            leader_epoch,
            keyed=rules.compacted,
            earliest=earliest,
            latest=latest,
            max_bytes=rules.max_message_bytes,
        ):
            return ValidBatch(data, next_offset, table.field(0, LAST_OFFSET), table.field(0, MAX_TIMESTAMP), table)
    return validate_in_full(data, next_offset, leader_epoch, now_ms, rules, origin=origin)


def validate_in_full(
    data: bytearray,
    next_offset: int,
    leader_epoch: int,
    now_ms: int,
    rules: AppendRules,
    *,
    origin: Origin = Origin.CLIENT,
) -> ValidBatch:
    """Validate as `validate` does, without its fast path for ordinary batches."""
    return place(check(data, now_ms, rules, origin=origin), next_offset, leader_epoch)


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that `check` has validated by `rules`; only its offsets and leader epoch are not set yet.

    read_bytes: the size of its decompressed payload.
    """

    data: bytearray
    row: BatchRow
    records: int
    max_timestamp: int
    rules: AppendRules
    read_bytes: int


def check(
    data: bytearray,
    now_ms: int,
    rules: AppendRules,
    *,
    origin: Origin = Origin.CLIENT,
    limit_bytes: int = DEFAULT_LIMIT,
) -> CheckedBatch:
    """Validate a batch as `validate` does, but do not set its offsets and leader epoch; any thread may call this.
    limit_bytes: the most bytes that its payload may decompress to.

    Raises AppendRefused as `validate` does; `data` is then unchanged.
    """
    window, row = _one_batch(data, rules, origin)
    _check_header(row, origin)
    codec = row.codec if rules.codec is None else rules.codec
    records, consecutive, newest, read_bytes = _check_records(window, row, rules, now_ms, limit_bytes)
    rewrite = codec != row.codec
    if row.codec and not rewrite and not consecutive:
        # Kafka has to rebuild such a batch from its records; but, since the batch keeps its codec, Kafka has read the
        # records without keys and values: it throws an exception.
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "the offsets of a compressed batch do not count up by one")
    if rewrite and not (row.codec == 0 and row.is_control):
        data, newest = _rewritten(window, row, records, rules, now_ms, codec)
        row = row._replace(attributes=int.from_bytes(data[21:23]), last_offset=row.base_offset + records - 1)
        if len(data) > rules.max_message_bytes:
            raise _too_large(len(data), rules)
    elif rules.log_append_time:
        newest = now_ms
    return CheckedBatch(data, row, records, newest, rules, read_bytes)


def place(checked: CheckedBatch, next_offset: int, leader_epoch: int) -> ValidBatch:
    """Give a checked batch its offsets, from next_offset on; its data is changed in place. leader_epoch: is written to
    the batch's header."""
    data, records, newest = checked.data, checked.records, checked.max_timestamp
    timestamp_type = LOG_APPEND_TIME if checked.rules.log_append_time else 0
    _patch(data, next_offset, records, leader_epoch, checked.row, timestamp_type, newest)
    stored = BatchTable()
    scan(data, 0, len(data), 0, stored, check_crc=False)
    return ValidBatch(data, next_offset, next_offset + records - 1, newest, stored)


def most_work_bytes(data: memoryview, rules: AppendRules) -> int:
    """Return an upper bound for the work of validating a client's batch (`data`), in bytes that are read; a byte that
    must be compressed again counts COMPRESSING times. Only the batch header and the headers of zstd's blocks are
    read."""
    if len(data) < HEADER_BYTES:
        return len(data)
    codec = data[22] & CODEC_MASK
    size = len(data) if codec == 0 else min(most_bytes(codec, data[HEADER_BYTES:]), DEFAULT_LIMIT)
    return size * COMPRESSING if rules.codec and rules.codec != codec else size


def _one_batch(data: bytearray, rules: AppendRules, origin: Origin) -> tuple[Window, BatchRow]:
    table = BatchTable()
    behind, how, _ = scan(data, 0, len(data), 0, table)
    if table.count == 0:
        raise _without_header(data, origin)
    row = BatchRow._make(table.row(0))
    if row.magic != MAGIC:
        reason = f"magic {row.magic}: only record batches of magic {MAGIC} are appended"
        raise AppendRefused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, reason)
    if origin is Origin.CLIENT and row.base_offset != 0:
        raise _shifted(row.base_offset)
    if row.size > rules.max_message_bytes:
        raise _too_large(row.size, rules)
    if row.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
        raise AppendRefused(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {row.crc})")
    if table.count > 1 or (how != SCAN_END and behind < len(data)):
        raise AppendRefused(ErrorCode.INVALID_RECORD, "more than one batch, or bytes behind it")
    return Window(data, table, 0, behind), row


def _without_header(data: bytearray, origin: Origin) -> AppendRefused:
    """Return the error for bytes that end before a batch header is complete."""
    if len(data) < LENGTH.stop or LENGTH.stop + int.from_bytes(data[LENGTH], signed=True) != len(data):
        return _invalid("Record batch has no batches at all")
    base_offset = int.from_bytes(data[: LENGTH.start], signed=True)
    if origin is Origin.CLIENT and base_offset != 0:
        return _shifted(base_offset)
    reason = (
        f"Record batch is corrupt (the size {len(data)} is smaller than the minimum allowed overhead {HEADER_BYTES})"
    )
    return AppendRefused(ErrorCode.CORRUPT_MESSAGE, reason)


def _shifted(base_offset: int) -> AppendRefused:
    return _invalid(f"The base offset of the batch should be 0, but it is {base_offset}")


def _too_large(size: int, rules: AppendRules) -> AppendRefused:
    reason = f"The record batch size is {size} bytes, above the configured maximum of {rules.max_message_bytes}"
    return AppendRefused(ErrorCode.MESSAGE_TOO_LARGE, reason)


def _check_header(row: BatchRow, origin: Origin) -> None:
    if row.faults & FAULT_BAD_CODEC:
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {row.codec}")
    if origin is not Origin.CLIENT:
        return
    span = row.last_offset - row.base_offset + 1
    if span <= 0:
        raise _invalid(f"Batch has an invalid offset range: [{row.base_offset}, {row.last_offset}]")
    if row.count <= 0:
        raise _invalid(f"Invalid reported count for record batch: {row.count}")
    if span != row.count:
        raise _invalid(
            f"Inconsistent batch offset range [{row.base_offset}, {row.last_offset}] and count of records {row.count}"
        )
    if row.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if row.producer_id >= 0 and row.base_sequence < 0:
        raise _invalid(f"Invalid sequence number {row.base_sequence} in record batch with producerId {row.producer_id}")


def _invalid(reason: str) -> AppendRefused:
    return AppendRefused(ErrorCode.INVALID_RECORD, reason)


def _check_records(
    window: Window, row: BatchRow, rules: AppendRules, now_ms: int, limit_bytes: int
) -> tuple[int, bool, int, int]:
    """Check the records and their offsets. Returns the number of records, whether their offsets rise by one each, the
    largest timestamp (ms), and the bytes of the payload. limit_bytes: the most bytes that the payload may decompress
    to. Raises AppendRefused."""
    create_time = not rules.log_append_time
    earliest, latest = rules.time_bounds(now_ms)
    schemas = None if row.is_control else rules.schemas
    if schemas is None:
        plain = check_plain_records(
            window.data,
            window.batches,
            keyed=rules.compacted,
            create_time=create_time,
            earliest=earliest,
            latest=latest,
        )
        if plain is not None:
            return *plain, row.size
    elif not schemas.is_ready:
        raise AppendRefused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the schema registry is not ready yet")
    table = RecordTable(min(max(row.count, 1), SLICE_RECORDS))
    refused = RefusedRecords(ERRORS_LISTED, no_key=NO_KEY, earliest=earliest, latest=latest)
    consecutive = True
    count = read_bytes = 0
    unregistered: str | None = None
    for buffer in decode(window, table, limit_bytes=limit_bytes):
        read_bytes = len(buffer)
        if schemas is not None and unregistered is None:
            unregistered = schemas.refusal(table, buffer, count)
        in_order = check_append(table, count, refused, keyed=rules.compacted, create_time=create_time)
        consecutive = consecutive and in_order
        count += table.count
    faults = window.batches.field(0, FAULTS) & UNREADABLE
    if faults:
        reason = faults_of(window, 0, limit_bytes=limit_bytes)[0]
        if faults != FAULT_BAD_PAYLOAD or not isinstance(reason, BytesBehind):
            raise _unreadable(row, faults, reason, is_length_bad=table.explain()[0] == LENGTH_VARINT)
    if refused.total:
        error = ErrorCode.INVALID_RECORD if refused.keys_only else ErrorCode.INVALID_TIMESTAMP
        raise AppendRefused(error, refused_reason(refused), refused)
    if unregistered is not None:
        raise UnregisteredSchema(ErrorCode.INVALID_RECORD, unregistered)
    return count, consecutive, table.max_timestamp if count else NO_TIMESTAMP, read_bytes


def _unreadable(row: BatchRow, faults: int, reason: FormatError, *, is_length_bad: bool) -> AppendRefused:
    # Kafka answers two faults of a client's batch with UNKNOWN_SERVER_ERROR: a payload at which a Java stream throws an
    # exception while it decompresses; and, in an uncompressed batch, a bad varint as the length of a record.
    is_bad_stream = isinstance(reason, BadCompression) and not isinstance(reason, BytesBehind)
    is_unexpected = faults & FAULT_BAD_PAYLOAD and is_bad_stream if row.codec else is_length_bad
    return AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR if is_unexpected else ErrorCode.INVALID_RECORD, reason.reason)


def refused_reason(records: RefusedRecords) -> str:
    """Kafka's error message for a batch with invalid records."""
    if not records.keys_only:
        return "One or more records have been rejected due to invalid timestamp"
    shown = (
        f"RecordError(batchIndex={records.index(i)}, message='{records.reason(i)}')"
        for i in range(min(len(records), ERRORS_SHOWN))
    )
    return (
        f"One or more records have been rejected due to {records.total} record errors in total, "
        f"and only showing the first three errors at most: [{', '.join(shown)}]"
    )


def _rewritten(
    window: Window, row: BatchRow, records: int, rules: AppendRules, now_ms: int, codec: int
) -> tuple[bytearray, int]:
    """Return a new batch with the same records, compressed with `codec`, and its largest timestamp. The records have
    the offsets from 0 on without gaps and, with LogAppendTime, the timestamp now_ms.

    records: the number of records in the batch. Raises AppendRefused for what Kafka's builder of batches does not take.
    """
    if row.producer_id >= 0 and row.producer_epoch < 0:
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "Invalid negative producer epoch")
    negative = RefusedRecords(1, no_key=NO_KEY, earliest=0, latest=2**63 - 1)
    table = RecordTable(SLICE_RECORDS)
    body = TextBuffer()
    written = 0
    base_timestamp = newest = NO_TIMESTAMP
    for _ in decode(window, table):
        if written == 0 and table.count:
            base_timestamp = now_ms if rules.log_append_time else RecordRow._make(table.row(0)).timestamp
        check_append(table, written, negative, keyed=False, create_time=not rules.log_append_time)
        write_records(table, body, written, base_timestamp, keep_timestamps=not rules.log_append_time)
        written += table.count
    assert written == records, "the same batch decodes to the same records"
    if negative.total:
        raise AppendRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "Invalid negative timestamp")
    newest = now_ms if rules.log_append_time else table.max_timestamp
    payload = compress(codec, bytes(memoryview(body)), level=rules.level)
    attributes = codec | (LOG_APPEND_TIME if rules.log_append_time else 0) | (row.attributes & TRANSACTIONAL)
    header = struct.pack(
        ">qiibIhiqqqhii",
        0,
        HEADER_BYTES - 12 + len(payload),
        -1,
        MAGIC,
        0,
        attributes,
        records - 1,
        base_timestamp,
        newest,
        row.producer_id,
        row.producer_epoch,
        row.base_sequence,
        records,
    )
    data = bytearray(header + payload)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data, newest


def _patch(
    data: bytearray, base_offset: int, records: int, leader_epoch: int, row: BatchRow, timestamp_type: int, newest: int
) -> None:
    """Set the header fields that the leader decides. Of these, the CRC covers only timestamps and their type: it is
    computed again if they change. records: the number of records. row: the batch's header as it was checked.
    timestamp_type: LOG_APPEND_TIME, or 0 for CreateTime. newest: the largest timestamp (ms)."""
    last_delta = int.from_bytes(data[23:27], signed=True)
    struct.pack_into(">q", data, 0, base_offset + records - 1 - last_delta)
    struct.pack_into(">i", data, 12, leader_epoch)
    max_timestamp = int.from_bytes(data[35:43], signed=True)
    if row.attributes & LOG_APPEND_TIME != timestamp_type or max_timestamp != newest:
        kept = row.attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON)
        struct.pack_into(">h", data, 21, kept | timestamp_type)
        struct.pack_into(">q", data, 35, newest)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
