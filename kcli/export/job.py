"""The steps of an export, which reads and writes on Spark's workers.

    plan      splits (splits.py), grouped into tasks of about the size of a file, about two tasks for each core
    survey    only if the types of decoded keys or values are inferred: a first pass over the records
    write     each task reads its splits and writes Parquet itself (table_writer.py), and reports the files it wrote
    order     only with --sort or --latest-by-key: Spark sorts or groups the Parquet files of the write step, and
              further tasks write the table from Spark's output
    commit    rename the files, write manifest and state (commit.py)

`df.write.parquet` is not used: it passes records from Python through Arrow to the JVM, where they become rows, and
columns again in Spark's writer, which took five times as long; `python -m tests.bench.export` measures both.
Workers that write the files themselves also report the exact sizes, statistics and counts of the files.
"""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from kcli.errors import KcliError, UsageError
from kcli.export.columns import COLUMNS
from kcli.export.commit import Staging
from kcli.export.decoding import Decoder, DecoderSpec, SchemaError, Survey, make_decoder
from kcli.export.histogram import Histogram
from kcli.export.manifest import (
    GAPS_LISTED,
    MANIFEST,
    Damage,
    DataFile,
    Extent,
    Manifest,
    SourcePart,
    joined,
    read_manifest,
)
from kcli.export.offsets import MAX_OFFSET
from kcli.export.options import Bound, SourceOptions
from kcli.export.session import QUICK_START, SparkSettings, interruptible, spark_context
from kcli.export.shape import PLACE, Shape
from kcli.export.splits import Split, plan
from kcli.export.state import State, read_state
from kcli.export.table_writer import StagedFile, TableFormat
from kcli.export.worker import (
    SplitReport,
    TaskReport,
    Work,
    call,
    export_file,
    export_splits,
    merged_gaps,
    survey_splits,
)
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

TASKS_PER_CORE = 2
SPLITS_PER_CORE = 4  # enough splits to group them into tasks of about the same size
SMALLEST_TASK_BYTES = 4 << 20
POLL_S = 0.2
DAMAGE = "damage"
DAMAGE_LISTED = 1000
RAW = DecoderSpec(format="raw")
STAGED = TableFormat(codec="lz4", file_bytes=256 << 20)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What to export, in which format, and to which directory.

    source.columns: the columns of the table. sort: column names to sort by, `-` before a name for descending order.
    state: the STATE file of incremental exports, None for an export of one run.
    """

    source: SourceOptions
    out: Path
    form: TableFormat = field(default_factory=TableFormat)
    key: DecoderSpec = RAW
    value: DecoderSpec = RAW
    sort: tuple[str, ...] = ()
    latest_by_key: bool = False
    state: Path | None = None

    def check(self) -> None:
        """Raise UsageError for options that contradict each other or name unknown columns."""
        self.form.check()
        for name in self.sort:
            if name.removeprefix("-") not in COLUMNS or name.removeprefix("-") == "headers":
                raise UsageError(f"--sort {name!r} is no column to sort by")
        if self.latest_by_key and self.state is not None:
            raise UsageError("--latest-by-key makes the whole table, --incremental adds to one: give one of them")
        if self.state is not None and self.source.start.time_ms is not None:
            raise UsageError("--incremental begins where the run before ended: give no --from-time")
        for name, spec in (("key", self.key), ("value", self.value)):
            if spec.format != "raw" and name not in self.source.columns:
                raise UsageError(f"--{name}-format decodes the {name}s, which --columns leaves out")
        if set(self.source.columns) <= set(self.form.layout):
            raise UsageError("--partition-by leaves no column for the files")

    @property
    def manifest_options(self) -> dict[str, Any]:
        """The options that the manifest records, with which --check reads the sources again. Except for `paths`
        and `tier`, an increment must have the same options as the ones before it."""
        return {
            "paths": [*self.source.paths],
            "tier": self.source.tier,
            "columns": [*self.source.columns],
            "isolation": str(self.source.isolation),
            "on_corruption": str(self.source.on_corruption),
            "include_control": self.source.include_control,
            "key": _spec_json(self.key),
            "value": _spec_json(self.value),
            "layout": [*self.form.layout],
            "sort": [*self.sort],
            "latest_by_key": self.latest_by_key,
        }


def _spec_json(spec: DecoderSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in DecoderSpec.__dataclass_fields__}


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
class TopicOutcome:
    """What this run exported of a topic. missing: the number of offsets without a record; dead: the number of dead
    letters; bytes_read: bytes of segments that were read."""

    topic: str
    partitions: int
    records: int
    missing: int
    dead: int
    bytes_read: int
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of this run.

    manifest: of the whole table, with all increments. files, dead_letters, damage: of this run only. finished_earlier:
    whether an interrupted commit of an earlier run was finished first. superseded: the number of records that
    --latest-by-key leaves out. lost: (topic, partition, first, last) of offsets that were deleted before this increment
    could read them.
    """

    manifest: Manifest
    topics: tuple[TopicOutcome, ...]
    files: tuple[DataFile, ...]
    dead_letters: tuple[DataFile, ...]
    damage: tuple[Damage, ...]
    seconds: float
    finished_earlier: bool
    superseded: int = 0
    lost: tuple[tuple[str, int, int, int], ...] = ()

    @property
    def records(self) -> int:
        """The number of rows that this run added to the table."""
        return sum(file.records for file in self.files)


