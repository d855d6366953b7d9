"""Segments whose .log file has the name of another segment, recognized by the first batch in the file and by where most
of its batches belong.

Two .log files may have exchanged their names, or one was renamed or copied. Others are segments that the cleaner has
replaced, and that came back, as from a backup. All other checks of the partition use the segments in their true order,
so that a wrong name makes one finding and not one for each batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from formats.file_name import FileKind, FileName, build, parse
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.log.recovery.batch_length import MAGIC, MAGIC_AT
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, Source

HEADER_BYTES = 61
LEAST_LENGTH = 49
COMPARED_BYTES = 1 << 20
INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
OFFSET_MAX = 2**63 - 1
DELETE_HORIZON = 0x40
"""The bit of a batch's attributes that says that the batch has a delete horizon."""


@dataclass(slots=True)
class SegmentFiles:
    """The files of one segment by kind, and its true base offset, which is the offset in their names unless the names
    are wrong."""

    base: int
    files: dict[FileKind, Path] = field(default_factory=dict)


def file_beside(log: Path, kind: FileKind) -> Path:
    """Return the path of the file of `kind` that lies beside a segment's .log file. The path has no suffix such as
    .deleted, even if the .log file has one."""
    name = parse(log.name)
    if name is None or not name.state:
        return log.with_suffix(kind)
    return log.with_name(build(name._replace(kind=kind, state="")))


class Header(NamedTuple):
    """A batch header: first and last offset, size of the whole batch in bytes, leader epoch (-1: none), CRC, max
    timestamp (ms; -1: none), whether the cleaner has set a delete horizon, producer (id, epoch and base sequence), and
    the number of records. A message of magic 0 or 1 has the defaults for delete horizon, producer and number."""

    first: int
    last: int
    size: int
    leader_epoch: int
    crc: int
    max_timestamp: int
    has_horizon: bool = False
    producer: bytes = b""
    records: int = 0

    def may_be_cleaned(self, other: Header) -> bool:
        """Whether this batch may be `other`, or what the cleaner has left of it: the cleaner removes records and sets
        the delete horizon, but keeps the offsets, the leader epoch and the producer."""
        if self[:2] != other[:2] or (self.leader_epoch, self.producer) != (other.leader_epoch, other.producer):
            return False
        is_rewritten = self.records < other.records or (self.has_horizon and self.records == other.records)
        return self.crc == other.crc or is_rewritten


@dataclass(slots=True)
class Placed:
    """The segments of a partition's log, in the order of the offsets of their batches, whatever their files' names say.

    wrong: a finding for each segment with a wrong name, with the names of its files (without suffix). used: the base
    offsets in the names of index files that have no .log file of that name, and belong to a .log file with another
    name. replaced: the names of the files of segments that the cleaner has replaced, and that are in the directory
    again, and of .log files whose batches another one has, each with words for what the file is.
    """

    segments: list[SegmentFiles]
    wrong: list[tuple[Finding, set[str]]]
    used: set[int]
    replaced: dict[str, str] = field(default_factory=dict)


class _Returned(NamedTuple):
    """Segments that the cleaner once replaced, and that are in the directory again.

    by: the segment that replaced them. others: the replaced segments. is_certain: whether the batches of `by` are what
    the cleaner leaves of the batches of `others`, at the offsets of `others`.
    """

    by: SegmentFiles
    others: list[SegmentFiles]
    is_certain: bool

    @property
    def files(self) -> list[Path]:
        """The files of the replaced segments, with their producer snapshots."""
        snapshots = (each.files[FileKind.LOG].with_suffix(FileKind.PRODUCER_SNAPSHOT) for each in self.others)
        return [path for each in self.others for path in each.files.values()] + [
            path for path in snapshots if path.is_file()
        ]


def other_case(name: str, right: str) -> str:
    """Return words for a name that differs from the right one only in the case of letters; "" for any other name."""
    is_same = name != right and name.lower() == right.lower()
    return " (as after a copy by way of a file system that ignores case, such as FAT)" if is_same else ""


