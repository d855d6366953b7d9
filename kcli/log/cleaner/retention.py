"""Retention on a log that no broker has open: removes old segments' files, and the leader epochs that end at or below
the new log start offset. Source: UnifiedLog.deleteOldSegments, deleteSegments.
"""

from __future__ import annotations

from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.log.cleaner.partition import CleanerLog, StoredSegment, Uncleanable
from kcli.log.cleaner.swap import change_state, delete_segments
from kcli.log.disk import Disk
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.source import read_whole


def delete_old(log: CleanerLog, expired: list[StoredSegment], disk: Disk, target: Path | None) -> None:
    """Remove the expired segments from `log`, and their files from the directory `target` (None: no file is removed).
    If all segments are expired, an empty one that begins at the log end offset takes their place. Raises OSError."""
    if not expired:
        return
    new = [StoredSegment(target or log.directory, log.log_end_offset, 0, log.active.modified_ms)]
    if len(expired) < len(log.segments):
        new = []
    if target is not None:
        for segment in new:
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
                disk.open(segment.path(kind), create=True).close()
        in_target = [segment for segment in expired if segment.directory == target]
        for segment in in_target:
            change_state(disk, segment, "", "deleted")
        disk.sync_directory(target)
        delete_segments(disk, in_target, snapshots_of=in_target)
    log.replace(expired, new)
    log.log_start_offset = max(log.log_start_offset, log.segments[0].base_offset)
    if target is not None:
        _cut_leader_epochs(log, disk, target)


def _cut_leader_epochs(log: CleanerLog, disk: Disk, target: Path) -> None:
    """Remove from leader-epoch-checkpoint the epochs that end at or below the log start offset."""
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
