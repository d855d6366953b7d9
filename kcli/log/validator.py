"""What a leader does to a batch before it appends it: check everything, give it offsets, fit it to the topic.

    a batch of magic 2 from a client: base offset 0, one batch, CRC, size, offsets 0..n-1, records, keys, timestamps
      same codec, LogAppendTime or not   patched in place: base offset, leader epoch, max timestamp (then a new CRC)
      another codec than the topic's     written anew with the topic's codec

The bytes inside a batch are otherwise the producer's. Source: Kafka's UnifiedLog.analyzeAndValidateRecords and
LogValidator; error names and codes are the protocol's.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache

from formats.compression import CODEC_NAMES, DEFAULT_LIMIT, compress, most_bytes
from formats.errors import BadCompression, FormatError
from formats.kernels.columns import FAULTS, LAST_OFFSET, MAX_TIMESTAMP, BatchRow, RecordRow
from formats.kernels.log import (
    APPEND_NO_KEY,
    APPEND_TIMESTAMP_TYPE,
    FAULT_BAD_CODEC,
    FAULT_BAD_CRC,
    FAULT_BAD_PAYLOAD,
    FAULT_SHORT_HEADER,
    SCAN_END,
    BatchTable,
    RecordTable,
    TextBuffer,
    accept_plain,
    check_append,
    check_plain_records,
    crc32c,
    scan,
    write_records,
)
from kcli.errors import KcliError
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.config import LogConfig
from kcli.log.segment_reader import Window

NO_TIMESTAMP = -1
ERRORS_SHOWN = 3
NO_KEY = "Compacted topic cannot accept message without key"
COMPRESSING = 32  # how much longer than reading a byte it takes to compress it, at most
SLICE_RECORDS = 1024  # small enough for memory that is used again and again
MAGIC = 2
HEADER_BYTES = 61
CREATE_TIME, LOG_APPEND_TIME = 0, 8
TRANSACTIONAL, CONTROL, DELETE_HORIZON, CODEC_MASK = 16, 32, 64, 7
KNOWN_ATTRIBUTES = 0x7F


class AppendError(IntEnum):
    """Why a batch is refused: the protocol's error codes."""

    UNKNOWN_SERVER_ERROR = -1
    CORRUPT_MESSAGE = 2
    MESSAGE_TOO_LARGE = 10
    RECORD_LIST_TOO_LARGE = 18
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    TRANSACTION_COORDINATOR_FENCED = 52
    INVALID_RECORD = 87


@dataclass(frozen=True, slots=True)
class RecordError:
    """One record that is refused, by its index in the batch."""

    index: int
    reason: str


class AppendRefused(KcliError):
    """The batch is not appended; `records` names the faulty ones, where it is about records."""

    def __init__(self, error: AppendError, reason: str, records: tuple[RecordError, ...] = ()) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.records = records


class Origin(Enum):
    """Who appends: a client's produce request, or a coordinator of the broker itself."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The topic's configuration, as far as it concerns one batch. Kafka's names: cleanup.policy (compacted),
    message.timestamp.type, message.timestamp.before.max.ms and .after.max.ms, max.message.bytes, compression.type
    (None: the producer's) with its level."""

    compacted: bool = False
    log_append_time: bool = False
    before_max_ms: int = 2**63 - 1
    after_max_ms: int = 3_600_000
    max_message_bytes: int = 1_048_588
    codec: int | None = None
    level: int | None = None

    @property
    def is_plain(self) -> bool:
        """Do they leave a batch that is not compressed as it is?"""
        return not self.log_append_time and not self.codec

    def time_bounds(self, now_ms: int) -> tuple[int, int]:
        """The earliest and the latest timestamp that a record may have."""
        return max(now_ms - self.before_max_ms, -(2**63)), min(now_ms + self.after_max_ms, 2**63 - 1)


@lru_cache
def append_rules(config: LogConfig) -> AppendRules:
    """The rules that a topic's configuration makes."""
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
    )