def log_name(offset: int) -> str:
    """The name of the .log file with a base offset."""
    return build(FileName(FileKind.LOG, offset))


def place(
    segments: Sequence[SegmentFiles],
    orphans: Mapping[int, SegmentFiles],
    snapshots: Iterable[int],
    *,
    is_compacted: bool | None = False,
) -> Placed:
    """Return the segments of a log in their true order.

    orphans: index files without a .log file, by the offset in their names. snapshots: offsets in the names of producer
    snapshots. is_compacted: whether the topic is, or was, compacted, None if that is not known. Raises UnreadableInput.
    """
    found = [] if is_compacted is False else _returned(segments)
    returned = [each for each in found if is_compacted or each.is_certain]
    gone = {segment.base for each in returned for segment in each.others}
    right = {each.by.base for each in returned}
    placed = _placed([segment for segment in segments if segment.base not in gone], orphans, snapshots, right)
    placed.wrong += map(_replaced, returned)
    for each in (each for each in returned if each.is_certain):
        what = f"the cleaner has replaced it by {each.by.files[FileKind.LOG].name}"
        placed.replaced |= {path.name: what for path in each.files}
    return placed


def _returned(segments: Sequence[SegmentFiles]) -> list[_Returned]:
    """Return each segment that once replaced others in a cleaning, with those of the replaced segments that are in the
    directory again.

    A segment has replaced others if its batches reach beyond their base offsets, and one of two conditions holds. At
    the offsets of the others, the segment has only what the cleaner leaves of their batches. Or its indexes fit its
    name and reach beyond the base offsets of the others, which is not so if a single batch has a wrong base offset; and
    none of the others is the active segment, which the cleaner never replaces.
    """
    found = []
    left = sorted(segments, key=lambda each: each.base)
    active = left[-1].base if left else 0
    while len(left) > 1:
        segment, *left = left
        fits = _fits(segment, segment.base)
        end = _end_by_index(segment) if fits else end_of(segment.files[FileKind.LOG])
        others = [each for each in left if each.base < end]
        if not others:
            continue
        copies = [first for each in others if (first := _copy_at_end(segment, each)) is not None]
        reached = max([others[0].base, *copies])
        is_indexed = fits and others[-1].base < active and _last_indexed(segment) >= reached
        is_certain = (is_indexed or not copies) and _is_left_of(segment, others)
        if is_certain or is_indexed:
            found.append(_Returned(segment, others, is_certain))
            left = left[len(others) :]
    return found


def _is_left_of(segment: SegmentFiles, others: Sequence[SegmentFiles]) -> bool:
    """Return whether the cleaner has made `segment` from the segments `others`: at the offsets of `others`, `segment`
    has batches, and each is one that the cleaner can have left of a batch there. False if all batches of `segment` are
    unchanged batches of `others`, or if those at the offsets of `others` are an unchanged run from the beginning of one
    of them on: then they are only a copy."""
    whole: dict[tuple[int, int], Header] = {}
    ranges: list[tuple[int, int]] = []
    begins: list[int] = []
    for other in others:
        end = other.base
        begins.append(len(whole))
        for header in headers(other.files[FileKind.LOG]):
            whole[header.first, header.last] = header
            end = header.last + 1
        ranges.append((other.base, end))
    is_cleaned = False
    left: list[Header] = []
    for header in headers(segment.files[FileKind.LOG]):
        before = whole.get((header.first, header.last))
        if before is not None:
            if not header.may_be_cleaned(before):
                return False
            left.append(header)
            is_cleaned = is_cleaned or header.crc != before.crc
        elif any(first <= header.last and header.first < end for first, end in ranges):
            return False
        else:
            is_cleaned = True
    theirs = list(whole.values())
    return is_cleaned and bool(left) and not any(theirs[at : at + len(left)] == left for at in begins)


