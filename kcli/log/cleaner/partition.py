"""What the cleaner knows of a partition before it begins; nothing is written here.

    segments             base offset, size, age; the last one is active
    log start offset     from log-start-offset-checkpoint, or the first segment
    log end offset       after the last sound batch of the active segment
    high watermark       from replication-offset-checkpoint, else the log end
    first unstable offset  where the first open transaction begins
    producers            the last data offset and epoch of each that has not expired

Producers come from the latest snapshot and the batches after it. Source: UnifiedLog, LogSegments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BatchRow
from formats.kernels.producers import ProducerTable
from formats.producer_snapshot import ProducerEntry
from formats.producer_snapshot import parse as parse_snapshot
from formats.txn_index import ENTRY as TXN_ENTRY
from formats.txn_index import AbortedTxn
from formats.txn_index import parse as parse_txn_index
from kcli.errors import KcliError, UnreadableInput
from kcli.log.batch_records import faults_of
from kcli.log.index_entries import OffsetIndexReader
from kcli.log.producer_state import read_control
from kcli.log.segment_reader import WINDOW_BYTES, Damage, Window, read_segment
from kcli.log.source import FileSource, read_whole

SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
TIME_ENTRY_BYTES = 12
FIRST_BYTES = 1 << 14
LAST_OFFSET = (1 << 63) - 1
NONE_BEHIND = f"no offset lies behind {LAST_OFFSET:,}"


class Uncleanable(KcliError):
    """A fault in the log, at which Kafka's cleaner marks the partition as uncleanable."""

    def __init__(self, path: Path, reason: str, position: int | None = None) -> None:
        place = "" if position is None else f" byte {position:,}:"
        super().__init__(f"{path}:{place} {reason}")
        self.path = path
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment as it lies on disk: its directory, its base offset, the size of its .log file in bytes, and when that
    was last changed (ms since 1970).

    known_aborted: the entries of the segment's transaction index, given if a running broker appends to that file;
    None: read the file.
    """

    directory: Path
    base_offset: int
    size: int
    modified_ms: int
    known_aborted: tuple[AbortedTxn, ...] | None = None

    def path(self, kind: FileKind = FileKind.LOG, state: str = "") -> Path:
        """Return the path of one of the segment's files. state: the suffix without its dot, `cleaned`, `swap` or
        `deleted`; empty for none."""
        return self.directory / build(FileName(kind, self.base_offset, state=state))

    def index_bytes(self, kind: FileKind) -> int:
        """Return the size in bytes of one of the segment's indexes; 0 if the file is missing."""
        try:
            return self.path(kind).stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def largest_timestamp(self) -> int | None:
        """The timestamp of the last entry in the segment's time index, in ms since 1970; None if there is none."""
        try:
            data = read_whole(self.path(FileKind.TIME_INDEX))
        except UnreadableInput:
            return None
        whole = len(data) // TIME_ENTRY_BYTES * TIME_ENTRY_BYTES
        last = int.from_bytes(data[whole - TIME_ENTRY_BYTES : whole - 4], signed=True) if whole else -1
        return last if last >= 0 else None

    @property
    def age_timestamp(self) -> int:
        """The time from which the segment's age counts, in ms since 1970: its largest timestamp, else the last change
        of its .log file."""
        largest = self.largest_timestamp
        return self.modified_ms if largest is None else largest

    def windows(
        self, *, start: int = 0, stop: int | None = None, check_crc: bool = True, window_bytes: int = WINDOW_BYTES
    ) -> Iterator[Window]:
        """Yield the segment's batches in bytes [start, stop) of its .log file (stop None: to its end), as windows.
        window_bytes: how many bytes to read at a time. Raises Uncleanable at damage, and with `check_crc` also at a
        wrong CRC."""
        stop = self.size if stop is None else stop
        if start >= stop:
            return
        source = FileSource(self.path())
        try:
            parts = read_segment(
                source, start=start, stop=stop, check_crc=check_crc, resync=False, window_bytes=window_bytes
            )
            for part in parts:
                if isinstance(part, Damage):
                    raise Uncleanable(self.path(), part.error.reason, part.position)
                bad = part.batches.first_fault()
                if bad >= 0:
                    fault = faults_of(part, bad)[0]
                    raise Uncleanable(self.path(), fault.reason, fault.position)
                yield part
        finally:
            source.close()

    def first_batch(self) -> BatchRow | None:
        """Return the header of the segment's first batch; None if the segment is empty."""
        for window in self.windows(check_crc=False, window_bytes=FIRST_BYTES):
            return BatchRow._make(window.batches.row(0))
        return None

    def aborted(self) -> tuple[AbortedTxn, ...]:
        """Return the entries of the segment's transaction index; none if it has no such file. Raises Uncleanable
        if an entry cannot be read."""
        if self.known_aborted is not None:
            return self.known_aborted
        path = self.path(FileKind.TXN_INDEX)
        if not path.exists():
            return ()
        data = read_whole(path)
        try:
            return parse_txn_index(data[: TXN_ENTRY.used(data)])
        except FormatError as error:
            raise Uncleanable(path, error.reason, error.position) from None


