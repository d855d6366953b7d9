"""One segment of a partition: its .log file and the indexes beside it, loaded and recovered as Kafka does it.

    recover           every batch is checked; the file is cut at the first that is not sound, the indexes are rebuilt,
                      producers and leader epochs are updated with the batches
    read_next_offset  the log end offset by the last index entry: all that a start reads after a clean shutdown

Kafka checks framing, header size, CRC and the offset's range; inside a batch, it checks only a transaction marker.
Source: LogSegment, FileRecords, FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice

from formats.batch_prefix import PREFIX, size_at
from formats.errors import BadLength, LimitExceeded
from formats.file_name import FileKind, FileName, build
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.producers import (
    RECOVERY_INVALID,
    RECOVERY_MORE,
    RECOVERY_ORDER,
    RECOVERY_OVERFLOW,
    RECOVERY_REFUSED,
    ProducerTable,
)
from formats.kernels.recovery import SegmentRecovery
from formats.txn_index import ENTRY as TXN_ENTRY
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.index_entries import (
    DEFAULT_INTERVAL_BYTES,
    DEFAULT_MAX_INDEX_BYTES,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    TXN_ENTRY_BYTES,
    OffsetIndexReader,
    whole_entries,
)
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_view import ContentSource, PartitionView
from kcli.log.producer_state import ProducerStateManager, read_control
from kcli.log.segment_reader import UNSOUND, WINDOW_BYTES, Damage, Window, read_segment

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
CRC_CHUNK_BYTES = 4 << 20


class MissingIndex(Exception):
    """The segment has no offset index."""


class CorruptIndex(Exception):
    """The transaction index is corrupt: Kafka recovers the segment, which rebuilds all its indexes."""


class SegmentOverflow(Exception):
    """A batch whose last offset exceeds the segment's base offset by more than an int32."""

    def __init__(self, segment: RecoverySegment, reason: str, position: int, index: bytes) -> None:
        super().__init__(reason)
        self.segment = segment
        self.reason = reason
        self.position = position
        self.index = index  # the index entries before the batch


class OffsetsOutOfOrder(Exception):
    """Offsets decrease at a batch for which an index entry is due: Kafka truncates the segment to 0 bytes."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True, slots=True)
class Fault:
    """The position at which a segment is cut, and why: kind is "crc", "header", "length", "control" or "tail" (an
    incomplete batch)."""

    kind: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of recovery: the number of bytes cut off, the fault that was the reason for that (None: there was no
    fault), and the offset after the last batch that is kept."""

    cut_bytes: int
    fault: Fault | None
    next_offset: int


OFFSET_MAX = LONG_MAX - INT_MAX
"""The highest log end offset with which enough offsets are left for a full segment. Only damage leads to a higher
one."""


def offset_behind(last_offset: int) -> int:
    """Return the offset after `last_offset`. As in Java, the largest long is followed by the smallest; Kafka deletes a
    log with such an end."""
    return last_offset + 1 if last_offset < LONG_MAX else -LONG_MAX - 1


