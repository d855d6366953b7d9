"""A log that changes while it is read: it grows and rolls, segments are compacted into others, and deleted.

    log end offset   the offset after the last whole and sound batch (see offsets.py) of the last segment; LiveEnd reads
                     only the bytes appended since its previous call. Torn bytes or zeros after that batch are a batch
                     that the broker is writing, or preallocated space (`preallocate`)
    range to read    given by offsets, not bytes: the files that contain these offsets are looked up when the range is
                     read, and again if a file was deleted, or replaced under its name, meanwhile (reading.py)

An open file keeps its content after its name is deleted or replaced. Source: UnifiedLog, LocalLog.replaceSegments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from formats.kernels.batches import drop_batches
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.export import offsets
from kcli.export.corruption import CorruptLog
from kcli.export.discovery import PartitionFiles, Remote, refresh
from kcli.export.files import inode_of, is_remote, open_source
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import Range, Split, lost, refuse_missing, splits
from kcli.export.tiered import refresh_with
from kcli.inspector.selection import ALL
from kcli.log.read_only.survey import UNSOUND
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import Source

PAUSES_S = (0.02, 0.2)
"""Pauses in s before the second and the third attempt to read a directory; the renames at the end of a compaction take
milliseconds."""
ROOM_BYTES = 1 << 16

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveRange:
    """The offsets from `start` up to, not including, `end` of a partition, in its replica at `directory`; copies:
    directories of other replicas; remote: where the tier has segments of the partition."""

    directory: str
    start: int
    end: int
    copies: tuple[str, ...] = ()
    remote: Remote | None = None

    def from_offset(self, first: int) -> LiveRange:
        """Return the range without the offsets below `first`; an empty one at its end if it has no others."""
        return replace(self, start=min(self.end, max(self.start, first)))


class LiveEnd:
    """The log end offset and last stable offset of one replica of a partition, followed as its log grows."""

    def __init__(self) -> None:
        self._segment: tuple[str, int] | None = None
        self._end = 0
        self._transactions_end = -1  # the offset up to which _unfinished is right; -1 before the first call of `stable`
        self._unfinished: dict[int, int] = {}
        self.position = 0
        """The byte position after the last sound batch of the last segment."""

    def log_end(self, files: PartitionFiles) -> int:
        """Return the log end offset: one above the last offset of the last sound batch in the last segment; the
        first offset that this segment may have if it has no sound batch; without segments the checkpoint's log start
        offset, else 0. Raises UnreadableInput."""
        if not files.segments:
            return files.log_start_offset or 0
        segment = files.segments[-1]
        source = open_source(segment.address)
        try:
            known = segment.address, inode_of(segment.address)
            if self._segment != known or self.position > source.size() or not self._grow(source):
                self._segment, self._end = known, segment.begin
                self.position = offsets.find(source, segment, ALL.narrowed(from_offset=offsets.MAX_OFFSET))
                self._grow(source)
        finally:
            source.close()
        return self._end if segment.next_offset is None else min(self._end, segment.next_offset)

    def _grow(self, source: Source) -> bool:
        """Read the bytes from `position` on; move `position` and the log end offset past the last sound batch in them.

        Return False if no batch begins at `position`: the log may have been truncated and appended to since.
        """
        begin = self.position
        if _is_room(source, begin):
            return True
        for part in read_segment(source, start=begin):
            if isinstance(part, Window):
                drop_batches(part.batches, faults=UNSOUND)
                if part.batches.count:
                    last = BatchRow._make(part.batches.row(part.batches.count - 1))
                    self.position = last.position + last.size
                    self._end = max(self._end, last.last_offset + 1)
                part.release()
            elif part.position == begin or part.at_end:
                return part.position > begin
        return True

    def stable(self, files: PartitionFiles, end: int) -> int:
        """Return the last stable offset, at which a read_committed consumer stops; `end` if no transaction is open
        below it. Raises UnreadableInput."""
        if not 0 <= self._transactions_end <= end:
            self._transactions_end, self._unfinished = offsets.snapshot_transactions(files, end)
        if self._transactions_end < end:
            offsets.follow_transactions(files, self._transactions_end, end, self._unfinished)
            self._transactions_end = end
        return min([end, *self._unfinished.values()])


def steady(look: Callable[P, T]) -> Callable[P, T]:
    """Return a function that calls `look`, and calls it again, up to twice, if it raises UnreadableInput, as for a file
    that has been deleted meanwhile."""

    @wraps(look)
    def again(*arguments: P.args, **named: P.kwargs) -> T:
        for pause in PAUSES_S:
            try:
                return look(*arguments, **named)
            except UnreadableInput:
                time.sleep(pause)
        return look(*arguments, **named)

    return again


def settled(directory: str, remote: Remote | None = None) -> PartitionFiles:
    """Return the files of a partition's directory, listed until two listings in a row name the same segments, because
    one listing can miss a file that is renamed meanwhile. remote: where the tier has segments of the partition.

    Raises UnreadableInput.
    """
    if remote is not None:
        return refresh_with(remote)
    files = refresh(directory)
    if is_remote(directory):
        return files
    while _names(again := refresh(directory)) != _names(files):
        files = again
    return again


def unshared(options: SourceOptions) -> SourceOptions:
    """Return the options without minPartitions and maxRecordsPerPartition, which apply to a whole query, not to one
    task."""
    return replace(options, min_partitions=None, max_records_per_partition=None)


def read_live(live_range: LiveRange, columns: Sequence[str], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow record batches with these columns, each record once.

    If a file is deleted or damaged meanwhile, the rest of the range is looked up and read again, up to twice in a
    row. Raises UnreadableInput, CorruptLog with onCorruption=fail, DataLoss.
    """
    read_columns = columns if "offset" in columns else [*columns, "offset"]
    pauses = iter(PAUSES_S)
    at, is_read = live_range.start, live_range.start == live_range.end
    while not is_read:
        try:
            for split in _splits(replace(live_range, start=at), options):
                for batch in read(
                    split, read_columns, on_corruption=options.on_corruption, include_control=options.include_control
                ):
                    yield batch.select(columns)
                    at = max(at, pc.max(batch.column("offset")).as_py() + 1)
                    pauses = iter(PAUSES_S)
            is_read = True
        except (UnreadableInput, CorruptLog):
            if (pause := next(pauses, None)) is None:
                raise
            time.sleep(pause)


