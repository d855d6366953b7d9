"""What Kafka does at its next start with damage in a segment, and what to do about it.

    above the recovery point, no clean-shutdown marker    it recovers the segment: cuts the log, rebuilds the indexes
    above it, with the marker                             it takes log and indexes as they are, and appends
    below it                                              it takes them as they are, with the marker or without

A segment whose index is missing is recovered in each case. Source: LogLoader (recoverLog, loadSegmentFiles).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import REBUILD
from kcli.inspector.verify.log_findings import RECOVER
from kcli.inspector.verify.lost_offsets import Known
from kcli.inspector.verify.segment_names import Segment


class NextStart(Enum):
    """What it does with one segment, and what that means for damage in its log."""

    RECOVERS = RECOVER
    TRUSTS = (
        "a clean start does not look at it, and Kafka appends behind it: without .kafka_cleanshutdown Kafka cuts the "
        "file here when it starts"
    )
    PASSES_OVER = (
        "below the recovery point Kafka does not look at it when it starts, and consumers meet it: fetch the partition "
        "from another replica, or salvage what is sound, in a copy"
    )


def of_segment(known: Known, until: int | None) -> NextStart:
    """For the segment below offset `until`, None for the active one."""
    if known.home is None:
        return NextStart.RECOVERS
    if until is not None and until <= known.ends.get(FileKind.RECOVERY_POINTS, 0):
        return NextStart.PASSES_OVER
    return NextStart.TRUSTS if known.is_clean else NextStart.RECOVERS


def of_log(finding: Finding, start: NextStart, home: Path | None) -> Finding:
    """A finding in a log, with what becomes of it. home: the log directory."""
    if finding.action != RECOVER or start is NextStart.RECOVERS or home is None:
        return finding
    directory = Path(finding.path).parent
    if start is NextStart.PASSES_OVER:
        command = next_steps.salvage_copy(directory)
    elif finding.next_valid_position is None:
        command = next_steps.remove(home / FileKind.CLEAN_SHUTDOWN)
    else:
        command = next_steps.salvage(directory)
    return replace(finding, action=start.value, command=command)


def of_index(finding: Finding, start: NextStart, segment: Segment, *, is_active: bool) -> Finding:
    """A finding in an index of a sound log, with what becomes of it."""
    if finding.action != REBUILD or start is NextStart.RECOVERS:
        return finding
    outcome = "consumers skip records, or begin at wrong ones"
    if is_active and finding.path.endswith(FileKind.OFFSET_INDEX):
        outcome = "it takes the end of the log from it: records behind are hidden, and written over"
    kinds = FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
    indexes = [segment.files[kind] for kind in kinds if kind in segment.files]
    return replace(
        finding,
        action=f"Kafka takes it as it is when it starts, and {outcome}; stop the broker, and move the indexes away: "
        "Kafka rebuilds missing ones",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in indexes]),
    )
