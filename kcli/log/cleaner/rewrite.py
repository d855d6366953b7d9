"""Rewrites a group of segments into one segment with its indexes.

    windows in order  ->  find the aborted batches and the expired markers         one after the other
                      ->  find the records that stay, build and compress batches   several threads
                      ->  append to the new .log file, add index entries           in order

If the offset map has a bit for every offset, which marks the records that are the latest of their keys, the batches
from which it was filled are not hashed again, and windows without such a record are not read again. A batch of which
every record stays is copied byte for byte. Any other batch is built again as magic 2 with its own codec at the codec's
default level: as in Kafka, compression.type does not matter here. Header keys that are not UTF-8 stay as they are;
Kafka would replace their invalid bytes. A batch with a wrong CRC makes the log uncleanable; Kafka does not check the
CRC. Source: Cleaner.cleanSegments, cleanInto; MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from formats.compression import compress
from formats.file_name import FileKind
from formats.kernels.cleaner.batch_filter import CLEAN_REASONS, FILTER_FAULTS, BatchFilter
from formats.kernels.cleaner.key_map import KeyMap
from formats.kernels.cleaner.transactions import CLEAN_DISCARD, CLEAN_RETAIN_EMPTY, CleanedTransactions
from formats.kernels.columns import FAULTS, POSITION, BatchRow
from formats.kernels.indexes import SegmentIndexes
from formats.kernels.records import RecordTable
from formats.txn_index import AbortedTxn
from formats.txn_index import build as build_txn_index
from kcli.log.cleaner.offset_map import MARKER_FAULTS, Judged, SurveyedWindows, payload_of
from kcli.log.cleaner.partition import CleanerLog, StoredSegment, Uncleanable
from kcli.log.cleaner.progress import Progress
from kcli.log.disk import Disk, DiskFile
from kcli.log.segment_reader import Window
from kcli.log.threads import in_order

WRAPPED_MESSAGE_BYTES = 26  # the smallest size of a message (magic 0) inside a compressed one


@dataclass(slots=True)
class CleanCounts:
    """The counts of records and batches that a cleaning kept and removed. batches_emptied: the batches that stay as a
    header without records. horizons_set: the batches that got a delete horizon (KIP-534). dropped: by reason, the
    number of removed records and their uncompressed bytes."""

    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    batches_read: int = 0
    batches_kept: int = 0
    batches_emptied: int = 0
    horizons_set: int = 0
    dropped: dict[str, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(CLEAN_REASONS, (0, 0)))

    def add_filter(self, batches: BatchFilter) -> None:
        """Add the counts of a BatchFilter, for the batches that it has filtered."""
        self.records_read += batches.records_read
        self.records_kept += batches.records_kept
        self.batches_read += batches.batches_read
        self.batches_kept += batches.batches_kept
        self.batches_emptied += batches.batches_emptied
        self.horizons_set += batches.horizons_set
        self._add_dropped(dict(zip(CLEAN_REASONS, batches.reasons, strict=True)))

    def add_superseded(self, batches: int, records: int, size: int) -> None:
        """Add the counts of batches in which every record is superseded by a later record of its key. size: bytes of
        the records."""
        self.batches_read += batches
        self.records_read += records
        self._add_dropped({CLEAN_REASONS[0]: (records, size)})

    def add(self, other: CleanCounts) -> None:
        """Add the counts of another CleanCounts."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._add_dropped(other.dropped)

    def _add_dropped(self, dropped: Mapping[str, tuple[int, int]]) -> None:
        for reason, (records, size) in dropped.items():
            before = self.dropped[reason]
            self.dropped[reason] = (before[0] + records, before[1] + size)


