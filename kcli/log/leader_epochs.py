"""The start offset of each leader epoch of a partition: the cache, and its file leader-epoch-checkpoint.

    entry   an epoch and the offset of its first record; both grow from entry to entry

A follower uses the cache to find the offset at which its log and its leader's log diverge (KIP-101). Source:
LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from formats.checkpoint import EpochEntry, build_leader_epochs

FILE_NAME = "leader-epoch-checkpoint"


class LeaderEpochCache:
    """The entries, by epoch. changed: whether the entries have changed since leader-epoch-checkpoint was written; the
    code that writes the file resets it.

    An entry given to the constructor is dropped if its epoch or its start offset is not below that of a later entry;
    `changed` is then set. Raises ValueError for negative numbers.
    """

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        given = list(entries)
        for entry in given:
            self.assign(entry.epoch, entry.start_offset)
        self.changed = self._entries != given

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, by epoch."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        """The last epoch, None if there is none."""
        return self._entries[-1].epoch if self._entries else None

    def to_bytes(self) -> bytes:
        """Return the bytes of leader-epoch-checkpoint."""
        return build_leader_epochs(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the epoch that begins at `start_offset`, and drop the entries with the same or a higher epoch or start
        offset. If `epoch` is the last epoch already, and begins at or below `start_offset`, nothing changes. Raises
        ValueError for negative numbers."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"leader epoch {epoch} at offset {start_offset} is none")
        if self._entries:
            last = self._entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochEntry(epoch, start_offset))
        self.changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at `end_offset`, where the log now ends, or after it."""
        while end_offset >= 0 and self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self.changed = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that end at or below `start_offset`, where the log now begins. The first remaining epoch then
        begins at `start_offset`, if it began below."""
        kept = 0
        while kept < len(self._entries) and self._entries[kept].start_offset <= start_offset:
            kept += 1
        if kept:
            self._entries[:kept] = [EpochEntry(self._entries[kept - 1].epoch, start_offset)]
            self.changed = True

    def entries_in(self, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
        """Return the epochs of the offsets from start_offset to below end_offset; the first one begins at start_offset,
        unless the cache has no epoch for that. start_offset: -1 for no limit."""
        found = LeaderEpochCache(self._entries)
        if start_offset >= 0:
            found.truncate_from_start(start_offset)
        found.truncate_from_end(end_offset)
        return found.entries

    def epoch_for(self, offset: int) -> int | None:
        """Return the epoch of an offset; None if all epochs in the cache begin above it."""
        found = None
        for entry in self._entries:
            if entry.start_offset > offset:
                break
            found = entry.epoch
        return found

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self.changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch in the cache that is not above `epoch`, and its end offset, as OffsetsForLeaderEpoch
        answers. If all epochs in the cache are above `epoch`, return `epoch` itself and the start offset of the first
        one. If `epoch` is -1 or above the latest epoch, return (-1, -1). log_end_offset: the end of the latest
        epoch."""
        if epoch == -1:
            return -1, -1
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        above = bisect_left(self._entries, (epoch + 1,))
        if above == len(self._entries):
            return -1, -1
        found = self._entries[above - 1].epoch if above else epoch
        return found, self._entries[above].start_offset