def _splits(live_range: LiveRange, options: SourceOptions) -> Iterator[Split]:
    """Yield the splits that contain a range's offsets now. Raises UnreadableInput, DataLoss."""
    files = settled(live_range.directory, live_range.remote)
    partition = f"{files.topic}-{files.partition}"
    start, end = max(live_range.start, offsets.log_start(files)), live_range.end
    if start > live_range.start:
        lost(
            f"{partition}: offset {live_range.start:,} is gone, the log starts at {start:,}",
            fails=options.fail_on_data_loss,
        )
    last = LiveEnd()
    if (log_end := last.log_end(files)) < end:
        lost(f"{partition}: offset {end - 1:,} is gone, the log ends at {log_end:,}", fails=options.fail_on_data_loss)
    offsets_read = Range(files, start, end, live_range.copies)
    refuse_missing(offsets_read, options.on_corruption)
    for split in splits([offsets_read], unshared(options)):
        if split.stop is None and split.segment == files.segments[-1].address:
            split = replace(split, stop=last.position)  # noqa: PLW2901 (what is behind is being written)
        yield split


def _is_room(source: Source, position: int) -> bool:
    """Return whether nothing is written at a byte position yet: the file ends there, or its next 64 KB are all zeros
    (preallocated space)."""
    data = bytearray(max(0, min(ROOM_BYTES, source.size() - position)))
    return not any(data[: source.read_at(position, memoryview(data))])


def _names(files: PartitionFiles) -> list[str]:
    return [segment.address for segment in files.segments]
