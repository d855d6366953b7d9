"""Which segment a log file really is: its first batch says so, whatever its name says.

A file may have the name of another segment (two were swapped, one was renamed or copied). Everything else in the
partition is judged with the segments where they belong, so that a wrong name is one finding and not one a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, FileName, build
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.log.source import FileSource

HEADER_BYTES = 61
LEAST_LENGTH = 49
COMPARED_BYTES = 1 << 20
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
OFFSET_MAX = 2**63 - 1


@dataclass(slots=True)
class Segment:
    """The files of one segment: by kind, and its base offset, which is in their names where those are right."""

    base: int
    files: dict[FileKind, Path] = field(default_factory=dict)


class Header(NamedTuple):
    """What a batch header of magic 2 says."""

    first: int
    last: int
    size: int
    crc: int


@dataclass(slots=True)
class Placed:
    """Segments where they belong, in order, and what is told of wrong names: with each finding the names it is about.

    used: base offsets of index files without a log that belong to a log under another name.
    """

    segments: list[Segment]
    wrong: list[tuple[Finding, set[str]]]
    used: set[int]


def log_name(offset: int) -> str:
    """The name of a log file."""
    return build(FileName(FileKind.LOG, offset))


def place(segments: Sequence[Segment], orphans: Mapping[int, Segment], snapshots: Iterable[int]) -> Placed:
    """Put the segments of a log in order. orphans: index files without a log, by the offset in their names; snapshots:
    offsets in the names of producer snapshots. Raises UnreadableInput."""
    bases = sorted(segment.base for segment in segments)
    named = {*orphans, *snapshots}
    held = {segment.base: _held(segment, bases, named) for segment in segments}
    odd = [segment for segment in segments if held[segment.base] is not None]
    if not odd:
        return Placed(sorted(segments, key=lambda each: each.base), [], set())
    targets = _permutation({each.base: held[each.base] or 0 for each in odd}, bases)
    if targets is not None:
        return _reordered(segments, targets)
    return _renamed(segments, {each.base: held[each.base] or 0 for each in odd}, orphans)


def _held(segment: Segment, bases: list[int], named: set[int]) -> int | None:
    """The offset of the segment's first batch, where the file's name must be that of another segment. named: offsets
    that other files than logs have in their names.

    Compaction leaves a first batch above the name, a flipped bit moves one batch anywhere: more must speak for a wrong
    name, the batch behind it or another file.
    """
    log = segment.files[FileKind.LOG]
    source = FileSource(log)
    try:
        first = read_header(source, 0)
        second = None if first is None else read_header(source, first.size)
    finally:
        source.close()
    if first is None or first.first == segment.base:
        return None
    if segment.base < first.first < _following(bases, segment.base):
        is_confirmed = (
            (segment.base not in named and first.first in named)
            or _fits(segment, first.first)
            or end_of(log) > _following(bases, segment.base)
        )
    else:
        is_one_bit = (first.first ^ segment.base).bit_count() == 1
        is_followed = second is not None and second.first == first.last + 1
        is_confirmed = is_followed or not is_one_bit or first.first in named or first.first in bases
    return first.first if is_confirmed else None


def _following(bases: list[int], base: int) -> int:
    return min((each for each in bases if each > base), default=OFFSET_MAX)


def read_header(source: FileSource, position: int) -> Header | None:
    """The batch header at a byte of a log; None where there is none of magic 2. Raises UnreadableInput."""
    data = bytearray(HEADER_BYTES)
    if source.read_at(position, memoryview(data)) < HEADER_BYTES or data[16] != 2:
        return None
    first, length = int.from_bytes(data[:8], signed=True), int.from_bytes(data[8:12], signed=True)
    delta = int.from_bytes(data[23:27], signed=True)
    if first < 0 or length < LEAST_LENGTH or delta < 0 or first + delta >= OFFSET_MAX:
        return None
    return Header(first, first + delta, length + 12, int.from_bytes(data[17:21]))


def _permutation(held: Mapping[int, int], bases: list[int]) -> dict[int, int] | None:
    """The true base offset by the one in the name, where the files only have each other's names."""
    if len(held) < 2:
        return None
    targets = dict(zip(sorted(held, key=lambda base: held[base]), sorted(held), strict=True))
    fits = all(true <= held[base] < _following(bases, true) for base, true in targets.items())
    return targets if fits else None