def _end_by_index(segment: SegmentFiles) -> int:
    """Return the last offset of the segment's last batch plus 1, reading the .log file only from the last entry of the
    offset index on; the base offset if the .log file has no batch. Call this only if the indexes fit the file."""
    from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, load

    position = 0
    if FileKind.OFFSET_INDEX in segment.files:
        entries, _ = load(segment.files[FileKind.OFFSET_INDEX], OFFSET_ENTRY_BYTES)
        position = entries.fields(entries.count - 1)[1] if entries.count else 0
    return max((header.last + 1 for header in headers(segment.files[FileKind.LOG], position)), default=segment.base)


def _last_indexed(segment: SegmentFiles) -> int:
    """Return the highest offset in the last entries of the indexes; the base offset if the indexes have no entry."""
    from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, load

    last = segment.base
    for kind, size, at in ((FileKind.OFFSET_INDEX, OFFSET_ENTRY_BYTES, 0), (FileKind.TIME_INDEX, TIME_ENTRY_BYTES, 1)):
        if kind in segment.files:
            entries, _ = load(segment.files[kind], size)
            last = max(last, segment.base + entries.fields(entries.count - 1)[at]) if entries.count else last
    return last


def _copy_at_end(segment: SegmentFiles, other: SegmentFiles) -> int | None:
    """Return the first offset of `other` if the .log file of `segment` ends with a copy of the whole .log file of
    `other` or of its beginning; else None."""
    log, copied = segment.files[FileKind.LOG], other.files[FileKind.LOG]
    first, position = first_header(copied), 0
    for header in headers(log):
        if header == first:
            return header.first if ends_with(log, position, copied) else None
        position += header.size
    return None


def _replaced(returned: _Returned) -> tuple[Finding, set[str]]:
    log, *more = (each.files[FileKind.LOG] for each in returned.others)
    cleaned = returned.by.files[FileKind.LOG]
    rest = f", and so is {', '.join(path.name for path in more)}" if more else ""
    base, end, last = returned.others[0].base, end_of((log, *more)[-1]), end_of(cleaned) - 1
    hidden = f", and may miss those of {cleaned.name} at offsets {end:,}..{last:,}" if end <= last else ""
    finding = Finding(
        path=str(log),
        kind="log-replaced",
        severity="error",
        position=0,
        offset=base,
        expected=f"no such file: the batches of {cleaned.name} go up to offset {last:,}",
        found=f"a segment that the cleaner has replaced by {cleaned.name}{rest}",
        action=f"a Fetch at offset {base:,} or above does not read {cleaned.name}: consumers get records again that "
        f"compaction has removed{hidden}; stop the broker, and move the files away",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in returned.files]),
    )
    return finding, {path.stem for path in (log, *more)}


def _placed(
    segments: Sequence[SegmentFiles],
    orphans: Mapping[int, SegmentFiles],
    snapshots: Iterable[int],
    right: Collection[int],
) -> Placed:
    """Return the segments of a log in their true order. segments: without those that the cleaner had
    replaced and that came back. orphans: index files without a .log file, by the offset in their names. snapshots:
    offsets in the names of producer snapshots. right: the base offsets of segments whose names are known to be
    right."""
    bases = sorted(segment.base for segment in segments)
    named = {*orphans, *snapshots}
    held = {each.base: None if each.base in right else _held(each, bases, named) for each in segments}
    odd = {base: first for base, first in held.items() if first is not None}
    behind = {
        each.base: first
        for each in segments
        if each.base not in right and (first := _first_behind_damage(each, bases)) is not None
    }
    if not odd and not behind:
        return Placed(sorted(segments, key=lambda each: each.base), [], set())
    for first_offsets in ({**odd, **behind}, odd) if behind else (odd,):
        targets = _permutation(first_offsets, bases)
        if targets is not None:
            return _reordered(segments, targets)
    return _renamed(segments, odd, orphans)


