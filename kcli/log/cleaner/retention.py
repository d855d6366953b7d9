"""Old segments that go whole, from the first on, as long as each in turn may go.

    log start offset   the next segment begins at or below it     every log
    retention.bytes    the log is larger by at least that segment  cleanup.policy with delete
    retention.ms       its youngest record is older                cleanup.policy with delete

None goes that reaches above the high watermark. Where all would go, Kafka rolls an empty segment first. The leader
epochs then begin at the new log start.
Source: UnifiedLog.deleteOldSegments, deletableSegments, deleteSegments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.log.cleaner.partition import PartitionLog, Segment, Uncleanable
from kcli.log.cleaner.swap import change_state, delete_segments
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.source import read_whole

Condition = Callable[[Segment, Segment | None], bool]


def deletable(log: PartitionLog, config: LogConfig, now_ms: int) -> list[Segment]:
    """The segments that retention removes now, the oldest first."""
    conditions = [partial(_below_start, log.log_start_offset)]
    if config.delete:
        conditions += [partial(_too_much, config.retention_bytes), partial(_too_old, now_ms, config.retention_ms)]
    gone = 0
    for condition_for in conditions:
        rest = log.segments[gone:]
        condition = condition_for(rest)
        for segment, behind in zip(rest, [*rest[1:], None], strict=True):
            upper = log.log_end_offset if behind is None else behind.base_offset
            if log.high_watermark < upper or not condition(segment, behind) or (behind is None and not segment.size):
                break
            gone += 1
    return log.segments[:gone]


def _below_start(log_start_offset: int, _rest: list[Segment]) -> Condition:
    return lambda _segment, behind: behind is not None and behind.base_offset <= log_start_offset


def _too_much(retention_bytes: int, rest: list[Segment]) -> Condition:
    left = sum(segment.size for segment in rest) - retention_bytes if retention_bytes >= 0 else -1

    def check(segment: Segment, _behind: Segment | None) -> bool:
        nonlocal left
        left -= segment.size
        return left >= 0

    return check


def _too_old(now_ms: int, retention_ms: int, _rest: list[Segment]) -> Condition:
    return lambda segment, _behind: 0 <= retention_ms < now_ms - segment.age_timestamp


def delete_old(log: PartitionLog, gone: list[Segment], disk: Disk, target: Path | None) -> None:
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


def _cut_leader_epochs(log: PartitionLog, disk: Disk, target: Path) -> None:
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