class RecoverySegment:
    """The files of one segment in a view of its partition; only the view is changed.

    advance(size): called with the number of bytes that recovery has just checked.
    """

    def __init__(
        self,
        view: PartitionView,
        base_offset: int,
        *,
        index_interval_bytes: int = DEFAULT_INTERVAL_BYTES,
        max_index_bytes: int = DEFAULT_MAX_INDEX_BYTES,
        state: str = "",
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._view = view
        self._advance = advance
        self.base_offset = base_offset
        self._interval = index_interval_bytes
        self._max_index_bytes = max_index_bytes
        self.log_name, self.index_name, self.time_index_name, self.txn_index_name = (
            build(FileName(kind, base_offset, state=state))
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
        )

    @property
    def size(self) -> int:
        """Bytes of the .log file."""
        return self._view.size(self.log_name)

    @property
    def names(self) -> tuple[str, str, str, str]:
        """The names of the .log file and of the three indexes, whether the files exist or not."""
        return self.log_name, self.index_name, self.time_index_name, self.txn_index_name

    def create(self) -> None:
        """Create the files of an empty segment."""
        for name in (self.log_name, self.index_name, self.time_index_name):
            self._view.write(name, b"")

    def sanity_check(self, *, time_index_is_new: bool) -> None:
        """Perform the checks that Kafka performs at every start. Raises MissingIndex, CorruptIndex, StartRefused.

        time_index_is_new: create an empty time index. The checks read only the transaction index: they do not notice a
        directory with the name of another index.
        """
        self._view.check_opens(self.txn_index_name)
        if not self._view.exists(self.index_name):
            raise MissingIndex
        if time_index_is_new:
            self._view.write(self.time_index_name, b"")
        if self.txn_index_name in self._view:
            data = whole_entries(self._view.read(self.txn_index_name), TXN_ENTRY_BYTES)
            for entry in TXN_ENTRY.unpack_all(data):
                if entry.version >> 8 > 0:  # Kafka checks only the first of the version's two bytes
                    raise StartRefused(self.txn_index_name, f"version {entry.version >> 8} of an aborted transaction")
                if entry.last_offset < self.base_offset:
                    raise CorruptIndex(f"an aborted transaction ends at {entry.last_offset}, below the base offset")

    def trim_indexes(self) -> None:
        """Cut the indexes to whole entries, as closing the active segment does."""
        for name, entry_bytes in ((self.index_name, OFFSET_ENTRY_BYTES), (self.time_index_name, TIME_ENTRY_BYTES)):
            data = self._view.read(name) if name in self._view else b""
            self._view.write(name, whole_entries(data, entry_bytes))

    # reading batches

    def windows(self, start: int = 0, stop: int | None = None, *, check_crc: bool = False) -> Iterator[Window | Damage]:
        """Yield the batches in bytes [start, stop) of the file (stop None: to its end), in parts (windows). At bytes
        that are no batch, yield a Damage and end. check_crc: compute each batch's CRC. Raises UnreadableInput.

        The bytes of a window are valid until the next window is read.
        """
        source = self._view.source(self.log_name)
        try:
            left = max(1, (source.size() if stop is None else stop) - start)  # limits the memory that a window takes
            window_bytes = min(WINDOW_BYTES, left)
            parts = read_segment(
                source, start=start, stop=stop, check_crc=check_crc, resync=False, window_bytes=window_bytes
            )
            for part in parts:
                yield part
                if isinstance(part, Window):
                    part.release()
        finally:
            source.close()

    def _rows(self, start: int) -> Iterator[BatchRow]:
        for part in self.windows(start):
            if isinstance(part, Damage):
                if isinstance(part.error, BadLength | LimitExceeded):
                    raise StartRefused(self.log_name, part.error.reason, part.position)
                return
            yield from (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))

    def translate(self, offset: int, index: bytes | None = None) -> int | None:
        """Return the byte at which the batch with `offset` begins, or else the next batch; None if there is neither.
        index: the bytes of an offset index to use instead of the view's. Raises StartRefused."""
        reader = OffsetIndexReader(self._offset_index() if index is None else index, self.base_offset)
        before: BatchRow | None = None
        for row in self._rows(max(0, reader.position_of(offset))):
            if row.base_offset >= offset:
                if row.base_offset > offset and before is not None and before.last_offset >= offset:
                    return before.position
                return row.position
            before = row
        return before.position if before is not None and before.last_offset >= offset else None

    def _offset_index(self) -> bytes:
        self._view.check_opens(self.index_name)
        if self.index_name not in self._view:
            return b""
        data = self._view.read(self.index_name)
        kept = whole_entries(data, OFFSET_ENTRY_BYTES)
        if len(kept) < len(data):
            self._view.write(self.index_name, kept)
        return kept

    def read_next_offset(self, index: bytes | None = None) -> int:
        """Return the offset after the last batch, found from the last index entry on; the base offset if there is no
        batch.

        index: the bytes of an offset index to use instead of the view's. Raises StartRefused.
        """
        data = self._offset_index() if index is None else index
        start = self.translate(OffsetIndexReader(data, self.base_offset).last_offset, data)
        end_offset = self.base_offset
        if start is not None:
            for row in self._rows(start):
                end_offset = offset_behind(row.last_offset)
        return end_offset

    def bytes_behind(self) -> int:
        """Return the number of bytes behind the last batch, found from the last index entry on; 0 if the index leads to
        no batch. Raises StartRefused."""
        start = self.translate(OffsetIndexReader(self._offset_index(), self.base_offset).last_offset)
        ends = [] if start is None else [row.position + row.size for row in self._rows(start)]
        return self.size - ends[-1] if ends else 0

    def full_index_bytes(self) -> int:
        """Return the size in bytes at which segment.index.bytes makes the offset index full: the size that the index
        has, if it is at least segment.index.bytes, or ends in the zeros of one that no orderly stop has trimmed; else
        0. A clean start counts the zeros as entries, and the first append then begins a new segment."""
        if self.index_name not in self._view:
            return 0
        size = self._view.size(self.index_name)
        is_full = size >= self._max_index_bytes // OFFSET_ENTRY_BYTES * OFFSET_ENTRY_BYTES
        is_untrimmed = self._offset_index().endswith(bytes(OFFSET_ENTRY_BYTES))
        return size if is_full or is_untrimmed else 0

    def ends_torn(self, tail: int) -> bool:
        """Whether the last `tail` bytes of the .log file are the begin of a batch, or too few to tell: consumers pass
        over such bytes at the end of a segment."""
        with closing(self._view.source(self.log_name)) as source:
            buffer = bytearray(min(tail, PREFIX.size))
            source.read_at(self.size - tail, memoryview(buffer))
        size = size_at(bytes(buffer))
        return len(buffer) < PREFIX.size if size is None else size > tail

    def late_timestamp(self) -> int:
        """Return the largest timestamp of the first sound batch, and of those from the last index entry on; -1 if they
        have none. Raises StartRefused, UnreadableInput."""
        start = self.translate(OffsetIndexReader(self._offset_index(), self.base_offset).last_offset)
        first = islice(self._sound_timestamps(0), 1)
        return max(chain(first, () if start is None else self._sound_timestamps(start)), default=-1)

    def _sound_timestamps(self, start: int) -> Iterator[int]:
        for part in self.windows(start, check_crc=True):
            if isinstance(part, Damage):
                return
            rows = (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
            yield from (row.max_timestamp for row in rows if not row.faults & UNSOUND)

    def load_producers(self, producers: ProducerStateManager, start_offset: int, end_offset: int | None) -> None:
        """Apply the batches from `start_offset` on, and below `end_offset` (None: to the end), to the producer state,
        without a leader's checks. Raises StartRefused."""
        start = self.translate(start_offset)
        if start is None:
            return
        stop = None if end_offset is None else self.translate(end_offset)
        for part in self.windows(start, stop):
            if isinstance(part, Damage):
                if isinstance(part.error, BadLength | LimitExceeded):
                    raise StartRefused(self.log_name, part.error.reason, part.position)
                return
            if producers.follow(part.batches, part.data) is None:
                raise StartRefused(self.log_name, producers.table.reason or "")

    # recovering the segment

    def recover(self, producers: ProducerStateManager, epochs: LeaderEpochCache) -> Recovered:
        """Check all batches, cut the .log file at the first that is not sound, and rebuild the indexes. `producers` and
        `epochs` are updated with the batches.

        Raises SegmentOverflow, OffsetsOutOfOrder, StartRefused, UnreadableInput.
        """
        # Kafka maps both indexes into memory before it empties them, and fails if one is too large.
        for name in (self.index_name, self.time_index_name):
            self._view.check_mappable(name)
        scan = SegmentRecovery(
            producers.table,
            self.base_offset,
            -1 if epochs.latest_epoch is None else epochs.latest_epoch,
            index_interval_bytes=self._interval,
            max_index_bytes=self._max_index_bytes,
        )
        how, fault = self._scan(scan)
        for epoch, start_offset in scan.epochs:
            try:
                epochs.assign(epoch, start_offset)
            except ValueError as error:
                raise StartRefused(self.log_name, str(error), scan.fault_position) from None
        reason = scan.reason or ""
        if how == RECOVERY_OVERFLOW:
            raise SegmentOverflow(self, reason, scan.fault_position, bytes(scan.offset_index))
        if how == RECOVERY_REFUSED:
            raise StartRefused(self.log_name, reason, scan.fault_position)
        if how == RECOVERY_ORDER:
            raise OffsetsOutOfOrder(reason, scan.fault_position)
        cut_bytes = self.size - scan.valid_bytes
        self._view.cut(self.log_name, scan.valid_bytes)
        if scan.end() == RECOVERY_ORDER:
            raise OffsetsOutOfOrder(scan.reason or "", scan.valid_bytes)
        self._write_indexes(scan)
        if scan.map_end >= 0:
            producers.map_end_offset = scan.map_end
        return Recovered(cut_bytes, fault, scan.next_offset)

    def _scan(self, scan: SegmentRecovery) -> tuple[int, Fault | None]:
        for part in self.windows(check_crc=True):
            if isinstance(part, Damage):
                return RECOVERY_INVALID, self._damaged(part)
            self._advance(part.stop)
            how = scan.batches(part.batches, part.data)
            if how == RECOVERY_INVALID:
                if scan.fault_position < scan.valid_bytes:
                    kind = "control"  # Kafka keeps this batch, and cuts the file after it
                else:
                    kind = "crc" if (scan.reason or "").startswith("CRC") else "header"
                return how, Fault(kind, scan.valid_bytes, scan.reason or "")
            if how != RECOVERY_MORE:
                return how, None
        return RECOVERY_MORE, None

    def _damaged(self, damage: Damage) -> Fault:
        error = damage.error
        if isinstance(error, LimitExceeded):
            stored, computed = self._large_crc(damage.position)
            if stored == computed:
                raise UnreadableInput(self.log_name, f"byte {damage.position:,}: {error.reason}")
            return Fault("crc", damage.position, f"CRC is {stored:#010x}, bytes give {computed:#010x}")
        return Fault("length" if isinstance(error, BadLength) else "tail", damage.position, error.reason)

    def _large_crc(self, position: int) -> tuple[int, int]:
        """Return the stored and the computed CRC of a batch that is too large to be read into memory as a whole."""
        source: ContentSource = self._view.source(self.log_name)
        try:
            header = bytearray(21)
            source.read_at(position, memoryview(header))
            end = position + 12 + int.from_bytes(header[8:12], "big", signed=True)
            at, value = position + 21, 0
            chunk = bytearray(CRC_CHUNK_BYTES)
            while at < end:
                got = source.read_at(at, memoryview(chunk)[: end - at])
                if got == 0:
                    break
                value = crc32c(memoryview(chunk)[:got], value)
                at += got
            return int.from_bytes(header[17:21], "big"), value
        finally:
            source.close()

    def _write_indexes(self, scan: SegmentRecovery) -> None:
        self._view.write(self.index_name, bytes(scan.offset_index))
        self._view.write(self.time_index_name, bytes(scan.time_index))
        if scan.aborted or self.txn_index_name in self._view:
            self._view.write(self.txn_index_name, TXN_ENTRY.pack_all([(0, *each) for each in scan.aborted]))

    def index_anew(self) -> None:
        """Rebuild the offset and the time index of a .log file that was composed of sound batches, without checks."""
        scan = SegmentRecovery(
            ProducerTable(read_control),
            self.base_offset,
            index_interval_bytes=self._interval,
            max_index_bytes=self._max_index_bytes,
        )
        for part in self.windows():
            if isinstance(part, Damage) or scan.batches(part.batches, part.data) != RECOVERY_MORE:
                break
        scan.end()
        self._view.write(self.index_name, bytes(scan.offset_index))
        self._view.write(self.time_index_name, bytes(scan.time_index))

    def empty(self) -> int:
        """Cut the .log file and its indexes to 0 bytes, as Kafka does if offsets are out of order. Returns the number
        of bytes cut off the .log file."""
        cut_bytes = self.size
        self._view.cut(self.log_name, 0)
        self._view.write(self.index_name, b"")
        self._view.write(self.time_index_name, b"")
        if self.txn_index_name in self._view:
            self._view.write(self.txn_index_name, b"")
        return cut_bytes