def _reordered(segments: Sequence[Segment], targets: Mapping[int, int]) -> Placed:
    named = {segment.base: segment for segment in segments}
    placed = [segment for segment in segments if segment.base not in targets]
    moved: dict[int, list[tuple[Path, Path]]] = {}
    for base, true in targets.items():
        segment, moved[base] = _under(true, named[base], named[true].files)
        placed.append(segment)
    wrong = []
    left = set(targets)
    while left:
        cycle = [min(left)]
        while targets[cycle[-1]] != cycle[0]:
            cycle.append(targets[cycle[-1]])
        left -= set(cycle)
        wrong.append((_swapped(named, cycle, moved), {log_name(base)[: -len(".log")] for base in cycle}))
    return Placed(sorted(placed, key=lambda each: each.base), wrong, set())


def _swapped(named: Mapping[int, Segment], cycle: list[int], moved: Mapping[int, list[tuple[Path, Path]]]) -> Finding:
    """cycle: each holds what belongs under the name of the next."""
    path = named[cycle[0]].files[FileKind.LOG]
    others = ", ".join(log_name(base) for base in cycle[1:])
    pairs = [pair for base in cycle for pair in moved[base]]
    aside = [(source, source.with_name(f"{source.name}.moved")) for source, _ in pairs]
    back = [(away, target) for (_, away), (_, target) in zip(aside, pairs, strict=True)]
    found = f"the batches of {log_name(cycle[1])}: "
    found += "the two files are swapped" if len(cycle) == 2 else f"it has changed names with {others}"
    return Finding(
        path=str(path),
        kind="file-name",
        severity="error",
        position=0,
        offset=cycle[0],
        expected=f"batches from offset {cycle[0]:,} on",
        found=found,
        action="stop the broker, and give the files each other's names",
        command=next_steps.move([*aside, *back]),
        valid_batches_before=0,
        valid_bytes_before=0,
    )


def _renamed(segments: Sequence[Segment], held: Mapping[int, int], orphans: Mapping[int, Segment]) -> Placed:
    """Each file by itself: it has a name that no segment has, or holds what another file holds, too."""
    placed, wrong, used = [], [], set()
    for segment in segments:
        true = held.get(segment.base)
        if true is None:
            placed.append(segment)
            continue
        path = segment.files[FileKind.LOG]
        other = _holder(segments, held, true, end_of(path))
        if other is not None:
            moves = [(path, path.with_name(f"{path.name}.copy"))]
            found = _origin(path, next(each for each in segments if each.base == other), true)
            action = "stop the broker, and move the file away"
        else:
            at_target = orphans[true].files if true in orphans else {}
            renamed, moves = _under(true, segment, at_target)
            placed.append(renamed)
            used.add(true)
            found = f"the batches of {log_name(true)}"
            action = "stop the broker, and rename the file"
        finding = Finding(
            path=str(path),
            kind="file-name",
            severity="error",
            position=0,
            offset=true,
            expected=f"batches from offset {segment.base:,} on, as the file's name says",
            found=found,
            action=action,
            command=next_steps.move(moves),
            valid_batches_before=0,
            valid_bytes_before=0,
        )
        wrong.append((finding, {path.stem}))
    return Placed(sorted(placed, key=lambda each: each.base), wrong, used)


