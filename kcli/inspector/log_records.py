"""The records of a .log file as JSON lines for programs or as a table for people. Damaged bytes are skipped and
reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from formats.errors import FormatError
from formats.kernels.buffer import TextBuffer
from formats.kernels.columns import RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.summary import LogSummary
from formats.kernels.text.json_lines import JsonPrinter
from formats.kernels.text.table_lines import TablePrinter
from kcli.inspector.ordered import Flush, Write, render_in_order
from kcli.inspector.selection import ALL, Selection
from kcli.log.batch_records import decode, faults_of
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import Source
from kcli.printable import printable_json

if TYPE_CHECKING:
    from kcli.schema_client.reading import PayloadReader

SLICE_RECORDS = 16384


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How the table looks. fold_bytes: bytes of a key, value or header to show, -1: all. styles: the bytes to write
    before and after a batch, an offset, a time, a label, a value and a fault, such as colors; None: no bytes."""

    batches_only: bool = False
    raw_time: bool = False
    fold_bytes: int = -1
    styles: list[tuple[bytes, bytes]] | None = None


@dataclass(slots=True)
class LogReport:
    """The result of printing a log: sums over the selected records, and errors in the order of the file."""

    summary: LogSummary = field(default_factory=LogSummary)
    errors: list[FormatError] = field(default_factory=list)
    damaged_bytes: int = 0


class _Printer(Protocol):
    def begin(self, first: int) -> None:
        """Prepare for printing records of a window: those of the batches from index `first` on."""

    def records(self, records: RecordTable, out: TextBuffer) -> None:
        """Print the records of the table."""


def print_jsonl(
    source: Source,
    topic: str | None,
    partition: int | None,
    write: Write,
    *,
    selection: Selection = ALL,
    start: int = 0,
    reader: PayloadReader | None = None,
) -> LogReport:
    """Write one JSON object for each record; for a record of an internal topic, and with a reader of keys and values,
    the object also has the decoded record. Raises UnreadableInput, RegistryError.

    topic, partition: are written into each object; None if they are unknown. Without a topic, no record is
    decoded. start: the byte at which to begin reading.
    """
    lead = printable_json(
        json.dumps({"topic": topic, "partition": partition}, separators=(",", ":"), ensure_ascii=False)
    )
    decode_record = None
    if topic is not None and _is_internal(topic):
        from kcli.inspector.decoded import decoded_json

        decode_record = decoded_json(topic)
    elif reader is not None:
        from kcli.inspector.payloads import payload_json

        decode_record = payload_json(reader)
    lead_bytes = lead[:-1].encode("utf-8", "replace") + b","
    return _print(source, lambda _: _Jsonl(JsonPrinter(lead_bytes, decode_record)), write, selection, start)


def print_table(
    source: Source,
    topic: str | None,
    write: Write,
    options: TableOptions,
    *,
    selection: Selection = ALL,
    start: int = 0,
    reader: PayloadReader | None = None,
) -> LogReport:
    """Write a line for each batch, record and fault. Raises UnreadableInput, RegistryError.

    topic: decides how records are decoded; None if it is unknown. start: the byte at which to begin reading. reader:
    decodes keys and values of users' topics; None to show their bytes.
    """
    decode_record = None
    if topic is not None and _is_internal(topic):
        from kcli.inspector.decoded import decoder_of
        from kcli.inspector.record_text import decoder

        name = decoder_of(topic)
        decode_record = decoder(name) if name else None
    elif reader is not None:
        from kcli.inspector.payloads import payload_text

        decode_record = payload_text(reader, options.fold_bytes)

    def printer(window: Window) -> _Printer:
        return TablePrinter(
            styles=options.styles,
            fold=options.fold_bytes,
            raw_time=options.raw_time,
            batches_only=options.batches_only,
            sparse=not selection.is_all,
            control_text=_control_text,
            decode=_or_raw(decode_record) if decode_record else None,
            explain=lambda i: [str(error) for error in faults_of(window, i)],
        )

    return _print(source, printer, write, selection, start, damage_line=_damage_line)


