"""Splits: runs of whole batches of one segment, cut at batches that the segment's offset index points to."""

from __future__ import annotations

import logging
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice, takewhile
from operator import gt
from typing import TypeVar

from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from formats.offset_index import OffsetIndexEntry
from formats.txn_index import AbortedTxn
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.export import offsets
from kcli.export.discovery import PartitionFiles, Remote, SegmentFile
from kcli.export.files import inode_of, open_damaged, read_file
from kcli.export.names import refuse_unknown
from kcli.export.options import EARLIEST, LATEST, TASKS_MAX, Isolation, OnCorruption, SourceOptions
from kcli.export.tiered import discover
from kcli.inspector.seek import indexed_batch
from kcli.log.source import Source
from kcli.printable import is_utf8
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.export")
SPLIT_BYTES = 64 << 20
MAX_OFFSET = offsets.MAX_OFFSET
Part = TypeVar("Part")


class DataLoss(KcliError):
    """Offsets that a query is to read were deleted or truncated, and failOnDataLoss is true."""


def lost(text: str, *, fails: bool) -> None:
    """Raise DataLoss for records that cannot be read any more; with `fails` false (failOnDataLoss=false) log a warning.

    text: the text of the error or warning, with partition and offset.
    """
    if fails:
        raise DataLoss(f"{text}; failOnDataLoss=false goes on with what there is")
    log.warning("%s", text)


@dataclass(frozen=True, slots=True)
class Split:
    """Batches of a segment from byte `start` to byte `stop` (None: the segment's end), and of these batches the records
    with offsets in [from_offset, to_offset).

    first_offset, next_offset: the offsets [first_offset, next_offset) that an undamaged log has in these bytes. If
    the file's inode is not `inode` (0: unknown) any more, because the segment was cleaned or deleted, the reader looks
    for these offsets in the partition's present segments.
    size: the number of bytes from `start` to `stop`. committed: leave out the records of aborted transactions. aborted:
    the aborted transactions that the transaction indexes list. copies: directories of other replicas of the partition,
    from which damaged batches of this replica are read. corruption_report: the directory of the damage table, None for
    no damage table. may_vanish: whether it is no error if a file is deleted before it is read. remote: where the tier
    has segments of the partition; None without any. is_whole: whether each of the offsets [first_offset, next_offset)
    must be in a batch, as in a segment of the tier.
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
    remote: Remote | None = None
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of a partition, read from one replica (`files`); copies: directories of other replicas."""

    files: PartitionFiles
    start: int
    end: int
    copies: tuple[str, ...] = ()


def plan(options: SourceOptions) -> list[Split]:
    """Return the splits that hold the records which the options select, by topic, partition and offset.

    Raises UnreadableInput, UsageError (an unknown topic or partition, no record at a starting time), DataLoss.
    """
    return splits(ranges(options, selected_replicas(options)), options)


def selected_replicas(options: SourceOptions) -> list[list[PartitionFiles]]:
    """Return the replicas of each partition that the options select, as `partitions` yields them. Raises
    UnreadableInput, UsageError (an unknown topic or partition)."""
    found = discover(options)
    refuse_unknown(options, {TopicPartition(each.topic, each.partition) for each in found})
    return [*partitions(options, found)]


