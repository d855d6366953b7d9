"""Rows of the kernels' tables with names. For single rows; bulk work looks at the tables as buffers."""

from __future__ import annotations

from typing import NamedTuple


class BatchRow(NamedTuple):
    """A row of BatchTable, in the order of BATCH_COLUMNS. All int64; rows.pxi says what each is."""

    position: int
    start: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    attributes: int
    crc: int
    crc_computed: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # tuple.count: not wanted on a row
    faults: int

    @property
    def codec(self) -> int:
        """The compression codec id: attribute bits 0 to 2."""
        return self.attributes & 7

    @property
    def is_append_time(self) -> bool:
        """Attribute bit 3: LogAppendTime, all records have the batch's max timestamp."""
        return self.magic >= 1 and self.attributes & 8 != 0

    @property
    def is_transactional(self) -> bool:
        """Attribute bit 4."""
        return self.magic >= 2 and self.attributes & 16 != 0

    @property
    def is_control(self) -> bool:
        """Attribute bit 5."""
        return self.magic >= 2 and self.attributes & 32 != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Attribute bit 6: the base timestamp field holds the delete horizon."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & 64 else None


# Numbers of columns, for BatchTable.field: one number without a row.
POSITION, START, SIZE, BASE_OFFSET, LAST_OFFSET, MAGIC, ATTRIBUTES, MAX_TIMESTAMP, PRODUCER_ID, FAULTS = map(
    BatchRow._fields.index,
    (
        *("position", "start", "size", "base_offset", "last_offset", "magic", "attributes", "max_timestamp"),
        *("producer_id", "faults"),
    ),
)


class RecordRow(NamedTuple):
    """A row of RecordTable, in the order of RECORD_COLUMNS."""

    offset: int
    timestamp: int
    key_start: int
    key_length: int
    value_start: int
    value_length: int
    headers_start: int
    headers_count: int
    batch: int
    start: int
    crc: int
    valid: int

    def key(self, buffer: memoryview) -> bytes | None:
        """The key, in the buffer that the record was read from."""
        return sized_bytes(buffer, self.key_start, self.key_length)

    def value(self, buffer: memoryview) -> bytes | None:
        """The value, likewise."""
        return sized_bytes(buffer, self.value_start, self.value_length)


def sized_bytes(buffer: memoryview, start: int, length: int) -> bytes | None:
    """Bytes of a buffer; None for a negative length, which is null."""
    return None if length < 0 else bytes(buffer[start : start + length])
