"""The tasks that Spark's Python workers run. A task reads splits, writes Parquet files to the staging directory and
returns a report of these files; a task of the survey, which comes first if types are inferred, returns a survey of keys
and values and writes nothing.

An error of the data or the disk is part of the report, not an exception: Spark would run a task that raises again, and
bury the error in a Java trace. The files of a killed attempt of a task are in no report and are removed with the
staging directory, so each record is in exactly one file of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from formats.errors import FormatError
from formats.kernels.crc import crc32c
from kcli.errors import KcliError
from kcli.export.columns import arrow_schema
from kcli.export.commit import reason_of
from kcli.export.conform import conform_rows
from kcli.export.decoding import DecoderSpec, Survey, survey
from kcli.export.files import is_remote, open_source
from kcli.export.histogram import Histogram
from kcli.export.manifest import GAPS_LISTED, joined
from kcli.export.options import OnCorruption
from kcli.export.reading import read
from kcli.export.shape import PLACE, Shape, dead_rows, dead_schema
from kcli.export.splits import Split
from kcli.export.table_writer import StagedFile, TableFormat, TableWriter

Read = Callable[..., Iterator[pa.RecordBatch]]
"""Reads a split, with the arguments of kcli.export.reading.read."""
FAILED = "failed"
CHUNK_BYTES = 4 << 20
READ_ROWS = 1 << 14


class Counter(Protocol):
    """The method of Spark's Accumulator that tasks call."""

    def add(self, term: int) -> None:
        """Add a number to the count."""


def call(task: Callable[..., TaskReport], records: Counter, done: Counter, item: Any) -> TaskReport:
    """Run a task on one item, as the function of Spark's map. It is in this module so that workers do not import
    job.py.

    records, done: accumulators of the records and bytes that were read.
    """
    return task(item, records, done)


@dataclass(frozen=True, slots=True)
class Work:
    """The settings that the tasks of an export share.

    staging: the run's staging directory. dead_keys: whether records without a key become dead letters, because a
    --latest-by-key table has no row for them. schema: the schema to which rows are converted for the files, if the
    table has one of its own; None for the schema of the rows. read: reads a split.
    """

    staging: str
    shape: Shape
    form: TableFormat
    on_corruption: OnCorruption
    include_control: bool
    dead_keys: bool = False
    schema: pa.Schema | None = None
    read: Read = read


@dataclass(slots=True)
class SplitReport:
    """The result of reading one split in a task.

    stop: the byte position where the split ends. crc32c: of the split's bytes, None for a remote segment. records: the
    number of all records, dead letters included. first, last: the lowest and highest offset of the records, None
    without a record. missing: the number of offsets between these without a record. gaps: ranges (first, last) of these
    offsets, at most GAPS_LISTED. histogram: records and bytes by timestamp.
    """

    split: Split
    stop: int
    crc32c: int | None
    records: int = 0
    first: int | None = None
    last: int | None = None
    missing: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    histogram: Histogram = field(default_factory=Histogram)

    def see(self, batch: pa.RecordBatch) -> None:
        """Count the records of a non-empty batch; called with the batches in the order of the segment."""
        offsets = batch.column("offset").to_numpy()
        times = np.floor_divide(batch.column("timestamp").cast(pa.int64()).fill_null(0).to_numpy(), 1000)
        sizes = _lengths(batch, "key") + _lengths(batch, "value")
        self.histogram.add(times, sizes)
        self.records += batch.num_rows
        before = offsets[0] - 1 if self.last is None else self.last
        steps = np.diff(offsets, prepend=before)
        for at in np.flatnonzero(steps > 1).tolist():
            first, last = int(offsets[at] - steps[at] + 1), int(offsets[at] - 1)
            self.missing += last - first + 1
            if len(self.gaps) < GAPS_LISTED:
                self.gaps.append((first, last))
        self.first = int(offsets[0]) if self.first is None else self.first
        self.last = int(offsets[-1])


def _lengths(batch: pa.RecordBatch, name: str) -> Any:
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.int64)
    return pc.binary_length(batch.column(name)).fill_null(0).to_numpy().astype(np.int64)


@dataclass(slots=True)
class TaskReport:
    """The result of one task.

    files, dead_letters: the files that the task wrote for the table and for the dead-letter table. splits: a report for
    each split that the task read. failure: the error that ended the task, None for success. surveys: the result of a
    survey task, for the keys and for the values: what they show about their types (decoding/survey.py). columns: (name,
    type) of the table's columns.
    """

    files: list[StagedFile] = field(default_factory=list)
    dead_letters: list[StagedFile] = field(default_factory=list)
    splits: list[SplitReport] = field(default_factory=list)
    failure: str | None = None
    is_of_disk: bool = False
    surveys: tuple[Survey, Survey] = (Survey(), Survey())
    columns: tuple[tuple[str, str], ...] = ()


