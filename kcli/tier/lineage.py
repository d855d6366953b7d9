"""Which segment of the tier each offset of a partition is read from, by the lineage of its leader epochs.

    lineage   which epoch began at which offset: leader-epoch-checkpoint
    parts     ranges of offsets, each with the one segment that has them; in order, none twice
    gaps      ranges of offsets between them that no copied segment has

A tier may have more than one segment with an offset: two leaders may have copied it, or one of the segments is of an
earlier epoch whose last records the next leader did not have. A read looks up the epoch of the offset in the lineage,
then the segment that Kafka's cache names for this epoch and offset. Source:
RemoteLogManager.fetchRemoteLogSegmentMetadata, LeaderEpochFileCache.epochForOffset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from formats.checkpoint import EpochEntry
from kcli.tier.cache import SegmentCache
from kcli.tier.segment import RemoteSegment

OFFSET_MAX = 2**63 - 1


class Part(NamedTuple):
    """The offsets `first` to `last` of a tiered segment, which a reader of the lineage takes from this segment."""

    segment: RemoteSegment
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Whether these are all offsets of the segment."""
        return self.first == self.segment.start_offset and self.last == self.segment.end_offset


@dataclass(slots=True)
class Plan:
    """The parts of segments in the tier from which offsets are read, and the gaps: the first and last offset of each
    range that the tier does not have."""

    parts: list[Part] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)


def plan(cache: SegmentCache, lineage: Sequence[EpochEntry], start: int | None, end: int | None) -> Plan:
    """Return the plan for the offsets from `start` to below `end`. start: None for the first offset in the tier. end:
    None for the end of the tier; the plan then has no gap at its end."""
    found = Plan()
    behind = OFFSET_MAX if end is None else end
    offset = _next(cache, lineage, -1) if start is None else start
    while offset is not None and offset < behind:
        at = _at(cache, lineage, offset)
        if at is not None:
            segment, last = at
            last = min(last, behind - 1)
            _add(found.parts, Part(segment, offset, last))
            offset = last + 1
            continue
        following = _next(cache, lineage, offset)
        if following is None or following >= behind:
            if end is not None:
                found.gaps.append((offset, behind - 1))
            break
        found.gaps.append((offset, following - 1))
        offset = following
    return found


def from_segment_start(part: Part, lineage: Sequence[EpochEntry]) -> Part:
    """Return a part that begins at a log start offset, extended to the beginning of its segment or of the leader epoch:
    the log start offset may lie inside a batch. The first epoch of a lineage begins at the log start offset or before
    it, and does not limit the part."""
    place = _place(lineage, part.first)
    epoch, start = lineage[place]
    own = next((each.start_offset for each in part.segment.leader_epochs if each.epoch == epoch), part.first)
    return part._replace(first=min(part.first, max(part.segment.start_offset, own, start if place else 0)))


def segment_at(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int) -> RemoteSegment | None:
    """Return the copied segment that an offset is read from; None if there is none."""
    found = _at(cache, lineage, offset)
    return None if found is None else found[0]


def segment_from(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int) -> tuple[RemoteSegment, int] | None:
    """Return the first copied segment with an offset of the lineage at or above `offset`, and the first such offset in
    it; None if there is none."""
    if _at(cache, lineage, offset) is None:
        above = _next(cache, lineage, offset)
        if above is None:
            return None
        offset = above
    found = _at(cache, lineage, offset)
    return None if found is None else (found[0], offset)


def behind_older(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int, timestamp_ms: int) -> int:
    """Return the offset, at or above `offset`, from which to search for a record with a timestamp of `timestamp_ms` or
    later: no segment with lower offsets of the lineage has such a record."""
    place = _place(lineage, offset)
    start = None if place < 0 else cache.start_reaching(lineage[place].epoch, offset, timestamp_ms)
    return offset if start is None else min(max(offset, start), _last(lineage, place) + 1)


def segments_with_txn_index(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int) -> Iterator[RemoteSegment]:
    """Yield the copied segments of the lineage that have a transaction index and offsets at or above `offset`, in
    order. Source: RemoteLogManager.findNextSegmentWithTxnIndex."""
    at = segment_at(cache, lineage, offset)
    if at is not None and at.has_txn_index:
        yield at
    for segment in cache.with_txn_index(offset + 1):
        if segment_at(cache, lineage, segment.start_offset) is segment:
            yield segment


