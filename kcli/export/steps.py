"""The steps of an export that Spark's workers run.

    survey    only if the types of decoded keys or values are inferred: a first pass over the records
    write     each task reads its splits and writes Parquet itself (table_writer.py), and reports the files it wrote
    order     only with --sort or --latest-by-key: Spark sorts or groups the Parquet files of the write step, and
              further tasks write the table from Spark's output

Whoever runs the steps plans the splits before, and puts the files in place after: job.py for a directory of Parquet
files, kcli.pipelines.tables for a table format.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kcli.errors import KcliError
from kcli.export.commit import unchanged
from kcli.export.decoding import Decoder, DecoderSpec, SchemaError, Survey, make_decoder, survey
from kcli.export.export_options import ExportOptions
from kcli.export.reading import read
from kcli.export.session import QUICK_START, SparkSettings, interruptible, spark_context
from kcli.export.shape import PLACE, Shape
from kcli.export.splits import Split
from kcli.export.table_writer import StagedFile, TableFormat
from kcli.export.worker import Read, TaskReport, Work, call, export_file, export_splits, survey_splits

if TYPE_CHECKING:
    from pyspark import SparkContext

    Spark = SparkSettings | SparkContext

TASKS_PER_CORE = 2
SPLITS_PER_CORE = 4  # enough splits to group them into tasks of about the same size
SMALLEST_TASK_BYTES = 4 << 20
POLL_S = 0.2
STAGED = TableFormat(codec="lz4", file_bytes=256 << 20)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a job: the current step, and how much of the step is done: tasks, records, and bytes of input.
    tasks, bytes_total: the totals of the step."""

    step: str
    tasks_done: int
    tasks: int
    records: int
    bytes: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a job's tasks.

    read: reports of the tasks that read splits. made: reports of the tasks that wrote the table's files. dead_first:
    the dead-letter files of the tasks in `read`, if other tasks wrote the table's files (--sort, --latest-by-key).
    """

    read: Sequence[TaskReport]
    made: Sequence[TaskReport]
    dead_first: Sequence[StagedFile]

    @property
    def files(self) -> list[StagedFile]:
        """The files of the table."""
        return [file for report in self.made for file in report.files]

    @property
    def dead_letters(self) -> list[StagedFile]:
        """The files of the dead-letter table."""
        return [file for report in self.made for file in report.dead_letters] + list(self.dead_first)


class Steps:
    """The steps of one run of an export.

    watch: called with the progress every 0.2 s, from a thread of its own. fit: returns the schema of the files for the
    open schema of the rows (Shape), and raises UsageError or SchemaError if there is none; None if the files have the
    schema of the rows.
    keeps_tombstones: whether a key whose latest record is a tombstone has a row (--latest-by-key). read: reads a split
    in a task.
    """

    def __init__(
        self,
        options: ExportOptions,
        spark: SparkSettings | SparkContext,
        watch: Callable[[JobProgress], None] = lambda _: None,
        fit: Callable[[pa.Schema], pa.Schema] | None = None,
        *,
        keeps_tombstones: bool = False,
        read: Read = read,
    ) -> None:
        self._options = options
        self._spark = spark
        self._watch = watch
        self._fit = fit
        self._keeps_tombstones = keeps_tombstones
        self._read = read

    def check(self) -> None:
        """Make the decoders whose schemas do not depend on the records, so that a wrong schema fails before Spark
        starts. Raises as make_decoder does."""
        self._decoder(self._options.key)
        self._decoder(self._options.value)

    def ask_registries(self, splits: Sequence[Split]) -> None:
        """Make the decoders whose schemas a registry has, for the first keys and values with a schema's id that the
        partitions have, as `run` does for all of them. So a registry that does not answer, or refuses the login, fails
        before Spark starts. Raises as make_decoder does, and as `read`."""
        specs = {"key": self._options.key, "value": self._options.value}
        left = [name for name, spec in specs.items() if spec.registry is not None]
        firsts: dict[tuple[str, int], Split] = {}
        for each in splits:
            firsts.setdefault((each.topic, each.partition), each)
        for split in firsts.values():
            if not left or (records := self._first(split, left)) is None:
                continue
            for name in records.schema.names:
                known = survey(specs[name], records.column(name))
                if known.headers:
                    self._decoder(specs[name], known)
                    left.remove(name)
        for name in left:  # no record has an id: a URL may still be none, and a dump unreadable
            self._decoder(specs[name], Survey())

    def _first(self, split: Split, columns: Sequence[str]) -> pa.RecordBatch | None:
        """Return the first record batch of a split, None if it has no records."""
        source = self._options.source
        batches = self._read(split, columns, on_corruption=source.on_corruption, include_control=source.include_control)
        return next((batch for batch in batches if batch.num_rows), None)

    def check_fit(self) -> None:
        """Check that a table that exists can have what the decoders will make, so that another format of keys or values
        fails before records are read. Where the records decide a type, one of those that the format may have must fit.
        Raises as `fit`."""
        assert self._fit is not None, "the rows are of a table format"
        options = self._options
        rows = Shape(options.source.columns, self._decoder(options.key), self._decoder(options.value)).open_schema
        open_types = [
            [pa.field(name, kind) for kind in spec.possible_types]
            for name, spec in (("key", options.key), ("value", options.value))
            if spec.infers and name in rows.names
        ]
        refused: SchemaError | None = None
        for fields in product(*open_types):
            tried = reduce(lambda found, each: found.set(found.get_field_index(each.name), each), fields, rows)
            try:
                self._fit(tried)
            except SchemaError as error:
                refused = refused or error
            else:
                return
        assert refused is not None, "a format has a type"
        raise refused

    def run(self, scratch: Path, splits: Sequence[Split]) -> Reports:
        """Run all steps. scratch: the directory of the staged files. Raises KcliError for the first task that failed,
        SparkFailed."""
        if not splits:
            return Reports([], [], [])
        if isinstance(self._spark, SparkSettings):
            with spark_context(self._quick(self._spark)) as spark, interruptible(spark):
                return self._work(spark, scratch, splits)
        return self._work(self._spark, scratch, splits)

    def _quick(self, settings: SparkSettings) -> SparkSettings:
        """Return the settings. Java options for a quick start are added if Spark's workers run on this machine and
        Spark need not sort or group rows."""
        if self._in_order or not settings.is_local:
            return settings
        return replace(settings, conf={**QUICK_START, **settings.conf})

    @property
    def _in_order(self) -> bool:
        return bool(self._options.sort) or self._options.latest_by_key

    def _work(self, spark: SparkContext, scratch: Path, splits: Sequence[Split]) -> Reports:
        options = self._options
        cores = spark.defaultParallelism
        tasks = grouped(splits, cores, options.form.file_bytes)
        key, value = self._decoders(spark, scratch, splits, tasks)
        shape = Shape(options.source.columns, key, value)
        work = self._task_of(scratch, shape, options.form)
        if self._fit is not None:
            work = replace(work, schema=self._fit(shape.open_schema))
        if not self._in_order:
            reports = self._run(spark, "writing", tasks, partial(export_splits, work), _bytes(splits))
            return Reports(reports, reports, [])
        sorted_by = [name.removeprefix("-") for name in options.sort]
        needed = tuple(dict.fromkeys((*shape.reads, *PLACE, "key", "value", *sorted_by)))
        if options.latest_by_key:
            needed = tuple(dict.fromkeys((*needed, "timestampType", "headers")))
        first = replace(work, shape=Shape(needed), form=STAGED, dead_keys=options.latest_by_key, schema=None)
        reports = self._run(spark, "reading", tasks, partial(export_splits, first), _bytes(splits))
        paths = [str(scratch / file.staged) for report in reports for file in report.files]
        if not paths:
            return Reports(reports, [], [])
        ordered = self._ordered(spark, scratch, paths)
        size = sum(path.stat().st_size for path in ordered)
        made = self._run(spark, "writing", [str(path) for path in ordered], partial(export_file, work), size)
        return Reports(reports, made, [file for report in reports for file in report.dead_letters])

    def _task_of(self, scratch: Path, shape: Shape, form: TableFormat) -> Work:
        source = self._options.source
        return Work(str(scratch), shape, form, source.on_corruption, source.include_control, read=self._read)

    def _decoders(
        self, spark: SparkContext, scratch: Path, splits: Sequence[Split], tasks: Sequence[Sequence[Split]]
    ) -> tuple[Decoder | None, Decoder | None]:
        specs = self._options.key, self._options.value
        known = [Survey(), Survey()]
        if any(spec.infers for spec in specs):
            work = self._task_of(scratch, Shape(("key", "value")), STAGED)
            for report in self._run(spark, "looking at", tasks, partial(survey_splits, work, specs), _bytes(splits)):
                known = [old | new for old, new in zip(known, report.surveys, strict=True)]
        key, value = (self._decoder(spec, found) for spec, found in zip(specs, known, strict=True))
        return key, value

    def _decoder(self, spec: DecoderSpec, known: Survey | None = None) -> Decoder | None:
        """Return the decoder of a spec. Return None for `raw`, and if the type must be inferred but `known`, the survey
        of the payloads, is None. Raises as make_decoder does."""
        if spec.format == "raw" or (spec.infers and known is None):
            return None
        try:
            return make_decoder(spec, known)
        except SchemaError as error:
            where = spec.schema or spec.registry or spec.format
            raise SchemaError(str(error) if where in str(error) else f"{where}: {error}") from error

    def _ordered(self, spark: SparkContext, scratch: Path, paths: Sequence[str]) -> list[Path]:
        """Have Spark keep only the latest row of each key (--latest-by-key), and sort the rows (--sort). Return the
        Parquet files that Spark wrote, in the order of their rows. paths: the Parquet files with the unsorted rows."""
        from pyspark.sql import SparkSession
        from pyspark.sql import functions as f

        session = SparkSession.builder.getOrCreate()
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        session.conf.set("spark.sql.parquet.compression.codec", "snappy")
        size = sum(Path(path).stat().st_size for path in paths)
        parts = max(1, math.ceil(size / self._options.form.file_bytes))
        session.conf.set("spark.sql.shuffle.partitions", str(max(parts, spark.defaultParallelism)))
        rows = session.read.parquet(*(f"file://{path}" for path in paths))
        if self._options.latest_by_key:
            names = rows.columns
            latest = f.max_by(f.struct(*names), f.col("offset")).alias("latest")
            rows = rows.groupBy("topic", "partition", "key").agg(latest).select("latest.*")
            if not self._keeps_tombstones:
                rows = rows.where(f.col("value").isNotNull())
        if self._options.sort:
            order = [
                f.col(name.removeprefix("-")).desc() if name.startswith("-") else f.col(name).asc()
                for name in self._options.sort
            ]
            rows = rows.repartitionByRange(parts, *order).sortWithinPartitions(*order)
        target = scratch / "ordered"
        with self._polling(spark, "ordering", None):
            rows.write.parquet(f"file://{target}")
        return sorted(target.glob("part-*.parquet"))

    def _run(
        self, spark: SparkContext, step: str, items: Sequence[Any], task: Callable[..., TaskReport], size: int
    ) -> list[TaskReport]:
        """Run one Spark task for each item; return the reports of the tasks. Raises KcliError for the first task that
        failed.

        step: the step's name in the progress; size: the bytes of input of all items together.
        """
        counters = spark.accumulator(0), spark.accumulator(0)
        with self._polling(spark, step, (counters[0], counters[1], len(items), size)):
            made = partial(call, task, *counters)
            reports: list[TaskReport] = spark.parallelize(list(items), len(items)).map(made).collect()
        for report in reports:
            if report.failure is not None:
                raise unchanged(self._options.out, report.failure) if report.is_of_disk else KcliError(report.failure)
        return reports

    def _polling(self, spark: SparkContext, step: str, counted: tuple[Any, Any, int, int] | None) -> _Poll:
        return _Poll(spark, step, counted, self._watch)


class _Poll:
    """A context manager with a thread that, while a step runs, polls Spark's progress every POLL_S and passes it to
    `watch`.

    counted: the accumulator of records, that of bytes, the step's number of tasks and its bytes of input; None if only
    the number of finished tasks is known, which Spark counts.
    """

    def __init__(
        self,
        spark: SparkContext,
        step: str,
        counted: tuple[Any, Any, int, int] | None,
        watch: Callable[[JobProgress], None],
    ) -> None:
        self._tracker = spark.statusTracker()
        self._step = step
        self._counted = counted
        self._watch = watch
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._ended.wait(POLL_S):
            try:
                done = total = 0
                for stage in self._tracker.getActiveStageIds():
                    info = self._tracker.getStageInfo(stage)
                    if info is not None:
                        done, total = done + info.numCompletedTasks, total + info.numTasks
            except Exception:  # noqa: BLE001 (a Spark that has ended: the job itself reports it)
                return
            records, size, tasks, whole = (0, 0, total, 0)
            if self._counted is not None:
                counts, sizes, tasks, whole = self._counted
                records, size = counts.value, sizes.value
            self._watch(JobProgress(self._step, done, tasks, records, size, whole))


def grouped(splits: Sequence[Split], cores: int, file_bytes: int) -> list[list[Split]]:
    """Group consecutive splits into tasks of about `file_bytes`, or smaller ones (from 4 MB), so that each core has
    two tasks; one whose size is not known (0) begins a task."""
    total = _bytes(splits)
    target = max(SMALLEST_TASK_BYTES, min(file_bytes, total // max(1, cores * TASKS_PER_CORE)))
    tasks: list[list[Split]] = [[]]
    size = 0
    for split in splits:
        if tasks[-1] and (not split.size or size + split.size // 2 > target):
            tasks.append([])
            size = 0
        tasks[-1].append(split)
        size += split.size
    return tasks


def _bytes(splits: Sequence[Split]) -> int:
    return sum(split.size for split in splits)
