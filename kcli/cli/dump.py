"""The three output formats of dump-segment. Each function shows file by file, writes errors to stderr, and returns the
exit status."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.kernels.summary import LogSummary
from formats.kernels.text.table_lines import iso_time
from kcli.cli.output import count_text, json_line, note, on_terminal, terminal_width, write, write_text
from kcli.cli.progress import Watched
from kcli.errors import UnreadableInput
from kcli.inspector.file_type import FileType
from kcli.inspector.inputs import LOGS, InputFile, input_files
from kcli.inspector.selection import ALL, Selection
from kcli.log.source import Source, open_source, open_stdin
from kcli.printable import printable
from kcli.tier.store import StoreFailed

if TYPE_CHECKING:
    from kcli.inspector.kafka_options import KafkaDumpOptions
    from kcli.inspector.log_records import LogReport
    from kcli.schema_client.reading import PayloadReader
    from kcli.tier.bucket_path import BucketPath

    AnyInput = Path | BucketPath

FINDINGS, UNREADABLE = 1, 2

STYLES = [
    (b"\x1b[1;36m", b"\x1b[0m"),  # batch
    (b"\x1b[33m", b"\x1b[0m"),  # offset
    (b"\x1b[2m", b"\x1b[0m"),  # time
    (b"\x1b[34m", b"\x1b[0m"),  # label
    (b"", b""),  # value
    (b"\x1b[1;31m", b"\x1b[0m"),  # fault
]


def _open(file: InputFile) -> Source:
    return open_stdin() if file.is_stdin else open_source(file.path)


def _start(file: InputFile, selection: Selection) -> int:
    """Return the byte at which to begin reading a file for the selected records; 0 for standard input, and if all
    records are selected."""
    if selection.is_all or file.is_stdin:
        return 0
    from kcli.inspector.seek import start_position

    return start_position(file.path, selection)


def _each(
    paths: list[AnyInput],
    files_of: Callable[[AnyInput], Iterator[InputFile]],
    show: Callable[[InputFile], int],
) -> int:
    """Show the files of every path by `show`, which returns an exit status. A file or directory that cannot be read is
    reported on stderr, and the next one is shown; if a whole store cannot be read, the next path. files_of: yields the
    files of a path. Return the highest exit status."""
    worst = 0
    for path in paths:
        remaining = files_of(path)
        more = True
        while more:
            try:
                file = next(remaining, None)
                more = file is not None
                worst = max(worst, show(file) if file else 0)
            except UnreadableInput as error:
                note(f"kcli: {error}")
                worst = UNREADABLE
                more = more and not isinstance(error, StoreFailed)  # each other object of the store would fail, too
    return worst


class _Limit:
    """Counts the records shown in all files. selection: the one for the next file, whose limit (--limit) is lower by
    the number of records already shown."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._is_search = not selection.narrowed(limit=ALL.limit).is_all
        self._found = self._logs = 0

    def used(self, records: int) -> None:
        self._found += records
        self._logs += 1
        self.selection = self.selection.narrowed(limit=max(0, self.selection.limit - records))

    @property
    def reached(self) -> bool:
        return self.selection.limit == 0

    def tell(self) -> None:
        """Write a note to stderr if options select records, logs were read, and no record was shown."""
        if self._is_search and self._logs and not self._found:
            note("kcli: no record is selected")


def as_jsonl(
    paths: list[AnyInput], file_type: FileType | None, selection: Selection, reader: PayloadReader | None = None
) -> int:
    """Write one JSON object for each record, or for each entry of a file without records. file_type: the type of the
    files (--type); None to find it by their names. reader: decodes keys and values (--schemas). Returns the exit
    status."""
    from kcli.inspector.log_records import print_jsonl

    left = _Limit(selection)

    def show(file: InputFile) -> int:
        if left.reached:
            return 0
        if file.type not in LOGS:
            return _jsonl_entries(file)
        start = _start(file, selection)
        with Watched(_open(file)) as source:
            report = print_jsonl(
                source, file.topic, file.partition, write, selection=left.selection, start=start, reader=reader
            )
        left.used(report.summary.records)
        return _tell(file, report.errors)

    status = _each(paths, lambda path: input_files(path, file_type), show)
    left.tell()
    return status


def _jsonl_entries(file: InputFile) -> int:
    from kcli.inspector.file_entries import file_entries

    errors: list[FormatError] = []
    lead = {"file": str(file.path), "type": str(file.type)}
    try:
        for entry in file_entries(file.path, file.type):
            write_text(json_line(lead | entry))
    except FormatError as error:
        errors.append(error)
    return _tell(file, errors)


def _tell(file: InputFile, errors: list[FormatError]) -> int:
    for error in errors:
        note(f"kcli: {file.path}: {error}")
    return FINDINGS if errors else 0


