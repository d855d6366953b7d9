"""The account of an export: what each topic gave, which files were written, which offsets are in them.

It is drawn from the reports of the tasks (worker.py), by the driver, before the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq

from kcli.export.histogram import Histogram
from kcli.export.manifest import GAPS_LISTED, Damage, DataFile, Extent, Manifest, joined
from kcli.export.offsets import MAX_OFFSET
from kcli.export.splits import Split
from kcli.export.table_writer import StagedFile
from kcli.export.worker import SplitReport, TaskReport, merged_gaps
from kcli.protocol.topic_partition import TopicPartition

DAMAGE = "damage"


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The records of a topic that this run exported. missing: the number of offsets without a record; dead: the number
    of dead letters; bytes_read: bytes of segments that were read."""

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

    manifest: of the whole table, with all increments; for a table format, which has a log of its own, of this run only.
    files, dead_letters, damage: of this run only. finished_earlier: whether an interrupted commit of an earlier run was
    finished first. superseded: the number of records that --latest-by-key leaves out. lost: (topic, partition, first,
    last) of offsets that were deleted before this increment could read them. joined: the number of small files of a
    table that were joined to larger ones.
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
    joined: int = 0

    @property
    def records(self) -> int:
        """The number of rows that this run added to the table."""
        return sum(file.records for file in self.files)


def dead_letter_directory(out: Path) -> Path:
    """Return the directory of the dead-letter table. It is beside the table, so that no reader takes dead letters for
    rows of the table."""
    return out.resolve().with_name(out.resolve().name + ".dead-letters")


def damage_directory(out: Path) -> Path:
    """Return the directory of the damage table, which lists the bytes that onCorruption=report skipped. It is beside
    the exported table."""
    return out.resolve().with_name(out.resolve().name + ".damage")


def damaged(staged: Path, place: Path, run: str) -> tuple[list[Damage], dict[Path, Path]]:
    """Return the rows of the damage files in the directory `staged`, and the renames of these files to the directory
    `place` (staged path -> final path). run: a part of the names of only this run's files."""
    found: list[Damage] = []
    renames: dict[Path, Path] = {}
    for path in sorted(staged.glob("*.parquet")):
        renames[path] = place / f"part-{run}-{path.name}"
        for row in pq.read_table(path).to_pylist():
            reason = f"{row['kind']}: {row['reason']}"
            where = row["segment"], row["position"], row["length"]
            found.append(Damage(row["topic"], row["partition"], *where, reason))
    return found, renames


def by_partition(reports: Sequence[TaskReport]) -> list[tuple[TopicPartition, list[SplitReport]]]:
    """Return the partitions that were read, in order, each with the reports of its splits in the order of offsets."""
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


def extents(reports: Sequence[TaskReport]) -> list[Extent]:
    """Return the offsets that were read of each partition."""
    found = []
    for (topic, partition), splits in by_partition(reports):
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


def lost(following: Mapping[TopicPartition, int], read: Sequence[Extent]) -> tuple[tuple[str, int, int, int], ...]:
    """Return (topic, partition, first, last) of the offsets that were due and that the log no longer had.

    following: the first offset that was due, by partition. read: what was read.
    """
    found = []
    for each in read:
        due = following.get(TopicPartition(each.topic, each.partition))
        if due is not None and each.start > due:
            found.append((each.topic, each.partition, due, each.start - 1))
    return tuple(found)


def placed(staging: Path, staged: Sequence[StagedFile], top: Path, run: str) -> tuple[list[DataFile], dict[Path, Path]]:
    """Return the entries of staged files with their final paths below the directory `top`, and their renames (staged
    path -> final path). run: a part of the names of only this run's files."""
    files: list[DataFile] = []
    renames: dict[Path, Path] = {}
    for number, each in enumerate(staged):
        name = f"part-{run}-{number:06}.parquet"
        path = f"{each.directory}/{name}" if each.directory else name
        files.append(replace(each.file, path=path))
        renames[staging / each.staged] = top / path
    return files, renames


def topics(reports: Sequence[TaskReport], dead: Sequence[DataFile]) -> tuple[TopicOutcome, ...]:
    """Return the outcome of each topic: how many records were exported, are missing, or became dead letters. dead: the
    files of dead letters."""
    found = []
    all_extents = extents(reports)
    parts: Mapping[TopicPartition, list[SplitReport]] = dict(by_partition(reports))
    for topic in sorted({each.topic for each in all_extents}):
        histogram = Histogram()
        size = 0
        for (name, _), splits in parts.items():
            if name == topic:
                for split in splits:
                    histogram.merge(split.histogram)
                    size += split.split.size
        mine = [each for each in all_extents if each.topic == topic]
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