@dataclass(frozen=True, slots=True)
class ValidBatch:
    """A batch ready to be written; timestamps in ms, `now_ms` as its LogAppendTime where the topic has that.

    batches: its one row, as it is to be written.
    """

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
    """Check the one batch in `data`, give it offsets from next_offset on; `data` is changed in place where it can be.

    Raises AppendRefused; then nothing of `data` has changed.
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
    """As validate, for any batch: with the reason where it is refused."""
    return place(check(data, now_ms, rules, origin=origin), next_offset, leader_epoch)


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch that is as it is to be appended by `rules`, but for what its place in the log decides.

    read_bytes: what its payload was decompressed to.
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
    """What can be done to a batch before its log is asked; any thread may do it. limit_bytes bounds its payload.

    Raises AppendRefused; then nothing of `data` has changed.
    """
    window, row = _one_batch(data, rules, origin)
    _check_header(row, origin)
    codec = row.codec if rules.codec is None else rules.codec
    records, consecutive, newest, read_bytes = _check_records(window, row, rules, now_ms, limit_bytes)
    # Kafka looks at the deltas only where either side is compressed.
    rewrite = codec != row.codec or (row.codec != 0 and not consecutive)
    if rewrite and not (row.codec == 0 and row.is_control):
        data, newest = _rewritten(window, row, records, rules, now_ms, codec)
        row = row._replace(attributes=int.from_bytes(data[21:23]), last_offset=row.base_offset + records - 1)
        if len(data) > rules.max_message_bytes:
            raise _too_large(len(data), rules)
    elif rules.log_append_time:
        newest = now_ms
    return CheckedBatch(data, row, records, newest, rules, read_bytes)


def place(checked: CheckedBatch, next_offset: int, leader_epoch: int) -> ValidBatch:
    """Give a batch offsets from next_offset on; its data is changed in place."""
    data, records, newest = checked.data, checked.records, checked.max_timestamp
    timestamp_type = LOG_APPEND_TIME if checked.rules.log_append_time else 0
    _patch(data, next_offset, records, leader_epoch, checked.row, timestamp_type, newest)
    stored = BatchTable()
    scan(data, 0, len(data), 0, stored, check_crc=False)
    return ValidBatch(data, next_offset, next_offset + records - 1, newest, stored)


def most_work_bytes(data: memoryview, rules: AppendRules) -> int:
    """At most so many bytes are to be looked at to check a batch of a client; those that are compressed anew count
    many times. Looks at the header alone, and at those of zstd's blocks."""
    if len(data) < HEADER_BYTES:
        return len(data)
    codec = data[22] & CODEC_MASK
    size = len(data) if codec == 0 else min(most_bytes(codec, data[HEADER_BYTES:]), DEFAULT_LIMIT)
    return size * COMPRESSING if rules.codec and rules.codec != codec else size


def _one_batch(data: bytearray, rules: AppendRules, origin: Origin) -> tuple[Window, BatchRow]:
    table = BatchTable()
    behind, how, _ = scan(data, 0, len(data), 0, table)
    if table.count == 0:
        raise AppendRefused(AppendError.INVALID_RECORD, "Record batch has no batches at all")
    row = BatchRow._make(table.row(0))
    if row.magic != MAGIC:
        reason = f"magic {row.magic}: only record batches of magic {MAGIC} are appended"
        raise AppendRefused(AppendError.UNSUPPORTED_FOR_MESSAGE_FORMAT, reason)
    if origin is Origin.CLIENT and row.base_offset != 0:
        reason = f"The base offset of the batch should be 0, but it is {row.base_offset}"
        raise AppendRefused(AppendError.INVALID_RECORD, reason)
    if row.size > rules.max_message_bytes:
        raise _too_large(row.size, rules)
    if row.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
        raise AppendRefused(AppendError.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {row.crc})")
    if table.count > 1 or (how != SCAN_END and behind < len(data)):
        raise AppendRefused(AppendError.INVALID_RECORD, "more than one batch, or bytes behind it")
    return Window(data, table, 0, behind), row


def _too_large(size: int, rules: AppendRules) -> AppendRefused:
    reason = f"The record batch size is {size} bytes, above the configured maximum of {rules.max_message_bytes}"
    return AppendRefused(AppendError.MESSAGE_TOO_LARGE, reason)


def _check_header(row: BatchRow, origin: Origin) -> None:
    if row.faults & FAULT_BAD_CODEC:
        raise AppendRefused(AppendError.UNKNOWN_SERVER_ERROR, f"Unknown compression type id: {row.codec}")
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
    if row.producer_id != -1 and row.base_sequence < 0:
        raise _invalid(f"Invalid sequence number {row.base_sequence} in record batch with producerId {row.producer_id}")


def _invalid(reason: str) -> AppendRefused:
    return AppendRefused(AppendError.INVALID_RECORD, reason)