def were_deleted(cache: SegmentCache, lineage: Sequence[EpochEntry], first: int, last: int) -> bool:
    """Whether brokers have deleted copied segments up to the offset `last`, or begun to, in each epoch of the lineage
    that has some of the offsets first..last."""
    for place in range(max(0, _place(lineage, first)), _place(lineage, last) + 1):
        deleted = cache.highest_deleted(lineage[place].epoch)
        if deleted is None or deleted < min(last, _last(lineage, place)):
            return False
    return True


def last_readable(segment: RemoteSegment, lineage: Sequence[EpochEntry], offset: int) -> int:
    """Return the last offset of a segment up to which, from `offset` on, its offsets have the leader epochs of the
    lineage."""
    place = _place(lineage, offset)
    last = -1
    own = [each for each in segment.leader_epochs if each.epoch >= lineage[place].epoch]
    for entry, (epoch, start) in zip(own, lineage[place:], strict=False):
        if entry.epoch != epoch or (last >= 0 and entry.start_offset != start):
            break
        in_segment, in_lineage = segment.last_offset_of(epoch), _last(lineage, place)
        last, place = max(last, min(in_segment, in_lineage)), place + 1
        if in_segment != in_lineage:
            break
    return last


def is_within(segment: RemoteSegment, lineage: Sequence[EpochEntry]) -> bool:
    """Whether a segment, from the first offset of the lineage on, has the same leader epochs at the same offsets as the
    lineage."""
    begin = lineage[0].start_offset if lineage else 0
    for epoch, start in segment.leader_epochs:
        last = segment.last_offset_of(epoch)
        if last < max(start, begin):
            continue
        place = _place(lineage, max(start, begin))
        if place < 0 or lineage[place].epoch != epoch or last > _last(lineage, place):
            return False
    return True


def _last(lineage: Sequence[EpochEntry], place: int) -> int:
    """Return the last offset of the epoch at index `place` of the lineage; OFFSET_MAX for the last epoch."""
    return lineage[place + 1].start_offset - 1 if place + 1 < len(lineage) else OFFSET_MAX


def _place(lineage: Sequence[EpochEntry], offset: int) -> int:
    """Return the index of the epoch that has an offset; -1 if the offset is below the first one's."""
    if lineage and offset >= lineage[-1].start_offset:  # nearly always true: most logs have few epochs
        return len(lineage) - 1
    return bisect_right(lineage, offset, key=lambda each: each.start_offset) - 1


def _at(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int) -> tuple[RemoteSegment, int] | None:
    """Return the segment from which an offset is read, and the last offset that is read from it; None if there is no
    such segment."""
    place = _place(lineage, offset)
    if place < 0:
        return None
    epoch = lineage[place].epoch
    segment = cache.segment_at(epoch, offset)
    if segment is None:
        return None
    return segment, min(segment.last_offset_of(epoch), _last(lineage, place))


def _next(cache: SegmentCache, lineage: Sequence[EpochEntry], offset: int) -> int | None:
    """Return the first offset of the lineage above `offset` that a copied segment has; None if there is none."""
    for i in range(max(0, _place(lineage, offset)), len(lineage)):
        epoch, start = lineage[i]
        begin = max(start, offset + 1)
        if begin > _last(lineage, i):
            continue
        if cache.segment_at(epoch, begin) is not None:
            return begin
        following = cache.next_start(epoch, begin)
        while following is not None and cache.segment_at(epoch, following) is None:  # it has no offset of the epoch
            following = cache.next_start(epoch, following)
        if following is not None and following <= _last(lineage, i):
            return following
    return None


def _add(parts: list[Part], part: Part) -> None:
    """Add `part` to `parts`. If the last of `parts` is of the same segment and ends right before `part`, lengthen it
    instead."""
    before = parts[-1] if parts else None
    if before is not None and before.segment.id == part.segment.id and before.last + 1 == part.first:
        parts[-1] = before._replace(last=part.last)
    else:
        parts.append(part)