def _held(segment: SegmentFiles, bases: list[int], named: set[int]) -> int | None:
    """Return the first offset of a segment whose file name must be wrong; None if the name may be right.

    bases: the offsets in the names of all .log files; named: those in the names of other files. A first offset that
    differs from the name is not enough: compaction can remove the first batches, and a flipped bit can change an
    offset. In addition, the indexes must not fit the name, and the next batch, an index or another file's name must
    confirm the offset.
    """
    log = segment.files[FileKind.LOG]
    source = FileSource(log)
    try:
        first = read_header(source, 0)
        second = None if first is None else read_header(source, first.size)
    finally:
        source.close()
    if first is None or first.first == segment.base or _fits(segment, segment.base):
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
        is_confirmed = is_confirmed and _is_elsewhere(segment, bases)
    return first.first if is_confirmed else None


def _first_behind_damage(segment: SegmentFiles, bases: list[int]) -> int | None:
    """Return the offset of a segment's first sound batch, if the .log file begins with damage, and neither the indexes
    nor most batches fit the name; else None. bases: the offsets in the names of all .log files."""
    log = segment.files[FileKind.LOG]
    if not log.stat().st_size or first_header(log) is not None or _fits(segment, segment.base):
        return None
    with closing(FileSource(log)) as source:
        first = next(sound_batches(source), None)
    return None if first is None or not _is_elsewhere(segment, bases) else first.base_offset


def _is_elsewhere(segment: SegmentFiles, bases: list[int]) -> bool:
    """Whether most sound batches of a .log file have offsets of other segments than the one of its name, or the whole
    file is one run of batches that begins with another segment's offset. bases: the offsets in the names of all .log
    files."""
    until = _following(bases, segment.base)
    places: Counter[bool] = Counter()
    run_end: tuple[int, int] | None = None  # the byte and the offset behind the batches from the file's begin on
    log = segment.files[FileKind.LOG]
    with closing(FileSource(log)) as source:
        for row in sound_batches(source):
            places[segment.base <= row.base_offset < until] += 1
            if row.position == 0 and row.base_offset in bases:
                run_end = 0, row.base_offset
            if run_end == (row.position, row.base_offset):
                run_end = row.position + row.size, row.last_offset + 1
    is_one_run = run_end is not None and run_end[0] == log.stat().st_size
    return is_one_run or places[False] >= places[True]


def _following(bases: list[int], base: int) -> int:
    return min((each for each in bases if each > base), default=OFFSET_MAX)


def read_header(source: Source, position: int) -> Header | None:
    """Return the batch header at byte `position` of a .log file; None if there is no valid batch header of magic 2.
    Raises UnreadableInput."""
    data = bytearray(HEADER_BYTES)
    if source.read_at(position, memoryview(data)) < HEADER_BYTES or data[MAGIC_AT] != MAGIC:
        return None
    first, length = int.from_bytes(data[:8], signed=True), int.from_bytes(data[8:12], signed=True)
    delta = int.from_bytes(data[23:27], signed=True)
    if first < 0 or length < LEAST_LENGTH or delta < 0 or first + delta >= OFFSET_MAX:
        return None
    leader_epoch = int.from_bytes(data[12:16], signed=True)
    crc, max_timestamp = int.from_bytes(data[17:21]), int.from_bytes(data[35:43], signed=True)
    has_horizon, records = bool(data[22] & DELETE_HORIZON), int.from_bytes(data[57:61], signed=True)
    size, producer = length + 12, bytes(data[43:57])
    return Header(first, first + delta, size, leader_epoch, crc, max_timestamp, has_horizon, producer, records)


def read_any_header(source: Source, position: int) -> Header | None:
    """Return the same as `read_header`, but also the header of a message of magic 0 or 1, if the message is whole and
    sound."""
    from kcli.log.legacy_message import message_at  # imported late: it needs construct

    message = message_at(source, position)
    if message is None:
        return read_header(source, position)
    if not 0 <= message.first <= message.last < OFFSET_MAX:
        return None
    return Header(message.first, message.last, message.size, -1, message.crc, message.timestamp)


def _permutation(held: Mapping[int, int], bases: list[int]) -> dict[int, int] | None:
    """Return the true base offset of each file that has exchanged its name with others, by the base offset in the
    file's name; None if no files have exchanged their names.

    held: the first offset of each file, by the offset in its name. A file in `held` may have the right name if it lacks
    its first batches.
    """
    targets = dict(zip(sorted(held, key=lambda base: held[base]), sorted(held), strict=True))
    fits = all(true <= held[base] < _following(bases, true) for base, true in targets.items())
    return {base: true for base, true in targets.items() if base != true} or None if fits else None


