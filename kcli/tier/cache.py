"""The segments of one partition in the tier, and which of them holds an offset of a leader epoch.

    by id      every segment that is not deleted whole (DELETE_SEGMENT_FINISHED)
    by epoch   offsets        first offset of the epoch in a segment -> that segment; only COPY_SEGMENT_FINISHED
               unreferenced   segments of the epoch that no read uses: being copied, being deleted, or superseded
               highest        the highest offset of the epoch that was ever copied
               deleted        the highest offset of the epoch in copied segments whose deletion has begun

A new leader may copy again, in other segments, what the leader before it has copied. A segment that ends at or above
the highest offset supersedes those of the same epoch that begin at or after its start: they become unreferenced. As in
Kafka, a segment that ends below the highest offset takes the place only of one that begins at the same offset.
Source: RemoteLogMetadataCache, RemoteLogLeaderEpochState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from kcli.tier.segment import TRANSITIONS, RemoteSegment, SegmentState


class Refused(Exception):
    """A record that Kafka drops because it contradicts earlier records. The error's text is the reason."""


class Implausible(Refused):
    """A record that Kafka accepts, although no broker writes such a record: kcli drops it."""


class _EpochSegments:
    """The segments of one leader epoch."""

    def __init__(self) -> None:
        self.starts: list[int] = []  # the keys of `ids`, sorted
        self.ids: dict[int, str] = {}
        self.unreferenced: set[str] = set()
        self.highest: int | None = None
        self.deleted: int | None = None

    def copied(self, start: int, last: int, segment_id: str) -> None:
        """Note that a segment with the offsets `start` to `last` of the epoch, both inclusive, was copied."""
        while self.starts and self.starts[-1] >= start and (self.highest is None or self.highest <= last):
            self.unreferenced.add(self.ids.pop(self.starts.pop()))
        if start not in self.ids:
            self.starts.insert(bisect_left(self.starts, start), start)
        self.ids[start] = segment_id
        self.unreferenced.discard(segment_id)
        if self.highest is None or last > self.highest:
            self.highest = last

    def deletion_started(self, start: int, segment_id: str) -> None:
        """Note that a segment is being deleted: nothing is read from it any more. start: its first offset in the
        epoch."""
        if self.ids.get(start) == segment_id:
            del self.ids[start]
            self.starts.remove(start)
        self.unreferenced.add(segment_id)

    def floor(self, offset: int) -> str | None:
        """Return the id of the segment with the greatest start at or below `offset`; None if there is none."""
        above = bisect_right(self.starts, offset)
        return self.ids[self.starts[above - 1]] if above else None

    def next_start(self, offset: int) -> int | None:
        """Return the least start of a segment above `offset`; None if there is none."""
        above = bisect_right(self.starts, offset)
        return self.starts[above] if above < len(self.starts) else None


