"""The log start offset, log end offset and last stable offset of a partition, and the first offset at a timestamp.

    log start offset     the larger of log-start-offset-checkpoint's entry and the first offset of the first segment
    log end offset       one above the last offset of the last sound batch in the last segment
    last stable offset   the first offset of the oldest open transaction; open transactions come from the latest sound
                         producer snapshot and from the batches above it

A batch is sound if its CRC, magic and header are right, so that a consumer accepts it; a checkpoint, index or snapshot
is sound if it can be parsed and its checksum, if it has one, is right. Source: UnifiedLog, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from formats import txn_index
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.batches import drop_batches
from formats.kernels.columns import BASE_OFFSET, BatchRow
from formats.kernels.records import RecordTable
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import AbortedTxn
from kcli.errors import UnreadableInput
from kcli.export.discovery import PartitionFiles, SegmentFile
from kcli.export.files import open_source, read_file
from kcli.inspector.seek import seek
from kcli.inspector.selection import ALL, Selection
from kcli.log.batch_records import decode
from kcli.log.read_only.survey import BEGIN, UNSOUND, Survey
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import Source

MAX_OFFSET = (1 << 63) - 1
PEEK_BYTES = 1 << 12
SLICE_RECORDS = 1 << 12


def log_start(files: PartitionFiles) -> int:
    """Return the log start offset: the first offset that a consumer may read, also if the tier lacks it. Without
    segments it is the checkpoint's, or 0 if the checkpoint has no entry for the partition. Raises UnreadableInput."""
    if not files.segments:
        return files.log_start_offset or 0
    segment = files.segments[0]
    first = _first_offset(segment) if segment.first_offset is None else segment.first_offset
    if files.missing:
        first = min(first, files.missing[0].first)
    checkpointed = files.log_start_offset
    return first if checkpointed is None or checkpointed < first else checkpointed


def _first_offset(segment: SegmentFile) -> int:
    """Return the base offset in a segment's name, or the base offset of its first batch if that batch is sound and its
    base offset is smaller."""
    source = open_source(segment.address)
    try:
        row = batch_at(source, 0)
    finally:
        source.close()
    if row is None or row.faults or row.base_offset < 0:
        return segment.base_offset
    return min(segment.base_offset, row.base_offset)


def batch_at(source: Source, position: int) -> BatchRow | None:
    """Return the batch that begins at a byte position, sound or not; None if no batch does. Raises UnreadableInput."""
    part = next(read_segment(source, start=position, resync=False, window_bytes=PEEK_BYTES), None)
    return BatchRow._make(part.batches.row(0)) if isinstance(part, Window) else None


def log_end(files: PartitionFiles) -> int:
    """Return the log end offset: one above the last offset of the last sound batch. If the last segment has no sound
    batch, it is that segment's base offset; without segments, the checkpoint's log start offset, else 0. Raises
    UnreadableInput."""
    if not files.segments:
        return files.log_start_offset or 0
    segment = files.segments[-1]
    end = segment.begin
    source = open_source(segment.address)
    try:
        start = find(source, segment, ALL.narrowed(from_offset=MAX_OFFSET))
        for window in sound_windows(source, start):
            for i in range(window.batches.count):
                end = max(end, BatchRow._make(window.batches.row(i)).last_offset + 1)
        return end if segment.next_offset is None else min(end, segment.next_offset)
    finally:
        source.close()


def last_stable_offset(files: PartitionFiles, end: int) -> int:
    """Return the last stable offset, at most `end`: where a read_committed consumer stops. Raises UnreadableInput."""
    at, unfinished = snapshot_transactions(files, end)
    follow_transactions(files, at, end, unfinished)
    for entry in indexed_aborts(files) if unfinished else ():
        begun = unfinished.get(entry.producer_id, end)
        if entry.first_offset <= begun <= entry.last_offset < end and not _is_readable(files, entry.last_offset):
            del unfinished[entry.producer_id]  # the marker was not read, as its batch is damaged
    return min([end, *unfinished.values()])


def _is_readable(files: PartitionFiles, offset: int) -> bool:
    """Whether a sound batch has this offset."""
    segment, _ = next(files.following(offset))
    source = open_source(segment.address)
    try:
        for window in sound_windows(source, find(source, segment, ALL.narrowed(from_offset=offset))):
            window.batches.select(from_offset=offset)
            if window.batches.count:
                return window.batches.field(0, BASE_OFFSET) <= offset
        return False
    finally:
        source.close()


