"""A segment of an open log: appended to, read, rolled, truncated, deleted.

    append   one write of all bytes, then the index entries that are due
    locate   the byte at which the batch with an offset begins: by the index, then by batch headers
    roll     the segment is no longer active: the closing entry of the time index is written, the indexes are trimmed

Files are opened at their first use. Source: LogSegment, FileRecords, TransactionIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

from formats.errors import BadLength, Truncated
from formats.file_name import FileKind, FileName, build
from formats.kernels.append import SegmentState
from formats.kernels.batches import BatchTable
from formats.kernels.columns import RecordRow
from formats.kernels.indexes import AppendIndexer
from formats.kernels.records import RecordTable
from formats.kernels.scan import scan
from formats.txn_index import ENTRY as TXN_ENTRY
from formats.txn_index import AbortedTxn
from formats.txn_index import parse as parse_txn_index
from kcli.log.batch_records import decode
from kcli.log.disk import Disk, DiskFile
from kcli.log.index_entries import whole_entries
from kcli.log.live.index import NO_TIMESTAMP, LiveOffsetIndex, LiveTimeIndex
from kcli.log.partition_view import Content, ContentSource, FileRange
from kcli.log.segment_reader import Window

INT_MAX = 2**31 - 1
HEADER_CHUNK_BYTES = 8192
HEADER_BYTES = 61
LEGACY_HEAD_BYTES = 26
OVERHEAD_BYTES = 12
DELETED = ".deleted"
Index = TypeVar("Index", LiveOffsetIndex, LiveTimeIndex)
KINDS = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
HEADER = struct.Struct(">qiibIhiqq")


class SegmentLimits(NamedTuple):
    """The topic's limits for a segment, in bytes. preallocate_bytes: the size at which a new .log file is created; 0
    without `preallocate`."""

    index_interval_bytes: int
    max_index_bytes: int
    preallocate_bytes: int


class BatchHead(NamedTuple):
    """The header of a batch, and its first byte (`position`) and size in the .log file. max_timestamp: in ms since
    1970, -1 if there is none. For magic 0 and 1, base_offset is the offset of the last record."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int


