"""One run of an export to a table: it appends the records after the table's last commit, each exactly once.

    load      the table tells the offsets of its last commit; an interrupted commit is finished or undone (staging.py)
    plan      splits of the offsets from there on
    steps     Spark's workers write the files (kcli.export.steps), with the schema that the table has or will have
    commit    files in place, then the table's own commit, with the new offsets in it

As in any export, dead letters and damage are Parquet files beside the table. They are put in place before the table's
commit, and removed if the commit is not made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import UsageError
from kcli.export.commit import not_written, refuse_no_place
from kcli.export.export_options import ExportOptions
from kcli.export.manifest import MANIFEST, Extent, Manifest
from kcli.export.offsets import log_end
from kcli.export.options import Bound, SourceOptions
from kcli.export.outcome import (
    DAMAGE,
    Outcome,
    damage_directory,
    damaged,
    dead_letter_directory,
    extents,
    lost,
    placed,
    topics,
)
from kcli.export.reading import read
from kcli.export.splits import Range, Split, ranges, selected_replicas, splits
from kcli.export.steps import SPLITS_PER_CORE, JobProgress, Reports, Steps
from kcli.export.topic_ids import refuse_made_anew, topic_ids
from kcli.export.worker import Read
from kcli.pipelines.tables.staging import Intent, TableStaging
from kcli.pipelines.tables.table import JOINED, PlacedFile, Position, Table
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.export.steps import Spark


class TableJob:
    """One run of an export to a table. options: `out` is the table's directory, `state` is not used. watch: called with
    the progress every 0.2 s, in a separate thread. compacts: whether small files are joined after the commit."""

    def __init__(
        self,
        options: ExportOptions,
        table: Table,
        spark: Spark,
        watch: Callable[[JobProgress], None] = lambda _: None,
        *,
        compacts: bool = False,
    ) -> None:
        options.check()
        if options.source.start.time_ms is not None:
            raise UsageError("--table begins where the export before ended: give no --from-time")
        assert options.latest_by_key == table.by_key, "rows by key are for a table by key"
        self._options = replace(options, out=options.out.resolve())
        self._table = table
        self._spark = spark
        self._watch = watch
        self._compacts = compacts
        self._read: Read = read

    def run(self, *, continues: bool = False) -> Outcome:
        """Run the export. continues: whether the table must exist, as an earlier run of the same pipe has written to
        it. Raises UsageError, SchemaError, UnreadableInput, CorruptLog, SparkFailed, Busy; KcliError if
        a catalog does not answer or the disk is full."""
        began = time.monotonic()
        try:
            self._steps().check()
            refuse_no_place(self._options.out)
            _refuse_taken(self._options.out)
            with TableStaging(self._options.out, self._has_committed) as staging:
                self._table.load()
                if continues and not self._table.exists:
                    raise UsageError(f"{self._table.name} was dropped meanwhile: the same command makes a new one")
                self._refuse_leftovers()
                self._refuse_formats()
                start, due = self._plan(staging.run)
                reports = self._steps().run(staging.run, due)
                outcome = self._commit(staging, start, reports, began)
                if self._compacts:
                    self._watch(JobProgress("joining files", 0, 0, 0, 0, 0))
                    commit = partial(self._commit_joined, staging)
                    joined = self._table.compact(self._options.form.file_bytes, staging.run, commit)
                    outcome = replace(outcome, joined=joined)
                return outcome
        except OSError as error:
            raise not_written(self._options.out, error) from error

    @property
    def is_new(self) -> bool:
        """Whether there is no table yet. The answer is that of the last `unread` or `run`."""
        return not self._table.exists

    def unread(self) -> list[tuple[TopicPartition, int, int]]:
        """Return the partitions that a run would read, each with the first offset that is not in the table, and the
        exclusive end of its log. Asks the registries of keys and values for the schemas of the first records. Writes
        nothing. Raises as `run`."""
        self._steps().check()
        refuse_no_place(self._options.out)
        _refuse_taken(self._options.out)
        self._table.load()
        self._refuse_leftovers()
        self._refuse_formats()
        found, due = self._unread()
        self._steps().ask_registries(due)
        return found

    def _unread(self) -> tuple[list[tuple[TopicPartition, int, int]], Sequence[Split]]:
        """Return what `unread` does, and the splits of these offsets."""
        _, new = self._new(self._options.source)
        found = [
            (TopicPartition(each.files.topic, each.files.partition), each.start, min(each.end, log_end(each.files)))
            for each in new
        ]
        return found, splits(new, self._options.source)

    def _steps(self) -> Steps:
        form = replace(self._options.form, is_whole=self._table.is_whole)
        options = replace(self._options, form=form)
        keeps = self._upserts
        return Steps(options, self._spark, self._watch, self._table.fit, keeps_tombstones=keeps, read=self._read)

    @property
    def _upserts(self) -> bool:
        """Whether rows replace rows with the same key; they do not in the first run, when the table does not exist."""
        return self._table.by_key and self._table.exists

    def _has_committed(self, intent: Intent) -> bool:
        self._table.load()
        if not intent.offsets:
            return self._table.names(intent.places)
        known = self._table.next_offsets(intent.offsets)
        return all(known.get(partition, 0) >= offset for partition, offset in intent.offsets.items())

    @staticmethod
    def _commit_joined(staging: TableStaging, renames: Mapping[Path, Path], act: Callable[[], None]) -> None:
        staging.commit_to(renames, {}, act, run=f"{staging.run.name}-{JOINED}")  # the run's rows are in the table

    def _refuse_leftovers(self) -> None:
        """Raise UsageError if the table does not exist, but its directory has files."""
        out = self._options.out
        if not self._table.exists and out.is_dir() and any(out.iterdir()):
            raise UsageError(f"{out} is there already, and not empty, and is not {self._table.name}")

    def _refuse_formats(self) -> None:
        """Raise SchemaError if the table exists, and has keys or values of types that their formats do not make."""
        if self._table.exists:
            self._steps().check_fit()

    def _plan(self, scratch: Path) -> tuple[Position, list[Split]]:
        """Return the position of the table, with the present ids of the topics, and the splits of the new records.
        scratch: the directory of this run. Raises UsageError for a topic that was made anew."""
        source = replace(self._options.source, min_partitions=SPLITS_PER_CORE * (os.cpu_count() or 1))
        if source.corruption_report is not None:
            source = replace(source, corruption_report=str(scratch / DAMAGE))
            (scratch / DAMAGE).mkdir()
        start, new = self._new(source)
        return start, splits(new, source)

    def _new(self, source: SourceOptions) -> tuple[Position, list[Range]]:
        replicas = selected_replicas(source)
        start = self._start(
            (TopicPartition(each.topic, each.partition) for each, *_ in replicas),
            topic_ids(each for each, *_ in replicas),
        )
        if start.offsets:
            offsets = {**source.start.offsets, **start.offsets}
            source = replace(source, start=Bound(source.start.default, offsets), fail_on_data_loss=False)
        return start, [each for each in ranges(source, replicas) if self._is_new(each, start.offsets)]

    def _start(self, partitions: Iterable[TopicPartition], ids: Mapping[str, str]) -> Position:
        """Return the table's offsets of these partitions, with the present ids of their topics. Raises UsageError if
        the table has the records of a topic with another id."""
        offsets = self._table.next_offsets([*partitions])
        refuse_made_anew(self._table.topic_ids({each.topic for each in offsets}), ids, self._table.name)
        return Position(offsets, ids)

    def _is_new(self, offsets_read: Range, following: Mapping[TopicPartition, int]) -> bool:
        """Whether a partition has records after those that are in the table."""
        partition = TopicPartition(offsets_read.files.topic, offsets_read.files.partition)
        end = log_end(offsets_read.files)
        if offsets_read.files.segments:
            self._refuse_shorter(partition, following.get(partition), end)
        return offsets_read.start < min(offsets_read.end, end)

    def _refuse_shorter(self, partition: TopicPartition, due: int | None, end: int) -> None:
        """Raise UsageError if a log ends before the first offset that is not in the table."""
        if due is not None and due > end:
            raise UsageError(
                f"{partition}: {self._table.name} has the offsets up to {due - 1:,}, and the log ends at {end:,}: "
                "it was made anew, or has lost its end"
            )

    def _commit(self, staging: TableStaging, start: Position, reports: Reports, began: float) -> Outcome:
        options = self._options
        run = staging.run.name
        files, renames = placed(staging.run, reports.files, self._table.data, run)
        dead, dead_renames = placed(staging.run, reports.dead_letters, dead_letter_directory(options.out), run)
        damage, damage_renames = damaged(staging.run / DAMAGE, damage_directory(options.out), run)
        read = extents(reports.read)
        if files or dead or damage:
            reached = _reached(read, start)
            beside = {**dead_renames, **damage_renames}
            new = {path: PlacedFile(place, file) for (path, place), file in zip(renames.items(), files, strict=True)}
            if self._upserts and files:
                staging.commit_to(beside, reached.offsets, lambda: self._table.upsert(new, reached))
            else:
                act = partial(self._table.append, [*new.values()], reached)
                staging.commit_to({**renames, **beside}, reached.offsets, act, creates=self.is_new)
        records = sum(split.records for report in reports.read for split in report.splits)
        rows = sum(file.records for file in (*files, *dead))
        return Outcome(
            Manifest(run, int(time.time() * 1000), options.manifest_options, (), tuple(files), (), tuple(read)),
            topics(reports.read, dead),
            tuple(files),
            tuple(dead),
            tuple(damage),
            time.monotonic() - began,
            staging.finished_earlier,
            superseded=records - rows if options.latest_by_key else 0,
            lost=lost(start.offsets, read),
        )


def _reached(read: list[Extent], start: Position) -> Position:
    """Return the position of the table after the commit, of the partitions that were read."""
    ends = {TopicPartition(each.topic, each.partition): each.end for each in read}
    ends = {partition: end for partition, end in ends.items() if end > start.offsets.get(partition, 0)}
    topics = {partition.topic for partition in ends}
    return Position(ends, {topic: each for topic, each in start.topic_ids.items() if topic in topics})


def _refuse_taken(out: Path) -> None:
    """Raise UsageError if `out` is a file, or holds an export of Parquet files."""
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is there already, and no directory")
    if (out / MANIFEST).exists():
        raise UsageError(f"{out} holds an export of Parquet files, which is no table of another format")
