"""The segments of an open log, in order: finding offsets and timestamps, and the region of a file that a Fetch reads.

A Fetch reads whole batches of one segment as a region of its file, to be sent without a copy. Source: LocalLog.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from formats.txn_index import AbortedTxn
from kcli.log.disk import Disk
from kcli.log.live.segment import FoundRecord, LiveSegment


class FileRegion(NamedTuple):
    """Bytes [position, position + length) of an open file."""

    path: Path
    fd: int
    position: int
    length: int


class LogRead(NamedTuple):
    """The whole batches that a Fetch reads. region: None if there are none.

    cut_short: whether the first batch is larger than the limit, and was left out. aborted: with Isolation.TXN_COMMITTED
    the aborted transactions among the batches, else ().
    """

    region: FileRegion | None
    cut_short: bool = False
    aborted: tuple[AbortedTxn, ...] = ()


@dataclass(frozen=True, slots=True)
class Removal:
    """Files to be removed. The caller calls `run` after delay_ms (file.delete.delay.ms)."""

    delay_ms: int
    paths: tuple[Path, ...]
    segments: tuple[LiveSegment, ...]
    disk: Disk

    def close(self) -> None:
        """Close the descriptors, without a change to the files."""
        for segment in self.segments:
            segment.close(keep_entries=False)

    def run(self) -> None:
        """Remove the files. Raises OSError."""
        self.close()
        for path in self.paths:
            self.disk.remove(path)


PLACES_MAX = 32
"""The largest number of offsets whose places (segment and byte) are cached: those at which readers stopped, and will go
on."""


class LiveSegments:
    """The segments by base offset, at least one; the last one is active."""

    def __init__(self, segments: list[LiveSegment]) -> None:
        self.all = segments
        self._places: dict[int, tuple[int, int]] = {}

    @property
    def active(self) -> LiveSegment:
        """The segment that is appended to."""
        return self.all[-1]

    @property
    def size(self) -> int:
        """The size of all batches in the .log files, in bytes; preallocated space does not count."""
        return sum(segment.size for segment in self.all)

    def end_of(self, i: int, log_end_offset: int) -> int:
        """Return the offset after the last one of segment i: the base offset of the next segment, or the log end
        offset."""
        return self.all[i + 1].base_offset if i + 1 < len(self.all) else log_end_offset

    def index_of(self, offset: int) -> int:
        """Return the number i of the segment to which `offset` belongs: the last one that begins at or below it, else
        0."""
        for i in range(len(self.all) - 1, 0, -1):
            if self.all[i].base_offset <= offset:
                return i
        return 0

    def since(self, offset: int) -> list[LiveSegment]:
        """Return the segment to which `offset` belongs, and the segments after it."""
        return self.all[self.index_of(offset) :]

    def replace(self, old: list[LiveSegment], new: LiveSegment) -> None:
        """Replace adjacent segments by one segment."""
        i = self.all.index(old[0])
        assert self.all[i : i + len(old)] == old, "the segments follow each other"
        self.all[i : i + len(old)] = [new]
        self.forget_places()

    def forget_places(self) -> None:
        """Drop the cached places of offsets (segment and byte), because the log was truncated."""
        self._places.clear()

    def read(
        self,
        offset: int,
        limit: int,
        log_end_offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool,
        with_aborted: bool,
    ) -> LogRead:
        """Return whole batches below offset `limit`, from the batch with `offset` on. max_bytes, min_one_batch: as in
        PartitionLog.read. with_aborted: whether to return the aborted transactions among the batches."""
        limit_base, limit_position = self._place(limit, log_end_offset)
        found = self._read_on(offset, limit_base, limit_position, log_end_offset, max_bytes, with_aborted=with_aborted)
        if found is not None:
            return found
        for i in range(self.index_of(offset), len(self.all)):
            segment = self.all[i]
            head = segment.locate(offset)
            if head is None:
                continue
            end = segment.size if segment.base_offset < limit_base else limit_position
            most = max(max_bytes, head.size) if min_one_batch else max_bytes
            length = self._length(segment, head.position, end, most)
            if length <= 0:
                return LogRead(None, cut_short=head.position < end)
            aborted = self._aborted(i, offset, min(head.position + most, end), log_end_offset) if with_aborted else ()
            return LogRead(FileRegion(segment.log_path, segment.log.fd, head.position, length), aborted=aborted)
        return LogRead(None)

    def _read_on(
        self,
        offset: int,
        limit_base: int,
        limit_position: int,
        log_end_offset: int,
        max_bytes: int,
        *,
        with_aborted: bool,
    ) -> LogRead | None:
        """Read from the cached place of `offset`, without an index lookup. Return None if a lookup is needed: the
        offset has no cached place, or not even one batch is within max_bytes. limit_base, limit_position: the base
        offset of the segment, and the byte in its .log file, at which reading ends."""
        base, position = self._places.get(offset, (-1, 0))
        if base < 0:
            return None
        i = self.index_of(offset)
        segment = self.all[i]
        end = segment.size if base < limit_base else limit_position
        if base != segment.base_offset or position >= end:
            return None
        length = self._length(segment, position, end, max_bytes)
        if length <= 0:
            return None
        aborted = self._aborted(i, offset, min(position + max_bytes, end), log_end_offset) if with_aborted else ()
        return LogRead(FileRegion(segment.log_path, segment.log.fd, position, length), aborted=aborted)

    def _length(self, segment: LiveSegment, position: int, end: int, max_bytes: int) -> int:
        """Return how many bytes of whole batches to read from bytes [position, end). If max_bytes limits the read,
        cache the place after the last of these batches."""
        length = end - position
        if max_bytes >= length:
            return length
        length, behind = segment.whole_bytes(position, max_bytes)
        if behind is not None and length > 0:
            self._note(behind, (segment.base_offset, position + length))
        return length

    def _aborted(self, i: int, offset: int, position: int, log_end_offset: int) -> tuple[AbortedTxn, ...]:
        """Return the aborted transactions for a Fetch that reads segment i from `offset` on, to below byte
        `position`."""
        if not any(segment.aborted() for segment in self.all[i:]):
            return ()
        upper = self.all[i].offsets.fetch_upper_bound(position)
        return tuple(self.aborted(i, offset, self.end_of(i, log_end_offset) if upper is None else upper))

    def _place(self, offset: int, log_end_offset: int) -> tuple[int, int]:
        """Return the base offset of a segment and the byte in its .log file at which the batch with `offset` begins, or
        at which the log ends."""
        known = self._places.get(offset)
        if known is not None and offset < log_end_offset:
            return known
        end = self.active.base_offset, self.active.size
        if offset >= log_end_offset:
            place = end
        else:
            found = ((segment.base_offset, segment.locate(offset)) for segment in self.since(offset))
            place = next(((base, head.position) for base, head in found if head is not None), end)
        self._note(offset, place)
        return place

    def _note(self, offset: int, place: tuple[int, int]) -> None:
        """Cache the place of an offset. If PLACES_MAX places are cached, the oldest one is dropped."""
        if offset not in self._places and len(self._places) >= PLACES_MAX:
            del self._places[next(iter(self._places))]
        self._places[offset] = place

    def aborted(self, i: int, from_offset: int, to_offset: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records in [from_offset, to_offset), from the transaction indexes of
        segment i and the segments after it.

        For a Fetch, i is the segment that it reads. An earlier segment's index can name a transaction whose marker was
        cut off that segment's .log file; consumers would then drop the producer's committed records up to its next
        marker. Source: LocalLog.collectAbortedTransactions.
        """
        found = []
        for segment in self.all[i:]:
            for each in segment.aborted():
                if each.last_offset >= from_offset and each.first_offset < to_offset:
                    found.append(each)
                if each.last_stable_offset >= to_offset:
                    return found
        return found

    def find_time(self, timestamp: int, from_offset: int) -> FoundRecord | None:
        """Return the first record with an offset of at least `from_offset` and a timestamp of at least `timestamp`
        (ms); None if there is none."""
        for segment in self.all:
            if segment.age_timestamp >= timestamp:
                return segment.find_time(timestamp, from_offset)
        return None

    def find_largest(self) -> FoundRecord | None:
        """Return the first record with the largest timestamp in the log; None if there are no records."""
        return max(self.all, key=lambda segment: segment.largest[0]).find_largest()
