"""Connects the command line of pipe with kcli.pipelines.pipe: ends, the plan, progress, the summary."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kcli.cli.export import DEFAULT_COLUMNS, export_options, table_of
from kcli.cli.options import Format
from kcli.cli.output import aligned, count_text, json_line, note, write_text
from kcli.cli.progress import StatusLine
from kcli.cli.spark_options import GOES_ON, tell_failure
from kcli.errors import KcliError, UsageError
from kcli.export.class_archive import make_soon
from kcli.export.options import Isolation, OnCorruption, SourceOptions
from kcli.export.session import SparkFailed, SparkSettings
from kcli.pipelines.pipe.ends import End, LogEnd, TableEnd, TopicEnd, parse_end
from kcli.pipelines.pipe.plan import PipeProgress
from kcli.pipelines.pipe.to_table import TablePipe
from kcli.pipelines.pipe.to_topic import LogOrigin, Origin, TopicPipe
from kcli.pipelines.source import live_options
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.live import LiveTableJob
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.export.steps import JobProgress, Spark
    from kcli.pipelines.pipe.plan import Plan


FILE_MB = 128
MAX_OFFSETS = 1_000_000
WARNINGS_SHOWN = 100


class Pipe(Protocol):
    """A pipe of any kind."""

    interval_s: float
    """The interval (s) at which the pipe looks for new records, unless the caller gives another."""

    def plan(self) -> Plan:
        """Return the plan: the parts that the pipe would read."""
        ...

    def run(
        self, settings: SparkSettings, watch: Callable[[PipeProgress], None], follow_s: float | None
    ) -> PipeProgress:
        """Copy all records that exist; with follow_s also new ones, which the pipe looks for at this interval (s),
        until Ctrl-C."""
        ...


def ends(source: str, target: str, source_config: Path | None, target_config: Path | None) -> tuple[End, End]:
    """Return the ends of a pipe. Raises UsageError, UnreadableInput."""
    found = parse_end(source, _properties(source_config)), parse_end(target, _properties(target_config))
    if isinstance(found[1], LogEnd):
        raise UsageError(f"{target}: a log directory is only read; kcli restore and import-from-parquet make one")
    return found


def _properties(path: Path | None) -> Mapping[str, str]:
    if path is None:
        return {}
    from kcli.client.command_config import read_client_properties

    return {name: value for name, value in read_client_properties(path).items() if name != "bootstrap.servers"}


def pipe_of(  # noqa: PLR0913 (one parameter an option)
    source: End,
    target: End,
    *,
    checkpoint: Path | None,
    more: Mapping[str, str],
    max_offsets: int | None,
    beyond: bool,
    keeps_partitions: bool,
    compression: str,
    formats: tuple[str, str],
    latest_by_key: bool,
    layout: str | None,
    catalog: str | None,
    table_name: str | None,
) -> Pipe:
    """Return the pipe between two ends. more: options of `kafka-log` for the source. Raises UsageError, NotInstalled,
    UnreadableInput, KcliError."""
    if more["onCorruption"] == OnCorruption.REPORT:
        raise UsageError("--on-corruption report: fail or skip it; kcli export-to-parquet makes a damage table")
    if "bootstrapFrom" in more and not isinstance(source, TopicEnd):
        raise UsageError("--bootstrap-from goes with a topic as FROM")
    if beyond and not isinstance(source, LogEnd):
        raise UsageError("--beyond-high-watermark goes with a log directory as FROM")
    if isinstance(source, TableEnd):
        _refuse_given(
            "a topic or a log directory as FROM",
            {
                "--isolation-level": more["isolation"] != Isolation.READ_COMMITTED,
                "--on-corruption": more["onCorruption"] != OnCorruption.FAIL,
                "--allow-data-loss": more["failOnDataLoss"] == "false",
                "--keep-partitions": keeps_partitions,
            },
        )
    elif isinstance(target, TopicEnd):
        given = {"--catalog": catalog is not None, "--table-name": table_name is not None}
        _refuse_given("an Iceberg table as FROM or TO", given)
    if isinstance(target, TableEnd):
        _refuse_given(
            "a topic as TO",
            {
                "--checkpoint": checkpoint is not None,
                "--keep-partitions": keeps_partitions,
                "--compression-type": compression != "none",
                "--max-offsets": max_offsets is not None,
            },
        )
        if isinstance(source, TableEnd):
            raise UsageError("a pipe from a table goes into a topic")
        return _into_table(source, target, more, formats, latest_by_key, layout, catalog, table_name, beyond=beyond)
    assert isinstance(target, TopicEnd), "a log directory is no target"
    if checkpoint is None:
        raise UsageError("a pipe into a topic needs --checkpoint DIR, where it keeps how far it is")
    if (formats, latest_by_key, layout) != (("raw", "raw"), False, None):
        raise UsageError("--key-format, --value-format, --latest-by-key and --partition-by go with a table as TO")
    origin: Origin
    if isinstance(source, TableEnd):
        _refuse_given("a topic or a log directory as FROM", {"--max-offsets": max_offsets is not None})
        from kcli.pipelines.pipe.rows import TableOrigin

        origin = TableOrigin(source, catalog, table_name)
    else:
        if isinstance(source, LogEnd):
            more = {**more, "beyondHighWatermark": str(beyond).lower()}
        origin = LogOrigin(source, {**more, "maxOffsetsPerTrigger": str(max_offsets or MAX_OFFSETS)})
    return TopicPipe(origin, target, checkpoint.absolute(), keeps_partitions=keeps_partitions, compression=compression)


def _refuse_given(place: str, given: Mapping[str, bool]) -> None:
    """Raise UsageError for the first option that is given, as it is without effect elsewhere than with `place`."""
    for name, is_given in given.items():
        if is_given:
            raise UsageError(f"{name} goes with {place}")


def _into_table(  # noqa: PLR0913 (one parameter an option)
    source: TopicEnd | LogEnd,
    target: TableEnd,
    more: Mapping[str, str],
    formats: tuple[str, str],
    latest_by_key: bool,
    layout: str | None,
    catalog: str | None,
    table_name: str | None,
    *,
    beyond: bool,
) -> TablePipe:
    given = {"subscribe": source.topic, "columns": DEFAULT_COLUMNS, **more}
    if isinstance(source, TopicEnd):
        live = live_options({**source.options, **given})
        assert live is not None, "the options name brokers, and no path"
        read, cluster = live
    else:
        flags = {"path": source.directory, "beyondHighWatermark": str(beyond).lower()}
        read, cluster = SourceOptions.parse({**given, **flags}), None
    options = export_options(
        read,
        target.directory,
        formats=formats,
        layout=layout,
        codec="zstd",
        level=None,
        file_mb=FILE_MB,
        sort=None,
        latest_by_key=latest_by_key,
        state=None,
        table=target.kind,
    )
    table = table_of(options, target.kind, catalog, table_name, compacts=False)
    assert table is not None, "a format is given"

    def make(spark: Spark, watch: Callable[[JobProgress], None]) -> TableJob:
        if cluster is None:
            return TableJob(options, table, spark, watch)
        return LiveTableJob(options, cluster, table, spark, watch)

    return TablePipe(str(source), str(target), make, orders=latest_by_key)


def show_plan(pipe: Pipe, output: Format) -> None:
    """Show the plan of a pipe. Raises what the pipe raises."""
    with warnings_to(_Line().warn):
        plan = pipe.plan()
    if output is Format.JSONL:
        for part in plan.parts:
            line = {"type": "part", "name": part.name, "start": part.start, "end": part.end, "unread": part.unread}
            write_text(json_line(line))
        keeps = None if plan.checkpoint is None else str(plan.checkpoint)
        ends_of = {"source": plan.source, "target": plan.target, "checkpoint": keeps, "new": plan.is_new}
        write_text(json_line({"type": "plan", **ends_of, "unit": plan.unit, "unread": plan.unread}))
        return
    kept = "in the table" if plan.checkpoint is None else printable(plan.checkpoint)
    rows = [
        ("FROM", printable(plan.source)),
        ("TO", printable(plan.target)),
        ("CHECKPOINT", f"{kept}, {'new' if plan.is_new else 'goes on'}"),
    ]
    text = aligned(rows) + "\n"
    text += aligned(
        [
            (plan.unit.upper() + "S OF", "START", "END", "UNREAD"),
            *(
                (
                    printable(part.name),
                    "" if part.start is None else f"{part.start:,}",
                    f"{part.end:,}",
                    f"{part.unread:,}",
                )
                for part in plan.parts
            ),
        ]
    )
    write_text(text + f"{count_text(plan.unread, plan.unit)} to read\n")


def run(
    pipe: Pipe, master: str, conf: Mapping[str, str], follow_s: float | None, output: Format, *, debug: bool
) -> None:
    """Run a pipe, with its progress on stderr, and show the summary. follow_s: the interval (s) at which to look for
    new records; None to end when all present records are copied. debug: whether Spark's own error is shown. Raises what
    the pipe raises."""
    line, began = _Line(), time.monotonic()
    with warnings_to(line.warn):
        _run(pipe, SparkSettings(master, conf, warn=line.warn), line, began, follow_s, output, debug=debug)


def _run(
    pipe: Pipe,
    settings: SparkSettings,
    line: _Line,
    began: float,
    follow_s: float | None,
    output: Format,
    *,
    debug: bool,
) -> None:
    plan = pipe.plan()
    last = PipeProgress(0, 0, 0.0, plan.unread)

    def watch(progress: PipeProgress) -> None:
        nonlocal last
        last = progress
        line.show(progress, began)
        if output is Format.JSONL and progress.ended:
            write_text(json_line({"type": "progress", **_counts(progress)}))

    if plan.unread or follow_s is not None:
        line.draw(f"starting Spark  {count_text(plan.unread, plan.unit)} to read")
        try:
            last = pipe.run(settings, watch, follow_s)
        except SparkFailed as error:
            line.clear()
            tell_failure(error, GOES_ON if plan.checkpoint else "goes on where the table ends", debug=debug)
            raise
        except KeyboardInterrupt:
            line.clear()
            note("kcli: interrupted: the same command goes on")
            _summary(plan, last, began, output)
            raise
        finally:
            line.clear()
        if settings.is_one_process:
            make_soon()
    _summary(plan, last, began, output)


def _summary(plan: Plan, done: PipeProgress, began: float, output: Format) -> None:
    seconds = time.monotonic() - began
    if output is Format.JSONL:
        done = replace(done, rate=done.records / max(seconds, 0.001))  # of the run, as all its other numbers
        ends_of = {"source": plan.source, "target": plan.target}
        write_text(json_line({"type": "summary", **ends_of, **_counts(done), "seconds": round(seconds, 3)}))
        return
    what = count_text(done.records, "record") if done.batches else "nothing new"
    if done.undecoded:
        what += f", {done.undecoded:,} of them dead letters, beside the table"
    write_text(f"{printable(plan.target)}  {what}  {seconds:.2f} s\n")


def _counts(progress: PipeProgress) -> dict[str, Any]:
    return {
        "batches": progress.batches,
        "records": progress.records,
        "records_per_s": round(progress.rate, 1),
        "lag": progress.lag,
        "undecoded": progress.undecoded,
    }


OPTIONS = {"failOnDataLoss=false": "--allow-data-loss", "onCorruption=skip": "--on-corruption skip"}
"""What options of `kafka-log`, which messages advise, are called on the command line."""


def _by_options(text: str) -> str:
    for name, option in OPTIONS.items():
        text = text.replace(name, option)
    return text


@contextmanager
def told_by_options() -> Iterator[None]:
    """A context whose errors advise options of the command line, not those of `kafka-log`."""
    try:
        yield
    except KcliError as error:
        error.args = (_by_options(str(error)),)
        raise


@contextmanager
def warnings_to(warn: Callable[[str], None]) -> Iterator[None]:
    """A context in which `warn` is called with each warning of kcli in this process."""
    handler = _Handler(warn)
    log = logging.getLogger("kcli")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Handler(logging.Handler):
    def __init__(self, warn: Callable[[str], None]) -> None:
        super().__init__()
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


class _Line(StatusLine):
    """The progress line: records, their rate, the lag; and warnings, each told once."""

    def __init__(self) -> None:
        super().__init__()
        self._told: set[str] = set()

    def warn(self, text: str) -> None:
        """Show a warning, unless it was shown before."""
        if text in self._told or len(self._told) > WARNINGS_SHOWN:
            return
        self._told.add(text)
        self.clear()
        more = len(self._told) > WARNINGS_SHOWN
        note("kcli: further warnings are not shown" if more else f"kcli: {printable(_by_options(text))}")

    def show(self, progress: PipeProgress, began: float) -> None:
        """Draw the line."""
        mean = progress.records / max(time.monotonic() - began, 0.001)
        lag = "" if progress.lag is None else f"  lag {progress.lag:,}"
        self.draw(f"{progress.records:,} records  {progress.rate:,.0f}/s, {mean:,.0f}/s in all{lag}")
