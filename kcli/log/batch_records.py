"""Decode the records of a window's batches, compressed or not, into columns; and describe the faults of a batch in
words."""

from __future__ import annotations

from collections.abc import Iterator

from formats.compression import DEFAULT_LIMIT, decompress, decompress_prefix
from formats.errors import (
    BadChecksum,
    BadCodec,
    BadCount,
    BadLength,
    BadMagic,
    BadValue,
    BytesBehind,
    FormatError,
    LimitExceeded,
)
from formats.kernels.batches import (
    FAULT_BAD_CODEC,
    FAULT_BAD_CRC,
    FAULT_BAD_INNER,
    FAULT_BAD_MAGIC,
    FAULT_BAD_PAYLOAD,
    FAULT_BAD_RECORD,
    FAULT_CONTROL_KEY,
    FAULT_COUNT_TOO_HIGH,
    FAULT_COUNT_TOO_LOW,
    FAULT_HEADER_NOT_UTF8,
    FAULT_MAX_TIMESTAMP,
    FAULT_NEGATIVE_COUNT,
    FAULT_NEGATIVE_LENGTH,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
    FAULT_SHORT_HEADER,
    BatchTable,
)
from formats.kernels.columns import BatchRow
from formats.kernels.records import RecordTable, payload_bounds
from kcli.log.segment_reader import Window

# The faults at which Kafka cannot iterate over a batch's records. Kafka does not check for other faults.
UNREADABLE = (
    FAULT_SHORT_HEADER
    | FAULT_BAD_CODEC
    | FAULT_BAD_PAYLOAD
    | FAULT_BAD_RECORD
    | FAULT_COUNT_TOO_HIGH
    | FAULT_COUNT_TOO_LOW
)

ENDS_CONSUMERS = UNREADABLE | FAULT_BAD_CRC | FAULT_BAD_MAGIC | FAULT_BAD_INNER | FAULT_NEGATIVE_COUNT
"""The faults of a batch at which a consumer stops: besides those of UNREADABLE a wrong CRC, an unknown magic, a wrapped
message with a wrong CRC, and a negative record count."""


def decode(
    window: Window, records: RecordTable, *, first: int = 0, last: int | None = None, limit_bytes: int = DEFAULT_LIMIT
) -> Iterator[memoryview]:
    """Decode the records of the batches [first, last) of a window (last None: to the last one), a slice at a time:
    before each yield, `records` is filled with the next slice.

    Yield the buffer to which the byte positions in the slice's rows refer: the window's, or the decompressed payload of
    one batch. For batches and records that cannot be read, fault bits are set in the window's table; see `faults_of`.
    limit_bytes: the most bytes that the payload of one batch may decompress to.
    """
    batches = window.batches
    data = memoryview(window.data)
    stop = batches.count if last is None else last
    at = first
    while at < stop:
        end, codec = batches.run(at)
        end = min(end, stop)
        if codec:
            payload, error = _payload(data, batches, at, limit_bytes)
            buffer = memoryview(payload)
            if error is not None:
                batches.add_fault(at, FAULT_BAD_PAYLOAD)
            records.start(buffer, batches, at, end, payload=True)
        else:
            buffer = data
            records.start(buffer, batches, at, end)
        while records.next():
            yield buffer
        at = end


def _payload(data: memoryview, batches: BatchTable, i: int, limit_bytes: int) -> tuple[bytes, FormatError | None]:
    """Return the decompressed payload of batch i, and None. For a damaged payload, return the bytes before the damage
    and the error; for a payload above limit_bytes, no bytes and the error."""
    start, stop = payload_bounds(data, batches, i)
    if start < 0:
        return b"", None  # payload_bounds has set the batch's fault bit
    row = BatchRow._make(batches.row(i))
    payload = data[start:stop]
    try:
        return decompress(row.codec, payload, magic=row.magic, limit=limit_bytes), None
    except LimitExceeded as error:
        return b"", error.at(row.position + start - row.start)
    except FormatError as error:
        before, _ = decompress_prefix(row.codec, payload, magic=row.magic, limit=limit_bytes)
        return before, error.at(row.position + start - row.start)


