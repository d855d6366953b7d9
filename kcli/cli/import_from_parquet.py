"""kcli import-from-parquet: writes an export back as a log directory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.error_report import DiskFailed, cell
from kcli.cli.options import Codec, Format, current_ms, pairs, utf8_path
from kcli.cli.output import aligned, count_text, json_line, note, write_text
from kcli.cli.progress import Progress, size_text
from kcli.errors import UsageError, needing
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.export.restore import Restored
    from kcli.export.restore_rows import Export

EPILOG = """
Examples:

kcli import-from-parquet backup --out /var/lib/kafka

kcli import-from-parquet backup --dry-run

kcli import-from-parquet backup --out data --cluster-id 5L6g3nShT-eMCtK--X86sw --node-id 1
"""


def import_from_parquet(  # noqa: PLR0913, PLR0917 (one parameter an option)
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A directory of Parquet files, or one file.", callback=utf8_path),
    ],
    out: Annotated[Path | None, typer.Option("--out", metavar="LOGDIR", help="The log directory to make.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what there is to restore.")] = False,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="Restore this topic; several times. [all]")
    ] = None,
    codec: Annotated[
        Codec | None, typer.Option("--codec", help="Compress batches so. [as they were, else none]")
    ] = None,
    segment_bytes: Annotated[
        int | None,
        typer.Option(
            "--segment-bytes", min=1 << 10, max=(1 << 31) - 1, help="Bytes of a segment. [as they were, else 1 GiB]"
        ),
    ] = None,
    topic_id: Annotated[
        list[str] | None,
        typer.Option("--topic-id", metavar="TOPIC=ID", help="A topic's id, for partition.metadata; several times."),
    ] = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", metavar="ID", help="Write meta.properties: of this cluster.")
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", min=0, max=(1 << 31) - 1, help="Write meta.properties: of this node.")
    ] = None,
    memory: Annotated[
        int, typer.Option("--memory", metavar="MB", min=16, help="About how much memory rows may take.")
    ] = 256,
    output: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TABLE,
) -> None:
    """Write the segments of an export to Parquet back: same offsets, timestamps, keys, values, headers, producers.

    The log directory is complete or does not exist.
    """
    if (out is None) is not dry_run:
        raise UsageError("give --out LOGDIR, or --dry-run")
    ids = _topic_ids(topic_id)
    export = _export(directory, topic or [], memory << 20)
    from kcli.export.restore_columns import notes
    from kcli.export.restore_rows import dead_letters

    began = time.monotonic()
    for line in notes(export.layouts):
        note(f"kcli: {line}")
    if put_aside := dead_letters(directory):
        note(f"kcli: {put_aside:,} records did not decode when they were exported: they are not restored")
    progress = Progress(lambda: export.bytes)
    export.advance = progress.advance
    rows = []
    try:
        for restored in _restored(export, out, codec, segment_bytes, ids, cluster_id, node_id):
            progress.clear()
            rows.append(restored)
            if restored.has_open_ends:
                place = f"{restored.topic}-{restored.partition}"
                note(f"kcli: {place}: transactions without their ends (--include-control): the records are in none now")
            if output is Format.JSONL:
                write_text(json_line(asdict(restored)))
    except OSError as error:
        raise DiskFailed(f"{error.filename or out}: {error.strerror or error}") from None
    finally:
        progress.clear()
    if output is Format.TABLE:
        write_text(_table(rows) + _summary(rows, out, time.monotonic() - began))


def _export(directory: Path, topics: list[str], memory_bytes: int) -> Export:
    with needing("spark"):
        from kcli.export.restore_rows import Export
    export = Export(directory, topics=topics, memory_bytes=memory_bytes)
    if missing := [name for name in topics if name not in export.topics]:
        there = ", ".join(sorted(export.topics)) or "none"
        raise UsageError(f"--topic {missing[0]}: {directory} has no record of it; it has {there}")
    return export


def _restored(
    export: Export,
    out: Path | None,
    codec: Codec | None,
    segment_bytes: int | None,
    topic_ids: dict[str, str],
    cluster_id: str | None,
    node_id: int | None,
) -> Iterator[Restored]:
    from kcli.export.restore import RestoreOptions, restore, survey

    if out is None:
        return survey(export)
    now_ms = current_ms()

    def finish(directory: Path) -> None:
        if cluster_id is not None or node_id is not None:
            _format(directory, now_ms, cluster_id, node_id)

    options = RestoreOptions(
        now_ms=now_ms,
        segment_bytes=segment_bytes,
        codec=None if codec is None else list(Codec).index(codec),
        topic_ids=topic_ids,
    )
    return restore(export, out, options, finish=finish)


def _format(directory: Path, now_ms: int, cluster_id: str | None, node_id: int | None) -> None:
    """Write meta.properties into the restored log directory. cluster_id, node_id: those of the options, None for an
    option that is not given.

    Without node_id, the node id is that of the broker in the restored metadata log, if the log has exactly one broker.
    If the metadata log has exactly one log directory of the node, the directory id is the one in the metadata log.
    """
    from formats.message_compiler import uuid_text
    from kcli.broker.metadata.format import format_directories
    from kcli.inspector.cluster_metadata import read_image

    image = read_image(directory)
    brokers = {} if image is None else image.brokers
    if node_id is None and len(brokers) == 1:
        (node_id,) = brokers
    known = brokers[node_id].directories if node_id in brokers else ()
    ids = {directory: uuid_text(known[0].bytes)} if len(known) == 1 else {}
    format_directories([directory], now_ms=now_ms, node_id=node_id, cluster_id=cluster_id, directory_ids=ids)


def _topic_ids(texts: list[str] | None) -> dict[str, str]:
    import re

    ids = pairs(texts, "--topic-id")
    for name, value in ids.items():
        if not re.fullmatch(r"[A-Za-z0-9_-]{22}", value):
            raise UsageError(f"--topic-id {name}={value}: an id is 22 characters of base64, as kcli topics shows it")
    return ids


HEADINGS = ("PARTITION", "OFFSETS", "RECORDS", "MISSING", "BATCHES", "SEGMENTS", "BYTES")


def _table(rows: list[Restored]) -> str:
    if not rows:
        return ""
    return aligned([HEADINGS, *map(_cells, rows)])


def _cells(row: Restored) -> tuple[str, ...]:
    def number(value: int | None) -> str:
        return cell(None if value is None else f"{value:,}")

    return (
        f"{row.topic}-{row.partition}",
        f"{row.first_offset:,}..{row.last_offset:,}",
        *map(number, (row.records, row.missing, row.batches, row.segments)),
        cell(None if row.bytes is None else size_text(row.bytes)),
    )


def _summary(rows: list[Restored], out: Path | None, seconds: float) -> str:
    records = sum(row.records for row in rows)
    parts = [f"{count_text(records, 'record')} in {count_text(len(rows), 'partition')}"]
    if left_out := sum(row.left_out or 0 for row in rows):
        parts.append(f"{count_text(left_out, 'control record')} left out")
    parts.append("nothing was written" if out is None else f"written to {printable(out)}")
    return f"{'; '.join(parts)}; {seconds:.2f} s\n"
