"""The kernels' text, compared with slow Python: Kafka's lines, JSON lines, the table."""

import json
from collections.abc import Callable
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from formats.kernels.buffer import TextBuffer
from formats.kernels.records import RecordTable
from formats.kernels.summary import LogSummary
from formats.kernels.text.json_lines import JsonPrinter
from formats.kernels.text.kafka_lines import KafkaPrinter
from formats.kernels.text.table_lines import TablePrinter
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Window
from kcli.printable import has_hidden
from tests.formats.kernels.logs import LOGS
from tests.formats.kernels.test_rows import CAPACITIES, scanned
from tests.formats.kernels.twins import (
    BatchTwin,
    int64,
    json_object,
    kafka_batch_line,
    kafka_lines,
    read_log,
    shown,
    table_lines,
)

Each = Callable[[RecordTable, TextBuffer], None]
STYLES = [
    (f"<{name}>".encode(), f"</{name}>".encode()) for name in ("batch", "offset", "time", "label", "value", "fault")
]


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return Kafka's text for the markers that the kernel prints by itself; for others any text."""
    if key in {b"\0\0\0\0", b"\0\0\0\1"} and value is not None and len(value) == 6 and value[:2] == b"\0\0":
        outcome = "COMMIT" if key[3] else "ABORT"
        return f" endTxnMarker: {outcome} coordinatorEpoch: {int.from_bytes(value[2:], signed=True)}"
    return f" marker {key!r} {value!r}"


def printed(window: Window, capacity: int, each: Each) -> str:
    """Return what a printer makes of all records of a window."""
    out = TextBuffer()
    records = RecordTable(capacity)
    for _ in decode(window, records):
        each(records, out)
    assert len(out) == out.size
    return bytes(out).decode()


@given(LOGS, CAPACITIES, st.booleans(), st.booleans())
def test_kafka_lines(data: bytes, capacity: int, contents: bool, metadata: bool) -> None:
    twins = read_log(data)
    printer = KafkaPrinter(contents=contents, metadata=metadata, control_text=control_text)
    printer.begin(0)
    text = printed(scanned(data), capacity, printer.records)
    expected = kafka_lines(twins, contents=contents, metadata=metadata, control_text=control_text)
    assert text == "".join(expected)
    offsets = [record.offset for twin in twins for record in twin.records]
    pairs = pairwise(offsets)
    if -1 not in offsets:
        assert printer.gaps == [(last, following) for last, following in pairs if following != last + 1]
        assert printer.gap_count == len(printer.gaps)
        assert (printer.first_offset, printer.last_offset) == ((offsets[0], offsets[-1]) if offsets else (-1, -1))


@given(LOGS)
def test_kafka_batch_lines(data: bytes) -> None:
    table = scanned(data).batches
    out = TextBuffer()
    KafkaPrinter().batches(table, 0, len(table), out)
    assert bytes(out).decode() == "".join(kafka_batch_line(twin.row) for twin in read_log(data))


@given(LOGS)
def test_kafka_lines_without_batches_of_which_nothing_is_wanted(data: bytes) -> None:
    twins = [twin for twin in read_log(data) if twin.records]
    printer = KafkaPrinter(contents=True, sparse=True, control_text=control_text)
    printer.begin(0)
    text = printed(scanned(data), 2, printer.records)
    assert text == "".join(kafka_lines(twins, contents=True, metadata=True, control_text=control_text))