def faults_of(window: Window, i: int, *, limit_bytes: int = DEFAULT_LIMIT) -> list[FormatError]:
    """Return all faults of batch i, those of its header and CRC first, each with its position in the file; an empty
    list for a batch without faults.

    The batch's records are decoded again. Bytes inside a compressed payload have no place in the file: a fault in them
    has the position of the batch, and its reason says which byte of the decompressed payload. limit_bytes: the most
    bytes that the payload may decompress to.
    """
    row = BatchRow._make(window.batches.row(i))
    found: list[FormatError] = []
    if row.magic < 0 or row.magic > 2:
        found.append(BadMagic(f"magic {row.magic} is none that Kafka has", row.position + 16))
    if row.faults & FAULT_BAD_CRC:
        reason = f"CRC is {row.crc:#010x}, bytes give {row.crc_computed:#010x}"
        found.append(BadChecksum(reason, row.position))
    if row.faults & FAULT_SHORT_HEADER and row.magic >= 0:
        found.append(BadLength(f"a batch of {row.size:,} bytes leaves no room for its header", row.position))
    if row.faults & FAULT_BAD_CODEC:
        found.append(BadCodec(f"compression codec {row.codec} is none that Kafka has", row.position))
    found += _record_faults(window, i, row, limit_bytes)
    for bit, reason in SOFT_FAULTS.items():
        if row.faults & bit:
            found.append(BadValue(reason, row.position))
    return found


SOFT_FAULTS = {
    FAULT_OFFSETS_NOT_INCREASING: "record offsets do not increase",
    FAULT_OFFSET_OUT_OF_RANGE: "a record's offset lies outside the batch",
    FAULT_MAX_TIMESTAMP: "the batch's max timestamp is not that of its records",
    FAULT_HEADER_NOT_UTF8: "a header key is not UTF-8",
    FAULT_NEGATIVE_LENGTH: "a key, value or header value has a length below -1, which Kafka reads as null",
    FAULT_CONTROL_KEY: "a control record without a readable type",
    FAULT_BAD_INNER: "a wrapped message has a bad CRC",
}


def _record_faults(window: Window, i: int, row: BatchRow, limit_bytes: int) -> list[FormatError]:
    if row.faults & FAULT_NEGATIVE_COUNT:
        return [BadCount(f"record count {row.count:,} is negative", row.position + 57)]
    if row.faults & FAULT_BAD_PAYLOAD:
        _, error = _payload(memoryview(window.data), window.batches, i, limit_bytes)
        assert error is not None, "the payload decompresses after all"
        return [error]
    if not row.faults & (FAULT_BAD_RECORD | FAULT_COUNT_TOO_HIGH | FAULT_COUNT_TOO_LOW):
        return []
    records = RecordTable(1024)
    readable = 0
    for _ in decode(window, records, first=i, last=i + 1, limit_bytes=limit_bytes):
        readable += records.count
    reason, at = records.explain()
    if row.faults & FAULT_COUNT_TOO_HIGH:
        return [BadCount(f"{row.count:,} records stated, the payload ends after {readable:,}", row.position)]
    where = row.position + at - row.start if row.codec == 0 else row.position
    inside = "" if row.codec == 0 else f" (byte {at:,} of the decompressed payload)"
    if row.faults & FAULT_COUNT_TOO_LOW:
        return [BadCount(f"bytes are left behind the last of {row.count:,} stated records{inside}", where)]
    return [
        BadLength(f"record {min(readable + 1, row.count):,} of {row.count:,}: {reason or 'unreadable'}{inside}", where)
    ]


def is_readable(window: Window, i: int, *, check_crc: bool = True) -> bool:
    """Whether consumers can read batch i of a window whose records have been decoded (`decode` sets the fault bits);
    with check_crc False, whether a coordinator can, which loads a batch with a wrong CRC, too. A payload that only
    exceeds kcli's limit, or has bytes after it that Java ignores, is readable. Source: Kafka's DefaultRecordBatch,
    CompletedFetch."""
    row = BatchRow._make(window.batches.row(i))
    faults = row.faults & ENDS_CONSUMERS & (-1 if check_crc else ~FAULT_BAD_CRC)
    if faults != FAULT_BAD_PAYLOAD:
        return not faults
    error = next(each for each in faults_of(window, i) if not isinstance(each, BadChecksum))
    if isinstance(error, LimitExceeded):  # Kafka has no such limit, and reads the batch
        return True
    return isinstance(error, BytesBehind)