class SegmentCache:
    """The segments of one partition."""

    def __init__(self) -> None:
        self._segments: dict[str, RemoteSegment] = {}
        self._epochs: dict[int, _EpochSegments] = {}
        self._txn_starts: list[tuple[int, str]] = []  # start offset and id of copied segments with a transaction index

    # records that change the segments

    def add(self, segment: RemoteSegment) -> None:
        """Apply a RemoteLogSegmentMetadataRecord: a copy has begun. Raises Refused."""
        if segment.state is not SegmentState.COPY_SEGMENT_STARTED:
            raise Refused(f"a segment begins with the state {_name(segment.state)}")
        self._check(segment.id, segment.state)
        for epoch, _ in segment.leader_epochs:
            self._of_epoch(epoch).unreferenced.add(segment.id)
        self._segments[segment.id] = segment

    def update(self, segment_id: str, value: Mapping[str, Any]) -> None:
        """Apply the fields of a RemoteLogSegmentMetadataUpdateRecord. Raises Refused; BadValue for an unknown state."""
        known = self._segments.get(segment_id)
        if known is None:
            raise Refused(f"segment {segment_id} has no earlier record, or is deleted")
        segment = known.updated(value)
        assert segment.state is not None, "a record has a state"
        self._check(segment_id, segment.state)
        if segment.state is SegmentState.COPY_SEGMENT_STARTED:
            raise Refused(f"an update to {_name(segment.state)}")
        for epoch, start in segment.leader_epochs:
            of_epoch = self._of_epoch(epoch)
            if segment.state is SegmentState.COPY_SEGMENT_FINISHED:
                of_epoch.copied(start, segment.last_offset_of(epoch), segment_id)
            elif segment.state is SegmentState.DELETE_SEGMENT_STARTED:
                of_epoch.deletion_started(start, segment_id)
                if known.state is SegmentState.COPY_SEGMENT_FINISHED:
                    of_epoch.deleted = max(segment.last_offset_of(epoch), of_epoch.deleted or 0)
            else:
                of_epoch.unreferenced.discard(segment_id)
        if segment.state is SegmentState.DELETE_SEGMENT_FINISHED:
            del self._segments[segment_id]
        else:
            self._segments[segment_id] = segment
        if segment.has_txn_index:
            self._note_txn_index(segment)

    def put_copied(self, segment: RemoteSegment) -> None:
        """Add a segment as copied because its objects are in the tier, although no metadata describes it."""
        self._segments[segment.id] = segment
        for epoch, start in segment.leader_epochs:
            self._of_epoch(epoch).copied(start, segment.last_offset_of(epoch), segment.id)
        if segment.has_txn_index:
            self._note_txn_index(segment)

    def _note_txn_index(self, segment: RemoteSegment) -> None:
        entry = segment.start_offset, segment.id
        at = bisect_left(self._txn_starts, entry)
        is_known = self._txn_starts[at : at + 1] == [entry]
        is_copied = segment.state in (None, SegmentState.COPY_SEGMENT_FINISHED)
        if is_copied and not is_known:
            self._txn_starts.insert(at, entry)
        elif is_known and not is_copied:
            del self._txn_starts[at]

    def _check(self, segment_id: str, target: SegmentState) -> None:
        known = self._segments.get(segment_id)
        state = None if known is None else known.state
        if target not in TRANSITIONS.get(state, ()):
            raise Refused(f"segment {segment_id}: {_name(state)} does not become {_name(target)}")

    def _of_epoch(self, epoch: int) -> _EpochSegments:
        return self._epochs.setdefault(epoch, _EpochSegments())

    # looking up segments

    def segments(self) -> list[RemoteSegment]:
        """Return all segments, by start offset, then end offset and id."""
        return sorted(self._segments.values(), key=lambda each: (each.start_offset, each.end_offset, each.id))

    def unsorted(self) -> list[RemoteSegment]:
        """Return all segments, in no order."""
        return list(self._segments.values())

    def segment(self, segment_id: str) -> RemoteSegment | None:
        """Return the segment with this id; None if there is none."""
        return self._segments.get(segment_id)

    def segments_of(self, epoch: int) -> list[RemoteSegment]:
        """Return the segments of an epoch in any state, by start offset."""
        of_epoch = self._epochs.get(epoch)
        ids = [] if of_epoch is None else [*of_epoch.ids.values(), *sorted(of_epoch.unreferenced)]
        known = (self._segments[each] for each in ids if each in self._segments)
        return sorted(known, key=lambda each: each.start_offset)

    def segment_at(self, epoch: int, offset: int) -> RemoteSegment | None:
        """Return the copied segment that has this offset in this epoch; None if there is none."""
        of_epoch = self._epochs.get(epoch)
        segment_id = None if of_epoch is None else of_epoch.floor(offset)
        if segment_id is None:
            return None
        segment = self._segments[segment_id]
        return segment if offset <= segment.last_offset_of(epoch) else None

    def next_start(self, epoch: int, offset: int) -> int | None:
        """Return the least offset above `offset` at which this epoch begins in a copied segment; None if there is
        none."""
        of_epoch = self._epochs.get(epoch)
        return None if of_epoch is None else of_epoch.next_start(offset)

    def start_reaching(self, epoch: int, offset: int, timestamp_ms: int) -> int | None:
        """Return the start of the first copied segment of an epoch that may have a record with a timestamp of
        `timestamp_ms` or later. The search begins at the segment with the greatest start at or below `offset`. If no
        segment may have such a record, return the start of the last one; None if there is no segment."""
        of_epoch = self._epochs.get(epoch)
        if of_epoch is None:
            return None
        found = None
        for at in range(max(0, bisect_right(of_epoch.starts, offset) - 1), len(of_epoch.starts)):
            found = of_epoch.starts[at]
            newest = self._segments[of_epoch.ids[found]].max_timestamp_ms
            if newest is None or newest >= timestamp_ms:
                break
        return found

    def with_txn_index(self, offset: int) -> Iterator[RemoteSegment]:
        """Yield the copied segments of all epochs, also superseded ones, that have a transaction index and begin at or
        above `offset`, by start offset. The cache must not change meanwhile."""
        for _, segment_id in self._txn_starts[bisect_left(self._txn_starts, (offset, "")) :]:
            yield self._segments[segment_id]

    def last_copied(self, epoch: int, end: int) -> int | None:
        """Return the last offset of the epoch in the copied segment whose first offset of the epoch is the greatest
        below `end`; None if there is none. Deleted segments do not count."""
        of_epoch = self._epochs.get(epoch)
        segment_id = None if of_epoch is None else of_epoch.floor(end - 1)
        return None if segment_id is None else self._segments[segment_id].last_offset_of(epoch)

    def highest_offset(self, epoch: int) -> int | None:
        """Return the highest offset of the epoch that was ever copied, whether or not its segment still exists."""
        of_epoch = self._epochs.get(epoch)
        return None if of_epoch is None else of_epoch.highest

    def highest_deleted(self, epoch: int) -> int | None:
        """Return the highest offset of the epoch in copied segments whose deletion has begun; None if there is none."""
        of_epoch = self._epochs.get(epoch)
        return None if of_epoch is None else of_epoch.deleted


def _name(state: SegmentState | None) -> str:
    return "no state" if state is None else state.name
