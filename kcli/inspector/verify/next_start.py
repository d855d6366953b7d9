"""What Kafka does at its next start with a damaged segment, and the next step for an operator.

    above the recovery point, no clean-shutdown marker    recovers the segment: cuts its .log file, rebuilds the indexes
    above the recovery point, with the marker             uses .log file and indexes without a check, appends to them
    below the recovery point                              uses .log file and indexes without a check, marker or not

A segment whose offset index is missing, or whose transaction index has an entry below the base offset, is recovered in
each case: all its indexes are rebuilt. Source: LogLoader (recoverLog, loadSegmentFiles).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import REBUILD, REBUILT, TOO_OLD, TOO_YOUNG
from kcli.inspector.verify.log_findings import RECOVER
from kcli.inspector.verify.lost_offsets import Known
from kcli.inspector.verify.segment_names import INDEX_KINDS, SegmentFiles

UNMET = (
    "nothing to do: no offset is missing, below the recovery point Kafka does not look at it when it starts, and "
    "consumers go on with the next segment"
)
"""The advice for an incomplete batch that a failed append has left at the end of a segment."""

HIDES = "takes the end of the log from it: records behind are hidden, and written over"
"""The consequence of a wrong offset index of an active segment, if a start gets past it."""
SKIPS = "consumers skip records, or begin at wrong ones"
CUT_INDEX = "index-length"
"""The finding of an offset index that ends with a part of an entry."""


UNREAD = "a clean start does not look at it"


class NextStart(Enum):
    """What Kafka does with one segment; the values are the texts of the advice in findings about its log."""

    RECOVERS = RECOVER
    TRUSTS = f"{UNREAD}, and consumers meet it"
    APPENDS = f"{UNREAD}, and Kafka appends behind it"
    LEAVES = f"{UNREAD}, and no consumer meets it: Kafka serves nothing of this directory"
    PASSES_OVER = (
        "below the recovery point Kafka does not look at it when it starts, and consumers meet it: fetch the partition "
        "from another replica, or salvage what is sound, in a copy; with --in-place for --dry-run, where it is"
    )


def of_segment(known: Known, until: int | None) -> NextStart:
    """Return what Kafka does with a segment when it starts. known: what other files say about the partition. until:
    the base offset of the next segment; None for the active segment."""
    if known.home is None:
        return NextStart.RECOVERS
    if until is not None and until <= known.recovery_point:
        return NextStart.PASSES_OVER
    if not known.is_clean:
        return NextStart.RECOVERS
    if known.directory is None:  # the directory has -stray, -delete or -future in its name
        return NextStart.LEAVES
    return NextStart.APPENDS if until is None else NextStart.TRUSTS


def of_log(finding: Finding, start: NextStart, home: Path | None, *, is_whole: bool) -> Finding:
    """Return a finding in a .log file; its action and command become those that fit what Kafka does with the segment
    when it starts. home: the log directory. is_whole: whether the sound batches have all offsets up to the next
    segment's base offset."""
    if finding.action != RECOVER or start is NextStart.RECOVERS or home is None:
        return finding
    directory = Path(finding.path).parent
    is_passed_over = start is NextStart.PASSES_OVER
    if is_passed_over and is_whole and finding.kind == "truncated" and finding.next_valid_position is None:
        return replace(finding, severity="warning", action=UNMET, command=None)
    command = next_steps.salvage_log_directory(home) if is_passed_over else next_steps.salvage(directory)
    return replace(finding, action=start.value, command=command)


def of_index(
    finding: Finding,
    start: NextStart,
    segment: SegmentFiles,
    *,
    is_active: bool,
    is_sound: bool,
    is_rebuilt: bool,
) -> Finding:
    """Return a finding in an index, with advice and command for what Kafka does with the segment when it starts.

    is_active: whether the segment is the last one of its log. is_sound: whether the .log file is sound. If it is not,
    the next step is salvage instead of moving the indexes away: Kafka recovers a segment without an offset index, and
    would cut the .log file at the damage. is_rebuilt: whether Kafka's start finds the transaction index corrupt, and
    rebuilds all indexes of the segment.
    """
    if finding.action != REBUILD or start is NextStart.RECOVERS:
        return finding
    if FileKind.OFFSET_INDEX not in segment.files or is_rebuilt:
        return replace(finding, action=REBUILT, command=None)
    taken = f"Kafka does not rebuild it when it starts, and {_outcome(finding, is_active=is_active)}"
    if not is_sound:
        action = f"{taken}; salvage rebuilds the indexes, with --in-place for --dry-run"
        return replace(finding, action=action, command=next_steps.salvage(Path(finding.path).parent))
    indexes = [segment.files[kind] for kind in INDEX_KINDS if kind in segment.files]
    return replace(
        finding,
        action=f"{taken}; stop the broker, and move the indexes away: Kafka rebuilds all of a segment without a .index",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in indexes]),
    )


def _outcome(finding: Finding, *, is_active: bool) -> str:
    """Return, in words, the consequence of a wrong index."""
    if finding.path.endswith(FileKind.TXN_INDEX):
        return "read_committed consumers read records of aborted transactions, or miss those of committed ones"
    if finding.kind == TOO_OLD:
        return f"30 s later deletes offsets {finding.lost_first_offset:,}..{finding.lost_last_offset:,}"
    if finding.kind == TOO_YOUNG:
        return "retention.ms deletes neither this segment nor those behind it before that time"
    if finding.kind == CUT_INDEX and "multiple" in str(finding.expected):
        return "uses its whole entries, with which it finds every record"
    if is_active and finding.path.endswith(FileKind.OFFSET_INDEX):
        return HIDES
    return SKIPS