def _reordered(segments: Sequence[SegmentFiles], targets: Mapping[int, int]) -> Placed:
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


def _swapped(
    named: Mapping[int, SegmentFiles], cycle: list[int], moved: Mapping[int, list[tuple[Path, Path]]]
) -> Finding:
    """Return the finding of .log files that have exchanged their names: each should have the name of the next one in
    the cycle. cycle: the offsets in their names. moved: by each of these offsets, the renames (old, new) of the
    segment's files."""
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


def _renamed(segments: Sequence[SegmentFiles], held: Mapping[int, int], orphans: Mapping[int, SegmentFiles]) -> Placed:
    """Return the segments with their true base offsets, and a finding for each file with a wrong name. held: the first
    offset of each such file, by the offset in its name. orphans: index files without a .log file, by the offset in
    their names. A file that has the offsets of a correctly named one is a copy, and is left out; any other has the
    offsets of a missing .log file."""
    placed, wrong, used = [], [], set()
    copies: dict[str, str] = {}
    for segment in segments:
        true = held.get(segment.base)
        if true is None:
            placed.append(segment)
            continue
        path = segment.files[FileKind.LOG]
        other = _holder(segments, held, true, end_of(path))
        if other is not None:
            moves = [(path, path.with_name(f"{path.name}.copy"))]
            holder = next(each for each in segments if each.base == other)
            found = _origin(path, holder, true)
            if _has_all(holder.files[FileKind.LOG], path):
                copies[path.name] = f"its batches are those of {holder.files[FileKind.LOG].name}"
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
    return Placed(sorted(placed, key=lambda each: each.base), wrong, used, copies)


def _has_all(log: Path, other: Path) -> bool:
    """Whether a .log file has all sound batches of another one, of which there are some."""
    with closing(FileSource(log)) as own, closing(FileSource(other)) as its:
        lacking = {(row.base_offset, row.crc) for row in sound_batches(its)}
        is_any = bool(lacking)
        lacking.difference_update((row.base_offset, row.crc) for row in sound_batches(own))
    return is_any and not lacking


def _origin(path: Path, other: SegmentFiles, first: int) -> str:
    """Return the words of a finding that say from which .log file the batches in a misnamed .log file were copied.

    other: a segment that has the same offsets. first: the offset of the misnamed file's first batch, by which the
    copied file is recognized.
    """
    batches = f"batches from offset {first:,} on"
    here = other.files[FileKind.LOG]
    batch = first_header(path)
    if any(each == batch for each in takewhile(lambda each: each.first <= first, headers(here))):
        return f"{batches}, a copy of {here.name}"
    for log in sorted(path.absolute().parent.parent.glob(f"*/{log_name(first)}")):
        if log.parent.name != path.absolute().parent.name and batch is not None and first_header(log) == batch:
            return f"{batches}, a copy of {log.parent.name}/{log.name}: another partition's"
    return f"{batches}, which are not those of {here.name}: another log's"


def _holder(segments: Sequence[SegmentFiles], held: Mapping[int, int], first: int, end: int) -> int | None:
    """Return the base offset of a correctly named segment, one that is not in `held`, that also has offsets of [first,
    end); None if there is none."""
    own = [each for each in segments if each.base not in held and each.base < end]
    last = max(own, key=lambda each: each.base, default=None)
    if last is None or (last.base < first and end_of(last.files[FileKind.LOG]) <= first):
        return None
    return last.base


