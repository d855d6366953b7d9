"""Puts a cleaned segment in the place of the segments that it replaces, in steps that Kafka completes after a crash.

    .cleaned -> .swap   log, indexes          a crash while a file is .cleaned: the old segments stay
    old -> .deleted     segment by segment    a crash when all are .swap: the new segment stays
    .swap -> final      log, indexes
    then remove the snapshots at base offsets of replaced segments, and the .deleted files

Kafka keeps .deleted files for file.delete.delay.ms, as a Fetch may still read them; `swap_in` is for logs that no
broker has open, and removes them at once.
Source: LocalLog.replaceSegments, LogSegment.changeFileSuffixes, LogLoader.load.
"""

from __future__ import annotations

from collections.abc import Sequence

from formats.file_name import FileKind, FileName, build
from kcli.log.cleaner.partition import SEGMENT_FILES, StoredSegment
from kcli.log.disk import Disk


def change_state(disk: Disk, segment: StoredSegment, old: str, new: str) -> None:
    """Rename the files of a segment from one suffix to another, the .log file first. old, new: the suffixes without
    their dots; "" for none. Raises OSError."""
    for kind in SEGMENT_FILES:
        if segment.path(kind, old).exists():
            disk.rename(segment.path(kind, old), segment.path(kind, new))


def delete_segments(disk: Disk, segments: Sequence[StoredSegment], *, snapshots_of: Sequence[StoredSegment]) -> None:
    """Remove the files of `segments`, which have the suffix `.deleted`, and the producer snapshots at the base offsets
    of `snapshots_of`. Raises OSError."""
    for segment in snapshots_of:
        disk.remove(segment.directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, segment.base_offset)))
    for segment in segments:
        for kind in reversed(SEGMENT_FILES):
            disk.remove(segment.path(kind, "deleted"))


def swap_in(disk: Disk, cleaned: StoredSegment, replaced: Sequence[StoredSegment]) -> None:
    """Put the segment `cleaned`, with the suffix `.cleaned`, in the place of the segments `replaced` of the same
    directory, whose files are removed. Raises OSError."""
    change_state(disk, cleaned, "cleaned", "swap")
    disk.sync_directory(cleaned.directory)
    for segment in replaced:
        change_state(disk, segment, "", "deleted")
    change_state(disk, cleaned, "swap", "")
    disk.sync_directory(cleaned.directory)
    merged = [segment for segment in replaced if segment.base_offset != cleaned.base_offset]
    delete_segments(disk, replaced, snapshots_of=merged)
