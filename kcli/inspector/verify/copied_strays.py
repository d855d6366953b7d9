"""Strays that are copies of a partition's directory beside it, and damage in that partition which the copy can fill.

A copy that Kafka renames to -stray loses nothing: its finding is a warning. A finding of damage in a .log file names
the copy that has the offsets, and salvage, which takes them from there. See kcli.log.recovery.stray_copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from formats.file_name import FileKind, parse
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, offsets_text
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.segment_names import INDEX_KINDS, file_beside
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import LogDirectory, PartitionDirectory, partition_named
from kcli.log.recovery.files_beside import lacking_on_disk, versions
from kcli.log.recovery.partition_copies import compared
from kcli.log.recovery.stray_copies import is_copy, is_named_copy, lacking_in_file, logs_in_both, stray_copies
from kcli.protocol.topic_partition import TopicPartition

RANGES_SHOWN = 3
"""The maximum number of ranges of offsets that a finding names."""
FETCH = ": fetch the partition from another replica"
"""The end of an advice that is not needed if there is a copy."""
Copies = Mapping[TopicPartition, Sequence[Path]]


def with_copies(findings: Iterable[Finding], directory: Path, around: Surroundings | None) -> Iterator[Finding]:
    """Yield the findings in a directory, two kinds of them changed. The finding that a directory becomes a stray says
    so if the directory is a copy of another one; the first error in a .log file of `directory` says which copy has the
    offsets that the file lacks.

    around: the log directory that `directory` is, or lies in; None if there is none.
    """
    copies: Copies | None = None
    told: set[str] = set()
    for each in findings:
        path = Path(each.path)
        is_damage = path.parent == directory and path.suffix == FileKind.LOG and each.severity == "error"
        is_stray = each.kind == "partition-stray"
        if around is None or not (is_stray or is_damage) or each.path in told:
            yield each
            continue
        changed = None
        with suppress(UnreadableInput, OSError):  # other checks report what cannot be read
            if copies is None:
                copies = stray_copies(LogDirectory(around.path), around.partition_count, around.node.others)
            changed = _of_stray(each, around, copies) if is_stray else _of_damage(each, path, around, copies)
        told |= set() if changed is None else {each.path}
        yield changed or each


def _of_stray(finding: Finding, around: Surroundings, copies: Copies) -> Finding | None:
    """Return the finding that a directory becomes a stray, changed to say of which partition's directory it is a copy;
    None if it is no copy. Raises UnreadableInput."""
    stray = Path(finding.path)
    of = [str(each) for each, strays in copies.items() if any(path.name == stray.name for path in strays)]
    original = next((each for each in of if is_copy(stray, around.path / each)), None)
    if original is None:
        return None
    directory, name = around.path / original, partition_named(original)
    assert name is not None, "it is the name of a partition"
    ranges = compared(
        PartitionDirectory(directory, name), PartitionDirectory(stray, name), (None, None), is_better=True
    ).other_only
    changed = replace(
        finding,
        severity="warning",
        found=f"{finding.found}; it is a copy of {original}",
        action="nothing is lost with it: move it out of the log directory",
        command=next_steps.move([(stray, next_steps.beside(stray))]),
    )
    if not ranges:
        return changed
    changed = replace(
        changed,
        found=f"{changed.found}, and has what that lacks: {_text(ranges)}",
        action=f"keep it until salvage has put these into {original}, in a copy",
        command=next_steps.salvage_log_directory(around.path),
    )
    if all(_is_salvaged(each, directory, stray, around) for each in ranges):
        return changed
    action = f"keep it: {original} lacks these, and salvage does not put them there"
    return replace(changed, action=action, command=next_steps.dump(stray))


def _is_salvaged(lost: tuple[int, int], directory: Path, stray: Path, around: Surroundings) -> bool:
    """Whether salvage puts these offsets of a copy back: they are in a .log file that the directory lacks, or that it
    lacks batches of. Raises UnreadableInput."""
    for log, copy in logs_in_both(directory, stray):
        missing = lacking_in_file(log, copy, _until(log, around))
        if not any(True for _ in missing.lacking(*lost)):
            return True
    logs = sorted(path for path in stray.glob(f"*{FileKind.LOG}") if parse(path.name) is not None)
    holder = next((path for path in reversed(logs) if (_base(path) or 0) <= lost[0]), None)
    if holder is None or (directory / holder.name).exists() or not is_named_copy(stray, directory):
        return False
    name = partition_named(directory.name)
    assert name is not None, "it is the directory of a partition"
    partition = TopicPartition(name.topic, name.partition)
    reached = max(points.get(partition, 0) for points in (around.recovery_points, around.high_watermarks))
    is_followed = any(path.stem >= holder.stem for path in directory.glob(f"*{FileKind.LOG}"))
    return (
        is_followed
        or reached > lost[0]
        or any(file_beside(directory / holder.name, kind).exists() for kind in INDEX_KINDS)
    )


def _base(log: Path) -> int | None:
    name = parse(log.name)
    return None if name is None else name.base_offset


def _until(log: Path, around: Surroundings) -> int | None:
    """Return the base offset of the segment that follows a .log file; None if there is none, or if the log may lack
    offsets because it was compacted."""
    name = partition_named(log.absolute().parent.name)
    if name is None or around.gaps(TopicPartition(name.topic, name.partition)) is not Gaps.LOSS:
        return None
    return _following(log)


def _following(log: Path) -> int | None:
    """Return the base offset of the segment that follows a .log file; None if there is none."""
    bases = (_base(path) for path in log.parent.glob(f"*{FileKind.LOG}"))
    return min((each for each in bases if each is not None and each > (_base(log) or 0)), default=None)


def _of_damage(finding: Finding, log: Path, around: Surroundings, copies: Copies) -> Finding | None:
    """Return the finding of damage in a .log file, changed if a file beside it or a copy of it has the offsets; None if
    there is no such file. Raises UnreadableInput."""
    name = partition_named(log.absolute().parent.name)
    if name is None or name.state or not log.stem.isdecimal():
        return None
    partition, until = TopicPartition(name.topic, name.partition), _following(log)
    is_compacted = around.gaps(partition) is not Gaps.LOSS
    strays = [each for each in copies.get(partition, ()) if not _is_open_elsewhere(each, around)]
    for version in versions(log, until, strays):
        if str(version.path) in str(finding.found):
            return None  # the finding itself has the better command: it gives the file its name
        ranges = [*lacking_on_disk(log, version, until, is_compacted=is_compacted)]
        if not ranges:
            continue
        what, both = " beside it", ""
        if not version.is_beside:
            stray = version.path.parent
            of = partition_named(stray.name)
            deleted = ", which a start deletes" if of is not None and of.state == "delete" else ""
            what = f", a copy of the file{deleted},"
            is_named = around.is_configured or not _is_outside(stray, around)
            both = "" if is_named else ", if --config FILE names both directories"
        return replace(
            finding,
            found=f"{finding.found}; {version.path}{what} has what it lacks: {_text(ranges)}",
            lost_first_offset=None,
            lost_last_offset=None,
            action=f"{_advice(finding)}{both}",
            command=next_steps.salvage_log_directory(around.path),
        )
    return None


def _is_outside(stray: Path, around: Surroundings) -> bool:
    return not stray.resolve().is_relative_to(around.path.resolve())


def _is_open_elsewhere(stray: Path, around: Surroundings) -> bool:
    """Whether a directory lies in another log directory under the partition's own name: Kafka does not start with both,
    and `copied_directories` tells what each has."""
    of = partition_named(stray.name)
    return _is_outside(stray, around) and of is not None and not of.state


def _advice(finding: Finding) -> str:
    """Return the advice of a finding of damage that a copy can fill."""
    if finding.kind in ("log-cut", "log-empty"):
        return "consumers read past the gap; salvage puts these back, in a copy of the log directory"
    return f"{finding.action.partition(FETCH)[0]}; salvage puts these back, in a copy of the log directory"


def _text(ranges: Sequence[tuple[int, int]]) -> str:
    """Return the first ranges of offsets in words, and how many more there are."""
    named = [offsets_text(*each).rpartition(" ")[0] for each in ranges[:RANGES_SHOWN]]
    more = len(ranges) - RANGES_SHOWN
    return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")
