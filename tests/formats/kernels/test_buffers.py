"""Tables and text as buffers: their content, and the operations that are refused while a view is held."""

from typing import Any

import pytest

from formats.kernels.batches import BATCH_COLUMNS, FAULT_BAD_RECORD, BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RECORD_COLUMNS, RecordTable, payload_bounds
from formats.kernels.scan import find_batch, scan
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch

HEADER = BatchHeader(0, 0, 0, 2, 0, 0, 2, 0, 2, -1, -1, -1, 0)
BATCH = build_batch(RecordBatch(HEADER, tuple(Record(0, i, i, b"k%d" % i, b"v") for i in range(3))))


def rows(view: memoryview) -> list[tuple[int, ...]]:
    found: Any = view.tolist()
    return [tuple(row) for row in found]


def batches(count: int = 1) -> BatchTable:
    table = BatchTable()
    scan(BATCH * count, 0, len(BATCH) * count, 0, table)
    return table


def test_a_table_is_a_read_only_buffer_of_its_rows() -> None:
    table = batches(2)
    with memoryview(table) as view:
        assert (view.shape, view.format, view.readonly) == ((2, len(BATCH_COLUMNS)), "q", True)
        assert rows(view)[1] == table.row(1)
    records = RecordTable(2)
    records.start(BATCH, table, 0, 1)
    assert records.next()
    with memoryview(records) as view:
        assert view.shape == (2, len(RECORD_COLUMNS))
        assert rows(view) == [records.row(0), records.row(1)]


def test_an_empty_table_is_an_empty_buffer() -> None:
    assert memoryview(BatchTable()).nbytes == 0
    assert bytes(TextBuffer()) == b""


def test_a_table_does_not_move_under_a_view() -> None:
    table = batches()
    with memoryview(table), pytest.raises(BufferError):
        scan(BATCH * 300, 0, len(BATCH) * 300, 0, table)
    scan(BATCH * 300, 0, len(BATCH) * 300, 0, table)
    assert len(table) >= 300


def test_records_do_not_move_under_a_view() -> None:
    records = RecordTable(1)
    records.start(BATCH, batches(), 0, 1)
    assert records.next()
    with memoryview(records), pytest.raises(BufferError):
        records.next()
    assert records.next()


def test_text_does_not_move_under_a_view() -> None:
    text = TextBuffer()
    text.write(b"abc")
    with memoryview(text) as view:
        assert view.readonly
        assert view.tobytes() == b"abc"
        with pytest.raises(BufferError):
            text.write(bytes(10**6))
        with pytest.raises(BufferError):
            text.clear()
    text.clear()
    text.write(b"d" * 10**6)
    assert bytes(text) == b"d" * 10**6


def test_what_is_out_of_range_is_refused() -> None:
    table = batches()
    for i in (-1, 1):
        with pytest.raises(IndexError):
            table.row(i)
        with pytest.raises(IndexError):
            table.run(i)
        with pytest.raises(IndexError):
            table.add_fault(i, 1)
        with pytest.raises(IndexError):
            table.header_size(i)
        with pytest.raises(IndexError):
            payload_bounds(BATCH, table, i)
    with pytest.raises(IndexError):
        table.field(0, len(BATCH_COLUMNS))
    with pytest.raises(IndexError):
        BatchTable().drop_last()
    with pytest.raises(ValueError, match="0"):
        RecordTable(0)
    for first, last in ((0, 2), (-1, 1), (1, 0)):
        with pytest.raises(ValueError, match=str(last)):
            RecordTable().start(BATCH, table, first, last)


def test_a_buffer_that_is_not_that_of_the_batches_is_refused() -> None:
    table = batches()
    with pytest.raises(ValueError, match="not of this buffer"):
        RecordTable().start(BATCH[:-1], table, 0, 1)
    with pytest.raises(ValueError, match="not of this buffer"):
        payload_bounds(BATCH[:-1], table, 0)
    for start, stop in ((-1, 1), (0, len(BATCH) + 1), (2, 1)):
        with pytest.raises(ValueError, match=str(stop)):
            scan(BATCH, start, stop, 0, table)
        with pytest.raises(ValueError, match=str(stop)):
            find_batch(BATCH, start, stop, len(BATCH))


def test_faults_are_found_by_row() -> None:
    table = batches(5)
    assert table.first_fault() == -1
    table.add_fault(3, FAULT_BAD_RECORD)
    assert (table.first_fault(), table.first_fault(3), table.first_fault(4)) == (3, 3, -1)
    table.drop_last()
    assert (len(table), table.first_fault()) == (4, 3)
    table.clear()
    assert (len(table), table.first_fault()) == (0, -1)