COUNTED = (
    "bytes_read",
    "bytes_written",
    "records_read",
    "records_kept",
    "batches_read",
    "batches_kept",
    "batches_emptied",
    "horizons_set",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The values that decide, for a whole pass, which records stay."""

    offset_map: KeyMap
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int  # tombstones of magic 0 and 1 are removed from segments last changed before this time
    end_offset: int  # the first uncleanable offset
    index_interval_bytes: int
    threads: int
    progress: Progress
    surveyed: SurveyedWindows


def clean_group(
    log: CleanerLog,
    group: list[StoredSegment],
    transactions: CleanedTransactions,
    rules: Rules,
    target: CleanedSegment | None,
) -> CleanCounts:
    """Rewrite the segments of a group into `target` (None: write nothing), and return the counts. transactions: the
    state of the log's transactions, which continues from group to group. rules: those of the pass. Raises Uncleanable,
    OSError."""
    counts = CleanCounts()
    transactions.cleaned_index = []
    for i, segment in enumerate(group):
        behind = group[i + 1].base_offset if i + 1 < len(group) else log.next_base_offset(segment)
        transactions.add_aborted(log.aborted(segment.base_offset, behind))
        filters: list[BatchFilter] = []
        free: list[BatchFilter] = []

        def new_filter(keep_deletes: bool, made: list[BatchFilter] = filters) -> BatchFilter:
            made.append(
                BatchFilter(
                    rules.offset_map,
                    now_ms=rules.now_ms,
                    delete_retention_ms=rules.delete_retention_ms,
                    keep_legacy_deletes=keep_deletes,
                )
            )
            return made[-1]

        def work(
            judged: Judged,
            free: list[BatchFilter] = free,
            keep_deletes: bool = segment.modified_ms > rules.legacy_horizon_ms,
        ) -> tuple[BatchFilter, int]:
            batches = free.pop() if free else new_filter(keep_deletes)
            filter_window(judged, batches)
            judged.window.release()
            return batches, judged.window.stop

        for batches, size in in_order(work, _judged(log, segment, transactions, rules, counts), rules.threads):
            if target is not None:
                with memoryview(batches.out) as out:
                    target.append(out)
            counts.bytes_written += batches.out.size
            batches.out.clear()
            free.append(batches)
            rules.progress(size)
        counts.bytes_read += segment.size
        for each in filters:
            counts.add_filter(each)
    if target is not None:
        target.finish(tuple(AbortedTxn(*entry) for entry in transactions.cleaned_index), group[-1].modified_ms)
    return counts


def _judged(
    log: CleanerLog, segment: StoredSegment, transactions: CleanedTransactions, rules: Rules, counts: CleanCounts
) -> Iterator[Judged]:
    for window in _windows(segment, rules, counts):
        flags = transactions.judge(
            window.data,
            window.batches,
            partial(payload_of, window),
            producers=log.producers,
            end_offset=rules.end_offset,
            now_ms=rules.now_ms,
        )
        judged = Judged(segment, window, flags)
        judged.check(MARKER_FAULTS)
        yield judged


def _windows(segment: StoredSegment, rules: Rules, counts: CleanCounts) -> Iterator[Window]:
    """Yield the windows of a segment. Windows in which every record is known to be superseded are not read, but only
    added to `counts`."""
    start = surveyed_end = 0
    for each in rules.surveyed.get(segment.base_offset, ()):
        surveyed_end = each.stop
        if each.records < 0 or each.last_offset + 1 >= rules.end_offset:
            continue
        if rules.offset_map.all_superseded(each.first_offset, each.last_offset):
            yield from segment.windows(start=start, stop=each.position, check_crc=False)
            counts.add_superseded(each.batches, each.records, each.size)
            rules.progress(each.stop - each.position)
            start = each.stop
    yield from segment.windows(start=start, stop=surveyed_end, check_crc=False)
    yield from segment.windows(start=surveyed_end)


def filter_window(judged: Judged, batches: BatchFilter) -> None:
    """Write the batches of a window to `batches.out`, without the records that compaction removes. Raises
    Uncleanable."""
    window, flags = judged.window, judged.flags
    i = 0
    while True:
        i = batches.run(window.data, window.batches, flags, i)
        if batches.fault:
            raise _fault(judged, batches)
        if i >= window.batches.count:
            return
        if flags[i] & (CLEAN_DISCARD | CLEAN_RETAIN_EMPTY) != CLEAN_DISCARD:
            _compressed(judged, batches, i)
        i += 1


def _compressed(judged: Judged, batches: BatchFilter, i: int) -> None:
    window = judged.window
    row = BatchRow._make(window.batches.row(i))
    payload = payload_of(window, i)
    if window.batches.field(i, FAULTS) & MARKER_FAULTS:
        raise judged.fail_at(i)
    if row.magic >= 2:
        anew = batches.payload(window.data, window.batches, i, judged.flags[i], payload)
    else:
        records = RecordTable(len(payload) // WRAPPED_MESSAGE_BYTES + 1)
        records.start(payload, window.batches, i, i + 1, payload=True)
        records.next()
        judged.check(MARKER_FAULTS)
        anew = batches.wrapped(records, i, judged.flags[i])
    if batches.fault:
        raise _fault(judged, batches)
    if anew:
        with memoryview(batches.records) as records_bytes:
            batches.finish(compress(row.codec, records_bytes))


def _fault(judged: Judged, batches: BatchFilter) -> Uncleanable:
    position = judged.window.batches.field(batches.fault_batch, POSITION)
    return Uncleanable(judged.segment.path(), FILTER_FAULTS[batches.fault], position)


class CleanedSegment:
    """The segment into which a group of segments is rewritten. Its files have the suffix `.cleaned`
    until it is swapped in."""

    def __init__(self, disk: Disk, directory: Path, base_offset: int, index_interval_bytes: int) -> None:
        """Create the files; those that an earlier attempt left are removed. Raises OSError."""
        self.segment = StoredSegment(directory, base_offset, 0, 0)
        self._disk = disk
        self._indexes = SegmentIndexes(base_offset, index_interval_bytes)
        self._file: DiskFile | None = None
        self.discard()
        self._file = disk.open(self._path(FileKind.LOG), create=True, truncate=True)

    def _path(self, kind: FileKind) -> Path:
        return self.segment.path(kind, "cleaned")

    def append(self, batches: memoryview) -> None:
        """Append whole batches. Raises Uncleanable if an offset does not fit the segment, OSError."""
        assert self._file is not None, "the segment is finished"
        position = self._indexes.position
        self._indexes.add(batches)
        if self._indexes.overflow:
            raise Uncleanable(self.segment.path(), "offsets or bytes further apart than a segment can hold")
        self._file.write([batches], position)

    def finish(self, aborted: tuple[AbortedTxn, ...], modified_ms: int) -> None:
        """Write the indexes, sync all files, and set their modification time to `modified_ms`. aborted: the entries of
        the transaction index. modified_ms: that of the last segment of the group, in ms since 1970. Raises OSError."""
        assert self._file is not None, "the segment is finished"
        self._indexes.finish()
        self._file.sync()
        self._close()
        self._write(FileKind.OFFSET_INDEX, bytes(self._indexes.offsets))
        self._write(FileKind.TIME_INDEX, bytes(self._indexes.times))
        if aborted:
            self._write(FileKind.TXN_INDEX, build_txn_index(aborted))
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            self._disk.set_modified(self._path(kind), modified_ms)
        self.segment = StoredSegment(
            self.segment.directory, self.segment.base_offset, self._indexes.position, modified_ms
        )

    def _write(self, kind: FileKind, data: bytes) -> None:
        with self._disk.open(self._path(kind), create=True, truncate=True) as file:
            file.write([data], 0)
            file.sync()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def discard(self) -> None:
        """Remove the files."""
        self._close()
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.LOG):
            self._disk.remove(self._path(kind))
