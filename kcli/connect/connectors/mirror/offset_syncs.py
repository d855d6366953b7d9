"""Which offset of the target is that of the source.

Writing: a sync is due for the first record that a task has sent, for one that is offset.lag.max behind the last sync in
the target, and for one whose offset does not follow that of the record before, in the source, or goes back in the
target. The last record for which none is due is delayed: its sync is written when there are no more, or SYNC_S have
passed.

Reading: of each partition the newest sync is kept, and older ones at distances that grow, as Kafka's store chooses
them. A group at offset N stands in the target at the newest sync that is not above N, or one behind it: never above a
record that it has not had, as what is between two syncs is not known. Below the oldest sync it is not translated.

Source: OffsetSyncWriter, OffsetSyncStore.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kcli.connect.connectors.mirror.records import OffsetSync
from kcli.protocol.topic_partition import TopicPartition

NOT_TRANSLATED = -1
KEPT = 64
"""How many syncs of a partition are kept."""
LONG_MAX = (1 << 63) - 1
SYNC_S = 60.0
"""How often Kafka's worker, by default, has its tasks write the syncs that are delayed."""
Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass
class SyncRule:
    """When syncs of a partition are due. lag_max: offset.lag.max. last: the offset in the target of the last one.
    delayed: offsets in source and target for which none is due."""

    lag_max: int
    last: int | None = None
    delayed: tuple[int, int] | None = None
    _before: tuple[int, int] = (-1, -1)

    def due(self, upstream: Offsets, base: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets in source and target for which syncs are due. upstream: the offsets of records that were
        sent one behind the other. base: the offset of the first in the target."""
        count = len(upstream)
        if not count:
            return
        source, target = self._before
        gaps = np.flatnonzero(np.diff(upstream, prepend=source) != 1).tolist()
        index = 0 if self.last is None or base < target else self._next(base)
        for gap in [*gaps, count]:
            while index < gap:
                self.last = base + index
                yield int(upstream[index]), self.last
                index = self._next(base)
            index = gap
        self._before = int(upstream[-1]), base + count - 1
        self.delayed = None if self.last == self._before[1] else self._before

    def _next(self, base: int) -> int:
        """Return the index from which on a record is far enough behind the last sync."""
        assert self.last is not None, "there was a first one"
        return max(0, self.last + 1 + self.lag_max - base)

    def promoted(self) -> Iterator[tuple[int, int]]:
        """Yield the delayed offsets, whose sync is now written."""
        if self.delayed is not None:
            yield self.delayed
        self.delayed = None


@dataclass
class SyncStore:
    """The syncs that were read: of each partition KEPT, the newest first, some of them more than once."""

    _syncs: dict[TopicPartition, list[OffsetSync]] = field(default_factory=dict)

    def add(self, sync: OffsetSync) -> None:
        """Take a sync, newer than those before. One that goes back, in the source or in the target, forgets them."""
        known = self._syncs.get(sync.place)
        is_first = known is None or sync.upstream < known[0].upstream or sync.downstream < known[0].downstream
        self._syncs[sync.place] = [sync] * KEPT if known is None or is_first else _with(sync, known)

    def translate(self, place: TopicPartition, upstream: int) -> int | None:
        """Return where a group at offset `upstream` stands in the target; NOT_TRANSLATED if it is too far behind, None
        for a partition without syncs."""
        syncs = self._syncs.get(place)
        if not syncs:
            return None
        for each in syncs:
            if each.upstream <= upstream:
                return each.downstream + (each.upstream < upstream)
        return NOT_TRANSLATED


def _with(sync: OffsetSync, known: Sequence[OffsetSync]) -> list[OffsetSync]:
    """Return syncs with a new one before them. Number n is at most 2**n offsets behind the newest one, and the distance
    of two that are not the same grows likewise; what is kept already, stays as long as that holds."""
    syncs = [sync, *known[1:]]
    candidate, at = sync, 0
    for number in range(1, KEPT):
        before = syncs[number - 1]
        while True:
            old = known[at]
            is_apart = _is_apart(before, old, number - 1)
            leaves_room = number + 1 == KEPT or _is_apart(old, syncs[number + 1], number)
            fits = is_apart and leaves_room and _is_near(before, old, number)
            if fits:
                candidate = old
            is_passed = not is_apart or (at + 1 < KEPT and old is known[at + 1])
            at += fits or is_passed
            if at >= number or not is_passed:
                break
        if _is_near(before, syncs[number], number):
            break
        syncs[number] = candidate
    return syncs


def _is_near(newer: OffsetSync, older: OffsetSync, number: int) -> bool:
    """Whether a sync may be number `number`, behind the one before it."""
    bound = _long(older.upstream + (1 << number) - (1 << (number - 1)))
    return newer is older or bound < 0 or newer.upstream <= bound


def _is_apart(newer: OffsetSync, older: OffsetSync, number: int) -> bool:
    """Whether a sync is far enough behind number `number`."""
    bound = _long(older.upstream + (1 << max(number - 2, 0)))
    return newer is older or 0 <= bound <= newer.upstream


def _long(number: int) -> int:
    """Return a sum as Java's long has it."""
    return (number + LONG_MAX + 1) % (2 * LONG_MAX + 2) - LONG_MAX - 1
