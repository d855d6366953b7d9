"""A cleaned segment in the place of those that it was made from, so that Kafka can end what a crash leaves.

    .cleaned -> .swap   log, indexes          while one is .cleaned: the new segment is dropped, the old ones stand
    old -> .deleted     segment by segment    all .swap: the new segment is taken, what is left of the old ones dropped
    .swap -> final      log, indexes
    then the snapshots of segments that are no more, and the .deleted files

Kafka leaves .deleted files for file.delete.delay.ms, for those who still read them; here nobody does.
Source: LocalLog.replaceSegments, LogSegment.changeFileSuffixes, LogLoader.load.
"""

from __future__ import annotations

from collections.abc import Sequence

from formats.file_name import FileKind, FileName, build
from kcli.log.cleaner.partition import SEGMENT_FILES, Segment
from kcli.log.disk import Disk


def change_state(disk: Disk, segment: Segment, old: str, new: str) -> None:
    """Rename the files of a segment from one state to another: the log first. Raises OSError."""
    for kind in SEGMENT_FILES:
        if segment.path(kind, old).exists():
            disk.rename(segment.path(kind, old), segment.path(kind, new))


def delete_segments(disk: Disk, segments: Sequence[Segment], *, snapshots_of: Sequence[Segment]) -> None:
    """Remove segments that bear `.deleted`, and the snapshots at the base offsets of some. Raises OSError."""
    for segment in snapshots_of:
        disk.remove(segment.directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, segment.base_offset)))
    for segment in segments:
        for kind in reversed(SEGMENT_FILES):
            disk.remove(segment.path(kind, "deleted"))


def swap_in(disk: Disk, cleaned: Segment, replaced: Sequence[Segment]) -> None:
    """Put a segment whose files bear `.cleaned` in the place of segments of its directory. Raises OSError."""
    change_state(disk, cleaned, "cleaned", "swap")
    disk.sync_directory(cleaned.directory)
    for segment in replaced:
        change_state(disk, segment, "", "deleted")
    change_state(disk, cleaned, "swap", "")
    disk.sync_directory(cleaned.directory)
    gone = [segment for segment in replaced if segment.base_offset != cleaned.base_offset]
    delete_segments(disk, replaced, snapshots_of=gone)
