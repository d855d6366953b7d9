"""An export to a directory of Parquet files, which reads and writes on Spark's workers.

    plan      splits (splits.py), grouped into tasks of about the size of a file, about two tasks for each core
    steps     the tasks read the splits and write the files (steps.py)
    commit    rename the files, write manifest and state (commit.py)

`df.write.parquet` is not used: it passes records from Python through Arrow to the JVM, where they become rows, and
columns again in Spark's writer, which took five times as long; `python -m tests.bench.export` measures both.
Workers that write the files themselves also report the exact sizes, statistics and counts of the files.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.errors import UsageError
from kcli.export.columns import COLUMNS
from kcli.export.commit import Staging, is_interrupted, not_written, refuse_no_place
from kcli.export.decoding.unify import filled, settle
from kcli.export.export_options import ExportOptions
from kcli.export.manifest import MANIFEST, Extent, Manifest, SourcePart, read_manifest
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
from kcli.export.session import SparkSettings
from kcli.export.splits import Split, plan, ranges, selected_replicas, splits
from kcli.export.state import State, read_state
from kcli.export.steps import SPLITS_PER_CORE, JobProgress, Reports, Steps
from kcli.export.topic_ids import refuse_made_anew
from kcli.export.topic_ids import topic_ids as found_ids
from kcli.export.worker import SplitReport
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

DAMAGE_LISTED = 1000


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
        self._steps = Steps(self._options, spark, watch, self._fit)
        self._earlier_files: tuple[Path, ...] = ()

    def run(self) -> Outcome:
        """Run the export. Raises UsageError, UnreadableInput, CorruptLog, SparkFailed, Busy, KcliError (a full
        disk)."""
        began = time.monotonic()
        try:
            self._steps.check()
            refuse_no_place(self._options.out)
            _refuse_taken(self._options.out, self._options.state)
            with Staging(self._options.out) as staging:
                manifest, state = self._before()
                if manifest is not None:
                    self._earlier_files = tuple(self._options.out / each.path for each in manifest.files)
                source = self._from_state(state)
                if source.corruption_report is not None:
                    source = replace(source, corruption_report=str(staging.run / DAMAGE))
                    (staging.run / DAMAGE).mkdir()
                source = replace(source, min_partitions=SPLITS_PER_CORE * (os.cpu_count() or 1))
                topic_ids, due = self._plan(source, state)
                reports = self._steps.run(staging.run, due)
                return self._commit(staging, manifest, state, topic_ids, reports, began)
        except OSError as error:
            raise not_written(self._options.out, error) from error

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

    def _plan(self, source: SourceOptions, state: State | None) -> tuple[dict[str, str], list[Split]]:
        """Return the ids of the topics, for an incremental export, and the splits to read."""
        if self._options.state is None:
            return {}, plan(source)
        replicas = selected_replicas(source)
        topic_ids = found_ids(copies[0] for copies in replicas)
        if state is not None:
            refuse_made_anew(state.topic_ids, topic_ids, str(self._options.out))
        return topic_ids, splits(ranges(source, replicas), source)

    def _fit(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of new files: what the records do not tell, as tombstones do not tell the type of values,
        is as in the latest file of earlier increments."""
        earlier = pq.read_schema(self._earlier_files[-1]) if self._earlier_files else pa.schema([])
        types = {each.name: each.type for each in earlier}
        return pa.schema(
            [each.with_type(settle(filled(each.type, types.get(each.name, each.type)))) for each in schema]
        )

    # the commit

    def _commit(
        self,
        staging: Staging,
        before: Manifest | None,
        state: State | None,
        topic_ids: Mapping[str, str],
        reports: Reports,
        began: float,
    ) -> Outcome:
        options = self._options
        increment = before.increments + 1 if before else 1
        read_extents = extents(reports.read)
        sources = [
            _source_part(split, increment) for report in reports.read for split in report.splits if split.records
        ]
        run = f"{increment:05}"
        new_files, renames = placed(staging.run, reports.files, options.out, run)
        new_dead, dead_renames = placed(staging.run, reports.dead_letters, dead_letter_directory(options.out), run)
        files, dead = ([replace(each, increment=increment) for each in made] for made in (new_files, new_dead))
        damage, damage_renames = damaged(staging.run / DAMAGE, damage_directory(options.out), run)
        columns = self._columns(reports, before)
        manifest = Manifest(
            id=before.id if before else uuid.uuid4().hex,
            created_ms=int(time.time() * 1000),
            options=options.manifest_options,
            columns=columns,
            files=(*(before.files if before else ()), *files),
            sources=(*(before.sources if before else ()), *sources),
            partitions=_followed(before.partitions if before else (), read_extents),
            dead_letters=(*(before.dead_letters if before else ()), *dead),
            damage=(*(before.damage if before else ()), *damage)[:DAMAGE_LISTED],
            increments=increment,
        )
        if before is None or files or dead or damage:
            writes = {options.out / MANIFEST: manifest.to_json()}
            if options.state is not None:
                following = {TopicPartition(e.topic, e.partition): e.end for e in read_extents}
                read_ids = {e.topic: topic_ids[e.topic] for e in read_extents if e.topic in topic_ids}
                known = state or State(manifest.id, 0, {})
                new_state = State(manifest.id, increment, {**known.next, **following}, {**known.topic_ids, **read_ids})
                writes[options.state.absolute()] = new_state.to_json()
            staging.commit({**renames, **dead_renames, **damage_renames}, writes)
        elif before is not None:
            manifest = before
        read = sum(split.records for report in reports.read for split in report.splits)
        rows = sum(file.records for file in (*files, *dead))
        return Outcome(
            manifest,
            topics(reports.read, dead),
            tuple(files),
            tuple(dead),
            tuple(damage),
            time.monotonic() - began,
            staging.finished_earlier,
            superseded=read - rows if options.latest_by_key else 0,
            lost=lost(state.next if state else {}, read_extents),
        )

    def _columns(self, reports: Reports, before: Manifest | None) -> tuple[tuple[str, str], ...]:
        """Return (name, type) of the table's columns: those of the files written by this run; without such files, those
        in the manifest of earlier increments; without a manifest, those of the options."""
        for report in reports.made:
            if report.columns:
                return report.columns
        if before is not None:
            return before.columns
        return tuple((name, str(COLUMNS[name].arrow)) for name in self._options.source.columns)


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
        elif others and not is_interrupted(out):
            raise UsageError(f"{out} is there already, and not empty")
    elif out.exists():
        raise UsageError(f"{out} is there already, and no directory")


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