def decode_record(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
    """A decoder that gives text for some."""
    return (f"«{key!r}»" if key else None), (f"{offset} {value!r}" if value else None)


@given(LOGS, st.booleans())
def test_kafka_lines_with_a_decoder(data: bytes, metadata: bool) -> None:
    printer = KafkaPrinter(contents=True, metadata=metadata, control_text=control_text, decode=decode_record)
    printer.begin(0)
    lines = printed(scanned(data), 3, printer.records).splitlines()
    expected = []
    plain = kafka_lines(read_log(data), contents=False, metadata=metadata, control_text=control_text)
    records = iter([(twin, record) for twin in read_log(data) for record in twin.records])
    for line in plain:
        if not line.startswith(("baseOffset", "offset")):
            twin, record = next(records)
            if not twin.row.is_control:
                key, value = decode_record(record.offset, record.key, record.value)
                parts = [f" key: {key}"] * (key is not None) + [f" payload: {value}"] * (value is not None)
                expected.append(line[:-1] + "|" * (not metadata and bool(parts)) + "".join(parts) + "\n")
                continue
        expected.append(line)
    assert lines == "".join(expected).splitlines()


@given(LOGS, CAPACITIES)
def test_json_lines(data: bytes, capacity: int) -> None:
    printer = JsonPrinter(b'{"topic":"t","partition":3,')
    lines = printed(scanned(data), capacity, printer.records).split("\n")[:-1]
    expected = [json_object(twin.row, record) for twin in read_log(data) for record in twin.records]
    objects = [json.loads(line) for line in lines]
    assert objects == [{"topic": "t", "partition": 3} | each for each in expected]
    assert [list(each) for each in objects] == [["topic", "partition", *each] for each in expected]
    assert not any(map(has_hidden, lines))


@given(LOGS)
def test_json_lines_with_the_decoded_record(data: bytes) -> None:
    printer = JsonPrinter(
        b"{", lambda offset, key, value, control: json.dumps([offset, repr(key), repr(value), control])
    )
    lines = printed(scanned(data), 2, printer.records).split("\n")[:-1]
    records = [(twin.row, record) for twin in read_log(data) for record in twin.records]
    assert [json.loads(line)["decoded"] for line in lines] == [
        [record.offset, repr(record.key), repr(record.value), row.is_control] for row, record in records
    ]


@given(LOGS, CAPACITIES, st.sampled_from([-1, 0, 1, 5, 1000]), st.booleans())
def test_table_lines(data: bytes, capacity: int, fold: int, raw_time: bool) -> None:
    printer = TablePrinter(fold=fold, raw_time=raw_time, control_text=control_text)
    printer.begin(0)
    text = printed(scanned(data), capacity, printer.records)
    options = {"fold": fold, "raw_time": raw_time, "control_text": control_text}
    assert text == "".join(table_lines(read_log(data), **options))
    assert not any(map(has_hidden, text.split("\n")))


@given(LOGS)
def test_table_in_colour_says_the_same(data: bytes) -> None:
    texts = []
    for styles in (None, STYLES):
        printer = TablePrinter(styles=styles, control_text=control_text, explain=lambda i: [f"fault of {i}"])
        printer.begin(0)
        texts.append(printed(scanned(data), 2, printer.records))
    plain, coloured = texts
    for mark in (mark for pair in STYLES for mark in pair):
        if mark.decode() in plain:
            return
        coloured = coloured.replace(mark.decode(), "")
    assert coloured == plain


@given(LOGS)
def test_table_tells_the_faults_of_each_batch_below_it(data: bytes) -> None:
    printer = TablePrinter(batches_only=True, explain=lambda i: [f"{i}", "more"])
    printer.begin(0)
    lines = printed(scanned(data), 3, printer.records).splitlines()
    expected = []
    for i, twin in enumerate(read_log(data)):
        expected.append(f"batch @{twin.row.position}")
        expected += [f"  ! {i}", "  ! more"] if twin.row.faults else []
    assert [line if line.startswith("  !") else line[: line.index("  ")] for line in lines] == expected


@given(st.text() | st.sampled_from(["null", "0x12", " ", "\x9b0m", "é\x80"]), st.integers(-1, 9))
@example("a\\\b", -1)
@example("é", 1)
def test_what_is_shown_of_text_can_be_told_from_all_else(text: str, fold: int) -> None:
    line = shown(text.encode(), fold)
    assert line != "null"
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in line)
    if fold < 0 and line[0] == '"':
        assert json.loads(line) == text


@given(LOGS, CAPACITIES, st.integers(0, 5))
def test_summary(data: bytes, capacity: int, cut: int) -> None:
    twins = read_log(data)
    summary = LogSummary()
    for part in (twins[:cut], twins[cut:]):
        summary.merge(summary_of(data, part, capacity))
    records = [record for twin in twins for record in twin.records]
    times = [record.timestamp for record in records if record.timestamp != -1]
    codecs = [twin.row.codec for twin in twins]
    assert summary.batches == len(twins)
    assert summary.records == len(records)
    assert summary.control_records == sum(len(twin.records) for twin in twins if twin.row.is_control)
    assert summary.codecs == {codec: codecs.count(codec) for codec in set(codecs)}
    assert summary.producers == {twin.row.producer_id for twin in twins if twin.row.producer_id >= 0}
    assert summary.bytes_stored == len(data)
    assert summary.faulty_batches == sum(twin.row.faults != 0 for twin in twins)
    assert summary.crc_faults == 0
    if all(time > -1 for time in times):
        assert (summary.min_timestamp, summary.max_timestamp) == (min(times, default=-1), max(times, default=-1))
    offsets = [record.offset for record in records]
    if all(offset >= 0 for offset in offsets):
        steps = [later - earlier - 1 for earlier, later in pairwise(offsets) if later > earlier + 1]
        assert (summary.gaps, summary.missing_offsets) == (len(steps), int64(sum(steps)))
        assert (summary.first_offset, summary.last_offset) == ((offsets[0], offsets[-1]) if offsets else (-1, -1))


def summary_of(data: bytes, part: list[BatchTwin], capacity: int) -> LogSummary:
    """The sums over some batches of a log."""
    summary = LogSummary()
    if part:
        window = scanned(data[part[0].row.position : part[-1].row.position + part[-1].row.size])
        records = RecordTable(capacity)
        for _ in decode(window, records):
            summary.add_records(records)
        summary.add_batches(window.batches)
    return summary
