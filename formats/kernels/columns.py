"""Named tuples for single rows of BatchTable and RecordTable; bulk work reads these tables as buffers."""

from __future__ import annotations

from typing import NamedTuple


class BatchRow(NamedTuple):
    """A row of BatchTable: its fields, all int64, in the order of BATCH_COLUMNS. batches.pxd describes each field."""

    position: int  # byte in the file where the batch begins
    start: int  # index in the window's data where the batch begins
    size: int  # bytes of the batch, offset and length fields included
    base_offset: int
    last_offset: int
    leader_epoch: int  # -1 for magic 0 and 1
    magic: int  # with 0 or 1 the row is a message, or a wrapper of compressed messages
    attributes: int
    crc: int  # as stored
    crc_computed: int  # computed over the batch's bytes in the window
    base_timestamp: int  # ms since 1970; the delete horizon if attribute bit 6 is set
    max_timestamp: int  # ms since 1970
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # records as stated; -1 for magic 0 and 1 (tuple.count is hidden)
    faults: int  # FAULT_* bits

    @property
    def codec(self) -> int:
        """The compression codec id: attribute bits 0 to 2."""
        return self.attributes & 7

    @property
    def is_append_time(self) -> bool:
        """Whether attribute bit 3 is set: LogAppendTime, all records have the batch's max timestamp."""
        return self.magic >= 1 and self.attributes & 8 != 0

    @property
    def is_transactional(self) -> bool:
        """Whether attribute bit 4 is set: the batch is part of a transaction."""
        return self.magic >= 2 and self.attributes & 16 != 0

    @property
    def is_control(self) -> bool:
        """Whether attribute bit 5 is set: the batch holds control records."""
        return self.magic >= 2 and self.attributes & 32 != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The delete horizon in ms since 1970, which base_timestamp holds if attribute bit 6 is set; else None."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & 64 else None


# Column numbers for BatchTable.field, which reads one cell without making a row.
POSITION, START, SIZE, BASE_OFFSET, LAST_OFFSET, MAGIC, ATTRIBUTES, MAX_TIMESTAMP, PRODUCER_ID, FAULTS = map(
    BatchRow._fields.index,
    (
        *("position", "start", "size", "base_offset", "last_offset", "magic", "attributes", "max_timestamp"),
        *("producer_id", "faults"),
    ),
)
LEADER_EPOCH = BatchRow._fields.index("leader_epoch")


class RecordRow(NamedTuple):
    """A row of RecordTable: its fields, all int64, in the order of RECORD_COLUMNS. records.pxd describes each field."""

    offset: int
    timestamp: int  # ms since 1970
    key_start: int  # byte in the buffer
    key_length: int  # bytes; -1: null
    value_start: int  # byte in the buffer
    value_length: int  # bytes; -1: null
    headers_start: int  # byte in the buffer where the first header begins
    headers_count: int
    batch: int  # row in the BatchTable
    start: int  # byte in the buffer where the record begins, its length included
    crc: int  # magic 0 and 1: as stored; else -1
    valid: int  # magic 0 and 1: 1 if the CRC holds, else 0; magic 2: 1

    def key(self, buffer: memoryview) -> bytes | None:
        """Return the key; None for null. buffer: the buffer that the record was read from."""
        return sized_bytes(buffer, self.key_start, self.key_length)

    def value(self, buffer: memoryview) -> bytes | None:
        """Return the value; None for null. buffer: the buffer that the record was read from."""
        return sized_bytes(buffer, self.value_start, self.value_length)


def sized_bytes(buffer: memoryview, start: int, length: int) -> bytes | None:
    """Return `length` bytes of a buffer; None for a negative length, which is null."""
    return None if length < 0 else bytes(buffer[start : start + length])
