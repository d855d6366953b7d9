"""What each task reads: a run of whole batches of one segment, cut where the sparse index knows that one begins."""

from __future__ import annotations

import logging
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice, takewhile
from operator import gt

from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from formats.offset_index import OffsetIndexEntry
from formats.txn_index import AbortedTxn
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.export import offsets
from kcli.export.discovery import PartitionFiles, SegmentFile, discover
from kcli.export.files import inode_of, open_source, read_file
from kcli.export.names import refuse_unknown
from kcli.export.options import EARLIEST, LATEST, Isolation, SourceOptions
from kcli.inspector.seek import indexed_batch
from kcli.log.source import Source

log = logging.getLogger("kcli.export")
SPLIT_BYTES = 64 << 20
MAX_OFFSET = offsets.MAX_OFFSET


class DataLoss(KcliError):
    """Offsets that were asked for are not there any more, with failOnDataLoss."""


def lost(what: str, *, fails: bool) -> None:
    """Records are gone that were to be read. Raises DataLoss, unless failOnDataLoss=false: then a warning says so."""
    if fails:
        raise DataLoss(f"{what}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", what)


@dataclass(frozen=True, slots=True)
class Split:
    """Batches of a segment from byte `start` to byte `stop` (None: its end), of them the records with offsets in
    [from_offset, to_offset). A sound log has offsets [first_offset, next_offset) there; where the file is not the one
    that was planned for (`inode`; 0: unknown), for it was cleaned or deleted since, these are looked for anew.

    committed: without the records of aborted transactions; `aborted` are those that transaction indexes know. copies:
    directories of other copies of the partition, for what is damaged in this one; corruption_report: the directory of
    the table of what was passed over; may_vanish: files that are deleted meanwhile are no error.
    """

    topic: str
    partition: int
    segment: str
    base_offset: int
    start: int
    stop: int | None
    from_offset: int
    to_offset: int
    first_offset: int
    next_offset: int
    inode: int
    size: int
    committed: bool = False
    aborted: tuple[AbortedTxn, ...] = ()
    copies: tuple[str, ...] = ()
    corruption_report: str | None = None
    may_vanish: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of a partition, in one copy of it; the directories of others."""

    files: PartitionFiles
    start: int
    end: int
    copies: tuple[str, ...] = ()


def plan(options: SourceOptions) -> list[Split]:
    """What the options ask for, as tasks, by topic, partition and offset.

    Raises UnreadableInput, UsageError, DataLoss.
    """
    found = discover(options.paths)
    refuse_unknown(options, {(each.topic, each.partition) for each in found})
    return splits(ranges(options, found), options)


def splits(wanted: list[Range], options: SourceOptions) -> list[Split]:
    """The tasks of these ranges. Raises UnreadableInput."""
    size = SPLIT_BYTES
    if options.min_partitions is not None:
        total = sum(each.files.size for each in wanted)
        size = max(1, min(size, total // options.min_partitions))
    return [split for each in wanted for split in _splits(each, options, size)]


def ranges(options: SourceOptions, found: Iterable[PartitionFiles]) -> list[Range]:
    """The offsets that the options ask for, by partition, each offset of one copy. Raises as `plan`."""
    wanted: list[Range] = []
    for copies in partitions(options, found):
        start, end = narrowed(copies, options, *bounds(copies, options))
        wanted += chosen(copies, start, end)
    return wanted


def partitions(options: SourceOptions, found: Iterable[PartitionFiles]) -> Iterator[list[PartitionFiles]]:
    """The copies of each partition that the options ask for, the best copy first: the one that reaches furthest."""
    asked = [each for each in found if options.wants(each.topic, each.partition)]
    for _, group in groupby(asked, key=lambda each: (each.topic, each.partition)):
        copies = list(group)
        if len(copies) > 1:
            copies.sort(key=lambda each: (-offsets.log_end(each), offsets.log_start(each), -each.size))
        yield copies


def bounds(copies: list[PartitionFiles], options: SourceOptions) -> tuple[int, int]:
    """The first offset, and the one behind the last, that the options ask for of a partition. Raises as `plan`."""
    best = copies[0]
    key = best.topic, best.partition
    first = log_start(copies)
    marks = [each.high_watermark for each in copies if each.high_watermark is not None]
    last = max(marks) if marks and not options.beyond_high_watermark else MAX_OFFSET
    start, end = options.start.offset_of(key), options.end.offset_of(key)
    if (time := options.start.time_of(key)) is not None:
        found = offsets.offset_for_time(best, time)
        if found is None and not options.latest_without_time:
            raise UsageError(f"{key[0]}-{key[1]}: no record at or after the starting time {time}")
        start = LATEST if found is None else found
    if (time := options.end.time_of(key)) is not None:
        found = offsets.offset_for_time(best, time)
        end = LATEST if found is None else found
    if start == LATEST:
        start = min(last, offsets.log_end(best))
    elif start == EARLIEST:
        start = first
    elif start < first and options.fail_on_data_loss:
        raise DataLoss(f"{key[0]}-{key[1]}: offset {start:,} is gone, the log starts at {first:,}")
    end = last if end == LATEST else min(end, last)
    if options.isolation is Isolation.READ_COMMITTED:
        end = offsets.last_stable_offset(best, min(end, offsets.log_end(best)))
    return max(start, first), end


def narrowed(copies: list[PartitionFiles], options: SourceOptions, start: int, end: int) -> tuple[int, int]:
    """What filters leave of the offsets [start, end). Raises UnreadableInput."""
    wanted = options.narrowed
    if wanted.from_time_ms is not None:
        found = offsets.offset_for_time(copies[0], wanted.from_time_ms)
        start = end if found is None else max(start, found)
    return max(start, wanted.from_offset), min(end, wanted.to_offset)


def log_start(copies: list[PartitionFiles]) -> int:
    """Where a partition begins: the first offset of any copy, or what was deleted up to in one of them."""
    said = [each.log_start_offset for each in copies if each.log_start_offset is not None]
    return max([min(offsets.log_start(each) for each in copies), *said])


def chosen(copies: list[PartitionFiles], start: int, end: int) -> list[Range]:
    """The range, each offset from one copy: the best there is, others for what it does not have any more."""
    found: list[Range] = []
    for files in copies:
        if start >= end or not files.segments:
            break
        first = offsets.log_start(files) if len(copies) > 1 else start
        if first < end:
            others = tuple(each.directory for each in copies if each is not files)
            found.append(Range(files, max(first, start), end, others))
            end = max(first, start)
    return found[::-1]


def _splits(wanted: Range, options: SourceOptions, split_bytes: int) -> Iterator[Split]:
    files = wanted.files
    committed = options.isolation is Isolation.READ_COMMITTED
    aborts = offsets.indexed_aborts(files) if committed else []
    following = takewhile(lambda pair: pair[0].base_offset < wanted.end, files.following(wanted.start))
    for segment, next_base in following:
        to_offset = wanted.end if next_base is None else min(next_base, wanted.end)
        inode = inode_of(segment.address)
        for start, stop, first, last in _cuts(
            segment, wanted.start, to_offset, split_bytes, options.max_records_per_partition
        ):
            yield Split(
                files.topic,
                files.partition,
                segment.address,
                segment.base_offset,
                start,
                stop,
                wanted.start,
                to_offset,
                first,
                last,
                inode,
                (segment.size if stop is None else stop) - start,
                committed,
                tuple(each for each in aborts if each.last_offset >= first and each.first_offset < last),
                wanted.copies,
                options.corruption_report,
                not options.fail_on_data_loss,
            )


def _cuts(
    segment: SegmentFile, from_offset: int, to_offset: int, split_bytes: int, max_records: int | None
) -> Iterator[tuple[int, int | None, int, int]]:
    """Byte ranges of the segment, in a row, that hold the offsets, and the offsets that each has about."""
    index = SparseIndex(segment)
    source = open_source(segment.address)
    try:
        start, offset = index.begin(source, from_offset), max(from_offset, segment.base_offset)
        end = index.end(source, to_offset)
        limit = segment.size if end is None else end
        slot = bisect_right(index.positions, start)
        while True:
            slot = max(slot, bisect_left(index.positions, start + split_bytes))
            batch = None
            if max_records is not None:
                slot = min(
                    slot, max(bisect_left(index.offsets, offset + max_records), bisect_right(index.positions, start))
                )
            while slot < len(index.positions) and index.positions[slot] < limit:
                batch = index.batch(source, slot)
                slot += 1
                if batch is not None:
                    break
            if batch is None:
                yield start, end, offset, to_offset
                return
            yield start, batch.position, offset, min(batch.base_offset, to_offset)
            start, offset = batch.position, batch.base_offset
    finally:
        source.close()


class SparseIndex:
    """The entries of a segment's offset index: absolute last offsets of batches, and where these begin.

    Empty where the file is not there, damaged, or its entries are not in order. It is a hint: what it says of a batch
    is held against the log before it is used.
    """

    def __init__(self, segment: SegmentFile) -> None:
        self._base = segment.base_offset
        self.offsets: array[int] = array("q")
        self.positions: array[int] = array("q")
        address = segment.index(FileKind.OFFSET_INDEX)
        if address is None:
            return
        try:
            data = read_file(address)
        except UnreadableInput:
            return
        cells = array("i", data[: len(data) - len(data) % 8])
        if sys.byteorder == "little":
            cells.byteswap()
        relative, positions = cells[::2], cells[1::2]
        used = next((i for i, each in enumerate(positions) if each == 0), len(positions))  # zeros are slack
        del relative[used:], positions[used:]
        if used and (min(positions[0], relative[0]) < 0 or self._base + relative[-1] > MAX_OFFSET):
            return
        if all(map(gt, islice(positions, 1, None), positions)) and all(map(gt, islice(relative, 1, None), relative)):
            self.offsets = array("q", (self._base + each for each in relative))
            self.positions = array("q", positions)

    def batch(self, source: Source, slot: int) -> BatchRow | None:
        """The sound batch that an entry leads to."""
        return indexed_batch(
            source, self._base, OffsetIndexEntry(self.offsets[slot] - self._base, self.positions[slot])
        )

    def begin(self, source: Source, offset: int) -> int:
        """The last indexed batch that ends at or before an offset, 0 where none is known."""
        slot = bisect_right(self.offsets, offset) - 1
        return self.positions[slot] if slot >= 0 and self.batch(source, slot) else 0

    def end(self, source: Source, offset: int) -> int | None:
        """An indexed batch with nothing below an offset in it and behind it, None for the end of the segment.

        The first entry at or behind the offset may still be the batch that it is in; the next is not.
        """
        slot = bisect_left(self.offsets, offset) + 1
        return self.positions[slot] if slot < len(self.offsets) and self.batch(source, slot) else None
