"""The tables of the kernels against the Construct definitions, for any log that is well framed."""

from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.batches import BATCH_COLUMNS, BatchTable
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RECORD_COLUMNS, RecordTable
from formats.kernels.scan import SCAN_END, scan
from formats.primitives import parse
from formats.record_batch import RecordHeaderBody
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Window
from tests.formats.kernels.logs import LOGS
from tests.formats.kernels.twins import RecordTwin, read_log

CAPACITIES = st.sampled_from([1, 2, 3, 65536])


def scanned(data: bytes) -> Window:
    """A whole log as one window."""
    table = BatchTable()
    assert scan(data, 0, len(data), 0, table) == (len(data), SCAN_END, 0)
    return Window(bytearray(data), table, 0, len(data))


def batch_rows(table: BatchTable) -> list[BatchRow]:
    """The rows with names."""
    return [BatchRow._make(table.row(i)) for i in range(len(table))]


def as_twin(buffer: memoryview, row: RecordRow) -> RecordTwin:
    """What a row points at."""
    data = bytes(buffer)

    def field(start: int, length: int) -> bytes | None:
        return None if length < 0 else data[start : start + length]

    headers = []
    at = row.headers_start
    for _ in range(row.headers_count):
        header, at = parse(RecordHeaderBody, data, at)
        headers.append((header.key, header.value))
    key, value = field(row.key_start, row.key_length), field(row.value_start, row.value_length)
    return RecordTwin(row.offset, row.timestamp, key, value, tuple(headers), row.start, row.crc, bool(row.valid))


def decoded(window: Window, capacity: int) -> list[tuple[int, RecordTwin]]:
    """Every record with the number of its batch."""
    records = RecordTable(capacity)
    found = []
    for buffer in decode(window, records):
        assert len(records) <= capacity
        for i in range(len(records)):
            row = RecordRow._make(records.row(i))
            found.append((row.batch, as_twin(buffer, row)))
    return found


def test_columns_have_the_names_of_the_rows() -> None:
    assert BatchRow._fields == BATCH_COLUMNS
    assert RecordRow._fields == RECORD_COLUMNS


@given(LOGS, CAPACITIES)
def test_rows_equal_the_definitions(data: bytes, capacity: int) -> None:
    twins = read_log(data)
    window = scanned(data)
    assert batch_rows(window.batches) == [twin.row._replace(faults=0) for twin in twins]
    records = decoded(window, capacity)
    assert records == [(i, record) for i, twin in enumerate(twins) for record in twin.records]
    assert batch_rows(window.batches) == [twin.row for twin in twins]


@given(LOGS, st.integers(0, 200))
def test_scanning_piece_by_piece(data: bytes, step: int) -> None:
    """The rows are those of the whole log however it is cut into windows, and the size of the missing part is exact."""
    whole, table = scanned(data).batches, BatchTable()
    at, stop = 0, 0
    while at < len(data):
        before = table.count
        done, how, needed = scan(data, at, stop, at, table)
        assert done == at + sum(row.size for row in batch_rows(table)[before:])
        at = done
        stop = min(len(data), max(stop + step, at + needed) if how != SCAN_END else at + 18)
    assert batch_rows(table) == batch_rows(whole)
