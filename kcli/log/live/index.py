"""The offset and time index of a segment that is in use: written through the disk, searched over a memory map.

    file      entries, then zeros up to segment.index.bytes while the segment is active; trimmed on roll and close
    appends   wait in memory until there are enough for a write: after a crash they are rebuilt from the log; the time
              index is written first, as Kafka counts an empty one as damaged if the offset index has entries
    lookups   the first one maps the file; waiting entries are written before, as the map shows only written entries

When Kafka opens a log, it extends the indexes of the active segment to their full size again. Source: AbstractIndex,
OffsetIndex, TimeIndex. What the entries are: formats.offset_index, formats.time_index.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, bisect_right
from pathlib import Path

from formats.kernels.indexes import IndexTail, entries_up_to
from kcli.log.disk import Disk, DiskFile

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
NO_TIMESTAMP = -1


class LiveIndex(IndexTail):
    """An index file with entries of a fixed size; it is opened at its first use.

    first: another index, whose waiting entries are written before those of this index.
    """

    entry: struct.Struct

    def __init__(self, disk: Disk, path: Path, base_offset: int, max_bytes: int, *, create: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._max_slots = max_bytes // self.entry.size
        self._file: DiskFile | None = None
        self._map: mmap.mmap | None = None
        self.entry_bytes = self.entry.size
        self.first: LiveIndex | None = None
        if create:
            self._file = disk.open(path, create=True, truncate=True)
            self.count = self.slots = 0
            try:
                self.grow()
            except BaseException:
                self._file.close()
                raise
        else:
            self.count = self.slots = path.stat().st_size // self.entry.size if path.exists() else 0

    def grow(self) -> None:
        """Extend the file to its full size, which the index of an active segment has."""
        if self.slots != self._max_slots:
            self._resize(self._max_slots)

    def trim(self) -> None:
        """Cut the file after its last entry."""
        if self.slots != self.count:
            self._resize(self.count)

    def write_waiting(self) -> None:
        """Write the entries that wait in memory."""
        if self.waiting_bytes:
            if self.first is not None:
                self.first.write_waiting()
            self._opened().write([self.waiting()], self.count * self.entry.size - self.waiting_bytes)
            self.written()

    def cut(self, count: int) -> None:
        """Drop all entries but the first `count`; the file keeps its size."""
        self.write_waiting()
        self.count = min(self.count, count)

    def values(self, i: int) -> tuple[int, int]:
        """Return the two fields of entry i, as stored: relative offset and position in an offset index, timestamp (ms)
        and relative offset in a time index."""
        first, second = self.entry.unpack_from(self._mapped(), i * self.entry.size)
        return first, second

    def _mapped(self) -> mmap.mmap:
        """Return the memory map of the file, after the entries that wait in memory are written."""
        self.write_waiting()
        if self._map is None:
            self._map = mmap.mmap(self._opened().fd, self.slots * self.entry.size, access=mmap.ACCESS_READ)
        return self._map

    def sync(self) -> None:
        """Make the written entries durable. Any thread may call it."""
        file = self._file
        if file is not None:
            file.sync()

    def close(self, *, trim: bool = True, keep: bool = True) -> None:
        """Close descriptor and map, even if a step before that raises OSError. keep: first write the entries that
        wait in memory; else they are dropped. trim: cut the file after its last entry."""
        try:
            if keep:
                self.write_waiting()
            self.written()
            if trim:
                self.trim()
        finally:
            self._unmap()
            if self._file is not None:
                self._file.close()
                self._file = None

    def _opened(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def _resize(self, slots: int) -> None:
        self.write_waiting()
        self._unmap()
        self._opened().truncate(slots * self.entry.size)
        self.slots = slots

    def _unmap(self) -> None:
        if self._map is not None:
            self._map.close()
            self._map = None


class LiveOffsetIndex(LiveIndex):
    """The offset index: from an offset to the byte of the .log file where its batch begins."""

    entry = OFFSET_ENTRY

    def lookup(self, offset: int) -> int:
        """Return the position in the last entry whose offset is not above `offset`; 0 if there is none."""
        found = self._behind(offset)
        return self.values(found - 1)[1] if found else 0

    def end_within(self, position: int) -> int:
        """Return the largest position in the index that is at most `position`; 0 if there is none."""
        found = entries_up_to(self._mapped(), self.count, position, of_positions=True) if self.count else 0
        return self.values(found - 1)[1] if found else 0

    def fetch_upper_bound(self, position: int) -> int | None:
        """Return an offset above those of all batches that a Fetch reads, if it reads the .log file up to byte
        `position`; the Fetch collects the aborted transactions that begin below this offset. None if the index has no
        entry that far.

        The offset is that of the first entry with a position of at least `position`. The very first entry of the index
        counts only if its position is above `position`, as Kafka's binary search does not test that entry for equality.
        Source: OffsetIndex.fetchUpperBoundOffset.
        """
        found = bisect_left(range(self.count), position, key=lambda i: self.values(i)[1])
        if found == 0 and self.count and self.values(0)[1] == position:
            found = 1
        return self.base_offset + self.values(found)[0] if found < self.count else None

    def cut_at(self, offset: int) -> None:
        """Drop the entries for `offset` and above."""
        self.cut(bisect_left(range(self.count), offset - self.base_offset, key=lambda i: self.values(i)[0]))

    def _behind(self, offset: int) -> int:
        if not self.count:
            return 0
        return entries_up_to(self._mapped(), self.count, offset - self.base_offset, of_positions=False)


class LiveTimeIndex(LiveIndex):
    """The time index: each entry has the largest timestamp of the segment when the entry was added, and the last offset
    of the batch with that timestamp."""

    entry = TIME_ENTRY

    def last(self) -> tuple[int, int]:
        """Return timestamp (ms) and offset of the last entry; -1 and the base offset if there is none. Leaves no
        descriptor open, as retention calls this for every segment."""
        if self._map is not None or not self.count:
            return self._at(self.count - 1)
        self.write_waiting()
        with self._disk.open(self.path, read_only=True) as file:
            timestamp, relative = self.entry.unpack(file.read(self.entry.size, (self.count - 1) * self.entry.size))
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Return timestamp (ms) and offset of the last entry whose timestamp is not above `timestamp`; -1 and the base
        offset if there is none."""
        return self._at(bisect_right(range(self.count), timestamp, key=lambda i: self.values(i)[0]) - 1)

    def cut_at(self, offset: int) -> None:
        """Drop the entries for `offset` and above."""
        self.cut(bisect_left(range(self.count), offset - self.base_offset, key=lambda i: self.values(i)[1]))

    def _at(self, i: int) -> tuple[int, int]:
        if i < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self.values(i)
        return timestamp, self.base_offset + relative