def _is_internal(topic: str) -> bool:
    return topic.startswith("__")


def _control_text(key: bytes | None, value: bytes | None) -> str:
    from kcli.inspector import record_text

    try:
        return record_text.control_text(key, value)
    except FormatError as error:
        return f" unreadable control record: {error.reason}"


def _or_raw(
    decode_record: Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]],
) -> Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]:
    def decoded(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        try:
            key_text, value_text = decode_record(offset, key, value)
        except FormatError as error:
            return None, f"{error.reason}: {value!r}"
        return key_text and printable_json(key_text), value_text and printable_json(value_text)

    return decoded


def _damage_line(damage: Damage) -> str:
    end = damage.position + damage.length
    behind = "nothing sound behind" if damage.at_end else f"next sound batch @{end}"
    return f"! {damage.length:,} B @{damage.position}..{end - 1}  {damage.error.reason}  ({behind})\n"


class _Jsonl:
    def __init__(self, printer: JsonPrinter) -> None:
        self._printer = printer

    def begin(self, first: int) -> None:
        """Do nothing: JSON lines are not grouped by batch."""

    def records(self, records: RecordTable, out: TextBuffer) -> None:
        self._printer.records(records, out)


def _print(
    source: Source,
    make_printer: Callable[[Window], _Printer],
    write: Write,
    selection: Selection,
    start: int,
    damage_line: Callable[[Damage], str] | None = None,
) -> LogReport:
    report = LogReport()
    renderer = _Renderer(make_printer, selection, damage_line)
    results = render_in_order(read_segment(source, start=start), renderer, write, threads=renderer.threads)
    for part in results:
        report.summary.merge(part.summary)
        report.errors += part.errors
        report.damaged_bytes += part.damaged_bytes
        if renderer.left <= 0:
            break
    return report


class _Renderer:
    def __init__(
        self,
        make_printer: Callable[[Window], _Printer],
        selection: Selection,
        damage_line: Callable[[Damage], str] | None,
    ) -> None:
        self._make_printer = make_printer
        self._selection = selection
        self._damage_line = damage_line
        self.left = selection.limit
        self.threads = None if selection.limit == ALL.limit else 1
        self._free: list[RecordTable] = []

    def __call__(self, part: Window | Damage, out: TextBuffer, flush: Flush) -> LogReport:
        report = LogReport()
        if isinstance(part, Damage):
            report.errors.append(part.error)
            report.damaged_bytes = part.length
            if self._damage_line is not None:
                out.write(self._damage_line(part).encode())
        else:
            self._window(part, out, flush, report)
        return report

    def _window(self, window: Window, out: TextBuffer, flush: Flush, report: LogReport) -> None:
        batches = window.batches
        if not self._selection.is_all:
            self._selection.batches(batches)
        printer = self._make_printer(window)
        printer.begin(0)
        records = self._free.pop() if self._free else RecordTable(SLICE_RECORDS)
        payload_of = -1
        for buffer in decode(window, records):
            if records.is_payload and records.run_start != payload_of:
                payload_of = records.run_start
                report.summary.add_payload(len(buffer) + batches.header_size(payload_of))
            if not self._selection.is_all:
                self._selection.records(records, self.left)
                self.left -= records.count if self.threads == 1 else 0
            printer.records(records, out)
            report.summary.add_records(records)
            flush()
            if self.left <= 0:
                break
        else:
            self._free.append(records)
        last = RecordRow._make(records.row(records.count - 1)).batch if records.count else -1
        shown = -1 if self.left > 0 else 1 + last
        report.summary.add_batches(batches, shown)
        i = batches.first_fault()
        while i >= 0:
            report.errors += faults_of(window, i)
            i = batches.first_fault(i + 1)
        window.release()