def _origin(path: Path, other: Segment, first: int) -> str:
    """Whose batches are in a log under a wrong name. other: a segment that has the same offsets; first: that of the
    log's first batch, by which it is known."""
    told = f"batches from offset {first:,} on"
    here = other.files[FileKind.LOG]
    batch = _first(path)
    if any(each == batch for each in takewhile(lambda each: each.first <= first, _headers(here))):
        return f"{told}, a copy of {here.name}"
    for log in sorted(path.absolute().parent.parent.glob(f"*/{log_name(first)}")):
        if log.parent.name != path.absolute().parent.name and batch is not None and _first(log) == batch:
            return f"{told}, a copy of {log.parent.name}/{log.name}: another partition's"
    return f"{told}, which are not those of {here.name}: another log's"


def _holder(segments: Sequence[Segment], held: Mapping[int, int], first: int, end: int) -> int | None:
    """Of the segments under their own names, the base offset of one that has offsets of [first, end), too."""
    own = [each for each in segments if each.base not in held and each.base < end]
    last = max(own, key=lambda each: each.base, default=None)
    if last is None or (last.base < first and end_of(last.files[FileKind.LOG]) <= first):
        return None
    return last.base


def _under(true: int, segment: Segment, at_target: Mapping[FileKind, Path]) -> tuple[Segment, list[tuple[Path, Path]]]:
    """The segment under its true base offset, and how its files must be renamed. at_target: what has those names."""
    log = segment.files[FileKind.LOG]
    files, moves = {FileKind.LOG: log}, [(log, log.with_name(log_name(true)))]
    came_along = _fits(segment, true)
    for kind in INDEX_KINDS:
        own, other = segment.files.get(kind), at_target.get(kind)
        if own is not None and (came_along or (other is None and kind not in at_target)):
            files[kind] = own
            moves.append((own, own.with_name(build(FileName(kind, true)))))
        elif other is not None:
            files[kind] = other
    return Segment(true, files), moves


def _fits(segment: Segment, base: int) -> bool:
    """Do the indexes of the same name fit the log, if it has that base offset, and not with the one in the name? The
    last entry of the offset index says so; where there is none, the first one of the time index."""
    from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, load

    source = FileSource(segment.files[FileKind.LOG])
    try:
        position, relative = 0, None
        if FileKind.OFFSET_INDEX in segment.files:
            entries, _ = load(segment.files[FileKind.OFFSET_INDEX], OFFSET_ENTRY_BYTES)
            if entries.count:
                relative, position = entries.fields(entries.count - 1)
        if relative is None and FileKind.TIME_INDEX in segment.files:
            times, _ = load(segment.files[FileKind.TIME_INDEX], TIME_ENTRY_BYTES)
            relative = times.fields(0)[1] if times.count else None
        header = read_header(source, position) if position >= 0 else None
    finally:
        source.close()
    return header is not None and relative is not None and header.last == base + relative


def end_of(log: Path) -> int:
    """The offset behind the last whole batch, read from header to header up to the first that is none."""
    end = 0
    for header in _headers(log):
        end = header.last + 1
    return end


def ends_with(log: Path, position: int, other: Path) -> bool:
    """Are the log's bytes from there on those with which the other begins? Raises UnreadableInput."""
    one, two = FileSource(log), FileSource(other)
    ours, theirs = bytearray(COMPARED_BYTES), bytearray(COMPARED_BYTES)
    try:
        size = one.size() - position
        for done in range(0, size, COMPARED_BYTES):
            wanted = min(COMPARED_BYTES, size - done)
            got = one.read_at(position + done, memoryview(ours)[:wanted])
            if two.read_at(done, memoryview(theirs)[:wanted]) != got or ours[:got] != theirs[:got]:
                return False
    finally:
        one.close()
        two.close()
    return size > 0


def _first(log: Path) -> Header | None:
    """The header of the first batch; None also where the log cannot be read."""
    try:
        return next(_headers(log), None) if log.is_file() else None
    except (UnreadableInput, OSError):
        return None


def _headers(log: Path) -> Iterator[Header]:
    """Those of the whole batches, up to the first that is none. Raises UnreadableInput."""
    source = FileSource(log)
    position = 0
    try:
        while (header := read_header(source, position)) is not None and position + header.size <= source.size():
            yield header
            position += header.size
    finally:
        source.close()
