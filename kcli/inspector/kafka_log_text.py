"""A .log file as kafka-dump-log 4.3 prints it: a line for each batch; for each record with --deep-iteration; keys and
values with --print-data-log or a decoder; one line about bytes at the end that are no batch.

Kafka's tool ends with an exception at the first record that it cannot read. Here the error is added to
LogOutcome.errors, the remaining records of that batch are skipped, and the next batch is printed: the output of Kafka's
tool is always the beginning of kcli's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from formats.errors import FormatError, Truncated
from formats.kernels.buffer import TextBuffer
from formats.kernels.columns import FAULTS
from formats.kernels.records import RecordTable
from formats.kernels.text.kafka_lines import KafkaPrinter
from kcli.inspector.kafka_options import KafkaTextOptions
from kcli.inspector.ordered import Flush, Write, render_in_order
from kcli.inspector.selection import ALL, Selection
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import AnyPath, Source

GAPS_KEPT = 1000


@dataclass(slots=True)
class LogOutcome:
    """The result of printing a log: errors, at each of which Kafka's tool would have ended, and gaps between offsets.

    gaps: the offsets of the records before and after a gap, for the first GAPS_KEPT of gap_count gaps. last_offset: of
    the last record, -1 if there is none. shown: the number of batches or records printed.
    """

    errors: list[FormatError] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    gap_count: int = 0
    last_offset: int = -1
    shown: int = 0

    def add(self, part: LogOutcome, first_offset: int) -> None:
        """Add the outcome of the next window, that is, of the part of the .log file that is printed next. first_offset:
        the offset of the window's first record; -1 if it has no record."""
        self.errors += part.errors
        self.shown += part.shown
        if first_offset >= 0:
            if self.last_offset >= 0 and first_offset != self.last_offset + 1:
                self.gaps.append((self.last_offset, first_offset))
                self.gap_count += 1
            self.last_offset = part.last_offset
        self.gaps = (self.gaps + part.gaps)[:GAPS_KEPT]
        self.gap_count += part.gap_count


def print_log(
    source: Source,
    options: KafkaTextOptions,
    write: Write,
    *,
    selection: Selection = ALL,
    start: int = 0,
    name: str,
) -> LogOutcome:
    """Write the lines of one .log file, from the batch at byte `start` on. name: the file's name, for the line about
    invalid bytes that is written last if the file ends inside a batch.

    Returns the errors that the file's bytes have, and the gaps between offsets. Raises UnreadableInput.
    """
    outcome = LogOutcome()
    renderer = _Renderer(options, selection)
    parts = read_segment(source, start=start, stop=options.max_bytes, resync=False)
    damages: list[Damage] = []
    results = render_in_order(_windows(parts, damages), renderer, write, threads=renderer.threads)
    for part, first_offset in results:
        outcome.add(part, first_offset)
        if renderer.left <= 0:
            return outcome
    for damage in damages:
        if not isinstance(damage.error, Truncated):
            outcome.errors.append(damage.error)
        elif options.max_bytes is None:
            write(memoryview(f"Found {damage.length} invalid bytes at the end of {name}\n".encode()))
    return outcome


def _windows(parts: Iterator[Window | Damage], damages: list[Damage]) -> Iterator[Window]:
    for part in parts:
        if isinstance(part, Window):
            yield part
        else:
            damages.append(part)


class _Renderer:
    def __init__(self, options: KafkaTextOptions, selection: Selection) -> None:
        self._options = options
        self._selection = selection
        self.left = selection.limit
        self.threads = None if selection.limit == ALL.limit else 1
        self._free: list[RecordTable] = []

    def __call__(self, window: Window, out: TextBuffer, flush: Flush) -> tuple[LogOutcome, int]:
        outcome = LogOutcome()
        printer = self._printer(outcome)
        batches = window.batches
        if not self._selection.is_all:
            self._selection.batches(batches)
        if not self._options.deep:
            last = min(batches.count, self.left)
            printer.batches(batches, 0, last, out)
            self._count(last, outcome)
            self._note_faults(window, outcome)
            window.release()
            return outcome, -1
        printer.begin(0)
        records = self._free.pop() if self._free else RecordTable(16384)
        for _ in decode(window, records):
            if not self._selection.is_all:
                self._selection.records(records, self.left)
            printer.records(records, out)
            self._count(records.count, outcome)
            flush()
            if self.left <= 0:
                break
        else:
            self._free.append(records)
        self._note_faults(window, outcome)
        window.release()
        outcome.gaps, outcome.gap_count = printer.gaps, printer.gap_count
        outcome.last_offset = printer.last_offset
        return outcome, printer.first_offset

    def _count(self, shown: int, outcome: LogOutcome) -> None:
        outcome.shown += shown
        if self.threads == 1:
            self.left -= shown

    def _printer(self, outcome: LogOutcome) -> KafkaPrinter:
        options = self._options
        decode_record = None
        if options.decoder:
            from kcli.inspector.record_text import decoder

            decode_record = decoder(options.decoder)

        def control_text(key: bytes | None, value: bytes | None) -> str:
            from kcli.inspector import record_text

            try:
                return record_text.control_text(key, value)
            except FormatError as error:
                outcome.errors.append(error)
                return ""

        def decode_or_note(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
            assert decode_record is not None
            try:
                return decode_record(offset, key, value)
            except FormatError as error:
                outcome.errors.append(error)
                return None, None

        return KafkaPrinter(
            contents=options.contents,
            metadata=not options.skip_record_metadata,
            sparse=not self._selection.is_all,
            control_text=control_text,
            decode=decode_or_note if decode_record else None,
        )

    @staticmethod
    def _note_faults(window: Window, outcome: LogOutcome) -> None:
        i = window.batches.first_fault()
        while i >= 0:
            if window.batches.field(i, FAULTS) & UNREADABLE:
                outcome.errors += faults_of(window, i)[:1]
            i = window.batches.first_fault(i + 1)


def log_title(path: AnyPath) -> str:
    """The line that Kafka's tool prints above a log or a KRaft snapshot; '' if the file's name has no offset."""
    name = path.name
    if name.endswith(".checkpoint"):
        if name == "bootstrap.checkpoint":
            return "KRaft bootstrap snapshot\n"
        end_offset, _, epoch = name.removesuffix(".checkpoint").partition("-")
        return f"Snapshot end offset: {int(end_offset)}, epoch: {int(epoch)}\n" if epoch.isdigit() else ""
    digits = name.split(".")[0].partition("-")[0]
    return f"Log starting offset: {int(digits)}\n" if digits.isdigit() else ""