def as_table(
    paths: list[AnyInput],
    file_type: FileType | None,
    selection: Selection,
    reader: PayloadReader | None = None,
    *,
    batches_only: bool,
    raw_time: bool,
    unfolded: bool,
) -> int:
    """Write a table for each file: a title, the file's batches, records or entries, and a line of sums. Returns the
    exit status. file_type: None to find the type of a file by its name. reader: decodes keys and values.
    batches_only: show batches without their records. raw_time: show times in ms. unfolded: do not shorten long keys
    and values for the terminal."""
    from kcli.inspector.log_records import TableOptions, print_table

    coloured = on_terminal()
    options = TableOptions(
        batches_only=batches_only,
        raw_time=raw_time,
        fold_bytes=max(40, terminal_width()) if coloured and not unfolded else -1,
        styles=STYLES if coloured else None,
    )
    left = _Limit(selection)

    def show(file: InputFile) -> int:
        if left.reached:
            return 0
        if file.type not in LOGS:
            return _table_entries(file)
        began = time.monotonic()
        start = _start(file, selection)
        with Watched(_open(file)) as source:
            size = f"  {source.size():,} B" if file.path.is_file() else ""
            write_text(f"{printable(file.path)}{size}\n")
            report = print_table(
                source, file.topic, write, options, selection=left.selection, start=start, reader=reader
            )
        left.used(report.summary.records)
        write_text(_sums(report, time.monotonic() - began, selected=not selection.is_all) + "\n")
        return FINDINGS if report.errors else 0

    status = _each(paths, lambda path: input_files(path, file_type), show)
    left.tell()
    return status


def _sums(report: LogReport, seconds: float, *, selected: bool) -> str:
    summary = report.summary
    parts = [count_text(summary.batches, "batch", "batches"), count_text(summary.records, "record")]
    if selected:
        parts = [f"{parts[1]} selected, from {parts[0]}"]
    elif summary.records:
        parts.append(f"offsets {summary.first_offset}..{summary.last_offset}")
        missing = f"{count_text(summary.gaps, 'gap')} ({count_text(summary.missing_offsets, 'offset')})"
        parts.append(missing if summary.gaps else "no gaps")
    if summary.max_timestamp != -1:
        parts.append(f"{iso_time(summary.min_timestamp)} .. {iso_time(summary.max_timestamp)}")
    parts += _codecs(summary)
    if summary.producers:
        parts.append(count_text(len(summary.producers), "producer"))
    if report.errors:
        parts.append(count_text(len(report.errors), "fault"))
        if report.damaged_bytes:
            parts.append(f"{report.damaged_bytes:,} B damaged")
    elif summary.batches:
        parts.append("CRC ok")
    return "  ".join([*parts, f"{seconds:.2f} s"])


def _codecs(summary: LogSummary) -> list[str]:
    from formats.compression import CODEC_NAMES

    names = [
        f"{CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f'unknown({codec})'} {batches:,}"
        for codec, batches in summary.codecs.items()
    ]
    size = f"{summary.bytes_stored:,} B"
    if set(summary.codecs) - {0} and summary.bytes_decompressed >= summary.bytes_stored:
        ratio = summary.bytes_decompressed / summary.bytes_stored
        size += f" -> {summary.bytes_decompressed:,} B ({ratio:.1f}x)"
    return [", ".join(names), size] if names else []


def _table_entries(file: InputFile) -> int:
    from kcli.inspector.file_entries import file_entries

    errors: list[FormatError] = []
    count = 0
    write_text(f"{printable(file.path)}\n")
    try:
        for entry in file_entries(file.path, file.type):
            count += 1
            fields = (f"{name} {_shown(file.type, name, value)}" for name, value in entry.items())
            write_text(f"  {printable('  '.join(fields))}\n")
    except FormatError as error:
        errors.append(error)
        write_text(f"  ! {printable(error)}\n")
    faults = f"  {count_text(len(errors), 'fault')}" if errors else ""
    write_text(f"{count_text(count, 'entry', 'entries')}{faults}\n")
    return FINDINGS if errors else 0


def _shown(file_type: FileType, name: str, value: object) -> str:
    if name == "timestamp" and file_type in (FileType.TIMEINDEX, FileType.SNAPSHOT) and isinstance(value, int):
        return f"{value} ({iso_time(value)})" if value >= 0 else str(value)
    return str(value)


def as_kafka(paths: list[AnyInput], file_type: FileType | None, selection: Selection, options: KafkaDumpOptions) -> int:
    """Write what kafka-dump-log prints, line for line. The mismatches that kafka-dump-log lists at its end are written
    to stderr. file_type: None to find the type of a file by its name. Returns the exit status."""
    from kcli.inspector.kafka_options import Notes
    from kcli.inspector.kafka_text import dump_file, dump_log

    left = _Limit(selection)
    notes = Notes()

    def show(file: InputFile) -> int:
        if left.reached:
            return 0
        before = len(notes.errors)
        chosen = replace(options, selection=left.selection)
        if file.is_stdin and file.type in LOGS:
            left.used(dump_log(open_stdin(), file.path, chosen, write, notes))
        else:
            start = _start(file, selection)
            shown = dump_file(
                file.path,
                chosen,
                write,
                notes,
                file_type=file_type,
                start=start,
                open_log=lambda path: Watched(open_source(path)),
            )
            left.used(shown)
        for error in notes.errors[before:]:
            note(f"kcli: {error if isinstance(error, UnreadableInput) else f'{file.path}: {error}'}")
        return FINDINGS if len(notes.errors) > before else 0

    status = _each(paths, lambda path: _kafka_files(path, file_type), show)
    for title, lines in notes.complaints.items():
        for line in (title, *lines):
            note(line)
    return status


def _kafka_files(path: AnyInput, file_type: FileType | None) -> Iterator[InputFile]:
    """Yield the file at a path, even if its name has no known type; for a directory, the files in it of `file_type`
    (None: .log files)."""
    is_directory = path.is_dir() if isinstance(path, Path) else not path.is_file()
    if is_directory:
        yield from input_files(path, file_type)
    else:
        yield InputFile(path, file_type or FileType.LOG, None, None)