class FoundRecord(NamedTuple):
    """The record that a search by timestamp found. timestamp: in ms since 1970. leader_epoch: that of its batch, -1 if
    the batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


class LiveSegment(SegmentState):
    """The files of one segment.

    size: the bytes of the .log file that hold batches. created_ms: when the segment was created or opened. is_closed:
    whether it is no longer part of a log that is in use.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        limits: SegmentLimits,
        *,
        size: int | None,
        created_ms: int,
        jitter_ms: int = 0,
    ) -> None:
        """size: bytes of the existing .log file; None creates a new segment, which replaces any files of that base
        offset. jitter_ms: by how much before segment.ms the segment is rolled."""
        self.base_offset = base_offset
        self.size = 0 if size is None else size
        self.jitter_ms = jitter_ms
        self._created_ms = created_ms
        self._head_bytes = HEADER_BYTES  # bytes read for the next header; more if batches are small
        self._disk = disk
        self._limits = limits
        self._log: DiskFile | None = None
        self._indexer: AppendIndexer | None = None
        self._first_timestamp: int | None = None
        self._aborted: list[AbortedTxn] | None = None
        self._offsets: LiveOffsetIndex | None = None
        self._times: LiveTimeIndex | None = None
        self._directory = directory
        self.is_closed = False
        self._is_active = False
        self.log_path = self._path(FileKind.LOG)
        if size is None:
            try:
                self._create()
            except BaseException:
                self.close(keep_entries=False)
                raise

    def _create(self) -> None:
        self._disk.remove(self._path(FileKind.TXN_INDEX))
        self._log = self._disk.open(self.log_path, create=True, truncate=True)
        if self._limits.preallocate_bytes:
            self._log.truncate(self._limits.preallocate_bytes)
        self._offsets = self._index(LiveOffsetIndex, FileKind.OFFSET_INDEX, create=True)
        self._times = self._index(LiveTimeIndex, FileKind.TIME_INDEX, create=True)
        self._offsets.first = self._times

    def _path(self, kind: FileKind) -> Path:
        return self._directory / build(FileName(kind, self.base_offset))

    def _index(self, index: type[Index], kind: FileKind, *, create: bool = False) -> Index:
        return index(self._disk, self._path(kind), self.base_offset, self._limits.max_index_bytes, create=create)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of the segment, whether they exist or not."""
        return tuple(map(self._path, KINDS))

    @property
    def offsets(self) -> LiveOffsetIndex:
        """The offset index; it is opened at the first access."""
        if self._offsets is None:
            self._offsets = self._index(LiveOffsetIndex, FileKind.OFFSET_INDEX)
        return self._offsets

    @property
    def times(self) -> LiveTimeIndex:
        """The time index; it is opened at the first access."""
        if self._times is None:
            self._times = self._index(LiveTimeIndex, FileKind.TIME_INDEX)
        return self._times

    @property
    def log(self) -> DiskFile:
        """The .log file; it is opened at the first access."""
        if self._log is None:
            self._log = self._disk.open(self.log_path)
        return self._log

    @property
    def is_open(self) -> bool:
        """Whether the segment's files are open."""
        return self._log is not None and self._offsets is not None and self._times is not None

    # appending batches

    def activate(self) -> None:
        """Make this the active segment of an opened log: indexes at full size, and all files open, so that no append
        lacks a descriptor."""
        self._log = self.log
        self.offsets.grow()
        self.times.grow()
        self.offsets.first = self.times
        self._is_active = True

    def is_full_for(self, offset: int) -> bool:
        """Whether an index is full, or `offset` exceeds the base offset by more than an int32."""
        if not self._is_active:
            self.activate()
        return self.offset_slots <= 0 or self.time_slots <= 0 or not 0 <= offset - self.base_offset <= INT_MAX

    @property
    def offset_slots(self) -> int:
        """How many entries the offset index has room for."""
        return self.offsets.slots - self.offsets.count

    @property
    def time_slots(self) -> int:
        """How many entries the time index has room for, besides its closing entry."""
        return self.times.slots - self.times.count - 1

    def append(self, data: bytes | bytearray | memoryview, batches: BatchTable) -> None:
        """Append whole batches, whose rows are in `batches`."""
        self.log.write([data], self.size)
        entries, time_entries = self.indexer.append(batches, self.size, self.offset_slots, self.time_slots)
        self.size += len(data)
        self.offsets.append(entries)
        self.times.append(time_entries)

    def write_waiting(self) -> None:
        """Write the index entries that wait in memory."""
        for index in (self._offsets, self._times):
            if index is not None:
                index.write_waiting()

    def add_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Append entries to the transaction index; the file is created with its first entry."""
        known = self.aborted()
        with self._disk.open(self._path(FileKind.TXN_INDEX), create=True) as file:
            file.write([TXN_ENTRY.pack_all(transactions)], len(known) * TXN_ENTRY.size)
        known += transactions

    def waited_ms(self, now_ms: int, timestamp: int) -> int:
        """Return the age in ms that is compared with segment.ms: from the first batch's timestamp to `timestamp`; if
        that batch has no timestamp, from the segment's creation to `now_ms`."""
        first = self.first_timestamp
        return timestamp - first if first >= 0 else now_ms - self._created_ms

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 if there is no batch, or it has no timestamp."""
        if self._first_timestamp is None and (first := next(self.heads(0), None)) is not None:
            self._first_timestamp = first.max_timestamp
        return NO_TIMESTAMP if self._first_timestamp is None else self._first_timestamp

    @property
    def indexer(self) -> AppendIndexer:
        """The compiled code that makes the index entries of appended batches."""
        if self._indexer is None:
            timestamp, offset = self.times.last()
            self._indexer = self._new_indexer(timestamp, timestamp, offset)
        return self._indexer

    def _new_indexer(self, indexed: int, largest: int, largest_offset: int) -> AppendIndexer:
        return AppendIndexer(self.base_offset, self._limits.index_interval_bytes, indexed, largest, largest_offset)

    # reading batches

    @property
    def largest(self) -> tuple[int, int]:
        """The largest timestamp (-1: none) and the last offset of the batch that has it."""
        if self._indexer is None:
            return self.times.last()
        return self._indexer.max_timestamp, self._indexer.max_timestamp_offset

    @property
    def age_timestamp(self) -> int:
        """The largest timestamp of a record, in ms since 1970; if there is none, the last change of the .log
        file."""
        timestamp = self.largest[0]
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the .log file was last written, in ms since 1970."""
        return self.log_path.stat().st_mtime_ns // 1_000_000

    def heads(self, position: int) -> Iterator[BatchHead]:
        """Yield the batches from byte `position` on, where a batch must begin. As in Kafka's FileLogInputStream, an
        incomplete batch at the end is left out. Only headers are read: each by itself while the batches are larger than
        HEADER_CHUNK_BYTES, as those of most producers are, else as many as a chunk has."""
        end = self.size
        while position < end:
            wanted = min(self._head_bytes, end - position)
            chunk = self.log.read(wanted, position)
            if len(chunk) < min(wanted, HEADER_BYTES):
                raise Truncated(f"the log ends {end - position:,} bytes early", position)
            at = 0
            while at + HEADER_BYTES <= len(chunk) or (at < len(chunk) and position + len(chunk) >= end):
                head = _head(chunk, at, position + at, end)
                if head is None:
                    return
                self._head_bytes = HEADER_BYTES if head.size > HEADER_CHUNK_BYTES else HEADER_CHUNK_BYTES
                yield head
                at += head.size
            position += at

    def locate(self, offset: int) -> BatchHead | None:
        """Return the batch with `offset`, else the first one after it; None if the segment has neither."""
        before = None
        for head in self.heads(self.offsets.lookup(offset)):
            if head.base_offset >= offset:
                return before if head.base_offset > offset and before and before.last_offset >= offset else head
            before = head
        return before if before is not None and before.last_offset >= offset else None

    def whole_bytes(self, start: int, length: int) -> tuple[int, int | None]:
        """Return how many of the `length` bytes from byte `start` on are whole batches, and the base offset of the
        batch after these; None in its place if there is no such batch, or its header was not read."""
        end = start + length
        if end >= self.size:
            return self.size - start, None
        at = max(start, self.offsets.end_within(end))
        for head in self.heads(at):
            if head.position + head.size > end:
                return at - start, head.base_offset
            at = head.position + head.size
        return at - start, None

    def source(self) -> ContentSource:
        """Return the .log file as a source to read in order. The caller closes it."""
        return ContentSource(str(self.log_path), Content((FileRange(self.log_path, 0, self.size),)))

    def window(self, head: BatchHead) -> Window:
        """Read the batch of which `head` is the header, with all its bytes, and return it as a window."""
        data = bytearray(self.log.read(head.size, head.position))
        table = BatchTable()
        scan(data, 0, len(data), head.position, table, check_crc=False)
        return Window(data, table, head.position, len(data))

    def find_time(self, timestamp: int, from_offset: int) -> FoundRecord | None:
        """Return the first record with an offset of at least `from_offset` and a timestamp of at least `timestamp`
        (ms); None if there is none."""
        indexed = self.times.lookup(timestamp)[1]
        for head in self.heads(self.offsets.lookup(max(indexed, from_offset))):
            if head.max_timestamp >= timestamp:
                found = self._first_record(head, from_offset, timestamp)
                if found is not None:
                    return found
        return None

    def find_largest(self) -> FoundRecord | None:
        """Return the first record with the segment's largest timestamp; None if there are no records."""
        timestamp, offset = self.largest
        for head in self.heads(self.offsets.lookup(offset)):
            if head.max_timestamp == timestamp:
                return self._first_record(head, 0, timestamp)
        return None

    def _first_record(self, head: BatchHead, from_offset: int, timestamp: int) -> FoundRecord | None:
        table = RecordTable(256)
        for _ in decode(self.window(head), table):
            for i in range(table.count):
                row = RecordRow._make(table.row(i))
                if row.timestamp >= timestamp and row.offset >= from_offset:
                    return FoundRecord(row.timestamp, row.offset, head.leader_epoch)
        return None

    def aborted(self) -> list[AbortedTxn]:
        """Return the aborted transactions whose markers are in this segment, in order. Like Kafka, ignore a partial
        entry at the end of the transaction index."""
        if self._aborted is None:
            path = self._path(FileKind.TXN_INDEX)
            data = path.read_bytes() if path.exists() else b""
            self._aborted = list(parse_txn_index(whole_entries(data, TXN_ENTRY.size)))
        return self._aborted

    # rolling, truncating, deleting, closing

    def deactivate(self) -> None:
        """Make the segment inactive, because the log rolls: write the closing entry of the time index, and cut off
        preallocated bytes."""
        self._close_time_index()
        self._is_active = False
        self.offsets.trim()
        self.times.trim()
        if self._limits.preallocate_bytes:
            self.log.truncate(self.size)

    def _close_time_index(self) -> None:
        entry = self.indexer.last_time_entry()
        if entry and self.times.count < self.times.slots:
            self.times.append(entry)

    def truncate(self, offset: int, now_ms: int) -> None:
        """Remove the batch with `offset` and all after it."""
        head = self.locate(offset)
        self.offsets.cut_at(offset)
        self.times.cut_at(offset)
        self._cut_aborted(offset)
        self.activate()
        if head is not None:
            self.log.truncate(head.position)
            self.size = head.position
        if self.size == 0:
            self._created_ms = now_ms
            self._first_timestamp = None
        self._find_largest_anew()

    def _cut_aborted(self, offset: int) -> None:
        known = self.aborted()
        kept = [each for each in known if each.last_offset < offset]
        if len(kept) < len(known):
            with self._disk.open(self._path(FileKind.TXN_INDEX)) as file:
                file.truncate(len(kept) * TXN_ENTRY.size)
            self._aborted = kept

    def _find_largest_anew(self) -> None:
        timestamp, offset = self.times.last()
        largest = timestamp, offset
        for head in self.heads(self.offsets.lookup(offset)):
            if head.max_timestamp > largest[0]:
                largest = head.max_timestamp, head.last_offset
        self._indexer = self._new_indexer(timestamp, *largest)

    def sync(self) -> None:
        """Make the written parts of log and indexes durable."""
        for file in (self._log, self._offsets, self._times):
            if file is not None:
                file.sync()
        path = self._path(FileKind.TXN_INDEX)
        if path.exists():
            with self._disk.open(path) as txn_index:
                txn_index.sync()

    def mark_deleted(self) -> list[Path]:
        """Give the files the suffix `.deleted`; open descriptors stay readable. Returns the new paths."""
        self.is_closed = True
        self.write_waiting()
        renamed = []
        for path in self.paths:
            if path.exists():
                renamed.append(path.with_name(path.name + DELETED))
                self._disk.rename(path, renamed[-1])
        return renamed

    def move(self, directory: Path) -> None:
        """Use the new name of the partition's directory, which has been renamed."""
        self._directory = directory
        self.log_path = self._path(FileKind.LOG)
        for index in (self._offsets, self._times):
            if index is not None:
                index.path = directory / index.path.name

    def close(self, *, keep_entries: bool = True) -> None:
        """Close the descriptors. keep_entries: first write the index entries that wait in memory, and trim the indexes;
        without it these entries are dropped, so that no write can fail."""
        self.is_closed = True
        if keep_entries:
            if self._indexer is not None:
                self._close_time_index()
            if self._limits.preallocate_bytes and self._log is not None:
                self._log.truncate(self.size)
        self._release(trim=keep_entries, keep=keep_entries)

    def release(self) -> None:
        """Close the descriptors until the next use."""
        self._release(trim=False, keep=True)

    def _release(self, *, trim: bool, keep: bool) -> None:
        with ExitStack() as closing:  # closes each file, even if closing another one fails
            if self._log is not None:
                closing.callback(self._log.close)
                self._log = None
            for index in (self._times, self._offsets):
                if index is not None:
                    closing.callback(index.close, trim=trim, keep=keep)


def _head(chunk: bytes, at: int, position: int, end: int) -> BatchHead | None:
    """Return the header of the batch at byte `position`; None if the batch ends after byte `end`. chunk: bytes of the
    .log file, in which the batch begins at index `at`."""
    if end - position < LEGACY_HEAD_BYTES:
        return None
    offset, length = struct.unpack_from(">qi", chunk, at)
    size = OVERHEAD_BYTES + length
    magic = chunk[at + 16]
    if size < LEGACY_HEAD_BYTES or (magic >= 2 and size < HEADER_BYTES):
        raise BadLength(f"a batch of {size:,} bytes leaves no room for its header", position)
    if position + size > end:
        return None
    if magic < 2:
        timestamp = NO_TIMESTAMP if magic == 0 else int.from_bytes(chunk[at + 18 : at + 26], signed=True)
        return BatchHead(position, size, offset, offset, -1, timestamp)
    _, _, epoch, _, _, _, delta, _, newest = HEADER.unpack_from(chunk, at)
    return BatchHead(position, size, offset, offset + delta, epoch, newest)
