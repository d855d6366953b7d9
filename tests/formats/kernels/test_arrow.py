"""Columns for Arrow against the Construct definitions, for any log that is well framed."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.java_text import java_utf8
from formats.kernels.arrow.rows import ARROW_COLUMNS, ArrowRows
from formats.kernels.batches import BatchTable, drop_batches, has_transactions, odd_offsets
from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable, drop_invalid, drop_offsets
from kcli.log.batch_records import decode
from tests.formats.kernels.logs import LOGS
from tests.formats.kernels.test_rows import CAPACITIES, batch_rows, scanned
from tests.formats.kernels.twins import BatchTwin, RecordTwin, read_log, sequence_after

TYPE_CODES = {8: "q", 4: "i", 2: "h", 1: "b"}
WIDTHS = {"timestamp_type": 4, "sequence": 4, "leader_epoch": 4, "attributes": 4, "magic": 4} | {
    "producer_epoch": 2,
    "codec": 1,
    "is_control": 1,
}
LIMIT_US = 2**63 - 1
Buffers = tuple[TextBuffer | None, ...]


def bits(buffer: TextBuffer | None, count: int) -> list[bool]:
    if buffer is None:
        return [True] * count
    data = bytes(buffer)
    assert len(data) == (count + 7) // 8
    return [bool(data[i // 8] >> i % 8 & 1) for i in range(count)]


def ends(buffer: TextBuffer | None) -> list[int]:
    assert buffer is not None
    return array("i", bytes(buffer)).tolist()


def byte_strings(buffers: Buffers) -> list[bytes | None]:
    offsets = ends(buffers[1])
    assert buffers[2] is not None
    data = bytes(buffers[2])
    valid = bits(buffers[0], len(offsets) - 1)
    return [data[offsets[i] : offsets[i + 1]] if valid[i] else None for i in range(len(valid))]


def header_lists(buffers: Buffers) -> list[list[tuple[bytes | None, bytes | None]] | None]:
    offsets = ends(buffers[1])
    pairs = list(zip(byte_strings(buffers[2:5]), byte_strings(buffers[5:8]), strict=True))
    valid = bits(buffers[0], len(offsets) - 1)
    return [pairs[offsets[i] : offsets[i + 1]] if valid[i] else None for i in range(len(valid))]


def values(name: str, buffers: Buffers) -> Sequence[object]:
    if name in ("key", "value"):
        return byte_strings(buffers)
    if name == "headers":
        return header_lists(buffers)
    assert buffers[0] is not None
    return array(TYPE_CODES[WIDTHS.get(name, 8)], bytes(buffers[0])).tolist()


def microseconds(ms: int) -> int:
    return max(-LIMIT_US - 1, min(LIMIT_US, ms * 1000))


def cells(batch: BatchTwin, record: RecordTwin) -> dict[str, object]:
    """What each column must hold for a record."""
    row = batch.row
    sequence = row.base_sequence
    if sequence >= 0:
        sequence = sequence_after(sequence, record.offset - row.base_offset)
    return {
        "key": record.key,
        "value": record.value,
        "headers": [(java_utf8(key).encode(), value) for key, value in record.headers] or None,
        "offset": record.offset,
        "timestamp_us": microseconds(record.timestamp),
        "timestamp_ms": record.timestamp,
        "timestamp_type": -1 if row.magic == 0 else int(row.is_append_time),
        "sequence": sequence,
        "leader_epoch": row.leader_epoch,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "attributes": row.attributes,
        "magic": row.magic,
        "codec": row.codec,
        "is_control": int(row.is_control),
        "position": row.position,
        "base_offset": row.base_offset,
        "last_offset": row.last_offset,
        "base_timestamp": row.base_timestamp,
        "max_timestamp": row.max_timestamp,
    }


@given(LOGS, CAPACITIES, st.sampled_from([1, 60, 1 << 20]), st.sampled_from([1, 3, 1 << 20]))
def test_columns_equal_the_definitions(data: bytes, capacity: int, byte_limit: int, row_limit: int) -> None:
    window = scanned(data)
    rows = ArrowRows(ARROW_COLUMNS, byte_limit, row_limit)
    records = RecordTable(capacity)
    found: list[dict[str, object]] = []

    def take() -> None:
        count = rows.count
        taken = [values(name, each) for name, each in zip(ARROW_COLUMNS, rows.take(), strict=True)]
        assert {len(column) for column in taken} == {count}
        found.extend(dict(zip(ARROW_COLUMNS, row, strict=True)) for row in zip(*taken, strict=True))

    for _ in decode(window, records):
        at = 0
        while at < records.count:
            at = rows.add(records, at)
            if rows.is_full:
                take()
    take()
    assert rows.count == 0
    assert found == [cells(batch, record) for batch in read_log(data) for record in batch.records]


@given(LOGS, st.integers(0, 2**40), st.integers(-1, 2**50), st.integers(0, 2**50))
def test_batches_are_dropped(data: bytes, producer: int, first: int, length: int) -> None:
    before = batch_rows(scanned(data).batches)
    window = scanned(data)
    assert has_transactions(window.batches) == any(row.is_transactional for row in before)
    producers = sorted({producer, *(row.producer_id for row in before[:1])})
    ranges = array("q", [number for each in producers for number in (each, first, first + length)])
    drop_batches(window.batches, control=True, aborted=ranges)
    assert batch_rows(window.batches) == [
        row
        for row in before
        if not row.is_control
        and not (row.is_transactional and row.producer_id in producers and first <= row.base_offset <= first + length)
    ]


@given(LOGS, st.integers(-1, 2**50), st.integers(0, 2**50), st.integers(0, 2**50))
def test_odd_offsets_are_found(data: bytes, last: int, low: int, high: int) -> None:
    table = scanned(data).batches
    wanted: tuple[int, int] = -1, last
    for i, row in enumerate(batch_rows(table)):
        if row.base_offset < low or row.last_offset >= high or row.base_offset <= wanted[1]:
            wanted = i, wanted[1]
            break
        wanted = -1, max(wanted[1], row.last_offset)
    assert odd_offsets(table, last, low, high) == wanted


@given(LOGS, st.sets(st.integers(0, 300)))
def test_records_are_dropped_by_offset_where_their_batch_is_marked(data: bytes, offsets: set[int]) -> None:
    window = scanned(data)
    if len(window.batches):
        window.batches.add_fault(0, 1 << 31)
    records = RecordTable(1 << 16)
    found = []
    for _ in decode(window, records):
        drop_invalid(records)
        drop_offsets(records, 1 << 31, array("q", sorted(offsets)))
        found += [(row[8], row[0]) for row in (records.row(i) for i in range(records.count))]
    assert found == [
        (i, record.offset)
        for i, batch in enumerate(read_log(data))
        for record in batch.records
        if i or record.offset not in offsets
    ]


@pytest.mark.parametrize("limits", [(0, 1), (1, 0), (1 << 31, 1), (1, 1 << 40)])
def test_limits_that_arrow_cannot_hold_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=str(limits[0])):
        ArrowRows(["key"], *limits)


def test_a_view_keeps_the_table_as_it_is() -> None:
    table = BatchTable()
    with memoryview(table), pytest.raises(BufferError):
        drop_batches(table)
