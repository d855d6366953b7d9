"""Batches of a .log file whose last offset is wrong, with a CRC that is right for it: the one cause of what the checks
of offsets, records, indexes and snapshots notice of it. The rule is that of salvage
(kcli.log.recovery.batch_last_offset).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.log_findings import SETS_LAST_OFFSET
from kcli.log.partition_view import Content, FileRange
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource

if TYPE_CHECKING:  # imported at run time only if an offset is wrong
    from kcli.log.recovery.salvage import WrongLastOffset

FOUND_MAX = 20  # the maximum number of batches of one log whose right last offset is looked for
NOTICED = ("record-offsets", "offsets-overlap", "offset-range")
FOLLOWING = ("log-end", "snapshot-offset", "snapshot-state", "producer-sequence")
OF_INDEXES = ("index-", "timeindex-", "txnindex-")


def wrong_last_offsets(
    logs: Iterable[Path], path: Path, base: int, following: int | None, reached: int | None, of_log: Iterable[Finding]
) -> list[WrongLastOffset]:
    """Return the batches of a .log file whose last offset is wrong. They are looked for only if a finding in the file
    may come from one.

    logs: the .log files of the partition. path: the one of them. base, following: its base offset, and that of the next
    one, None for the last one. reached: the log end offset that the checkpoints state; None if they have no entry, or
    if the log does not end above it with a batch of fewer records than offsets. of_log: the findings in the file.
    Raises UnreadableInput.
    """
    if reached is None and not any(each.kind in NOTICED for each in of_log):
        return []
    from kcli.log.recovery import salvage
    from kcli.log.recovery.misdirected import Home

    contents = {
        each.name: Content((FileRange(each, 0, each.stat().st_size),)) for each in logs if salvage.is_log(each.name)
    }
    if path.name not in contents:
        return []
    home = Home(salvage.topic_of(path.parent))
    found = salvage.wrong_last_offsets(contents, path.name, home, base, following, reached)
    return list(islice(found, FOUND_MAX))


def ends_sparsely(path: Path, position: int) -> bool:
    """Whether the batch at byte `position` of a .log file has fewer records than offsets. Raises UnreadableInput."""
    source = FileSource(path)
    try:
        window = next(iter(read_segment(source, start=position)), None)
        if not isinstance(window, Window):
            return False
        row = BatchRow._make(window.batches.row(0))
        window.release()
    finally:
        source.close()
    return row.magic >= 2 and row.count < row.last_offset - row.base_offset + 1


def is_part(finding: Finding, wrong: WrongLastOffset) -> bool:
    """Whether a finding in the .log file says what the wrong last offset of a batch makes of it: it is about the batch,
    or says that no batch has offsets of its."""
    if finding.position == wrong.position:
        return finding.kind != "leader-epoch"
    return finding.kind == "offset-gap" and finding.lost_first_offset in wrong.own_offsets


def cause(path: Path, wrong: WrongLastOffset, own: Finding, *, is_last: bool) -> Finding:
    """Return the finding of a batch with a wrong last offset. own: a finding about the batch, which it replaces.
    is_last: whether it is the last batch of the log."""
    harm = "consumers may skip its last records"
    if wrong.before < wrong.base_offset:
        harm = "consumers may get its records again and again, or no further than here"
    if wrong.before > wrong.last_offset:
        harm = "consumers may skip records behind it"
    if is_last:
        harm = f"takes the log to end at {wrong.before + 1:,}"
    return replace(
        own,
        kind="last-offset",
        severity="error",
        offset=wrong.base_offset,
        expected=f"{wrong.last_offset:,}, the offset of its last record",
        found=f"last offset {wrong.before:,}, and a CRC that is right for it",
        lost_first_offset=None,
        lost_last_offset=None,
        action=f"Kafka keeps this batch as it is, and {harm}{SETS_LAST_OFFSET}",
        command=next_steps.salvage(path.parent),
        next_valid_position=own.next_valid_position if own.next_valid_position != own.position else None,
    )


def follows(finding: Finding, path: Path, wrong: WrongLastOffset) -> bool:
    """Whether a finding in any file of the partition follows from the wrong last offset of a batch in the .log file
    `path`."""
    other = Path(finding.path)
    if other.parent != path.parent:
        return False
    is_behind = finding.offset is None or finding.offset >= wrong.base_offset
    if finding.kind in FOLLOWING:
        return is_behind
    is_beside = other.stem == path.stem and other.suffix != FileKind.LOG and finding.kind.startswith(OF_INDEXES)
    offset, last = finding.offset, max(wrong.before, wrong.last_offset)
    return is_beside and offset is not None and (offset == wrong.before or wrong.base_offset <= offset <= last)