class Sink:
    """Writes a task's records to two tables: the table and the dead-letter table."""

    def __init__(self, work: Work) -> None:
        self._work = work
        staging = Path(work.staging)
        self._schema = work.schema or work.shape.schema
        self._rows = TableWriter(staging, self._schema, work.form)
        self._dead = TableWriter(staging, dead_schema(), TableFormat())

    def write(self, batch: pa.RecordBatch) -> None:
        """Decode the keys and values of records and write the rows to their tables."""
        if self._work.dead_keys:
            batch = self._with_keys(batch)
        rows, dead = self._work.shape.apply(batch)
        if self._work.schema is not None:
            rows = conform_rows(rows, self._work.schema, PLACE)
        self._rows.write(rows)
        if dead is not None:
            self._dead.write(dead)

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keyless = pc.is_null(batch.column("key"))
        if not pc.any(keyless).as_py():
            return batch
        reasons = {"key": pa.repeat(pa.scalar("no key, so no place in a table by key"), batch.num_rows)}
        self._dead.write(dead_rows(batch, keyless, reasons))
        return batch.filter(pc.invert(keyless))

    def close(self, report: TaskReport) -> None:
        """Finish all files and list them in the report."""
        report.files = self._rows.close()
        report.dead_letters = self._dead.close()
        report.columns = tuple((each.name, str(each.type)) for each in self._schema)

    def abandon(self) -> None:
        """Close the files of a task that failed, without finishing them."""
        self._rows.abandon()
        self._dead.abandon()


def _reported(staging: str, task: Callable[[TaskReport], None]) -> TaskReport:
    """Run a task and return its report. A failure is written to the report, and a file FAILED in the staging directory
    marks it for later tasks: if that file exists, return an empty report without running the task."""
    report = TaskReport()
    mark = Path(staging) / FAILED
    if mark.exists():
        return report
    try:
        task(report)
    except (KcliError, FormatError) as error:
        report.failure = str(error)
    except OSError as error:
        report.is_of_disk = error.filename is None or Path(error.filename).is_relative_to(staging)
        report.failure = reason_of(error) if report.is_of_disk else f"{error.filename}: {reason_of(error)}"
    except pa.ArrowException as error:
        report.failure = f"{type(error).__name__}: {error}"
    if report.failure is not None:
        with suppress(OSError):
            mark.touch()
    return report


def export_splits(work: Work, splits: Sequence[Split], records: Counter, done: Counter) -> TaskReport:
    """Write the records of splits to Parquet files; return the report."""

    def task(report: TaskReport) -> None:
        sink = Sink(work)
        try:
            for split in splits:
                found = SplitReport(split, *_bytes_of(split))
                for batch in _batches(work, split, work.shape.reads):
                    if batch.num_rows:
                        found.see(batch)
                        sink.write(batch)
                report.splits.append(found)
                records.add(found.records)
                done.add(split.size)
            sink.close(report)
        except BaseException:
            sink.abandon()
            raise

    return _reported(work.staging, task)


def survey_splits(
    work: Work, specs: tuple[DecoderSpec, DecoderSpec], splits: Sequence[Split], records: Counter, done: Counter
) -> TaskReport:
    """Read the keys and values of splits, and return a report with their surveys, from which the driver makes the
    decoders. specs: those of keys and of values. records, done: accumulators of the records and bytes that were
    read."""
    names = [name for name, spec in zip(("key", "value"), specs, strict=True) if spec.infers]

    def task(report: TaskReport) -> None:
        found = dict(zip(("key", "value"), report.surveys, strict=True))
        specs_by_name = dict(zip(("key", "value"), specs, strict=True))
        for split in splits:
            for batch in _batches(work, split, names):
                for name in names:
                    found[name] |= survey(specs_by_name[name], batch.column(name))
                records.add(batch.num_rows)
            done.add(split.size)
        report.surveys = found["key"], found["value"]

    return _reported(work.staging, task)


def export_file(work: Work, path: str, records: Counter, done: Counter) -> TaskReport:
    """Write the rows of a Parquet file that Spark made (sorted, or the latest by key) to files of the table; return the
    report."""

    def task(report: TaskReport) -> None:
        sink = Sink(work)
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(READ_ROWS, columns=list(work.shape.reads)):
                    if batch.num_rows:
                        sink.write(batch.cast(_raw_schema(batch.schema, work.shape)))
                        records.add(batch.num_rows)
            done.add(Path(path).stat().st_size)
            sink.close(report)
        except BaseException:
            sink.abandon()
            raise

    return _reported(work.staging, task)


def _raw_schema(given: pa.Schema, shape: Shape) -> pa.Schema:
    assert set(given.names) == set(shape.reads), "the batch has the columns that the shape reads"
    return arrow_schema(given.names)


def _batches(work: Work, split: Split, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return work.read(split, columns, on_corruption=work.on_corruption, include_control=work.include_control)


def _bytes_of(split: Split) -> tuple[int, int | None]:
    """Return the byte position where a split ends, and the CRC-32C of its bytes, None for a remote segment."""
    if split.size == 0 or is_remote(split.segment):
        return split.start + split.size, None
    return split.start + split.size, sum_bytes(split.segment, split.start, split.start + split.size)


def sum_bytes(segment: str, start: int, stop: int) -> int:
    """Return the CRC-32C of a segment's bytes [start, stop). Raises UnreadableInput."""
    source = open_source(segment)
    try:
        view = memoryview(bytearray(min(CHUNK_BYTES, stop - start)))
        checksum, at = 0, start
        while at < stop:
            got = source.read_at(at, view[: stop - at])
            if got == 0:
                break
            checksum = crc32c(view[:got], checksum)
            at += got
        return checksum
    finally:
        source.close()


def merged_gaps(reports: Sequence[SplitReport]) -> tuple[tuple[int, int], ...]:
    """Return the ranges (first, last) of offsets without a record, inside and between the splits of one partition."""
    found: list[tuple[int, int]] = []
    last = None
    for report in reports:
        if report.first is None or report.last is None:
            continue
        if last is not None and report.first > last + 1:
            found.append((last + 1, report.first - 1))
        found += report.gaps
        last = report.last
    return joined(found)
