"""A log that changes while it is read: it grows and rolls, segments are compacted into others, and deleted.

    where it ends   behind the last whole, sound batch of the last segment; only what is new since is looked at. Torn
                    bytes or zeros behind it are a batch being written, or room kept for one (`log.preallocate`)
    what is read    offsets, not bytes: which files have them is asked only when they are opened, and asked again
                    where a file went, or another took its name, in between (reading.py)

A file that is open stays as it was, whatever becomes of its name. Source: UnifiedLog, LocalLog.replaceSegments.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from formats.kernels.columns import BatchRow
from formats.kernels.log import drop_batches
from kcli.errors import UnreadableInput
from kcli.export import offsets
from kcli.export.corruption import CorruptLog
from kcli.export.discovery import PartitionFiles, refresh
from kcli.export.files import inode_of, is_remote, open_source
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import Range, Split, lost, splits
from kcli.inspector.selection import ALL
from kcli.log.read_only_survey import UNSOUND
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import Source

PAUSES_S = (0.02, 0.2)
"""Between attempts: the renames of a compaction take milliseconds."""
ROOM_BYTES = 1 << 16

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LiveRange:
    """Offsets [start, end) of a partition, in the copy of it at `directory`; `copies` are the directories of others."""

    directory: str
    start: int
    end: int
    copies: tuple[str, ...] = ()


class LiveEnd:
    """Where one copy of a partition ends, and how far it is stable, as its log grows."""

    def __init__(self) -> None:
        self._segment: tuple[str, int] | None = None
        self._end = 0
        self._seen_to = -1  # transactions before this offset are known
        self._unfinished: dict[int, int] = {}
        self.position = 0
        """The byte of the last segment behind its last sound batch."""

    def log_end(self, files: PartitionFiles) -> int:
        """The offset behind the last sound batch. Raises UnreadableInput."""
        if not files.segments:
            return files.log_start_offset or 0
        segment = files.segments[-1]
        source = open_source(segment.address)
        try:
            known = segment.address, inode_of(segment.address)
            if self._segment != known or self.position > source.size() or not self._grow(source):
                self._segment, self._end = known, segment.base_offset
                self.position = offsets.find(source, segment, ALL.narrowed(from_offset=offsets.MAX_OFFSET))
                self._grow(source)
        finally:
            source.close()
        return self._end

    def _grow(self, source: Source) -> bool:
        """Look at what is new. False: no batch begins where one should, the log may have been cut and grown again."""
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
        """Where readers of committed records stop, who otherwise would at `end`. Raises UnreadableInput."""
        if not 0 <= self._seen_to <= end:
            self._seen_to, self._unfinished = offsets.snapshot_transactions(files, end)
        if self._seen_to < end:
            offsets.follow_transactions(files, self._seen_to, end, self._unfinished)
            self._seen_to = end
        return min([end, *self._unfinished.values()])


def steady(look: Callable[P, T]) -> Callable[P, T]:
    """The same function, which looks again where a file went in the meantime."""

    @wraps(look)
    def again(*arguments: P.args, **named: P.kwargs) -> T:
        for pause in PAUSES_S:
            try:
                return look(*arguments, **named)
            except UnreadableInput:
                time.sleep(pause)
        return look(*arguments, **named)

    return again


def settled(directory: str) -> PartitionFiles:
    """A partition's directory as it is now: a listing may miss a file that is renamed meanwhile, two do not.

    Raises UnreadableInput.
    """
    files = refresh(directory)
    if is_remote(directory):
        return files
    while _names(again := refresh(directory)) != _names(files):
        files = again
    return again


def unshared(options: SourceOptions) -> SourceOptions:
    """The same options, which say nothing of how many tasks there are to be."""
    return replace(options, min_partitions=None, max_records_per_partition=None)


def read_live(wanted: LiveRange, columns: Sequence[str], options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a range as record batches with these columns, each record once.

    Raises UnreadableInput, CorruptLog with onCorruption=fail, DataLoss.
    """
    asked = columns if "offset" in columns else [*columns, "offset"]
    pauses = iter(PAUSES_S)
    at, is_read = wanted.start, False
    while not is_read:
        try:
            for split in _splits(replace(wanted, start=at), options):
                for batch in read(
                    split, asked, on_corruption=options.on_corruption, include_control=options.include_control
                ):
                    yield batch.select(columns)
                    at = max(at, pc.max(batch.column("offset")).as_py() + 1)
                    pauses = iter(PAUSES_S)
            is_read = True
        except (UnreadableInput, CorruptLog):
            if (pause := next(pauses, None)) is None:
                raise
            time.sleep(pause)


def _splits(wanted: LiveRange, options: SourceOptions) -> Iterator[Split]:
    """Where the offsets are now. Raises UnreadableInput, DataLoss."""
    files = settled(wanted.directory)
    whose = f"{files.topic}-{files.partition}"
    start, end = max(wanted.start, offsets.log_start(files)), wanted.end
    if start > wanted.start:
        lost(f"{whose}: offset {wanted.start:,} is gone, the log starts at {start:,}", fails=options.fail_on_data_loss)
    last = LiveEnd()
    if (log_end := last.log_end(files)) < end:
        lost(f"{whose}: offset {end - 1:,} is gone, the log ends at {log_end:,}", fails=options.fail_on_data_loss)
    for split in splits([Range(files, start, end, wanted.copies)], unshared(options)):
        if split.stop is None and split.segment == files.segments[-1].address:
            split = replace(split, stop=last.position)  # noqa: PLW2901 (what is behind is being written)
        yield split


def _is_room(source: Source, position: int) -> bool:
    """Is there nothing behind a position, or nothing but zeros as far as one looks?"""
    data = bytearray(max(0, min(ROOM_BYTES, source.size() - position)))
    return not any(data[: source.read_at(position, memoryview(data))])


def _names(files: PartitionFiles) -> list[str]:
    return [segment.address for segment in files.segments]