def snapshot_transactions(files: PartitionFiles, end: int) -> tuple[int, dict[int, int]]:
    """Return the offset of the latest sound producer snapshot at or below `end`, and the transactions open at that
    offset: their first offsets by producer id. Without such a snapshot, return 0 and {}."""
    at, entries = _latest_snapshot(files, end)
    return at, {e.producer_id: e.current_txn_first_offset for e in entries if e.current_txn_first_offset >= 0}


def follow_transactions(files: PartitionFiles, at: int, end: int, unfinished: dict[int, int]) -> None:
    """Update `unfinished` from the transactions open at offset `at` to those open at offset `end`, by reading the
    batches with offsets in [at, end). Raises UnreadableInput.

    unfinished: the first offset of each open transaction, by producer id; changed in place.
    """
    for segment, next_base in files.following(at):
        if segment.begin >= end:
            break
        source = open_source(segment.address)
        try:
            survey = Survey()
            for part in read_segment(source, start=find(source, segment, ALL.narrowed(from_offset=at))):
                if isinstance(part, Window):
                    survey.add(part, next_base)
                    part.release()
                    if survey.last_offset >= end - 1:
                        break
        finally:
            source.close()
        for offset, producer, kind in survey.events():
            if not at <= offset < end or not segment.has(offset):
                continue
            if kind == BEGIN:
                unfinished.setdefault(producer, offset)
            else:
                unfinished.pop(producer, None)


def indexed_aborts(files: PartitionFiles, start: int = 0) -> list[AbortedTxn]:
    """Return the entries of all sound transaction indexes (`.txnindex`) of a partition, from the segment of offset
    `start` on."""
    found: list[AbortedTxn] = []
    for segment, _ in files.following(start):
        address = segment.index(FileKind.TXN_INDEX)
        if address is not None:
            try:
                found += (each for each in txn_index.parse(read_file(address)) if segment.has(each.last_offset))
            except (FormatError, UnreadableInput):
                continue  # skip a damaged index: the log has markers of the same transactions
    return found


def _latest_snapshot(files: PartitionFiles, end: int) -> tuple[int, list[ProducerEntry]]:
    """Return the offset and entries of the latest sound producer snapshot at or below `end`; 0 and [] without one."""
    for at, address in reversed(files.snapshots):
        if at <= end:
            try:
                return at, list(parse_snapshot(read_file(address)).entries)
            except (FormatError, UnreadableInput):
                continue  # skip a damaged snapshot: an older one and the batches above it give the same state
    return 0, []


def offset_for_time(files: PartitionFiles, time_ms: int) -> int | None:
    """Return the offset of the first record whose timestamp is `time_ms` (epoch ms) or later; None if there is no such
    record. Raises UnreadableInput."""
    records = RecordTable(SLICE_RECORDS)
    for segment in files.segments:
        if segment.latest_ms is not None and segment.latest_ms < time_ms:
            continue
        selection = Selection(from_time_ms=time_ms)
        if segment.next_offset is not None:
            selection = selection.narrowed(from_offset=segment.begin, to_offset=segment.next_offset)
        source = open_source(segment.address)
        try:
            for window in sound_windows(source, find(source, segment, selection)):
                selection.batches(window.batches)
                for _ in decode(window, records):
                    selection.records(records, 1)
                    if records.count:
                        return records.row(0)[0]
                window.release()
        finally:
            source.close()
    return None


def find(source: Source, segment: SegmentFile, selection: Selection) -> int:
    """Return the byte position from which to read a segment to find the first record that `selection` selects by offset
    or timestamp. The position is looked up in the segment's index files."""
    return seek(source, segment.base_offset, index_reader(segment), selection)


def index_reader(segment: SegmentFile) -> Callable[[FileKind], bytes]:
    """Return a function that reads a segment's index file of a kind; the function raises UnreadableInput."""

    def read_index(kind: FileKind) -> bytes:
        address = segment.index(kind)
        if address is None:
            raise UnreadableInput(segment.address, f"no {kind} file beside it")
        return read_file(address)

    return read_index


def sound_windows(source: Source, start: int) -> Iterator[Window]:
    """Yield the windows of a segment from byte position `start` on, without the batches that a consumer would refuse
    (such as those with a wrong CRC)."""
    for part in read_segment(source, start=start):
        if isinstance(part, Window):
            drop_batches(part.batches, faults=UNSOUND)
            yield part
