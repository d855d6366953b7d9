"""`--format kafka`: any file as kafka-dump-log 4.3 prints it. The type follows from the file's name, as in that
tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kcli.inspector.file_type import FileType
from kcli.inspector.kafka_log_text import log_title, print_log
from kcli.inspector.kafka_options import KafkaDumpOptions, Notes
from kcli.inspector.ordered import Write
from kcli.log.source import AnyPath, Source, open_source

LINES_AT_A_TIME = 1000


SUFFIXES = {
    ".log": FileType.LOG,
    ".checkpoint": FileType.KRAFT_SNAPSHOT,
    ".index": FileType.INDEX,
    ".timeindex": FileType.TIMEINDEX,
    ".txnindex": FileType.TXNINDEX,
    ".snapshot": FileType.SNAPSHOT,
}


def dump_file(
    path: AnyPath,
    options: KafkaDumpOptions,
    write: Write,
    notes: Notes,
    *,
    file_type: FileType | None = None,
    start: int = 0,
    open_log: Callable[[AnyPath], Source] = open_source,
) -> int:
    """Write what Kafka's tool prints of one file. Returns how many batches or records of a .log file were written, 0
    for a file of another type.

    notes: receives mismatches and errors. file_type: overrides the type that the file's name has. start: the byte of a
    .log file to begin at, at which a batch must begin. Raises UnreadableInput.
    """
    write(memoryview(f"Dumping {path}\n".encode("utf-8", "surrogateescape")))
    match file_type or SUFFIXES.get(path.suffix):
        case FileType.LOG | FileType.KRAFT_SNAPSHOT:
            source = open_log(path)
            try:
                return dump_log(source, path, options, write, notes, start=start)
            finally:
                source.close()
        case FileType.INDEX | FileType.TIMEINDEX | FileType.TXNINDEX | FileType.SNAPSHOT as kind:
            _write_lines(_small_file(path, kind, options, notes), write)
        case _:
            notes.complain(f"Ignoring unknown file {path}")
    return 0


def _small_file(path: AnyPath, file_type: FileType, options: KafkaDumpOptions, notes: Notes) -> Iterator[str]:
    from kcli.inspector import kafka_file_text as text

    match file_type:
        case FileType.INDEX:
            return text.print_offset_index(path, str(path), options.index, notes)
        case FileType.TIMEINDEX:
            return text.print_time_index(path, str(path), options.index, notes)
        case FileType.TXNINDEX:
            return text.print_txn_index(path, notes)
        case _:
            return text.print_producer_snapshot(path, notes)


def dump_log(
    source: Source, path: AnyPath, options: KafkaDumpOptions, write: Write, notes: Notes, *, start: int = 0
) -> int:
    """Write what Kafka's tool prints of a .log file, but without the line "Dumping PATH". Returns how many batches or
    records were written.

    source: the .log file. path: only for the names in the output. notes: receives mismatches and errors.
    start: the byte to begin at, at which a batch must begin. Raises UnreadableInput.
    """
    write(memoryview(log_title(path).encode()))
    outcome = print_log(source, options.log, write, selection=options.selection, start=start, name=path.name)
    notes.errors += outcome.errors
    if not options.selection.is_all:
        return outcome.shown
    for last, following in outcome.gaps:
        notes.complain(f"Non-consecutive offsets in {path.absolute()}", f"  {last} is followed by {following}")
    if outcome.gap_count > len(outcome.gaps):
        more = f"  ... and {outcome.gap_count - len(outcome.gaps):,} more gaps"
        notes.complain(f"Non-consecutive offsets in {path.absolute()}", more)
    return outcome.shown


def _write_lines(lines: Iterable[str], write: Write) -> None:
    block: list[str] = []
    for line in lines:
        block.append(line)
        if len(block) >= LINES_AT_A_TIME:
            write(memoryview("\n".join([*block, ""]).encode("utf-8", "surrogateescape")))
            block.clear()
    if block:
        write(memoryview("\n".join([*block, ""]).encode("utf-8", "surrogateescape")))