def _check_records(
    window: Window, row: BatchRow, rules: AppendRules, now_ms: int, limit_bytes: int
) -> tuple[int, bool, int, int]:
    """How many records there are, whether their offsets count up by one, the largest timestamp, and the bytes of the
    payload."""
    create_time = not rules.log_append_time
    earliest, latest = rules.time_bounds(now_ms)
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
    table = RecordTable(min(max(row.count, 1), SLICE_RECORDS))
    errors: list[RecordError] = []
    keys_only = consecutive = True
    seen = read_bytes = 0
    for buffer in decode(window, table, limit_bytes=limit_bytes):
        read_bytes = len(buffer)
        found, in_order = check_append(
            table,
            seen,
            keyed=rules.compacted,
            create_time=create_time,
            earliest=earliest,
            latest=latest,
        )
        for index, code in found:
            record = RecordRow._make(table.row(index - seen))
            errors.append(RecordError(index, _record_reason(code, record, earliest, latest)))
            keys_only = keys_only and code == APPEND_NO_KEY
        consecutive = consecutive and in_order
        seen += table.count
    faults = window.batches.field(0, FAULTS)
    if faults & UNREADABLE:
        raise _unreadable(window, row, faults, limit_bytes)
    if errors:
        raise _refused_records(tuple(errors), keys_only=keys_only)
    return seen, consecutive, table.max_timestamp if seen else NO_TIMESTAMP, read_bytes


def _unreadable(window: Window, row: BatchRow, faults: int, limit_bytes: int) -> AppendRefused:
    reason: FormatError = faults_of(window, 0, limit_bytes=limit_bytes)[0]
    # What a Java stream throws while it decompresses ends as an unknown error, what follows the last record does not.
    in_codec = (
        faults & FAULT_BAD_PAYLOAD and isinstance(reason, BadCompression) and "behind the end" not in reason.reason
    )
    error = AppendError.UNKNOWN_SERVER_ERROR if in_codec and row.codec else AppendError.INVALID_RECORD
    return AppendRefused(error, reason.reason)


def _refused_records(records: tuple[RecordError, ...], *, keys_only: bool) -> AppendRefused:
    if not keys_only:
        reason = "One or more records have been rejected due to invalid timestamp"
        return AppendRefused(AppendError.INVALID_TIMESTAMP, reason, records)
    shown = ", ".join(f"record {error.index}: {error.reason}" for error in records[:ERRORS_SHOWN])
    reason = f"One or more records have been rejected due to {len(records)} record errors in total: {shown}"
    return AppendRefused(AppendError.INVALID_RECORD, reason, records)


def _record_reason(code: int, row: RecordRow, earliest: int, latest: int) -> str:
    if code == APPEND_NO_KEY:
        return NO_KEY
    if code == APPEND_TIMESTAMP_TYPE:
        return "Producer should not set timestamp type to LogAppendTime"
    return (
        f"Timestamp {row.timestamp} of message with offset {row.offset} is out of range. "
        f"The timestamp should be within [{earliest}, {latest}]"
    )


def _rewritten(
    window: Window, row: BatchRow, records: int, rules: AppendRules, now_ms: int, codec: int
) -> tuple[bytearray, int]:
    """The batch with its records written anew and compressed with `codec`; and its largest timestamp."""
    table = RecordTable(SLICE_RECORDS)
    body = TextBuffer()
    written = 0
    base_timestamp = newest = NO_TIMESTAMP
    for _ in decode(window, table):
        if written == 0 and table.count:
            base_timestamp = now_ms if rules.log_append_time else RecordRow._make(table.row(0)).timestamp
        write_records(table, body, written, base_timestamp, keep_timestamps=not rules.log_append_time)
        written += table.count
    assert written == records, "the same batch decodes to the same records"
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
    """Set what the leader decides. The CRC covers the timestamp only: it is made anew where that changes."""
    last_delta = int.from_bytes(data[23:27], signed=True)
    struct.pack_into(">q", data, 0, base_offset + records - 1 - last_delta)
    struct.pack_into(">i", data, 12, leader_epoch)
    max_timestamp = int.from_bytes(data[35:43], signed=True)
    if row.attributes & LOG_APPEND_TIME != timestamp_type or max_timestamp != newest:
        kept = row.attributes & (CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON)
        struct.pack_into(">h", data, 21, kept | timestamp_type)
        struct.pack_into(">q", data, 35, newest)
        struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