def _under(
    true: int, segment: SegmentFiles, at_target: Mapping[FileKind, Path]
) -> tuple[SegmentFiles, list[tuple[Path, Path]]]:
    """Return the segment with its true base offset, and the renames (old, new) that give its files the right names.

    at_target: the files that now have the new names.
    """
    log = segment.files[FileKind.LOG]
    files, moves = {FileKind.LOG: log}, [(log, log.with_name(log_name(true)))]
    indexes_fit = _fits(segment, true)
    for kind in INDEX_KINDS:
        own, other = segment.files.get(kind), at_target.get(kind)
        if own is not None and (indexes_fit or (other is None and kind not in at_target)):
            files[kind] = own
            moves.append((own, own.with_name(build(FileName(kind, true)))))
        elif other is not None:
            files[kind] = other
    return SegmentFiles(true, files), moves


def _fits(segment: SegmentFiles, base: int) -> bool:
    """Return whether the indexes beside a .log file fit it, assuming that its base offset is `base`. False if neither
    the offset index nor the time index has an entry.

    The last entry of the offset index decides. If there is none, the first entry of the time index decides: some batch
    must end at its offset and, unless it is the first batch, have its timestamp as the largest.
    """
    from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, load

    log = segment.files[FileKind.LOG]
    if FileKind.OFFSET_INDEX in segment.files:
        entries, _ = load(segment.files[FileKind.OFFSET_INDEX], OFFSET_ENTRY_BYTES)
        if entries.count:
            relative, position = entries.fields(entries.count - 1)
            header = next(headers(log, position), None) if position >= 0 else None
            return header is not None and header.last == base + relative
    if FileKind.TIME_INDEX in segment.files:
        times, _ = load(segment.files[FileKind.TIME_INDEX], TIME_ENTRY_BYTES)
        if times.count:
            timestamp, relative = times.fields(0)
            return any(
                header.last == base + relative and (not number or header.max_timestamp == timestamp)
                for number, header in enumerate(headers(log))
            )
    return False


def end_of(log: Path) -> int:
    """Return the last offset, plus 1, of the last whole batch before the first invalid header of a .log file; 0 if no
    batch is before it. Raises UnreadableInput."""
    end = 0
    for header in headers(log):
        end = header.last + 1
    return end


def ends_with(log: Path, position: int, other: Path) -> bool:
    """Whether `log` has bytes from `position` on, and they are the first bytes of `other`. Raises UnreadableInput."""
    one, two = FileSource(log), FileSource(other)
    ours, theirs = bytearray(COMPARED_BYTES), bytearray(COMPARED_BYTES)
    try:
        size = one.size() - position
        for at in range(0, size, COMPARED_BYTES):
            length = min(COMPARED_BYTES, size - at)
            read_bytes = one.read_at(position + at, memoryview(ours)[:length])
            if two.read_at(at, memoryview(theirs)[:length]) != read_bytes or ours[:read_bytes] != theirs[:read_bytes]:
                return False
    finally:
        one.close()
        two.close()
    return size > 0


def first_any_header(source: Source) -> Header | None:
    """Return the header of the first batch of an open .log file, of any magic; of a file that begins with damage that
    of the first sound batch; None if there is no batch. Raises UnreadableInput."""
    first = next(read_any_headers(source, 0), None)
    row = next(sound_batches(source), None) if first is None else None
    return first if row is None else read_any_header(source, row.position)


def first_header(log: Path) -> Header | None:
    """Return the header of the first batch; None if there is no valid one, or if the file cannot be read."""
    try:
        return next(headers(log), None) if log.is_file() else None
    except (UnreadableInput, OSError):
        return None


def headers(log: Path, position: int = 0) -> Iterator[Header]:
    """Yield the headers of the whole batches from byte `position` on, up to the first position without a valid header
    of magic 2. Raises UnreadableInput."""
    source = FileSource(log)
    try:
        yield from _whole(source, position, read_header)
    finally:
        source.close()


def read_any_headers(source: Source, position: int) -> Iterator[Header]:
    """Yield the same as `headers`, for an open .log file with batches of any magic."""
    return _whole(source, position, read_any_header)


def _whole(source: Source, position: int, read: Callable[[Source, int], Header | None]) -> Iterator[Header]:
    while (header := read(source, position)) is not None and position + header.size <= source.size():
        yield header
        position += header.size
