"""Batches of another partition in a log: bytes that were written into the wrong file. In a coordinator's log the keys
of their records tell, in a damaged log the other partition's log, which has the same batches. Findings of torn batches
right before and after these bytes are consequences, and so are findings in the indexes and at later batches that come
from the foreign batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from formats.file_name import FileKind, parse
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, offsets_text
from kcli.inspector.verify.log_findings import LOADS_BOTH, SERVES_BOTH
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.displaced_blocks import PAGE_BYTES
from kcli.log.recovery.foreign_blocks import common, runs_of_others
from kcli.log.recovery.misdirected import Home, Run, has_own_beside, lost_within, runs
from kcli.printable import names_text

BLOCK_BYTES = 1 << 16
BYTES_COMPARED = 1 << 24
"""The largest number of bytes that are compared with another partition's log."""
OWNERS_SHOWN = 3
OF_ORDER = ("leader-epoch", "producer-sequence", "producer-epoch", "checkpoint-epoch", "snapshot-state")
"""Kinds of findings at higher offsets that foreign batches cause, in the same and in later files."""
OF_PLACE = ("offsets-order", "offsets-overlap")
"""Kinds of findings at lower offsets behind foreign batches that these cause."""


def runs_by_keys(log: Path, size: int, home: Home, following: int | None, *, has_own: bool) -> list[Run]:
    """Return the batches of other partitions in a coordinator's .log file; none if the directory has no batch of its
    own partition, which other checks report. size: bytes of the file. home: the partition. following: the base offset
    of the next segment. has_own: whether the file has batches of its own partition. Raises UnreadableInput."""
    if not has_own and not has_own_beside(log, home):
        return []
    found = runs(log.name, Content((FileRange(log, 0, size),)), home)
    return [*found[:-1], *(replace(run, own_next=following) if run.own_next is None else run for run in found[-1:])]


def runs_by_logs(log: Path, size: int) -> list[Run]:
    """Return the batches of other partitions in a damaged .log file that these partitions have, too. size: bytes of the
    file. Raises UnreadableInput."""
    return runs_of_others(log.parent, log.name, Content((FileRange(log, 0, size),)))


def foreign_records(log: Path, found: Sequence[Run], reached: int) -> tuple[Finding, Callable[[Finding], bool]]:
    """Return the finding that a .log file has batches of other partitions, with a predicate for its consequences among
    the other findings.

    found: these batches, at least one. reached: the log end offset in the checkpoints, 0 if they have no entry.
    """
    first, last = found[0], found[-1]
    bounds = lost_within(found, reached)
    batches = sum(each.batches for each in found)
    places = f" in {len(found):,} places" if len(found) > 1 else ""
    text = f"{batches:,} batch{'es' if batches > 1 else ''}{places} from here on, offsets "
    text += f"{first.first_offset:,}..{last.last_offset:,}, of {_owners(found)}"
    page = _page_text(log, first)
    text += f"{'' if page and first.log else _witness_text(first)}{page}"
    if bounds is not None:
        among = "some of " if len(found) > 1 else ""
        text += f"; {among}this partition's own at {offsets_text(*bounds)} overwritten"
    finding = Finding(
        path=str(log),
        kind="records-foreign",
        severity="error",
        position=first.position,
        offset=first.first_offset,
        length=last.end - first.position,
        expected=f"{'batches of' if first.log else 'records whose keys belong to'} {log.parent.name}",
        found=text,
        lost_first_offset=None if bounds is None else bounds[0],
        lost_last_offset=None if bounds is None else bounds[1],
        action=SERVES_BOTH if first.log else LOADS_BOTH,
        command=_command(log, found),
        next_valid_position=first.position,
    )

    starts = [each.position for each in found]
    begin = first.first_offset if first.own_end is None else min(first.first_offset, first.own_end)

    def follows(other: Finding) -> bool:
        if other.path == finding.path:
            is_higher = other.kind in OF_ORDER and (other.offset or 0) >= begin
            return is_higher or _is_beside(other, found, starts) or _is_passed(other, found)
        path, is_behind = Path(other.path), offset_of(other) >= begin
        if path.parent != log.parent or not is_behind:
            return False
        is_index = path.stem == log.stem and other.kind.startswith(("index-", "timeindex-"))
        return is_index or other.kind in OF_ORDER

    return finding, follows


