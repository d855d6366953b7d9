"""What a leader finds in the tier when it begins: the log start offset, and how far the log is copied.

    first_tiered     the start of the first segment of the earliest leader epoch that has one
    last_tiered      the highest offset of the latest leader epoch that has a copied segment; not above the end of that
                     epoch in the lineage, as an earlier leader may have copied records that this one does not have

Source: RemoteLogManager.findLogStartOffset, findHighestRemoteOffset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from formats.checkpoint import EpochEntry
from kcli.tier.cache import SegmentCache

NONE = -1


def first_tiered(cache: SegmentCache, lineage: Sequence[EpochEntry]) -> int | None:
    """Return the first offset that the tier has of a log; None if it has no segment of the lineage."""
    for epoch, _ in lineage:
        found = cache.segments_of(epoch)
        if found:
            return found[0].start_offset
    return None


def last_tiered(cache: SegmentCache, lineage: Sequence[EpochEntry], log_end_offset: int) -> int:
    """Return the last offset of a log that the tier has; -1 if it has none."""
    if not lineage:
        return NONE
    ends = [*(behind.start_offset for _, behind in pairwise(lineage)), log_end_offset]
    for (epoch, _), end in zip(reversed(lineage), reversed(ends), strict=True):
        highest = cache.highest_offset(epoch)
        if highest is not None:
            return min(highest, end - 1)
    return NONE