class Job:
    """One run of an export. watch: called with the progress every 0.2 s, from a thread of its own."""

    def __init__(
        self,
        options: ExportOptions,
        spark: SparkSettings | SparkContext,
        watch: Callable[[JobProgress], None] = lambda _: None,
    ) -> None:
        options.check()
        self._options = replace(options, out=options.out.resolve())
        self._spark = spark
        self._watch = watch

    def run(self) -> Outcome:
        """Run the export. Raises UsageError, UnreadableInput, CorruptLog, SparkFailed, Busy, KcliError (a full
        disk)."""
        began = time.monotonic()
        try:
            self._decoder(self._options.key)  # a wrong schema fails here, before Spark starts
            self._decoder(self._options.value)
            _refuse_taken(self._options.out, self._options.state)
            with Staging(self._options.out) as staging:
                manifest, state = self._before()
                source = self._from_state(state)
                if source.corruption_report is not None:
                    source = replace(source, corruption_report=str(staging.run / DAMAGE))
                    (staging.run / DAMAGE).mkdir()
                splits = plan(replace(source, min_partitions=SPLITS_PER_CORE * (os.cpu_count() or 1)))
                if isinstance(self._spark, SparkSettings) and splits:
                    with spark_context(self._quick(self._spark)) as spark, interruptible(spark):
                        reports = self._work(spark, staging, splits)
                elif splits:
                    reports = self._work(self._spark, staging, splits)  # type: ignore[arg-type]
                else:
                    reports = _Reports([], [], [])
                return self._commit(staging, manifest, state, reports, began)
        except OSError as error:
            raise KcliError(f"{error.filename or self._options.out}: {error.strerror or error}") from error

    def _quick(self, settings: SparkSettings) -> SparkSettings:
        """Return the settings. Java options for a quick start are added if Spark's workers run on this machine and
        Spark need not sort or group rows."""
        if self._in_order or not settings.is_local:
            return settings
        return replace(settings, conf={**QUICK_START, **settings.conf})

    @property
    def _in_order(self) -> bool:
        return bool(self._options.sort) or self._options.latest_by_key

    # earlier increments of the table

    def _before(self) -> tuple[Manifest | None, State | None]:
        options = self._options
        _refuse_taken(options.out, options.state)
        if options.state is None:
            return None, None
        state = read_state(options.state)
        manifest = read_manifest(options.out) if (options.out / MANIFEST).exists() else None
        if state is None and manifest is None:
            return None, None
        if state is None:
            raise UsageError(f"{options.out} holds an export already, and there is no {options.state} to tell how far")
        if manifest is None or (state.export, state.increments) != (manifest.id, manifest.increments):
            raise UsageError(f"{options.state} is not the state of the export in {options.out}")
        for name, value in options.manifest_options.items():
            if name not in ("paths", "tier") and manifest.options.get(name) != value:
                raise UsageError(
                    f"{options.out} was exported with another {name}: {manifest.options.get(name)}, not {value}"
                )
        return manifest, state

    def _from_state(self, state: State | None) -> SourceOptions:
        source = self._options.source
        if state is None:
            return source
        offsets = {**source.start.offsets, **state.next}
        return replace(source, start=Bound(source.start.default, offsets), fail_on_data_loss=False)

    # the steps on Spark

    def _work(self, spark: SparkContext, staging: Staging, splits: Sequence[Split]) -> _Reports:
        options = self._options
        cores = spark.defaultParallelism
        tasks = grouped(splits, cores, options.form.file_bytes)
        key, value = self._decoders(spark, staging, splits, tasks)
        shape = Shape(options.source.columns, key, value)
        work = self._task_of(staging, shape, options.form)
        if not self._in_order:
            reports = self._run(spark, "writing", tasks, partial(export_splits, work), _bytes(splits))
            return _Reports(reports, reports, [])
        sorted_by = [name.removeprefix("-") for name in options.sort]
        needed = tuple(dict.fromkeys((*shape.reads, *PLACE, "key", "value", *sorted_by)))
        if options.latest_by_key:
            needed = tuple(dict.fromkeys((*needed, "timestampType", "headers")))
        first = replace(work, shape=Shape(needed), form=STAGED, dead_keys=options.latest_by_key)
        reports = self._run(spark, "reading", tasks, partial(export_splits, first), _bytes(splits))
        paths = [str(staging.run / file.staged) for report in reports for file in report.files]
        if not paths:
            return _Reports(reports, [], [])
        ordered = self._ordered(spark, staging, paths)
        size = sum(path.stat().st_size for path in ordered)
        made = self._run(spark, "writing", [str(path) for path in ordered], partial(export_file, work), size)
        return _Reports(reports, made, [file for report in reports for file in report.dead_letters])

    def _task_of(self, staging: Staging, shape: Shape, form: TableFormat) -> Work:
        source = self._options.source
        return Work(str(staging.run), shape, form, source.on_corruption, source.include_control)

    def _decoders(
        self, spark: SparkContext, staging: Staging, splits: Sequence[Split], tasks: Sequence[Sequence[Split]]
    ) -> tuple[Decoder | None, Decoder | None]:
        specs = self._options.key, self._options.value
        known = [Survey(), Survey()]
        if any(spec.infers for spec in specs):
            work = self._task_of(staging, Shape(("key", "value")), STAGED)
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

    def _ordered(self, spark: SparkContext, staging: Staging, paths: Sequence[str]) -> list[Path]:
        """Have Spark keep only the latest row of each key, without tombstones (--latest-by-key), and sort the rows
        (--sort). Return the Parquet files that Spark wrote, in the order of their rows. paths: the Parquet files with
        the unsorted rows."""
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
            rows = rows.where(f.col("value").isNotNull())
        if self._options.sort:
            order = [
                f.col(name.removeprefix("-")).desc() if name.startswith("-") else f.col(name).asc()
                for name in self._options.sort
            ]
            rows = rows.repartitionByRange(parts, *order).sortWithinPartitions(*order)
        target = staging.run / "ordered"
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
                raise KcliError(report.failure)
        return reports

    def _polling(self, spark: SparkContext, step: str, counted: tuple[Any, Any, int, int] | None) -> _Poll:
        return _Poll(spark, step, counted, self._watch)

    # the commit

    def _commit(
        self, staging: Staging, before: Manifest | None, state: State | None, reports: _Reports, began: float
    ) -> Outcome:
        options = self._options
        increment = before.increments + 1 if before else 1
        extents = _extents(reports.read)
        sources = [
            _source_part(split, increment) for report in reports.read for split in report.splits if split.records
        ]
        files, renames = _placed(staging.run, [file for r in reports.made for file in r.files], options.out, increment)
        dead_staged = [file for r in reports.made for file in r.dead_letters] + list(reports.dead_first)
        dead, dead_renames = _placed(staging.run, dead_staged, dead_letter_directory(options.out), increment)
        damage, damage_renames = _damage(staging.run / DAMAGE, damage_directory(options.out), increment)
        columns = self._columns(reports, before)
        manifest = Manifest(
            id=before.id if before else uuid.uuid4().hex,
            created_ms=int(time.time() * 1000),
            options=options.manifest_options,
            columns=columns,
            files=(*(before.files if before else ()), *files),
            sources=(*(before.sources if before else ()), *sources),
            partitions=_followed(before.partitions if before else (), extents),
            dead_letters=(*(before.dead_letters if before else ()), *dead),
            damage=(*(before.damage if before else ()), *damage)[:DAMAGE_LISTED],
            increments=increment,
        )
        if before is None or files or dead or damage:
            writes = {options.out / MANIFEST: manifest.to_json()}
            if options.state is not None:
                following = {TopicPartition(e.topic, e.partition): e.end for e in extents}
                new_state = State(manifest.id, increment, {**(state.next if state else {}), **following})
                writes[options.state.absolute()] = new_state.to_json()
            staging.commit({**renames, **dead_renames, **damage_renames}, writes)
        elif before is not None:
            manifest = before
        read = sum(split.records for report in reports.read for split in report.splits)
        rows = sum(file.records for file in (*files, *dead))
        return Outcome(
            manifest,
            _topics(reports.read, dead),
            tuple(files),
            tuple(dead),
            tuple(damage),
            time.monotonic() - began,
            staging.finished_earlier,
            superseded=read - rows if options.latest_by_key else 0,
            lost=_lost(state, extents),
        )

    def _columns(self, reports: _Reports, before: Manifest | None) -> tuple[tuple[str, str], ...]:
        """Return (name, type) of the table's columns: those of the files written by this run; without such files, those
        in the manifest of earlier increments; without a manifest, those of the options."""
        for report in reports.made:
            if report.columns:
                return report.columns
        if before is not None:
            return before.columns
        return tuple((name, str(COLUMNS[name].arrow)) for name in self._options.source.columns)


