"""What a new leader finds in the tier: the log start offset, and the offset up to which the log is copied.

    first_tiered     the first offset of the lineage that a copied segment has
    last_tiered      the last offset of the latest leader epoch that has a copied segment; not above the end of that
                     epoch in the lineage, as an earlier leader may have copied records that the new one does not have.
                     Segments that begin after that end do not count: the records below them may not be in the tier

Kafka also counts segments that are deleted or being deleted. So it does not copy again what was deleted while tiered
storage was switched off, and local retention then removes the last copy. kcli does not count these segments. Source:
RemoteLogManager.findLogStartOffset, findHighestRemoteOffset.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from formats.checkpoint import EpochEntry
from kcli.tier.cache import SegmentCache
from kcli.tier.lineage import segment_from

NONE = -1


def first_tiered(cache: SegmentCache, lineage: Sequence[EpochEntry], log_start_offset: int) -> int | None:
    """Return the first offset at or above the log start offset that the tier has of a log; None if it has none."""
    found = segment_from(cache, lineage, log_start_offset) if lineage else None
    return None if found is None else found[1]


def last_tiered(cache: SegmentCache, lineage: Sequence[EpochEntry], log_end_offset: int) -> int:
    """Return the last offset of a log that the tier has; -1 if it has none."""
    if not lineage:
        return NONE
    ends = [*(behind.start_offset for _, behind in pairwise(lineage)), log_end_offset]
    for (epoch, _), end in zip(reversed(lineage), reversed(ends), strict=True):
        last = cache.last_copied(epoch, end)
        if last is not None:
            return min(last, end - 1)
    return NONE
