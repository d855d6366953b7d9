"""What each task reads: a run of whole batches of one segment, cut where the sparse index knows that one begins."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from formats import offset_index
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from formats.offset_index import OffsetIndexEntry
from kcli.errors import UnreadableInput, UsageError
from kcli.export.discovery import PartitionFiles, SegmentFile, discover
from kcli.export.files import open_source, read_file
from kcli.export.options import EARLIEST, LATEST, Isolation, SourceOptions
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import Source

SPLIT_BYTES = 64 << 20
PROBE_BYTES = 1 << 12
MAX_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Split:
    """Batches of a segment from byte `start` to byte `stop` (None: its end), of them the records with offsets in
    [from_offset, to_offset).

    committed: without the records of aborted transactions; `aborted` are those that a transaction index knows, as
    (producer id, first offset, offset of the marker). is_last: nothing of the partition follows.
    """

    topic: str
    partition: int
    segment: str
    base_offset: int
    start: int
    stop: int | None
    from_offset: int
    to_offset: int
    size: int
    committed: bool = False
    aborted: tuple[tuple[int, int, int], ...] = ()
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets [start, end) of a partition, in one copy of it."""

    files: PartitionFiles
    start: int
    end: int


def plan(options: SourceOptions) -> list[Split]:
    """What the options ask for, as tasks, by topic, partition and offset. Raises UnreadableInput, UsageError."""
    ranges = list(_ranges(options))
    size = _split_bytes(options, sum(each.files.size for each in ranges))
    return [split for each in ranges for split in _splits(each, options, size)]


def _ranges(options: SourceOptions) -> Iterator[Range]:
    copies = [each for each in discover(options.paths) if options.wants(each.topic, each.partition)]
    for key, group in groupby(copies, key=lambda each: (each.topic, each.partition)):
        files = max(group, key=lambda each: (each.segments[-1].base_offset if each.segments else -1, each.size))
        if not files.segments:
            continue
        first = max(files.segments[0].base_offset, files.log_start_offset or 0)
        last = MAX_OFFSET if files.high_watermark is None or options.beyond_high_watermark else files.high_watermark
        start, end = options.start.offset_of(key), options.end.offset_of(key)
        start = {EARLIEST: first, LATEST: last}.get(start, start)
        if start < first:
            if options.fail_on_data_loss:
                raise UsageError(f"{key[0]}-{key[1]}: offset {start:,} is gone, the log starts at {first:,}")
            start = first
        end = last if end == LATEST else min(end, last)
        if start < end:
            yield Range(files, start, end)


def _split_bytes(options: SourceOptions, total: int) -> int:
    if options.min_partitions is None:
        return SPLIT_BYTES
    return max(1, min(SPLIT_BYTES, total // options.min_partitions))


def _splits(wanted: Range, options: SourceOptions, split_bytes: int) -> Iterator[Split]:
    files = wanted.files
    committed = options.isolation is Isolation.READ_COMMITTED
    for segment, following in pairwise([*files.segments, None]):
        assert segment is not None, "only the last one has no follower"
        behind = MAX_OFFSET if following is None else following.base_offset
        if behind <= wanted.start or segment.base_offset >= wanted.end:
            continue
        to_offset = min(behind, wanted.end)
        for start, stop in _cuts(segment, wanted.start, to_offset, split_bytes, options.max_records_per_partition):
            yield Split(
                files.topic,
                files.partition,
                segment.address,
                segment.base_offset,
                start,
                stop,
                wanted.start,
                to_offset,
                (segment.size if stop is None else stop) - start,
                committed,
                (),
                following is None and stop is None,
            )


def _cuts(
    segment: SegmentFile, from_offset: int, to_offset: int, split_bytes: int, max_records: int | None
) -> Iterator[tuple[int, int | None]]:
    """Byte ranges of the segment, in a row, that hold the offsets."""
    entries = _entries(segment)
    source = open_source(segment.address)
    try:
        start = _begin(source, segment, entries, from_offset)
        end = _end(source, segment, entries, to_offset)
        limit = segment.size if end is None else end
        slot = bisect_left(entries, start + 1, key=lambda entry: entry.position)
        offset = max(from_offset, segment.base_offset)
        while True:
            cut = None
            for entry in entries[slot:]:
                slot += 1
                if entry.position >= limit:
                    break
                here = segment.base_offset + entry.relative_offset
                many = entry.position - start >= split_bytes or (
                    max_records is not None and here - offset >= max_records
                )
                if many and is_batch(source, segment, entry):
                    cut = entry
                    break
            if cut is None:
                yield start, end
                return
            yield start, cut.position
            start, offset = cut.position, segment.base_offset + cut.relative_offset
    finally:
        source.close()


def _entries(segment: SegmentFile) -> Sequence[OffsetIndexEntry]:
    """The entries of the offset index; none where it is damaged, its entries not in order."""
    address = segment.index(FileKind.OFFSET_INDEX)
    if address is None:
        return ()
    try:
        entries = offset_index.parse(read_file(address)).entries
    except (FormatError, UnreadableInput):
        return ()
    ordered = all(a.position < b.position and a.relative_offset < b.relative_offset for a, b in pairwise(entries))
    return entries if ordered and (not entries or entries[0].position > 0) else ()


def _begin(source: Source, segment: SegmentFile, entries: Sequence[OffsetIndexEntry], offset: int) -> int:
    """The last indexed batch that ends at or before an offset."""
    slot = bisect_left(entries, offset - segment.base_offset + 1, key=lambda entry: entry.relative_offset)
    return entries[slot - 1].position if slot and is_batch(source, segment, entries[slot - 1]) else 0


def _end(source: Source, segment: SegmentFile, entries: Sequence[OffsetIndexEntry], offset: int) -> int | None:
    """The first indexed batch of which all is at or behind an offset, None for the end of the segment.

    An entry knows its batch's last offset: behind the batch in which `offset` is, or the next, there is one such.
    """
    slot = bisect_left(entries, offset - segment.base_offset, key=lambda entry: entry.relative_offset) + 1
    return entries[slot].position if slot < len(entries) and is_batch(source, segment, entries[slot]) else None


def is_batch(source: Source, segment: SegmentFile, entry: OffsetIndexEntry) -> bool:
    """Does a sound batch that ends at the entry's offset begin at its position?"""
    for part in read_segment(source, start=entry.position, resync=False, window_bytes=PROBE_BYTES):
        if not isinstance(part, Window):
            return False
        row = BatchRow._make(part.batches.row(0))
        return not row.faults and row.last_offset == segment.base_offset + entry.relative_offset
    return False