def offset_of(finding: Finding) -> int:
    """Return the offset that a finding is about, or the one in the name of its file; -1 if there is neither."""
    name = parse(Path(finding.path).name)
    base = None if name is None else name.base_offset
    return finding.offset if finding.offset is not None else -1 if base is None else base


def _is_beside(other: Finding, found: Sequence[Run], starts: list[int]) -> bool:
    """Whether another finding in the .log file is about bytes or batches in a run of foreign batches, or right before
    or after such a run. found: the runs. starts: the byte where each run begins."""
    if other.position is None:
        return False
    number = bisect_right(starts, other.position)
    is_inside = number > 0 and other.position <= found[number - 1].end
    return is_inside or (number < len(found) and starts[number] <= other.position + (other.length or 0))


def _is_passed(other: Finding, found: Sequence[Run]) -> bool:
    """Whether another finding in the .log file is about the order of a batch behind one of the runs, whose offsets are
    higher."""
    if other.kind not in OF_PLACE or other.position is None or other.offset is None:
        return False
    return any(run.end <= other.position and other.offset <= run.last_offset for run in found)


def _command(log: Path, found: Sequence[Run]) -> str:
    """Return the command that shows what salvage would keep: of the whole log directory, if another partition's log
    lacks the batches, because they are in no other file then."""
    is_one = any(run.lacks for run in found)
    return next_steps.salvage_log_directory(log.parent.parent) if is_one else next_steps.salvage(log.parent)


def _owners(found: Sequence[Run]) -> str:
    return names_text(list(dict.fromkeys(run.owner for run in found)), OWNERS_SHOWN)


def _witness_text(run: Run) -> str:
    if run.lacks:
        return f", which {run.owner}/{run.log} lacks at the same place"
    return f", as in {run.owner}/{run.log}" if run.log else ", by key"


def _page_text(log: Path, run: Run) -> str:
    """Return the text which says that a .log file of the partition to which the records of `run` belong has the same
    bytes at the same position; "" if none has."""
    for other in _logs_of(log.parent.parent / run.owner):
        bounds = _equal(log, other, run)
        if bounds is not None:
            start, end = _pages(*bounds)
            return f": bytes {start:,}..{end - 1:,} are those of {other.parent.name}/{other.name} at the same place"
    return ""


def _logs_of(directory: Path) -> Iterator[Path]:
    try:
        yield from sorted(directory.glob(f"*{FileKind.LOG}"))
    except OSError:  # the check of the partition to which `directory` belongs reports this error
        return


def _equal(log: Path, other: Path, run: Run) -> tuple[int, int] | None:
    """Return the bytes [start, end) that two files have in common: those of a run, and at most BLOCK_BYTES before and
    after it. Returns None if the files differ in the run."""
    try:
        with log.open("rb") as mine, other.open("rb") as its:
            start = max(0, run.position - BLOCK_BYTES)
            for file in (mine, its):
                file.seek(start)
            before = [file.read(run.position - start) for file in (mine, its)]
            at = run.position
            while at < min(run.end, run.position + BYTES_COMPARED):
                size = min(BLOCK_BYTES, run.end - at)
                block = mine.read(size)
                if len(block) < size or block != its.read(size):
                    return None
                at += size
            if at < run.end:
                return run.position - common(before[0][::-1], before[1][::-1]), at
            behind = [file.read(BLOCK_BYTES) for file in (mine, its)]
    except OSError:
        return None
    if len(before[0]) != len(before[1]):
        return None
    return run.position - common(before[0][::-1], before[1][::-1]), run.end + common(*behind)


def _pages(start: int, end: int) -> tuple[int, int]:
    """Return the bytes [start, end) without the incomplete pages at both ends, because the bytes of these may be equal
    by chance. If [start, end) contains no whole page, return it unchanged."""
    first, last = -(-start // PAGE_BYTES) * PAGE_BYTES, end // PAGE_BYTES * PAGE_BYTES
    return (first, last) if first < last else (start, end)