def splits(ranges_read: list[Range], options: SourceOptions) -> list[Split]:
    """Return the splits of these ranges, of about 64 MB, smaller with minPartitions. Raises UnreadableInput,
    UsageError (too many)."""
    size = SPLIT_BYTES
    if options.min_partitions is not None:
        total = sum(each.files.size for each in ranges_read)
        size = max(1, min(size, total // options.min_partitions))
    return counted((split for each in ranges_read for split in _splits(each, options, size)), options)


def counted(parts: Iterable[Part], options: SourceOptions) -> list[Part]:
    """Return the tasks of a query. Raises UsageError if maxRecordsPerPartition makes more than TASKS_MAX; only one more
    is taken from `parts`."""
    most = options.max_records_per_partition
    if most is None:
        return [*parts]
    found = [*islice(parts, TASKS_MAX + 1)]
    if len(found) > TASKS_MAX:
        raise UsageError(f"maxRecordsPerPartition={most:,} makes more than {TASKS_MAX:,} tasks")
    return found


def ranges(options: SourceOptions, replicas: Iterable[list[PartitionFiles]]) -> list[Range]:
    """Return the offsets that the options select, by partition, each offset from one replica. replicas: those of each
    partition, as `partitions` yields them. Raises as `plan`."""
    ranges_read: list[Range] = []
    for copies in replicas:
        first, last = _selected(copies, options)
        # The last stable offset is found before the filters are applied: a transaction that ends above the filters' end
        # is not open.
        start, end = narrowed(copies, options, first, _stable(copies, options, last))
        found_ranges = chosen(copies, start, end)
        for each in found_ranges:
            refuse_missing(each, options.on_corruption)
        if copies[0].missing:  # offsets above the last stable one that the tier lacks are an error, too
            start, wanted = narrowed(copies, options, first, last)
            if end < wanted:
                refuse_missing(Range(copies[0], max(start, end), wanted), options.on_corruption)
        ranges_read += found_ranges
    return ranges_read


def refuse_missing(offsets_read: Range, on_corruption: OnCorruption) -> None:
    """Raise UnreadableInput for the first offsets of a range that the tier lacks; log warnings with onCorruption other
    than `fail`."""
    for each in offsets_read.files.missing:
        if each.first < offsets_read.end and each.last >= offsets_read.start:
            if on_corruption is OnCorruption.FAIL:
                raise UnreadableInput(each.address, f"{each.reason} (onCorruption=skip goes on without them)")
            log.warning("%s: %s", each.address, each.reason)


def partitions(options: SourceOptions, found: Iterable[PartitionFiles]) -> Iterator[list[PartitionFiles]]:
    """Yield the replicas of each selected partition, ordered by the highest log end offset, then the lowest log start
    offset, then the largest size. Replicas with a `.log` file that cannot be read are left out if another replica
    can be read.

    Raises UnreadableInput for unreadable files with onCorruption=fail, and for a directory whose name is not UTF-8,
    which neither Parquet nor a manifest can contain.
    """
    selected = [each for each in found if options.wants(each.topic, each.partition)]
    for each in selected:
        if not is_utf8(each.directory):
            raise UnreadableInput(
                each.directory, "the path is not UTF-8, which no table can hold (--topic leaves it out)"
            )
    for _, group in groupby(selected, key=lambda each: (each.topic, each.partition)):
        copies = list(group)
        copies = [each for each in copies if not each.unreadable] or copies
        for address, reason in copies[0].unreadable:
            if options.on_corruption is OnCorruption.FAIL:
                raise UnreadableInput(address, f"{reason} (onCorruption=skip goes on without it)")
            log.warning("%s is left out: %s", address, reason)
        if len(copies) > 1:
            copies.sort(key=lambda each: (-offsets.log_end(each), offsets.log_start(each), -each.size))
        yield copies


def bounds(copies: list[PartitionFiles], options: SourceOptions) -> tuple[int, int]:
    """Return the start offset and the exclusive end offset that the options select of a partition. Raises as `plan`.

    copies: the partition's replicas, the one to read first. The end is at most the high watermark, unless
    beyondHighWatermark is true, and with read_committed at most the last stable offset.
    """
    start, end = _selected(copies, options)
    return start, _stable(copies, options, end)


def _stable(copies: list[PartitionFiles], options: SourceOptions, end: int) -> int:
    """Return the exclusive end offset to read: `end`, or with read_committed the last stable offset, if that is lower.
    A transaction whose marker is at or above `end`, but below the high watermark, is not open."""
    if options.isolation is not Isolation.READ_COMMITTED:
        return end
    replicated = min(_high_watermark(copies, options), offsets.log_end(copies[0]))
    return min(end, offsets.last_stable_offset(copies[0], replicated))


def _high_watermark(copies: list[PartitionFiles], options: SourceOptions) -> int:
    """Return the highest high watermark of the replicas; MAX_OFFSET if none is known, or with beyondHighWatermark."""
    marks = [each.high_watermark for each in copies if each.high_watermark is not None]
    return max(marks) if marks and not options.beyond_high_watermark else MAX_OFFSET


def _selected(copies: list[PartitionFiles], options: SourceOptions) -> tuple[int, int]:
    """As `bounds`, but the end may be above the last stable offset."""
    best = copies[0]
    partition = TopicPartition(best.topic, best.partition)
    first = log_start(copies)
    last = _high_watermark(copies, options)
    start, end = options.start.offset_of(partition), options.end.offset_of(partition)
    if (time := options.start.time_of(partition)) is not None:
        found = offsets.offset_for_time(best, time)
        if found is None and not options.latest_without_time:
            raise UsageError(f"{partition}: no record at or after the starting time {time}")
        start = LATEST if found is None else found
    if (time := options.end.time_of(partition)) is not None:
        found = offsets.offset_for_time(best, time)
        end = LATEST if found is None else found
    if start == LATEST:
        start = min(last, offsets.log_end(best))
    elif start == EARLIEST:
        start = first
    elif start < first and options.fail_on_data_loss:
        raise DataLoss(f"{partition}: offset {start:,} is gone, the log starts at {first:,}")
    if end != LATEST:  # no further than the log: an increment begins where the one before ended
        last = min(end, last, max(offsets.log_end(best), first))
    return max(start, first), last


def narrowed(copies: list[PartitionFiles], options: SourceOptions, start: int, end: int) -> tuple[int, int]:
    """Return the start and the exclusive end of the part of [start, end) that the query's pushed filters select; a
    start at or above the end means that they select none of it. Raises UnreadableInput."""
    filters = options.narrowed
    if filters.from_time_ms is not None:
        found = offsets.offset_for_time(copies[0], filters.from_time_ms)
        start = end if found is None else max(start, found)
    return max(start, filters.from_offset), min(end, filters.to_offset)


def log_start(copies: list[PartitionFiles]) -> int:
    """Return a partition's log start offset: the lowest that one of its replicas has, but no lower than any log start
    offset in the replicas' checkpoints."""
    checkpointed = [each.log_start_offset for each in copies if each.log_start_offset is not None]
    return max([min(offsets.log_start(each) for each in copies), *checkpointed])


def chosen(copies: list[PartitionFiles], start: int, end: int) -> list[Range]:
    """Return [start, end) as ranges, each offset from one replica: from the first replica all offsets from its log
    start offset on, from each following replica the lower offsets that it has."""
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


def _splits(offsets_read: Range, options: SourceOptions, split_bytes: int) -> Iterator[Split]:
    files = offsets_read.files
    committed = options.isolation is Isolation.READ_COMMITTED
    aborts = offsets.indexed_aborts(files, offsets_read.start) if committed else []
    following = takewhile(lambda pair: pair[0].begin < offsets_read.end, files.following(offsets_read.start))
    for segment, next_base in following:
        to_offset = offsets_read.end if next_base is None else min(next_base, offsets_read.end)
        from_offset = offsets_read.start if segment.first_offset is None else max(segment.begin, offsets_read.start)
        inode = inode_of(segment.address)
        for start, stop, first, last in _cuts(
            segment, from_offset, to_offset, split_bytes, options.max_records_per_partition
        ):
            yield Split(
                files.topic,
                files.partition,
                segment.address,
                segment.base_offset,
                start,
                stop,
                from_offset,
                to_offset,
                first,
                last,
                inode,
                (segment.size if stop is None else stop) - start,
                committed,
                tuple(each for each in aborts if each.last_offset >= first and each.first_offset < last),
                offsets_read.copies,
                options.corruption_report,
                not options.fail_on_data_loss,
                files.remote,
                segment.next_offset is not None,
            )


def _cuts(
    segment: SegmentFile, from_offset: int, to_offset: int, split_bytes: int, max_records: int | None
) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield consecutive parts of a segment that together have the offsets [from_offset, to_offset). Each part has a
    start byte, a stop byte (None: the segment's end), a first offset and an exclusive end offset.

    split_bytes, max_records: a part ends at the first batch in the offset index that is at least split_bytes bytes or
    max_records offsets after the part's start; max_records None: only bytes count.
    """
    index = SparseIndex(segment)
    source = open_damaged(segment.address)  # the reader of the part warns of damage
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
    """The entries of a segment's offset index: `offsets`, absolute last offsets of batches, and `positions`, the bytes
    where these batches begin.

    Empty if the index file is missing or damaged, or its entries are not in order. Each entry is checked against the
    batch in the log before it is used.
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
        # The entries from the first one with position 0 on are the unused rest of a preallocated index.
        used = next((i for i, each in enumerate(positions) if each == 0), len(positions))
        del relative[used:], positions[used:]
        if used and (min(positions[0], relative[0]) < 0 or self._base + relative[-1] > MAX_OFFSET):
            return
        if all(map(gt, islice(positions, 1, None), positions)) and all(map(gt, islice(relative, 1, None), relative)):
            self.offsets = array("q", (self._base + each for each in relative))
            self.positions = array("q", positions)

    def batch(self, source: Source, slot: int) -> BatchRow | None:
        """Return the sound batch that the index entry number `slot` points to; None if no sound batch with the entry's
        last offset begins at the entry's position."""
        return indexed_batch(
            source, self._base, OffsetIndexEntry(self.offsets[slot] - self._base, self.positions[slot])
        )

    def begin(self, source: Source, offset: int) -> int:
        """Return the position of the last batch in the index whose last offset is at most `offset`; 0 if there is none,
        or if no sound batch with this last offset begins at the position in the index."""
        slot = bisect_right(self.offsets, offset) - 1
        return self.positions[slot] if slot >= 0 and self.batch(source, slot) else 0

    def end(self, source: Source, offset: int) -> int | None:
        """Return the position of a batch in the index such that this batch and all later ones have only offsets at or
        above `offset`; None if there is none, or if the batch in the log differs from the index entry.

        The batch of the first entry whose last offset is at or above `offset` may itself begin below `offset`, so the
        next entry is used.
        """
        slot = bisect_left(self.offsets, offset) + 1
        return self.positions[slot] if slot < len(self.offsets) and self.batch(source, slot) else None
