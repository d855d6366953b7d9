"""Offsets of a partition that a store may have, but that no read returns, if no metadata describes the segments: the
objects' names, indexes and leader epochs show such offsets, which would otherwise be missing without a message.

    lost        a segment whose .log object is missing, or has no batch: its objects' names have its start offset
    cut off     the last segment, whose indexes have offsets behind its last batch
    left out    a segment below the first offset that is read: the lineage begins later, or has other epochs there

Segments after the last segment of the lineage do not count: a later leader did not have their records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from formats.file_name import FileKind
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.tier.lineage import OFFSET_MAX, Plan
from kcli.tier.stored_segment import indexed_offset

if TYPE_CHECKING:
    from kcli.tier.layout import SegmentObjects
    from kcli.tier.segment import RemoteSegment
    from kcli.tier.tier import PartitionTier, Tier


class Unread(NamedTuple):
    """Offsets, both inclusive, that no read returns, and the reason. last: None if it is not known."""

    first: int
    last: int | None
    reason: str


def unread(tier: Tier, each: PartitionTier, planned: Plan) -> list[Unread]:
    """Return the offsets of the partition `each` that no read returns, except the gaps of `planned`, its plan of reads.
    Raises UnreadableInput, StoreFailed."""
    if each.has_metadata:
        return []
    found = [*_left_out(tier, each, planned), *_cut_off(tier, each, planned), *_lost(tier, each, planned)]
    return sorted(found, key=lambda one: one.first)


def gap_reason(tier: Tier, each: PartitionTier, first: int, last: int) -> str:
    """Return, in words, why the offsets of a gap are in no segment from which offsets are read."""
    for objects in each.lost:
        if first <= objects.start_offset <= last:
            return lost_reason(tier, objects)
    for segment in [] if each.has_metadata else each.copied():
        if segment.start_offset <= last and first <= segment.end_offset:
            return _left_out_reason(tier, each, segment)
    return "no segment in the tier"


def lost_reason(tier: Tier, objects: SegmentObjects) -> str:
    """Return, in words, why the offsets of a segment are not known from its objects."""
    if objects.told is not None and objects.told.damage is not None:
        return str(objects.told.damage)
    size = objects.sizes.get(FileKind.LOG)
    found = no_object(tier, objects) if size is None else f"{size:,} bytes without a batch of the segment"
    return f"{tier.store.place(objects.name(FileKind.LOG))}: {found}"


def no_object(tier: Tier, objects: SegmentObjects) -> str:
    """Return, in words, that the store has no .log object of a segment, or what it has in place of it."""
    odd = tier.inventory.in_place_of(objects.name(FileKind.LOG))
    return "no such object" if odd is None else f"no object, but {odd}"


def _lost(tier: Tier, each: PartitionTier, planned: Plan) -> Iterator[Unread]:
    covered = OffsetRanges(sorted([*((part.first, part.last) for part in planned.parts), *planned.gaps]))
    if each.first_offset:
        covered.add(0, each.first_offset - 1)
    end = None if each.local is None else each.local.first_offset
    if end is not None:
        covered.add(end, OFFSET_MAX)
    begins = sorted({*(part.first for part in planned.parts), *(lost.start_offset for lost in each.lost)})
    for objects in each.lost:
        start = objects.start_offset
        known = max(start, indexed_offset(tier.store, objects))
        first = next((low for low, _ in covered.lacking(start, known)), None)
        if first is not None:
            behind = next((begin for begin in begins if begin > first), end)
            yield Unread(first, None if behind is None else behind - 1, lost_reason(tier, objects))


def _cut_off(tier: Tier, each: PartitionTier, planned: Plan) -> Iterator[Unread]:
    if not planned.parts or (each.local is not None and each.local.logs):
        return
    last = planned.parts[-1]
    objects = tier.objects(last.segment)
    known = indexed_offset(tier.store, objects) if last.last == last.segment.end_offset else -1
    if known > last.last:
        place = tier.store.place(objects.name(FileKind.LOG))
        yield Unread(last.last + 1, None, f"{place}: the end is cut off: its indexes have offset {known:,}")


def _left_out(tier: Tier, each: PartitionTier, planned: Plan) -> Iterator[Unread]:
    if not planned.parts or each.first_offset is not None:
        return
    used, first = {part.segment.id for part in planned.parts}, planned.parts[0].first
    for segment in each.copied():
        if segment.id not in used and segment.start_offset < first:
            last = min(segment.end_offset, first - 1)
            yield Unread(segment.start_offset, last, _left_out_reason(tier, each, segment))


def _left_out_reason(tier: Tier, each: PartitionTier, segment: RemoteSegment) -> str:
    own = ", ".join(f"{epoch:,} from {start:,}" for epoch, start in segment.leader_epochs[:3]) or "none"
    lineage = f"{each.lineage[0].epoch:,} from {each.lineage[0].start_offset:,}" if each.lineage else "none"
    place = tier.store.place(tier.objects(segment).name(FileKind.LOG))
    return f"{place}: its leader epochs are {own}; those that are read begin with {lineage}"
