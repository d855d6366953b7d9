"""Grouping of segments: adjacent segments whose present sizes fit into one segment are cleaned into one.

A group ends before the segment with which its bytes would exceed segment.bytes, an index would exceed
segment.index.bytes, or an offset would be further than an int32 from the group's base offset. Source:
Cleaner.groupSegmentsBySize.
"""

from __future__ import annotations

from collections.abc import Sequence

from formats.file_name import FileKind
from kcli.log.cleaner.partition import StoredSegment
from kcli.log.config import INT_MAX

INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


def group_segments(
    segments: Sequence[StoredSegment], *, max_bytes: int, max_index_bytes: int, first_uncleanable_offset: int
) -> list[list[StoredSegment]]:
    """Return the groups in which adjacent segments are cleaned into one, in order. segments: those to clean, in order.
    max_bytes: segment.bytes. max_index_bytes: segment.index.bytes. first_uncleanable_offset: the offset at which the
    cleanable part of the log ends."""
    groups: list[list[StoredSegment]] = []
    log_bytes = 0
    index_bytes = dict.fromkeys(INDEXES, 0)
    for i, segment in enumerate(segments):
        size = {kind: segment.index_bytes(kind) for kind in INDEXES}
        behind = segments[i + 1].base_offset if i + 1 < len(segments) else first_uncleanable_offset
        fits = (
            bool(groups)
            and log_bytes + segment.size <= max_bytes
            and all(index_bytes[kind] + size[kind] <= max_index_bytes for kind in INDEXES)
            and (segment.size == 0 or behind - 1 - groups[-1][0].base_offset <= INT_MAX)
        )
        if not fits:
            groups.append([])
            log_bytes, index_bytes = 0, dict.fromkeys(INDEXES, 0)
        groups[-1].append(segment)
        log_bytes += segment.size
        index_bytes = {kind: index_bytes[kind] + size[kind] for kind in INDEXES}
    return groups
