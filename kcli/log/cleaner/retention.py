"""Retention on a log that nobody has open: the files of segments that go, and the leader epochs that go with them.

The leader epochs begin at the new log start. Source: UnifiedLog.deleteOldSegments, deleteSegments.
"""

from __future__ import annotations

from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.log.cleaner.partition import CleanerLog, Segment, Uncleanable
from kcli.log.cleaner.swap import change_state, delete_segments
from kcli.log.disk import Disk
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.source import read_whole


def delete_old(log: CleanerLog, gone: list[Segment], disk: Disk, target: Path | None) -> None:
    """Take the segments that retention names out of the log, and their files out of the directory `target` (None: only
    count). Raises OSError."""
    if not gone:
        return
    new = [Segment(target or log.directory, log.log_end_offset, 0, log.active.modified_ms)]
    if len(gone) < len(log.segments):
        new = []
    if target is not None:
        for segment in new:
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                disk.open(segment.path(kind), create=True).close()
        here = [segment for segment in gone if segment.directory == target]
        for segment in here:
            change_state(disk, segment, "", "deleted")
        disk.sync_directory(target)
        delete_segments(disk, here, snapshots_of=here)
    log.replace(gone, new)
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    if target is not None:
        _cut_leader_epochs(log, disk, target)


def _cut_leader_epochs(log: CleanerLog, disk: Disk, target: Path) -> None:
    """Epochs that ended before the log start are of no use any more."""
    path = target / FileKind.LEADER_EPOCHS
    known = path if path.exists() else log.directory / FileKind.LEADER_EPOCHS
    if not known.exists():
        return
    try:
        epochs = LeaderEpochCache(parse_leader_epochs(read_whole(known)))
    except (FormatError, ValueError) as error:
        raise Uncleanable(known, str(error)) from None
    epochs.truncate_from_start(log.log_start_offset)
    if epochs.changed:
        disk.write_file(path, epochs.to_bytes())
