"""A partition with a directory in two log directories of its broker.

    move-incomplete      each has segments that the other lacks, and together they have the whole log: a move between
                         the log directories has broken off
    copy-incomplete      one lacks partition.metadata, the last file that a copy writes: Kafka serves the other
    directory-duplicate  both have it: Kafka does not start ("Duplicate log directories")

Source: kcli.log.recovery.partition_copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.broker_directory import partition_metadata_command
from kcli.inspector.verify.findings import Finding, offsets_text, ranges_text
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery.partition_copies import Copy, Ranges
from kcli.printable import names_text

SHOWN = 4
"""The maximum number of ranges of offsets, or of files, that a finding names."""
EXPECTED = "one directory a partition in all log directories"


def copied_directories(around: Surroundings) -> Iterator[tuple[Finding | None, Callable[[Finding], bool]]]:
    """Yield a finding for each partition of this log directory that also lies in another one of its broker, with a
    predicate for its consequences among the findings in this log directory. The finding is None if it is yielded for
    the other log directory, or if nothing in this one is at fault. Raises UnreadableInput."""
    for copy in around.node.copies if around.is_broker else ():
        finding = _finding(copy)
        home = Path(finding.path).parent
        is_here = home == copy.path.parent
        concerns_both = copy.left_out is None or copy.left_out == copy.kept or copy.only_in(copy.second)
        is_told = is_here or (concerns_both and not around.is_given(home))
        yield finding if is_told else None, partial(_follows, copy)


def _finding(copy: Copy) -> Finding:
    if copy.completing:
        return _broken_move(copy)
    return _duplicate(copy) if copy.left_out is None else _left_out(copy, copy.left_out)


def _broken_move(copy: Copy) -> Finding:
    kept, second = copy.kept, copy.second
    own, its = (ranges_text(copy.only_in(each), SHOWN) for each in (second, kept))
    outcome = "Kafka does not start with both (Duplicate log directories)"
    if copy.left_out is not None:
        outcome = "Kafka renames this one to -stray, and serves only that one"
    others = sorted(each.name for each in second.iterdir() if each.name not in copy.completing)
    action, end = "stop the broker, and put the files together again", next_steps.remove_directory(second)
    if others:
        aside = next_steps.beside(second)
        action += f"; the rest of this one goes to {aside}: {names_text(others, SHOWN)}"
        end = next_steps.move([(second, aside)])
    return Finding(
        path=str(second),
        kind="move-incomplete",
        severity="error",
        expected=EXPECTED,
        found=f"a move of the partition between log directories broke off: only this one has offsets {own}, and only "
        f"{kept} has {its}; {outcome}",
        action=action,
        command=f"{next_steps.move_into(kept, second, copy.completing)} && {end}",
        refuses_start=copy.left_out is None,
    )


def _duplicate(copy: Copy) -> Finding:
    kept, second = copy.kept, copy.second
    return Finding(
        path=str(second),
        kind="directory-duplicate",
        severity="error",
        expected=EXPECTED,
        found=f"{kept} is the same partition, and {_end_text(copy, kept)}, this one {_end_text(copy, second)}"
        f"{_only_text(copy)}: Kafka does not start with both (Duplicate log directories)",
        action="move this one out of the log directory; salvage keeps its log in a copy, as a stray",
        command=next_steps.move([(second, next_steps.beside(second))]),
        refuses_start=True,
    )


def _left_out(copy: Copy, path: Path) -> Finding:
    """Return the finding of two directories of one partition, one of which (`path`) lacks partition.metadata."""
    other = copy.other if path == copy.path else copy.path
    finding = Finding(
        path=str(path),
        kind="copy-incomplete",
        severity="error",
        expected=EXPECTED,
        found=f"a copy of {other} without {FileKind.PARTITION_METADATA}: this one {_end_text(copy, path)}, that one "
        f"{_end_text(copy, other)}{_only_text(copy)}; Kafka renames this one to -stray, and serves that one",
        action="move the copy out of the log directory; salvage keeps its log in a copy, as a stray",
        command=next_steps.move([(path, next_steps.beside(path))]),
    )
    if path != copy.kept:
        return finding
    write = partition_metadata_command(path / FileKind.PARTITION_METADATA, topic_id_of(other))
    (first, _), (_, last) = copy.only_in(path)[0], copy.only_in(path)[-1]
    return replace(
        finding,
        found=f"{finding.found}: {offsets_text(first, last)} lost",
        lost_first_offset=first,
        lost_last_offset=last,
        action="do not start the broker: move that one, which has less, out of its log directory, and write this one's "
        f"{FileKind.PARTITION_METADATA} anew",
        command=f"{next_steps.move([(other, next_steps.beside(other))])} && {write}",
    )


def _end_text(copy: Copy, directory: Path) -> str:
    end = copy.end_in(directory)
    return "has no log" if end is None else f"ends at offset {end:,}"


def _only_text(copy: Copy) -> str:
    """Return, in words, the offsets that only one of the two directories has; "" if the different ends of the two logs
    already show all of them."""
    path = copy.second if copy.left_out is None else copy.left_out
    words = ""
    for which, directory in (("this", path), ("that", copy.other if path == copy.path else copy.path)):
        ranges = copy.only_in(directory)
        if ranges and (ranges[0][0] < min(copy.end or 0, copy.other_end or 0)):
            words += f"; only {which} one has offsets {ranges_text(ranges, SHOWN)}"
    return words


def _follows(copy: Copy, finding: Finding) -> bool:
    """Whether a finding in the log directory of `copy.path` follows from that of the two directories: it is about
    offsets that the other directory has; about files that the other has, or leader epochs of such offsets; about a
    directory that is left out; about the partition.metadata that is to be written; or about the small files of a
    directory that is to be moved away."""
    path = Path(finding.path)
    if path.is_relative_to(copy.path) and _has_offsets(copy.only_in(copy.other), finding):
        return True
    if copy.left_out == copy.path == copy.kept:
        return path == copy.path / FileKind.PARTITION_METADATA
    if copy.completing and copy.path == copy.kept:
        is_of_epochs = path.name == FileKind.LEADER_EPOCHS and finding.kind in {"checkpoint-offset", "checkpoint-epoch"}
        return path.parent == copy.path and (path.name in copy.completing or is_of_epochs)
    if copy.path == copy.second and not copy.completing and copy.left_out is None:  # a duplicate, to be moved away
        return copy.path in path.parents and path.suffix != FileKind.LOG
    if copy.path != copy.second or not (copy.completing or copy.left_out == copy.path):
        return False
    is_damage = path.name in copy.completing and path.suffix == FileKind.LOG and finding.kind != "log-missing"
    return (path.is_relative_to(copy.path) and not is_damage) or f"{copy.path.name}: " in f"{finding.expected}"


def _has_offsets(ranges: Ranges, finding: Finding) -> bool:
    """Whether a finding is about lost offsets, and these ranges have them all."""
    first, last = finding.lost_first_offset, finding.lost_last_offset
    if first is None or last is None:
        return False
    return any(one <= first and last <= two for one, two in ranges)
