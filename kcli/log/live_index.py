"""The offset and time index of a segment that is in use: written through the disk, searched over a memory map.

    file      entries, then zeros up to segment.index.bytes while the segment is active; trimmed on roll and close
    appends   wait in memory until there are enough for a write: after a crash the entries are made anew from the log;
              the time index is written first, as one without entries beside an offset index that has some is damage
    lookups   map the file when the first one comes; the map shows what is written, so what waits is written first

Kafka lets an index grow to full size again when a log with its segment is opened. Source: AbstractIndex, OffsetIndex,
TimeIndex. What the entries are: formats.offset_index, formats.time_index.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, bisect_right
from pathlib import Path

from kcli.log.disk import Disk, DiskFile

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
NO_TIMESTAMP = -1
WAITING_MAX_BYTES = 1024


class LiveIndex:
    """Entries of a fixed size in a file that is opened at its first use.

    count: how many there are; slots: how many the file has room for. first: another index, whose entries are written
    before those of this one.
    """

    entry: struct.Struct

    def __init__(self, disk: Disk, path: Path, base_offset: int, max_bytes: int, *, create: bool) -> None:
        self.path = path
        self.base_offset = base_offset
        self._disk = disk
        self._max_slots = max_bytes // self.entry.size
        self._file: DiskFile | None = None
        self._map: mmap.mmap | None = None
        self._waiting = bytearray()
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
        """Give the file its full size, as that of an active segment has it."""
        if self.slots != self._max_slots:
            self._resize(self._max_slots)

    def trim(self) -> None:
        """Cut the file to its entries."""
        if self.slots != self.count:
            self._resize(self.count)

    def append(self, entries: bytes) -> None:
        """Put entries behind the last one. The caller knows that there is room."""
        self.count += len(entries) // self.entry.size
        assert self.count <= self.slots, "no room in the index"
        self._waiting += entries
        if len(self._waiting) >= WAITING_MAX_BYTES:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Write the entries that wait."""
        if self._waiting:
            if self.first is not None:
                self.first.write_waiting()
            self._opened().write([self._waiting], self.count * self.entry.size - len(self._waiting))
            self._waiting = bytearray()

    def cut(self, count: int) -> None:
        """Forget all entries but the first `count`; the file keeps its size."""
        self.write_waiting()
        self.count = min(self.count, count)

    def values(self, i: int) -> tuple[int, int]:
        """The two numbers of entry i."""
        self.write_waiting()
        if self._map is None:
            self._map = mmap.mmap(self._opened().fd, self.slots * self.entry.size, access=mmap.ACCESS_READ)
        first, second = self.entry.unpack_from(self._map, i * self.entry.size)
        return first, second

    def sync(self) -> None:
        """Make the entries durable that are written. Any thread may wait for it."""
        file = self._file
        if file is not None:
            file.sync()

    def close(self, *, trim: bool = True, keep: bool = True) -> None:
        """Give descriptor and map back, also where that raises OSError; keep: write the entries that wait."""
        try:
            if keep:
                self.write_waiting()
            self._waiting = bytearray()
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
    """Offset to byte in the log."""

    entry = OFFSET_ENTRY

    def lookup(self, offset: int) -> int:
        """The byte of the last indexed batch that ends at or before `offset`; 0 where there is none."""
        found = self._behind(offset)
        return self.values(found - 1)[1] if found else 0

    def end_within(self, position: int) -> int:
        """The largest indexed byte up to `position`; 0 where there is none."""
        found = bisect_right(range(self.count), position, key=lambda i: self.values(i)[1])
        return self.values(found - 1)[1] if found else 0

    def offset_above(self, position: int) -> int | None:
        """The offset of the first entry whose byte lies above `position`; None where there is none."""
        found = bisect_right(range(self.count), position, key=lambda i: self.values(i)[1])
        return self.base_offset + self.values(found)[0] if found < self.count else None

    def cut_at(self, offset: int) -> None:
        """Forget the entries for `offset` and above."""
        self.cut(bisect_left(range(self.count), offset - self.base_offset, key=lambda i: self.values(i)[0]))

    def _behind(self, offset: int) -> int:
        return bisect_right(range(self.count), offset - self.base_offset, key=lambda i: self.values(i)[0])


class LiveTimeIndex(LiveIndex):
    """Largest timestamp so far to offset."""

    entry = TIME_ENTRY

    def last(self) -> tuple[int, int]:
        """Timestamp and offset of the last entry; -1 and the base offset where there is none. Opens nothing for long:
        retention asks every segment."""
        if self._map is not None or not self.count:
            return self._at(self.count - 1)
        self.write_waiting()
        with self._disk.open(self.path, read_only=True) as file:
            timestamp, relative = self.entry.unpack(file.read(self.entry.size, (self.count - 1) * self.entry.size))
        return timestamp, self.base_offset + relative

    def lookup(self, timestamp: int) -> tuple[int, int]:
        """Timestamp and offset of the last entry up to `timestamp`; -1 and the base offset where there is none."""
        return self._at(bisect_right(range(self.count), timestamp, key=lambda i: self.values(i)[0]) - 1)

    def cut_at(self, offset: int) -> None:
        """Forget the entries for `offset` and above."""
        self.cut(bisect_left(range(self.count), offset - self.base_offset, key=lambda i: self.values(i)[1]))

    def _at(self, i: int) -> tuple[int, int]:
        if i < 0:
            return NO_TIMESTAMP, self.base_offset
        timestamp, relative = self.values(i)
        return timestamp, self.base_offset + relative