@dataclass(frozen=True, slots=True)
class _Reports:
    """The reports of a job's tasks.

    read: reports of the tasks that read splits. made: reports of the tasks that wrote the table's files. dead_first:
    the dead-letter files of the tasks in `read`, if other tasks wrote the table's files (--sort, --latest-by-key).
    """

    read: Sequence[TaskReport]
    made: Sequence[TaskReport]
    dead_first: Sequence[StagedFile]


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


def dead_letter_directory(out: Path) -> Path:
    """Return the directory of the dead-letter table. It is beside the table, so that no reader takes dead letters for
    rows of the table."""
    return out.resolve().with_name(out.resolve().name + ".dead-letters")


def damage_directory(out: Path) -> Path:
    """Return the directory of the damage table, which lists the bytes that onCorruption=report skipped. It is beside
    the exported table."""
    return out.resolve().with_name(out.resolve().name + ".damage")


def _damage(staged: Path, place: Path, increment: int) -> tuple[list[Damage], dict[Path, Path]]:
    """Return the rows of the damage files in the directory `staged`, and the renames of these files to the directory
    `place` (staged path -> final path). increment: the number of this commit, which is part of the final names."""
    found: list[Damage] = []
    renames: dict[Path, Path] = {}
    for path in sorted(staged.glob("*.parquet")):
        renames[path] = place / f"part-{increment:05}-{path.name}"
        for row in pq.read_table(path).to_pylist():
            reason = f"{row['kind']}: {row['reason']}"
            where = row["segment"], row["position"], row["length"]
            found.append(Damage(row["topic"], row["partition"], *where, reason))
    return found, renames


