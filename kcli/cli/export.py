"""Connects the command line of export-to-parquet with kcli.export: options, progress, the summary."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.cli.options import Format, time_text
from kcli.cli.output import aligned, count_text, json_line, note, write_text
from kcli.cli.progress import StatusLine, bar, size_text
from kcli.cli.spark_options import tell_failure
from kcli.errors import UsageError
from kcli.export.class_archive import make_soon
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.options import SourceOptions
from kcli.export.outcome import Outcome, TopicOutcome, damage_directory, dead_letter_directory
from kcli.export.session import SparkFailed, SparkSettings
from kcli.export.steps import JobProgress
from kcli.export.table_writer import TableFormat
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.export.manifest import DataFile
    from kcli.pipelines.tables.table import Table

DEFAULT_COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType,headers"
PLOT_WIDTH = 60
DAMAGE_SHOWN = 20
LEVELS = " ▁▂▃▄▅▆▇█"
TABLES: dict[str, dict[str, str]] = {"iceberg": {"date": "day(timestamp)"}, "delta": {"day(timestamp)": "date"}}
"""Formats of tables, each with its own names for terms of --partition-by."""


def source_options(  # noqa: PLR0913 (one parameter an option)
    paths: Sequence[str],
    *,
    tier: str | None,
    topics: Sequence[str] | None,
    pattern: str | None,
    partitions: Sequence[str] | None,
    offsets: tuple[int | None, int | None],
    times_ms: tuple[int | None, int | None],
    columns: str | None,
    flags: Mapping[str, bool],
    isolation: str,
    on_corruption: str,
    out: Path,
) -> SourceOptions:
    """Return the options of the Spark data source. tier: the path or URL of a tier, or None. topics,
    pattern, partitions: at most one of these limits what is read; the others are None or empty. columns: None for
    DEFAULT_COLUMNS. offsets, times_ms: the lower bound (inclusive) and the upper bound (exclusive), None for no bound.
    flags: name of a Boolean option of the data source -> whether it is set. out: the directory of the table. Raises
    UsageError."""
    given: dict[str, str] = {
        "paths": json.dumps([str(Path(path).absolute()) if "://" not in path else path for path in paths]),
        "columns": columns or DEFAULT_COLUMNS,
        "isolation": isolation,
        "onCorruption": on_corruption,
        **{name: "true" for name, on in flags.items() if on},
    }
    if tier is not None:
        given["tier"] = tier
    if on_corruption == "report":
        given["corruptionReport"] = str(damage_directory(out))
    if topics:
        given["subscribe"] = ",".join(topics)
    if pattern is not None:
        given["subscribePattern"] = pattern
    if partitions:
        given["assign"] = json.dumps(_assigned(partitions))
    for word, time_ms in zip(("starting", "ending"), times_ms, strict=True):
        if time_ms is not None:
            given[f"{word}Timestamp"] = str(max(time_ms, 0))
    parsed = SourceOptions.parse(given)
    return _with_offsets(parsed, *offsets)


def _with_offsets(options: SourceOptions, first: int | None, stop: int | None) -> SourceOptions:
    """Return the options with `first` as the start offset and `stop` as the end offset of all partitions; None leaves
    the offset as it is. (The text of Spark's options can give an offset for a single partition only.) With `first`,
    offsets that were deleted are no error. Raises UsageError for a negative offset."""
    if first is not None and first < 0:
        raise UsageError("--from-offset is negative")
    if stop is not None and stop < 0:
        raise UsageError("--to-offset is negative")
    if first is not None:
        options = replace(options, start=replace(options.start, default=first), fail_on_data_loss=False)
    if stop is not None:
        options = replace(options, end=replace(options.end, default=stop))
    return options


def _assigned(partitions: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for text in (part.strip() for each in partitions for part in each.split(",")):
        topic, dash, number = text.rpartition("-")
        if not dash or not topic or not number.isdecimal():
            raise UsageError(f"--partition {text!r} is not TOPIC-N")
        found.setdefault(topic, []).append(int(number))
    return found


def export_options(  # noqa: PLR0913 (one parameter an option)
    source: SourceOptions,
    out: Path,
    *,
    formats: tuple[str, str],
    layout: str | None,
    codec: str,
    level: int | None,
    file_mb: int,
    sort: str | None,
    latest_by_key: bool,
    state: Path | None,
    table: str | None,
) -> ExportOptions:
    """Return the options of an export. formats: the values of --key-format and --value-format. layout, sort: the
    columns of --partition-by and of --sort, separated by commas; None for none. codec, level: the compression of the
    Parquet files; level None for the codec's default. file_mb: about the size of a file, in MB. state: the STATE file
    of --incremental; None for an export of one run. table: the table format, one of TABLES; None for Parquet files
    alone. Raises UsageError."""
    if re.match(r"[a-z][a-z0-9+.-]*:/", str(out)):
        raise UsageError(f"--out {str(out)!r} is no directory: tables are made on a file system that can rename")
    if table is not None and table not in TABLES:
        raise UsageError(f"--table {table!r} is none of {', '.join(TABLES)}")
    if table is not None and state is not None:
        raise UsageError("--incremental STATE: a table has the offsets of its rows itself, and each export adds to it")
    synonyms = TABLES[table] if table is not None else {}
    terms = tuple(synonyms.get(name, name) for name in _names(layout))
    return ExportOptions(
        source=source,
        out=out,
        form=TableFormat(terms, codec, level, file_mb * 1_000_000, is_whole=table == "iceberg"),
        key=DecoderSpec.parse(formats[0]),
        value=DecoderSpec.parse(formats[1]),
        sort=_names(sort),
        latest_by_key=latest_by_key,
        state=state,
    )


def _names(text: str | None) -> tuple[str, ...]:
    """Return the names in a text with commas between them; a comma inside brackets is part of a name."""
    names = re.split(r",(?![^(]*\))", re.sub(r"\s", "", text or ""))
    return tuple(filter(None, names))


def table_of(
    options: ExportOptions, table: str | None, catalog: str | None, name: str | None, *, compacts: bool
) -> Table | None:
    """Return the table that an export adds to; None for Parquet files alone. table: one of TABLES or None. catalog,
    name: the catalog of an Iceberg table and its name there, or None. compacts: whether its files are to be joined.
    Raises UsageError, NotInstalled."""
    if table != "iceberg" and (catalog is not None or name is not None):
        raise UsageError("--catalog and --table-name are of --table iceberg")
    if table is None and compacts:
        raise UsageError("--compact is of --table")
    if table is None:
        return None
    if table == "delta":
        from kcli.pipelines.tables.delta import DeltaLakeTable

        return DeltaLakeTable(options.out, options.form.layout, by_key=options.latest_by_key)
    if (catalog is None) != (name is None):
        raise UsageError("--catalog and --table-name go together: a table in a directory alone has neither")
    if name is not None and "." not in name.strip("."):
        raise UsageError(f"--table-name {name!r} is not SPACE.NAME")
    from kcli.pipelines.tables.iceberg import IcebergTable

    return IcebergTable(options.out, options.form.layout, catalog, name, by_key=options.latest_by_key)


def run(
    options: ExportOptions,
    master: str,
    conf: Mapping[str, str],
    environment: str | None,
    output: Format,
    *,
    debug: bool,
    table: Table | None = None,
    compacts: bool = False,
) -> int:
    """Export, and show the summary. Return the exit status 0; a failed export raises an error, such as SparkFailed.
    master, conf, environment: see SparkSettings. debug: whether to write Spark's own error to stderr. table: the table
    to which the export adds records, None for a directory of Parquet files. compacts: whether its small files are
    joined."""
    line = _Bar()
    line.show(JobProgress("starting Spark", 0, 0, 0, 0, 0))
    settings = SparkSettings(master, conf, environment)
    try:
        if table is None:
            outcome = Job(options, settings, line.show).run()
        else:
            from kcli.pipelines.tables.job import TableJob

            outcome = TableJob(options, table, settings, line.show, compacts=compacts).run()
    except SparkFailed as error:
        line.clear()
        tell_failure(error, f"begins again, {options.out} is as it was", debug=debug)
        raise
    except KeyboardInterrupt:
        line.clear()
        note(f"kcli: interrupted: {options.out} is as it was")
        raise
    finally:
        line.clear()
    for topic, partition, first, last in outcome.lost:
        note(f"kcli: {topic}-{partition}: offsets {first:,} to {last:,} were deleted before they could be exported")
    if output is Format.JSONL:
        write_text("".join(json_line(line) for line in _json(options, outcome)))
    else:
        write_text(_text(options, outcome, adds=table is not None or options.state is not None))
    if settings.is_one_process:
        make_soon()
    return 0


def check(directory: Path, output: Format) -> int:
    """Check an export against its sources, and show the findings. Returns the exit status."""
    from kcli.export.check import check_export

    began = time.monotonic()
    line = _Bar()
    findings = 0
    try:
        proof = check_export(directory, line.show)
    finally:
        line.clear()
    for finding in proof.findings:
        findings += 1
        if output is Format.JSONL:
            write_text(json_line({"type": "finding", "path": finding.path, "reason": finding.reason}))
        else:
            write_text(f"error  {printable(finding.path)}\n       {printable(finding.reason)}\n")
    summary = {"files": proof.files, "records": proof.records, "bytes": proof.bytes, "findings": findings}
    if output is Format.JSONL:
        write_text(json_line({"type": "summary", **summary}))
    else:
        verdict = "as its sources" if not findings else count_text(findings, "finding")
        looked = f"{count_text(proof.records, 'record')} in {count_text(proof.files, 'file')}, {size_text(proof.bytes)}"
        write_text(f"{looked}: {verdict}  {time.monotonic() - began:.2f} s\n")
    return 1 if findings else 0


class _Bar(StatusLine):
    """A progress line: the step, the tasks and bytes that Spark has finished and their totals, the rate, and the
    seconds left."""

    def __init__(self) -> None:
        super().__init__()
        self._step = ""
        self._began = time.monotonic()

    def show(self, progress: JobProgress) -> None:
        """Draw the line for this progress."""
        now = time.monotonic()
        if progress.step != self._step:
            self._step, self._began = progress.step, now
        parts = [progress.step]
        share = (
            progress.bytes / progress.bytes_total
            if progress.bytes_total
            else progress.tasks_done / max(1, progress.tasks)
        )
        if progress.tasks:
            parts.append(f"{bar(share)} {progress.tasks_done}/{progress.tasks} tasks")
        seconds = max(now - self._began, 0.001)
        if progress.records:
            parts.append(f"{progress.records:,} records")
        if progress.bytes:
            rate = size_text(progress.bytes / seconds)
            parts.append(f"{size_text(progress.bytes)} of {size_text(progress.bytes_total)}, {rate}/s")
        if 0 < share < 1:
            parts.append(f"{seconds / share - seconds:.0f} s left")
        self.draw("  ".join(parts))


def _text(options: ExportOptions, outcome: Outcome, *, adds: bool) -> str:
    """Return the summary as text: the topics, their records over time, and a line of sums. adds: whether the export
    adds to the result of earlier ones."""
    if outcome.finished_earlier:
        note("kcli: an export that was interrupted has been finished first")
    if not outcome.topics:
        nothing = [f"nothing {'new' if adds else 'to export'}", *_joined(outcome)]
        return f"{printable(options.out)}  {', '.join(nothing)}  {outcome.seconds:.2f} s\n"
    rows = [("TOPIC", "PARTITIONS", "RECORDS", "GAPS", "UNDECODED", "READ")]
    rows += [
        (
            each.topic,
            f"{each.partitions:,}",
            f"{each.records:,}",
            f"{each.missing:,}",
            f"{each.dead:,}",
            size_text(each.bytes_read),
        )
        for each in outcome.topics
    ]
    text = aligned(rows) + "".join(_plot(each) for each in outcome.topics)
    size = sum(file.bytes for file in outcome.files)
    parts = [count_text(outcome.records, "record"), count_text(len(outcome.files), "file"), size_text(size)]
    if outcome.superseded:
        parts.append(f"{outcome.superseded:,} superseded or deleted")
    parts += _joined(outcome)
    text += f"{printable(options.out)}  {', '.join(parts)}  {outcome.seconds:.2f} s\n"
    dead = sum(file.records for file in outcome.dead_letters)
    if dead:
        letters = printable(dead_letter_directory(options.out))
        text += f"{letters}  {count_text(dead, 'record')} not decoded, with the reasons\n"
    if outcome.damage:
        places = printable(damage_directory(options.out))
        text += f"{places}  {count_text(len(outcome.damage), 'damaged place')} passed over:\n"
    for each in outcome.damage[:DAMAGE_SHOWN]:
        text += f"  {printable(each.path)}  byte {each.position:,}, {each.length:,} bytes  {printable(each.reason)}\n"
    return text


def _joined(outcome: Outcome) -> list[str]:
    return [f"{count_text(outcome.joined, 'small file')} joined"] if outcome.joined else []


def _plot(topic: TopicOutcome) -> str:
    """Return a line with the topic and its first and last timestamp, and two lines that plot the number of its records
    and of its bytes over this time. Return an empty text if the plot would have fewer than two points."""
    first, last, points = topic.histogram.series(PLOT_WIDTH)
    if len(points) < 2:
        return ""
    records, sizes = [point[0] for point in points], [point[1] for point in points]
    width = max(len(_peak(records)), len(size_text(max(sizes))))
    return (
        f"{printable(topic.topic)}  {time_text(first)} .. {time_text(last)}\n"
        f"  records  {_line(records)}  peak {_peak(records):>{width}}\n"
        f"  bytes    {_line(sizes)}  peak {size_text(max(sizes)):>{width}}\n"
    )


def _peak(values: Sequence[int]) -> str:
    return f"{max(values):,}"


def _line(values: Sequence[int]) -> str:
    top = max(1, *values)
    return "".join(LEVELS[-(-value * (len(LEVELS) - 1) // top)] for value in values)


def _json(options: ExportOptions, outcome: Outcome) -> list[dict[str, Any]]:
    """Return the summary as JSON objects: one for each topic, each file and each damaged range, and one with totals."""
    lines: list[dict[str, Any]] = []
    for topic in outcome.topics:
        first, last, points = topic.histogram.series(PLOT_WIDTH)
        lines.append(
            {
                "type": "topic",
                "topic": topic.topic,
                "partitions": topic.partitions,
                "records": topic.records,
                "missing_offsets": topic.missing,
                "undecoded": topic.dead,
                "bytes_read": topic.bytes_read,
                "first_ms": first,
                "last_ms": last,
                "over_time": [{"records": records, "bytes": size} for records, size in points],
            }
        )
    lines += [_file_json("file", file) for file in outcome.files]
    lines += [_file_json("dead_letters", file) for file in outcome.dead_letters]
    lines += [{"type": "damage", **asdict(each)} for each in outcome.damage]
    lines.append(
        {
            "type": "summary",
            "out": str(options.out),
            "increment": outcome.manifest.increments,
            "records": outcome.records,
            "files": len(outcome.files),
            "bytes": sum(file.bytes for file in outcome.files),
            "dead_letters": sum(file.records for file in outcome.dead_letters),
            "superseded": outcome.superseded,
            "joined": outcome.joined,
            "finished_earlier": outcome.finished_earlier,
            "seconds": round(outcome.seconds, 3),
        }
    )
    return lines


def _file_json(kind: str, file: DataFile) -> dict[str, Any]:
    return {"type": kind, "path": file.path, "records": file.records, "bytes": file.bytes, "crc32c": file.crc32c}