def find_segments(directory: Path) -> list[StoredSegment]:
    """Return the segments in a directory, by base offset. Raises UnreadableInput if the directory cannot be read or
    has no segment, Uncleanable if it has `.swap` or `.cleaned` files: Kafka completes that cleaning, or undoes it,
    at its next start."""
    found = []
    try:
        for path in directory.iterdir():
            name = parse(path.name)
            if name is None:
                continue
            if name.state in ("swap", "cleaned"):
                reason = f"{path.name}: a cleaning was interrupted here; start Kafka on it or run kcli recover first"
                raise Uncleanable(directory, reason)
            if name.kind is FileKind.LOG and not name.state and name.base_offset is not None:
                stat = path.stat()
                found.append(StoredSegment(directory, name.base_offset, stat.st_size, stat.st_mtime_ns // 1_000_000))
    except OSError as error:
        raise UnreadableInput.of(directory, error) from error
    if not found:
        raise UnreadableInput(str(directory), "no segment in this directory")
    return sorted(found, key=lambda segment: segment.base_offset)


@dataclass
class CleanerLog:
    """A partition as the cleaner sees it. `segments` changes during a pass; offsets and producers do not.

    first_unstable_offset: the first offset of the first open transaction; None if no transaction is open. producers:
    last data offset and epoch, by producer id. merged: base offsets of segments that were merged into others.
    """

    directory: Path
    segments: list[StoredSegment]
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    first_unstable_offset: int | None
    producers: dict[int, tuple[int, int]]
    merged: set[int] = field(default_factory=set)

    @property
    def active(self) -> StoredSegment:
        """The active segment: the last one, to which brokers append."""
        return self.segments[-1]

    @property
    def size(self) -> int:
        """Bytes of all segments' .log files."""
        return sum(segment.size for segment in self.segments)

    def between(self, start: int, stop: int) -> list[StoredSegment]:
        """Return the segments that hold offsets in [start, stop): from the last one with a base offset at or below
        `start` (else from the first one) to the last one with a base offset below `stop`. Source:
        LogSegments.values."""
        if start >= stop:
            return []
        floor = max((each.base_offset for each in self.segments if each.base_offset <= start), default=-1)
        return [segment for segment in self.segments if floor <= segment.base_offset < stop]

    def closed_from(self, offset: int) -> list[StoredSegment]:
        """Return the segments from the one to which `offset` belongs up to the last one before the active segment."""
        return self.between(offset, self.active.base_offset)

    def next_base_offset(self, segment: StoredSegment) -> int:
        """Return the base offset of the segment after `segment`; for the active one the log end offset."""
        behind = [each.base_offset for each in self.segments if each.base_offset > segment.base_offset]
        return min(behind, default=self.log_end_offset)

    def aborted(self, start: int, stop: int) -> list[AbortedTxn]:
        """Return the aborted transactions that begin below `stop`, from the transaction indexes of the segment that
        holds `start` and the segments after it. Source: LocalLog.collectAbortedTransactions."""
        found: list[AbortedTxn] = []
        for segment in self.between(start, self.log_end_offset + 1):
            for entry in segment.aborted():
                if entry.last_offset >= self.log_start_offset and entry.first_offset < stop:
                    found.append(entry)
                if entry.last_stable_offset >= stop:
                    return found
        return found

    def replace(self, old: Sequence[StoredSegment], new: Sequence[StoredSegment]) -> None:
        """Put the segments `new` in place of `old` in `segments`, after their files have been replaced on disk."""
        merged = {segment.base_offset for segment in old}
        kept = [segment for segment in self.segments if segment.base_offset not in merged]
        self.segments = sorted([*kept, *new], key=lambda segment: segment.base_offset)
        self.merged |= merged - {segment.base_offset for segment in new}


def read_log(
    directory: Path,
    *,
    now_ms: int,
    producer_expiration_ms: int,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
) -> CleanerLog:
    """Return the log in a directory that no process has open. log_start_offset, high_watermark: the partition's entries
    in the checkpoints (None: it has none). producer_expiration_ms: producer.id.expiration.ms.

    Raises UnreadableInput, Uncleanable.
    """
    segments = find_segments(directory)
    start, end = max(log_start_offset, segments[0].base_offset), _read_log_end(segments[-1])
    if high_watermark is None or not start <= high_watermark < end:
        high_watermark = end
    log = CleanerLog(directory, segments, start, end, high_watermark, None, {})
    table = _load_producers(log)
    ongoing = table.ongoing()
    log.first_unstable_offset = ongoing[0][0] if ongoing else None
    log.producers = active_producers(table, now_ms, producer_expiration_ms)
    return log


def active_producers(table: ProducerTable, now_ms: int, expiration_ms: int) -> dict[int, tuple[int, int]]:
    """Return, by producer id, the last data offset and the epoch of each producer in `table` that has a transaction
    open or has not expired. expiration_ms: producer.id.expiration.ms."""
    entries = map(ProducerEntry._make, table.entries())
    return {
        entry.producer_id: (entry.last_offset, entry.producer_epoch)
        for entry in entries
        if entry.current_txn_first_offset >= 0 or now_ms - entry.timestamp < expiration_ms
    }


def _read_log_end(active: StoredSegment) -> int:
    """Return the offset after the last batch of the active segment; batches are read from the position in the last
    entry of the offset index on. Raises Uncleanable."""
    start = 0
    path = active.path(FileKind.OFFSET_INDEX)
    if path.exists():
        index = OffsetIndexReader(read_whole(path), active.base_offset)
        while index.count and index.entry(index.count - 1)[1] == 0:
            index.count -= 1  # the last entry is preallocated zeros
        if index.count and index.entry(index.count - 1)[1] < active.size:
            start = index.entry(index.count - 1)[1]
    end = active.base_offset
    for window in active.windows(start=start, check_crc=False):
        end = BatchRow._make(window.batches.row(window.batches.count - 1)).last_offset + 1
    if end > LAST_OFFSET:
        raise Uncleanable(active.path(), NONE_BEHIND)
    return end


def _load_producers(log: CleanerLog) -> ProducerTable:
    table = ProducerTable(read_control)
    known = log.log_start_offset
    for offset in _snapshot_offsets(log):
        path = log.directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, offset))
        try:
            entries = parse_snapshot(read_whole(path)).entries
        except FormatError:
            continue  # like Kafka, try the snapshot before this one
        for entry in entries:
            table.load(entry)
        known = offset
        break
    for segment in log.between(known, log.log_end_offset):
        for window in segment.windows(check_crc=False):
            if BatchRow._make(window.batches.row(window.batches.count - 1)).last_offset >= known:
                _take_in(table, window, known)
    return table


def _snapshot_offsets(log: CleanerLog) -> list[int]:
    """Return the offsets of the producer snapshots above the log start offset and not above the log end offset, the
    latest first."""
    names = [parse(path.name) for path in log.directory.glob(f"*{FileKind.PRODUCER_SNAPSHOT}")]
    found = [name.base_offset for name in names if name and name.base_offset is not None]
    return sorted((each for each in found if log.log_start_offset < each <= log.log_end_offset), reverse=True)


def _take_in(table: ProducerTable, window: Window, from_offset: int) -> None:
    """Update the producer state with the batches of a window that begin at `from_offset` or after it."""
    window.batches.select(from_offset=from_offset)
    table.batches(window.batches, window.data)
