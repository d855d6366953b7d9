"""A split's records as Arrow record batches of some MB. Windows of the segment are read one at a time, so memory does
not grow with the file's size.

All sound parts (see offsets.py) of a damaged log are read: whole batches before, between and after damage, and the
records before the damage in a batch whose CRC is right. Offsets in a damaged batch are read from another replica of the
partition that has them. A batch that repeats offsets of earlier batches (a doubled batch) also counts as damage. A
batch that is only out of order is not damage, and its records are delivered.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from formats.errors import BadValue
from formats.kernels.batches import (
    FAULT_BAD_INNER,
    FAULT_NEGATIVE_COUNT,
    FAULT_OFFSET_OUT_OF_RANGE,
    FAULT_OFFSETS_NOT_INCREASING,
    BatchTable,
    drop_batches,
    has_transactions,
    odd_offsets,
)
from formats.kernels.columns import BASE_OFFSET, FAULTS, LAST_OFFSET, BatchRow
from formats.kernels.records import RecordTable, drop_invalid, drop_offsets
from kcli.errors import UnreadableInput
from kcli.export import offsets
from kcli.export.corruption import CorruptLog, Findings
from kcli.export.discovery import SegmentFile, refresh
from kcli.export.files import inode_of, name_of, open_damaged, open_source, parent_of, stat
from kcli.export.options import Isolation, OnCorruption, SourceOptions
from kcli.export.record_batches import RecordBatches
from kcli.export.splits import MAX_OFFSET, Range, Split, chosen, lost, refuse_missing, splits
from kcli.export.tiered import refresh_with, segments_with
from kcli.export.transactions import aborted_ranges
from kcli.log.batch_records import UNREADABLE, decode, faults_of
from kcli.log.read_only.survey import UNSOUND
from kcli.log.segment_reader import Window, read_segment
from kcli.protocol.topic_partition import TopicPartition

__all__ = ["CorruptLog", "read"]

SLICE_RECORDS = 1 << 14
OFFSETS_PER_SEGMENT = 1 << 31
CORRUPT = UNREADABLE | FAULT_NEGATIVE_COUNT | FAULT_BAD_INNER | FAULT_OFFSETS_NOT_INCREASING | FAULT_OFFSET_OUT_OF_RANGE
"""Faults of a batch whose records before the fault can still be read."""
MISPLACED, DOUBLED = 1 << 30, 1 << 31
"""Faults that only this module sets. MISPLACED: the batch has an offset that its segment cannot contain (negative, or
2^31 or more above the segment's base offset), or all its offsets are also in earlier batches of the split. DOUBLED:
some of its offsets are also in earlier batches of the split."""
LOW = 0


def read(
    split: Split,
    columns: Sequence[str],
    *,
    on_corruption: OnCorruption = OnCorruption.FAIL,
    include_control: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as Arrow record batches with these columns, in the order of the segment.

    columns: names of kcli.export.columns.COLUMNS. include_control: deliver control records, too.
    Raises UnreadableInput, DataLoss, and CorruptLog with onCorruption=fail.
    """
    try:
        reader = _Reader(split, columns, on_corruption, include_control)
    except UnreadableInput:
        if stat(split.segment) is not None:
            raise
        reader = None
    if reader is not None and (not split.inode or inode_of(split.segment) == split.inode):
        yield from reader.batches()
        return
    if reader is not None:
        reader.close()
    for piece in _anew(split, on_corruption):
        yield from read(piece, columns, on_corruption=on_corruption, include_control=include_control)


def _anew(split: Split, on_corruption: OnCorruption) -> list[Split]:
    """Return new splits for the offsets of a split whose segment was cleaned or deleted after planning. For example, a
    segment that was local may now be only in the tier.

    Raises DataLoss if no replica has the offsets any more, and UnreadableInput. With `split.may_vanish` it raises
    neither, but logs a warning and returns splits for what can still be read.
    """
    first, last = max(split.first_offset, split.from_offset), min(split.next_offset, split.to_offset)
    try:
        own = refresh(parent_of(split.segment)) if split.remote is None else refresh_with(split.remote)
        files = [own, *(refresh(directory) for directory in split.copies)]
        begins = min((offsets.log_start(each) for each in files if each.segments), default=last)
        if first < begins:
            name = f"{split.topic}-{split.partition}"
            text = f"{name}: offset {first:,} was deleted meanwhile, the log starts at {begins:,}"
            lost(text, fails=not split.may_vanish)
        ranges = chosen(files, first, last)
        for each in ranges:
            refuse_missing(each, on_corruption)
        pieces = splits(ranges, _options(split))
    except UnreadableInput as error:
        if not split.may_vanish:
            raise
        lost(str(error), fails=False)
        return []
    return [replace(piece, corruption_report=split.corruption_report) for piece in pieces]


def _options(split: Split) -> SourceOptions:
    """Return the source options for reading a split's offsets from other segments: its isolation and failOnDataLoss,
    and its replicas as paths."""
    isolation = Isolation.READ_COMMITTED if split.committed else Isolation.READ_UNCOMMITTED
    return SourceOptions(split.copies, isolation=isolation, fail_on_data_loss=not split.may_vanish)


class _Reader:
    def __init__(
        self, split: Split, columns: Sequence[str], on_corruption: OnCorruption, include_control: bool
    ) -> None:
        self._split = split
        self._columns = columns
        self._include_control = include_control
        self._findings = Findings(split, on_corruption)
        self._rows = RecordBatches(
            TopicPartition(split.topic, split.partition),
            columns,
            segment=name_of(split.segment),
            include_control=include_control,
        )
        self._source = (open_source if on_corruption is OnCorruption.FAIL else open_damaged)(split.segment)
        self._last = -1  # last offset of the batch that was checked last, -1 before the first batch
        # the lowest base offset above _last of a batch in _earlier; MAX_OFFSET if there is no such batch. From this
        # offset on, later batches may have offsets that a batch in _earlier has, too.
        self._ceiling = MAX_OFFSET
        self._doubled: array[int] = array("q")
        # (first offset, last offset, byte position) of the sound batches that begin in [split.start, _earlier_end)
        self._earlier: list[tuple[int, int, int]] = []
        self._earlier_end = split.start
        self._aborted: array[int] | None = None

    def close(self) -> None:
        """Close the segment's file."""
        self._source.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the split's record batches, as `read` does; close the segment's file at the end."""
        split = self._split
        records = RecordTable(SLICE_RECORDS)
        try:
            for part in read_segment(self._source, start=split.start, stop=split.stop):
                if isinstance(part, Window):
                    if split.is_whole:
                        self._check_begin(part)
                    if odd_offsets(part.batches, LOW - 1, split.to_offset, MAX_OFFSET)[0] < 0:
                        break  # all batches of the window are at or above to_offset
                    yield from self._window(part, records)
                else:
                    self._findings.add(part.error, part.position, part.length)
                    if not part.at_end and not split.copies:
                        self._findings.settle()
            if not self._findings.is_settled:
                yield from self._settle(self._last, self._behind(), at_end=split.stop is None)
            elif split.is_whole and split.stop is None and max(self._last + 1, split.first_offset) < split.next_offset:
                yield from self._cut_short()
        finally:
            self.close()
        yield from self._rows.rest()
        self._findings.write()

    def _window(self, window: Window, records: RecordTable) -> Iterator[pa.RecordBatch]:
        split, batches, rows = self._split, window.batches, self._rows
        if batches.first_fault() >= 0:
            yield from self._unsound(window)
        if batches.count and not self._findings.is_settled:
            yield from self._settle(self._last, batches.field(0, BASE_OFFSET))
        self._check_offsets(window)
        batches.select(from_offset=split.from_offset, to_offset=split.to_offset)
        if split.committed and self._aborted is None and has_transactions(batches):
            self._aborted = aborted_ranges(self._segments(), window.position, split.stop, split.aborted)
        drop_batches(batches, control=not self._include_control, aborted=self._aborted)
        rows.begin(batches)
        for buffer in decode(window, records):
            records.select(from_offset=split.from_offset, to_offset=split.to_offset)
            if batches.first_fault() >= 0:
                drop_invalid(records)
            if self._doubled:
                drop_offsets(records, DOUBLED, self._doubled)
            yield from rows.add(records, buffer)
        i = batches.first_fault()
        while i >= 0:
            if batches.field(i, FAULTS) & CORRUPT:
                self._found(window, i)
                self._findings.settle()
            i = batches.first_fault(i + 1)
        window.release()

    # damaged, doubled and misplaced batches: reports, and their records from other replicas

    def _found(self, window: Window, i: int) -> None:
        batch = BatchRow._make(window.batches.row(i))
        error = faults_of(window, i)[0]
        end = batch.position + batch.size
        position = error.position
        if position is None or not batch.position <= position < end:
            position = batch.position
        self._findings.add(error, position, end - position, batch)

    def _check_begin(self, window: Window) -> None:
        """Report it as damage if the segment begins above the first offset that it must have, as another segment under
        its name does."""
        split, batches = self._split, window.batches
        first = batches.field(0, BASE_OFFSET) if batches.count and window.position == split.start else -1
        if first > split.first_offset:
            reason = f"the first batch has offset {first:,}, above {split.first_offset:,}"
            self._findings.add(BadValue(reason, window.position), window.position, 0)
            self._findings.settle()

    def _cut_short(self) -> Iterator[pa.RecordBatch]:
        """Report that the segment ends below the last offset that it must have; yield the missing records that another
        replica has."""
        split, size = self._split, self._source.size()
        last = max(self._last, split.first_offset - 1)
        reason = f"the segment ends in front of offset {last + 1:,}, its last offset is {split.next_offset - 1:,}"
        self._findings.add(BadValue(reason, size), size, 0)
        yield from self._settle(last, split.next_offset)

    def _unsound(self, window: Window) -> Iterator[pa.RecordBatch]:
        """Report and drop the window's unsound batches, which a consumer refuses; yield their records from other
        replicas.

        The damaged offsets are those between the sound batches before and after each run of unsound batches.
        """
        batches, split = window.batches, self._split
        last, done = self._last, 0
        while (i := next_unsound(batches, done)) >= 0:
            if i > done:
                last = max(last, batches.field(i - 1, LAST_OFFSET))
            while i < batches.count and batches.field(i, FAULTS) & UNSOUND:
                row = BatchRow._make(batches.row(i))
                if row.base_offset < split.to_offset and row.last_offset >= split.from_offset:
                    self._found(window, i)
                i += 1
            done = i
            if self._findings.is_settled:
                continue
            if i < batches.count:
                yield from self._settle(last, batches.field(i, BASE_OFFSET))
            elif not split.copies:
                self._findings.settle()
        drop_batches(batches, faults=UNSOUND)

    def _check_offsets(self, window: Window) -> None:
        """Report and drop each batch with an offset that its segment cannot contain, and each batch whose offsets are
        all in earlier batches of the split. If only some of a batch's offsets are in earlier batches, report the batch
        and drop only the records with these offsets."""
        batches = window.batches
        high = self._split.base_offset + OFFSETS_PER_SEGMENT
        row, last = odd_offsets(batches, self._last, LOW, min(high, self._ceiling))
        while row >= 0:
            batch = BatchRow._make(batches.row(row))
            shown = f"offsets {batch.base_offset:,} to {batch.last_offset:,}"
            reason = f"{shown} come behind {last:,}" if batch.base_offset <= last else None
            if batch.base_offset < LOW or batch.last_offset >= high:
                reason = f"{shown} are none of this segment"
                batches.add_fault(row, MISPLACED)
            else:
                self._look_back(batch.position)
                doubled, are_all = self._doubled_offsets(window, row, batch)
                if are_all:
                    reason = f"{shown} come a second time"
                    batches.add_fault(row, MISPLACED)
                else:
                    if doubled:
                        reason = f"of {shown} {len(doubled):,} come a second time"
                        batches.add_fault(row, DOUBLED)
                        self._doubled = array("q", sorted({*self._doubled, *doubled}))
                    last = batch.last_offset
                    ahead = bisect_right(self._earlier, (last, MAX_OFFSET, 0))
                    self._ceiling = self._earlier[ahead][0] if ahead < len(self._earlier) else MAX_OFFSET
            if reason is not None:
                self._findings.add(BadValue(reason, batch.position), batch.position, batch.size, batch)
                self._findings.settle()
            row, last = odd_offsets(batches, last, LOW, min(high, self._ceiling), row + 1)
        self._last = last
        drop_batches(batches, faults=MISPLACED)

    def _look_back(self, position: int) -> None:
        """Add to `_earlier` the sound batches of the split from byte `_earlier_end` to byte `position` (exclusive)."""
        found = []
        for part in read_segment(self._source, start=self._earlier_end, stop=position):
            if isinstance(part, Window):
                drop_batches(part.batches, faults=UNSOUND)
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    found.append((row.base_offset, row.last_offset, row.position))
        self._earlier = sorted(self._earlier + found) if found else self._earlier
        self._earlier_end = position

    def _doubled_offsets(self, window: Window, i: int, batch: BatchRow) -> tuple[set[int], bool]:
        """Return the offsets of a batch's records that earlier batches of the split also have, and whether these are
        all offsets of the batch."""
        before: set[int] = set()
        for first, last, position in self._earlier:
            if first <= batch.last_offset and last >= batch.base_offset:
                for part in read_segment(self._source, start=position, resync=False, window_bytes=offsets.PEEK_BYTES):
                    if isinstance(part, Window):
                        before |= _offsets(part, 0)
                    break
        own = _offsets(window, i)
        doubled = own & before
        return doubled, bool(own) and doubled == own

    def _behind(self) -> int:
        """Return the exclusive end offset of the split: the base offset of the batch that begins at byte `stop`;
        to_offset if the split ends with the segment, or no batch begins there."""
        split = self._split
        if split.stop is not None:
            following = offsets.batch_at(self._source, split.stop)
            if following is not None:
                return following.base_offset
        return split.to_offset

    def _settle(self, last: int, to_offset: int, *, at_end: bool = False) -> Iterator[pa.RecordBatch]:
        """Settle the damage that hides the offsets between `last` and `to_offset`, both exclusive: yield their records
        from the replica that has most of them. Raises CorruptLog if no replica has any, with onCorruption=fail.

        at_end: the damage is at the end of the segment.
        """
        split = self._split
        first, behind = max(last + 1, split.from_offset, split.first_offset), min(to_offset, split.to_offset)
        if first >= behind and (at_end or split.copies):
            self._findings.settle(is_missed=False)
            return
        best = self._best_copy(first, behind)
        self._findings.settle(read_from=None if best is None else best[0].files.directory)
        if best is not None:
            yield from self._rows.rest()
            for piece in splits([best[0]], _options(split)):
                yield from read(
                    piece, self._columns, on_corruption=OnCorruption.SKIP, include_control=self._include_control
                )

    def _best_copy(self, first: int, behind: int) -> tuple[Range, int] | None:
        """Return the offsets [first, behind) as a range of the replica that has most records of them, and the number of
        these records; None if no replica has one."""
        found: list[tuple[Range, int]] = []
        for directory in self._split.copies:
            try:
                replica_range = Range(refresh(directory), first, behind)
                pieces = splits([replica_range], _options(self._split))
                count = sum(
                    batch.num_rows
                    for piece in pieces
                    for batch in read(piece, ("offset",), on_corruption=OnCorruption.SKIP, include_control=True)
                )
            except UnreadableInput:
                continue
            if count:
                found.append((replica_range, count))
        return max(found, key=lambda pair: pair[1], default=None)

    def _segments(self) -> Iterator[SegmentFile]:
        """Yield the split's segment and the later segments of its log, then later segments of other replicas, which may
        contain offsets above the end of this log."""
        address = self._split.segment
        last = self._split.base_offset
        own: Iterable[SegmentFile]
        if self._split.remote is None:
            own = refresh(parent_of(address)).segments
        else:
            own = segments_with(self._split.remote, self._split.first_offset)
        for segment in own:
            if (
                self._split.remote is not None
                or segment.address == address
                or segment.base_offset > self._split.base_offset
            ):
                yield segment
                last = segment.base_offset
        for directory in self._split.copies:
            for segment, _ in refresh(directory).following(last):
                yield segment


def next_unsound(batches: BatchTable, i: int) -> int:
    """Return the row of the first unsound batch, at or after row i; -1 if there is none."""
    i = batches.first_fault(i)
    while i >= 0 and not batches.field(i, FAULTS) & UNSOUND:
        i = batches.first_fault(i + 1)
    return i


def _offsets(window: Window, i: int) -> set[int]:
    """Return the offsets of the readable records of batch i."""
    records = RecordTable(SLICE_RECORDS)
    found: set[int] = set()
    for _ in decode(window, records, first=i, last=i + 1):
        found.update(records.row(k)[0] for k in range(records.count))
    return found