def grouped(splits: Sequence[Split], cores: int, file_bytes: int) -> list[list[Split]]:
    """Group consecutive splits into tasks of about `file_bytes`, or smaller ones (from 4 MB), so that each core has
    two tasks."""
    total = _bytes(splits)
    target = max(SMALLEST_TASK_BYTES, min(file_bytes, total // max(1, cores * TASKS_PER_CORE)))
    tasks: list[list[Split]] = [[]]
    size = 0
    for split in splits:
        if tasks[-1] and size + split.size // 2 > target:
            tasks.append([])
            size = 0
        tasks[-1].append(split)
        size += split.size
    return tasks


def _bytes(splits: Sequence[Split]) -> int:
    return sum(split.size for split in splits)


def _refuse_taken(out: Path, state: Path | None) -> None:
    """Raise UsageError if the export cannot be written to `out`: it is a file, a directory with other files, or holds
    an export and no STATE is given."""
    if out.is_dir():
        others = [each.name for each in out.iterdir() if not each.name.startswith("_kcli_")]
        if (out / MANIFEST).exists():
            if state is None:
                raise UsageError(
                    f"{out} holds an export already; --incremental STATE adds to one that was made with it"
                )
        elif others and not (out / "_kcli_intent.json").exists():
            raise UsageError(f"{out} is there already, and not empty")
    elif out.exists():
        raise UsageError(f"{out} is there already, and no directory")


def _by_partition(reports: Sequence[TaskReport]) -> list[tuple[TopicPartition, list[SplitReport]]]:
    found = sorted(
        (split for report in reports for split in report.splits),
        key=lambda each: (each.split.topic, each.split.partition, _place(each.split), each.split.start),
    )
    return [
        (TopicPartition(*key), list(group))
        for key, group in groupby(found, key=lambda each: (each.split.topic, each.split.partition))
    ]


def _place(split: Split) -> int:
    """Return the offset by which the splits of a partition are ordered. It is not always the base offset: a segment in
    the tier may begin below the segment before it."""
    return max(split.base_offset, split.from_offset)


def _extents(reports: Sequence[TaskReport]) -> list[Extent]:
    found = []
    for (topic, partition), splits in _by_partition(reports):
        start, requested_end = splits[0].split.from_offset, splits[-1].split.to_offset
        read = [split for split in splits if split.last is not None]
        behind = max((split.last + 1 for split in read if split.last is not None), default=start)
        end = requested_end if requested_end != MAX_OFFSET else behind
        gaps = list(merged_gaps(splits))
        records = sum(split.records for split in splits)
        if read and read[0].first is not None and read[0].first > start:
            gaps.insert(0, (start, read[0].first - 1))
        if end > behind:
            gaps.append((behind, end - 1))
        whole = joined(gaps)
        found.append(Extent(topic, partition, start, end, records, end - start - records, whole[:GAPS_LISTED]))
    return found


def _lost(state: State | None, extents: Sequence[Extent]) -> tuple[tuple[str, int, int, int], ...]:
    found = []
    for each in extents:
        due = state.next.get(TopicPartition(each.topic, each.partition)) if state else None
        if due is not None and each.start > due:
            found.append((each.topic, each.partition, due, each.start - 1))
    return tuple(found)


def _followed(before: Sequence[Extent], now: Sequence[Extent]) -> tuple[Extent, ...]:
    known = {(each.topic, each.partition): each for each in before}
    for each in now:
        key = each.topic, each.partition
        known[key] = known[key].then(each) if key in known else each
    return tuple(known[key] for key in sorted(known))


def _source_part(report: SplitReport, increment: int) -> SourcePart:
    split = report.split
    return SourcePart(
        topic=split.topic,
        partition=split.partition,
        path=split.segment,
        start=split.start,
        stop=report.stop,
        crc32c=report.crc32c,
        records=report.records,
        first=report.first,
        last=report.last,
        increment=increment,
    )


def _placed(
    staging: Path, staged: Sequence[StagedFile], top: Path, increment: int
) -> tuple[list[DataFile], dict[Path, Path]]:
    files: list[DataFile] = []
    renames: dict[Path, Path] = {}
    for number, each in enumerate(staged):
        name = f"part-{increment:05}-{number:06}.parquet"
        path = f"{each.directory}/{name}" if each.directory else name
        files.append(replace(each.file, path=path, increment=increment))
        renames[staging / each.staged] = top / path
    return files, renames


def _topics(reports: Sequence[TaskReport], dead: Sequence[DataFile]) -> tuple[TopicOutcome, ...]:
    found = []
    extents = _extents(reports)
    by_partition: Mapping[TopicPartition, list[SplitReport]] = dict(_by_partition(reports))
    for topic in sorted({each.topic for each in extents}):
        histogram = Histogram()
        size = 0
        for (name, _), splits in by_partition.items():
            if name == topic:
                for split in splits:
                    histogram.merge(split.histogram)
                    size += split.split.size
        mine = [each for each in extents if each.topic == topic]
        letters = sum(part.records for file in dead for part in file.ranges if part.topic == topic)
        found.append(
            TopicOutcome(
                topic,
                len(mine),
                sum(each.records for each in mine),
                sum(each.missing for each in mine),
                letters,
                size,
                histogram,
            )
        )
    return tuple(found)
