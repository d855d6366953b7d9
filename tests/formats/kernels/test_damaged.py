"""Damaged and random bytes: the kernels mark faults, stay inside their buffers and end."""

from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.batches import FAULT_BAD_CRC, BatchTable
from formats.kernels.buffer import TextBuffer
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.scan import SCAN_STOPPED, find_batch, scan
from formats.kernels.text.json_lines import JsonPrinter
from formats.kernels.text.kafka_lines import KafkaPrinter
from formats.kernels.text.table_lines import TablePrinter
from kcli.log.batch_records import decode, faults_of
from kcli.log.segment_reader import Window
from tests.formats.kernels.logs import LOGS, record_batches
from tests.formats.kernels.test_rows import CAPACITIES, batch_rows, scanned

FLIPS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), min_size=1, max_size=6)


def flipped(data: bytes, flips: list[tuple[int, int]], *, behind: int = 0) -> bytes:
    """Return the bytes with some of them changed, none of the first `behind`."""
    damaged = bytearray(data)
    for place, bits in flips:
        if len(damaged) > behind:
            damaged[behind + place % (len(damaged) - behind)] ^= bits
    return bytes(damaged)


def look_at_everything(data: bytes, capacity: int) -> None:
    """Scan and decode as far as possible, and print the result in every form."""
    table = BatchTable()
    done, _, needed = scan(data, 0, len(data), 0, table)
    assert 0 <= done <= len(data)
    assert needed >= 0
    window = Window(bytearray(data), table, 0, done)
    records = RecordTable(capacity)
    out = TextBuffer()
    kafka, table_printer = KafkaPrinter(contents=True), TablePrinter(fold=3)
    json = JsonPrinter(b"{")
    kafka.begin(0)
    table_printer.begin(0)
    for slices, buffer in enumerate(decode(window, records, limit_bytes=1 << 20)):
        for row in (RecordRow._make(records.row(i)) for i in range(len(records))):
            for start, length in ((row.key_start, row.key_length), (row.value_start, row.value_length)):
                assert length <= 0 or start < 0 or 0 <= start <= start + length <= len(buffer)
        kafka.records(records, out)
        json.records(records, out)
        table_printer.records(records, out)
        assert slices <= len(data) * 200 + 10
    bytes(out).decode()
    for i, batch in enumerate(batch_rows(table)):
        found = faults_of(window, i, limit_bytes=1 << 20)
        assert bool(found) == bool(batch.faults)
        assert all(error.position is not None and error.reason for error in found)


@given(st.binary(max_size=300), CAPACITIES)
def test_random_bytes(data: bytes, capacity: int) -> None:
    look_at_everything(data, capacity)
    find_batch(data, 0, len(data), len(data))


@given(LOGS, FLIPS, CAPACITIES)
def test_flipped_bytes(data: bytes, flips: list[tuple[int, int]], capacity: int) -> None:
    look_at_everything(flipped(data, flips), capacity)


@given(record_batches(), FLIPS, CAPACITIES)
def test_flipped_records(data: bytes, flips: list[tuple[int, int]], capacity: int) -> None:
    """Header and framing are right, so that the decoder meets the damage."""
    damaged = flipped(data, flips, behind=57)
    table = scanned(damaged).batches
    assert (batch_rows(table)[0].faults & FAULT_BAD_CRC != 0) == (damaged != data)
    look_at_everything(damaged, capacity)


@given(LOGS, st.integers(0, 2000))
def test_truncated(data: bytes, size: int) -> None:
    look_at_everything(data[:size], 3)


@given(LOGS, FLIPS)
def test_a_scan_stops_behind_the_first_bad_crc(data: bytes, flips: list[tuple[int, int]]) -> None:
    damaged = flipped(data, flips)
    whole, stopped = BatchTable(), BatchTable()
    scan(damaged, 0, len(damaged), 0, whole)
    done, how, _ = scan(damaged, 0, len(damaged), 0, stopped, stop_at_bad_crc=True)
    bad = whole.first_fault()
    while bad >= 0 and not BatchRow._make(whole.row(bad)).faults & (FAULT_BAD_CRC | 1):
        bad = whole.first_fault(bad + 1)
    if bad >= 0:
        assert (len(stopped), how) == (bad + 1, SCAN_STOPPED)
        row = batch_rows(stopped)[bad]
        assert done == row.position + row.size
    else:
        assert len(stopped) == len(whole)


@given(st.binary(max_size=80), record_batches(), st.binary(max_size=40), st.integers(0, 200))
def test_the_next_sound_batch_is_found(before: bytes, batch: bytes, behind: bytes, stop: int) -> None:
    data = before + batch + behind
    if int.from_bytes(batch[:8], signed=True) < 0 or batch[21] or batch[22] & 128 or batch[23] & 128:
        return  # a header that neither producers nor brokers write, so the search ignores it
    at, whole, _ = find_batch(data, 0, len(data), len(data))
    assert whole
    assert at <= len(before)
    stop = min(stop, len(data))
    at, whole, _ = find_batch(data, 0, stop, len(data))
    assert at <= stop
    assert whole or at <= len(before)
