"""Checks the `.log.swap` file of an interrupted cleaning against the segments that it replaces.

At its next start Kafka deletes every segment whose base offset is within the offsets of the `.log.swap` file, and
renames that file to `.log`, without checking it. If these segments are deleted already, only the `.log.swap` file has
their records: then it is checked like the partition's .log files. Source: LogLoader.load.

The start also deletes the index files whose base offset is within these offsets: the `.swap` file's own indexes are
`.index.swap` and `.timeindex.swap`, to which the cleaner renames the indexes before it deletes the old segments. Where
a `.log.swap` file lacks them, as after a rename by hand, the start makes an `.index.swap` full of zeros and an empty
time index. It recovers the segment, and so rebuilds both, only after a crash and only at or above the recovery point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from formats.file_name import FileKind, FileName, build
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_start, next_steps
from kcli.inspector.verify.findings import Finding, offsets_text
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.lost_offsets import Known
from kcli.inspector.verify.partition import LogVerifier
from kcli.inspector.verify.segment_names import INDEX_KINDS, SegmentFiles, end_of, file_beside
from kcli.log.recovery.loader import COMPARED_BYTES_MAX
from kcli.log.stored_batches import read_batches

SUFFIX = ".swap"
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
IN_PLACE = ", and Kafka puts it in the place"


def harmful(
    swap: SegmentFiles,
    swaps: Sequence[SegmentFiles],
    segments: Sequence[SegmentFiles],
    gaps: Gaps,
    advance: Callable[[int], None],
) -> Finding | None:
    """Return the finding that records are lost when a `.log.swap` file replaces segments; None if no record is lost.

    swaps: all `.swap` segments of the partition. gaps: what a gap between offsets means in the topic, and so what it
    means if the `.log.swap` file ends before the replaced segments do. Raises UnreadableInput.
    """
    log = swap.files[FileKind.LOG]
    verifier = LogVerifier([SegmentFiles(swap.base, {FileKind.LOG: log})], [], advance, is_whole=False)
    faults = [each for each in verifier.findings() if each.severity == "error"]
    covered = max(end_of(log), swap.base)
    replaced = [each for each in segments if swap.base <= each.base < max(covered, swap.base + 1)]
    if not replaced:
        return None
    end = end_of(replaced[-1].files[FileKind.LOG])
    is_short = covered < end and (gaps is Gaps.LOSS or bool(faults))
    keeps_all = gaps is Gaps.LOSS
    lacking = [] if is_short or faults else _lacking(replaced, swaps, segments, keeps_all=keeps_all)
    if not is_short and not faults and not lacking:
        return None
    names = ", ".join(each.files[FileKind.LOG].name for each in replaced)
    why = f"{faults[0].found} at byte {faults[0].position or 0:,}" if faults else f"a log that ends at {covered:,}"
    lost = f": {offsets_text(covered, end - 1)} lost" if is_short else ""
    first_lost, last_lost = (covered, end - 1) if is_short else (None, None)
    if lacking:
        first_lost, last_lost = lacking[0], lacking[-1]
        records = f"{len(lacking):,} record{'s' if len(lacking) > 1 else ''}"
        which = "the topic was never compacted" if keeps_all else "no later one of the same key supersedes them"
        why = f"a log without {records} of {first_lost:,}..{last_lost:,} ({which})"
    return Finding(
        path=str(log),
        kind="swap-log",
        severity="error",
        position=faults[0].position if faults else None,
        offset=swap.base,
        expected=f"a sound log of what it replaces, up to offset {end - 1:,}",
        found=f"{why}{IN_PLACE} of {names} when it starts{lost}",
        lost_first_offset=first_lost,
        lost_last_offset=last_lost,
        action="before the broker starts, move it away: what it would replace is still there",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in swap.files.values()]),
    )


def index_alone(swap: Path, name: FileName) -> Finding | None:
    """Return the finding that a swap file of an index is alone, without a .log.swap file, beside an index with other
    bytes, which a start replaces with it; None if it is not so. name: the parts of the name of `swap`."""
    if not _replaces_an_index(swap, name):
        return None
    place = swap.with_suffix("")
    beside = ((swap.with_name(build(each)), each) for each in (name._replace(kind=kind) for kind in INDEX_KINDS))
    swaps = [path for path, each in beside if _replaces_an_index(path, each)]
    return Finding(
        path=str(swap),
        kind="swap-index",
        severity="warning",
        expected="no swap file, or a .log.swap file beside it",
        found=f"{swap.stat().st_size:,} bytes, not those of {place.name}: a start puts it in the place of that "
        "file, and checks neither",
        action=f"no cleaning leaves this: before the broker starts, move it away, and keep {place.name}",
        command=next_steps.move([(each, each.with_name(f"{each.name}.moved")) for each in swaps]),
    )


def _replaces_an_index(swap: Path, name: FileName) -> bool:
    """Whether a swap file of an index has no .log.swap file beside it, and would replace an index with other bytes. The
    loader of a recovery decides the same by its view of the files."""
    place, log = swap.with_suffix(""), swap.with_name(build(name._replace(kind=FileKind.LOG)))
    if name.kind not in INDEX_KINDS or log.exists() or not (place.is_file() and swap.is_file()):
        return False
    sizes = {swap.stat().st_size, place.stat().st_size}
    return len(sizes) > 1 or max(sizes) > COMPARED_BYTES_MAX or swap.read_bytes() != place.read_bytes()


def without_indexes(swap: SegmentFiles, segments: Sequence[SegmentFiles], known: Known) -> Finding | None:
    """Return the finding that a `.log.swap` file has no `.index.swap` or no `.timeindex.swap` beside it, so that the
    segment has a wrong index after Kafka's next start; None if it has both, or if that start rebuilds them.

    segments: the partition's segments, which may include `swap` itself, as the start renames it into place. known: what
    other files say about the partition.
    """
    lacking = [kind for kind in INDEXES if kind not in swap.files]
    following = min((each.base for each in segments if each.base > swap.base), default=None)
    is_recovered = next_start.of_segment(known, following) is next_start.NextStart.RECOVERS
    if not lacking or (known.home is not None and is_recovered):
        return None
    log = swap.files[FileKind.LOG]
    beside = {kind: file_beside(log, kind) for kind in INDEXES}
    names = " and no ".join(f"{beside[kind].name}{SUFFIX}" for kind in lacking)
    deleted = [path.name for path in beside.values() if path.is_file()]
    deletes = f", and deletes {' and '.join(deleted)}" if deleted else ""
    if FileKind.TIME_INDEX in lacking:
        outcome = "the time index is then empty, and consumers skip records, or begin at wrong ones"
    else:
        outcome = "the offset index then has zeros alone, and each read begins at the segment's first byte"
    action = f"Kafka does not rebuild what is missing when it starts: {outcome}"
    covered = max(end_of(log), swap.base + 1)
    if any(swap.base <= each.base < covered for each in segments if each.files[FileKind.LOG] != log):
        action += "; salvage rebuilds the indexes, in a copy"
        command = next_steps.salvage(log.parent)
    else:
        keeps = len(deleted) == len(INDEXES)
        reads = "Kafka then reads the indexes beside it" if keeps else "Kafka then rebuilds the indexes"
        action += f"; before the broker starts, give the file its name: {reads}"
        aside = [swap.files[kind] for kind in INDEXES if kind in swap.files]
        aside += [] if keeps else [path for path in beside.values() if path.is_file()]
        moved = ((path, path.with_name(f"{path.name}.moved")) for path in aside)
        command = next_steps.move([(log, file_beside(log, FileKind.LOG)), *moved])
    return Finding(
        path=str(log),
        kind="swap-index",
        severity="warning",
        expected="a swap file with its indexes",
        found=f"no {names} beside it: Kafka puts the log in its place when it starts{deletes}",
        action=action,
        command=command,
    )


def in_its_place(finding: Finding, swaps: Sequence[SegmentFiles]) -> Finding:
    """Return the finding. If it is about a file of a `.swap` segment, it gets the path to which Kafka's next start
    renames that file."""
    is_one = any(finding.path == str(path) for swap in swaps for path in swap.files.values())
    return replace(finding, path=finding.path.removesuffix(SUFFIX)) if is_one else finding


def of_swap(finding: Finding, swaps: Sequence[SegmentFiles]) -> Finding:
    """Undo `in_its_place`: return the finding with the path of the `.swap` file; an error in a .log file becomes one in
    a `.swap` file."""
    path = f"{finding.path}{SUFFIX}"
    swap = next((each for each in swaps if any(path == str(file) for file in each.files.values())), None)
    if swap is None:
        return finding
    if finding.severity != "error" or path != str(swap.files[FileKind.LOG]):
        return replace(finding, path=path)
    found = f"{finding.found}, and Kafka puts the file in its place when it starts"
    return replace(finding, path=path, kind="swap-log", found=found)


def _lacking(
    replaced: Sequence[SegmentFiles],
    swaps: Sequence[SegmentFiles],
    segments: Sequence[SegmentFiles],
    *,
    keeps_all: bool,
) -> list[int]:
    """Return the sorted offsets of the records that compaction keeps and that no `.log.swap` file has: records with a
    value, each the last record of its key. Records of transactions are left out, as the cleaner removes aborted ones.

    keeps_all: whether the topic was never compacted; then the offsets of all records that no `.log.swap` file has are
    returned. Returns an empty list if a file cannot be read.
    """
    replaced_logs = {segment.files[FileKind.LOG] for segment in replaced}
    cleaned = [segment.files[FileKind.LOG] for segment in swaps]
    others = [log for segment in segments if (log := segment.files[FileKind.LOG]) not in replaced_logs]
    lacking: dict[bytes, int] = {}
    try:
        kept = {record.offset for log in cleaned for _, records in read_batches(log) for record in records}
        if keeps_all:
            stored = (record.offset for log in replaced_logs for _, records in read_batches(log) for record in records)
            return sorted({offset for offset in stored if offset not in kept})
        for log in sorted(replaced_logs):
            for row, records in read_batches(log):
                for offset, key, value in records:
                    if key is not None and value is not None and offset not in kept and not row.is_transactional:
                        lacking[key] = offset
                    elif key is not None:
                        lacking.pop(key, None)
        for log in [*cleaned, *others] if lacking else ():
            for _, records in read_batches(log):
                for offset, key, _ in records:
                    if key is not None and lacking.get(key, offset) < offset:
                        del lacking[key]
    except UnreadableInput:
        return []
    return sorted(lacking.values())
