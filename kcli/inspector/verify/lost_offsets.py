"""Offsets that a log should have and no batch has: a segment is gone, was emptied, or ends too early.

What says so: the next segment's name, index entries behind the last batch, index files without their log, snapshots,
leader epochs, checkpoints of the log directory. A gap is normal where the topic is or was compacted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, Severity, offsets_text
from kcli.inspector.verify.index_files import IndexFile
from kcli.inspector.verify.segment_names import log_name
from kcli.inspector.verify.surroundings import Gaps

NO_LOSS = "nothing to do: compaction leaves gaps"
REFETCH = (
    "look for the file; if another replica has these offsets, stop the broker and move the partition's directory away: "
    "the broker then fetches it anew. Without either, consumers read past the gap"
)
CHECKPOINT_NAMES = {
    FileKind.RECOVERY_POINTS: "recovery point",
    FileKind.REPLICATION_OFFSETS: "high watermark",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a partition's log without looking at it.

    ends: offsets that the log had reached, by the checkpoint that says so; epochs: its leader-epoch-checkpoint;
    is_tiered None: not known; home: the log directory, where a lost file may be; is_clean: has it the clean-shutdown
    marker; directory: that of the partition, if it is one.
    """

    gaps: Gaps = Gaps.UNKNOWN
    ends: Mapping[FileKind, int] = field(default_factory=dict)
    epochs: Sequence[tuple[int, int]] = ()
    is_tiered: bool | None = None
    home: Path | None = None
    directory: Path | None = None
    is_clean: bool = False


def judged(gap: Finding, gaps: Gaps) -> Finding:
    """A gap between batches, as its topic's cleanup policy makes it normal or not."""
    if gaps is Gaps.NORMAL:
        return gap
    directory = Path(gap.path).parent
    severity: Severity = "error" if gaps is Gaps.LOSS else "warning"
    action = f"{gaps.value}: compare with the other replicas"
    return replace(gap, severity=severity, action=action, command=next_steps.dump(directory, gap.lost_first_offset))


def between(log: Path, first: int, last: int) -> Finding:
    """The offsets between a segment and the one before it, where the topic is compacted."""
    return Finding(
        path=str(log),
        kind="offset-gap",
        severity="info",
        position=0,
        offset=first,
        expected=f"{first:,}",
        found=f"{offsets_text(first, last)} in no batch",
        lost_first_offset=first,
        lost_last_offset=last,
        action=NO_LOSS,
    )


def missing_segment(
    directory: Path, first: int, last: int | None, *, severity: Severity, why: str, home: Path | None
) -> Finding:
    """No file has these offsets. why: what says that there were such."""
    name = log_name(first)
    return Finding(
        path=str(directory / name),
        kind="log-missing",
        severity=severity,
        offset=first,
        expected=why,
        found=f"no such file: {offsets_text(first, last)} lost",
        lost_first_offset=first,
        lost_last_offset=last,
        action=REFETCH,
        command=next_steps.search(home or directory, name),
    )


def cut_log(
    log: Path, size: int, end: int, offsets: IndexFile | None, times: IndexFile | None, base: int
) -> Finding | None:
    """The log ends before its indexes do: it was cut, or emptied. end: the offset behind its last batch.

    An entry behind the end must be wrong in both its fields, and come last, or both indexes must have one: a flipped
    bit in an index does not do that.
    """
    reached, positions = [], []
    if offsets is not None and offsets.count:
        relative, position = offsets.fields(offsets.count - 1)
        if base + relative >= end and position >= size:
            reached.append(base + relative)
            positions.append(position)
    if times is not None and times.count:
        _, relative = times.fields(times.count - 1)
        if base + relative >= end and (reached or not size):
            reached.append(base + relative)
    if not reached or (size and not positions):
        return None
    said = f"its indexes go on to offset {max(reached):,}"
    said += f" and byte {positions[0]:,}" if positions else ""
    return Finding(
        path=str(log),
        kind="log-cut" if size else "log-empty",
        severity="error",
        position=size,
        offset=end,
        expected=f"batches up to where {said.removeprefix('its ')}",
        found=f"{size:,} bytes: {'the file is cut' if size else 'the file is empty'}, and {said}",
        lost_first_offset=end,
        lost_last_offset=max(reached),
        action=REFETCH,
        command=next_steps.recover(log.parent),
    )


def short_log(log: Path, end: int, known: Known, snapshots: Sequence[int], directory: Path) -> Finding | None:
    """The log ends before what others say that it reached. Checkpoints that contradict each other say nothing."""
    said = [(name, known.ends[kind]) for kind, name in CHECKPOINT_NAMES.items() if kind in known.ends]
    beyond = [(name, offset) for name, offset in said if offset > end]
    others = [("leader epoch", start) for _, start in known.epochs[-1:] if start > end]
    others += [("producer snapshot", offset) for offset in snapshots[-1:] if offset > end]
    if not beyond and len(others) < 2:
        return None
    if any(offset == end for _, offset in said) and not others:
        return None
    beyond += others
    last = max(offset for _, offset in beyond) - 1
    reasons = ", ".join(f"the {name} is {offset:,}" for name, offset in beyond)
    return Finding(
        path=str(log),
        kind="log-end",
        severity="error",
        offset=end,
        expected=f"a log up to {last + 1:,}: {reasons}",
        found=f"the log ends at {end:,}: {offsets_text(end, last)} lost",
        lost_first_offset=end,
        lost_last_offset=last,
        action=REFETCH,
        command=next_steps.search(known.home or directory, log_name(end)),
    )
