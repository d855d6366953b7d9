"""Batches of another partition in a damaged .log file: blocks that were written into the wrong file, recognized by the
other partition's log, which has the same batches.

The sound batches of a .log file are taken as stretches, with damage or missing offsets between them. A stretch is
another partition's if

    - a .log file of that partition has the same bytes: batches with the same offsets, CRCs and timestamps
    - the batches before and behind it are not that partition's, too: a producer may have written the same to both
    - it has several timestamps, or the equal bytes begin or end at the edge of a sector, within the damage

or if it lies in a block that a damaged .log file of that partition lacks at the same byte (displaced_blocks), where
only one of two writes went to the wrong file.

Batches without records, and control batches, are no evidence: they may be equal in several partitions. In a
coordinator's topic, the keys of the records tell (kcli.log.recovery.misdirected).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from formats.file_name import parse
from formats.kernels.columns import BatchRow
from kcli.errors import UnreadableInput
from kcli.log.partition_view import Content, ContentSource, is_as_stored, paths_in
from kcli.log.recovery.displaced_blocks import BLOCK_BYTES_MAX, PAGE_BYTES, Displaced, blocks_in
from kcli.log.recovery.foreign import HEADER_BYTES, bytes_at, has_damage_before, logs_beside, position_of
from kcli.log.recovery.misdirected import Run
from kcli.log.recovery.readable import first_offset
from kcli.log.segment_reader import UNSOUND, Damage, read_segment, sound_batches
from kcli.log.source import Source

STRETCHES_MAX = 256
"""The maximum number of stretches of one .log file. A file with more is only taken apart at damage; one with even more
damaged places is not looked at."""
TIMESTAMPS_LEAST = 3
"""The minimum number of different timestamps in a stretch that needs no other evidence."""
SECTOR_BYTES = 512
CHANCE_BYTES = 32
"""The maximum number of bytes beyond the edge of a sector that may be equal by chance."""
COMPARED_AT_ONCE_BYTES = 1 << 20


@dataclass(slots=True)
class _Stretch:
    """Adjacent sound batches, from `first` to `last`. probe: the first one with records that is no control batch; None
    if there is none. timestamps: their largest timestamps, TIMESTAMPS_LEAST at most."""

    first: BatchRow
    last: BatchRow
    probe: BatchRow | None = None
    batches: int = 0
    timestamps: set[int] = field(default_factory=set)

    def add(self, row: BatchRow) -> None:
        self.last = row
        self.batches += 1
        if row.is_control or not row.count:
            return
        self.probe = self.probe or row
        if len(self.timestamps) < TIMESTAMPS_LEAST:
            self.timestamps.add(row.max_timestamp)

    @property
    def end(self) -> int:
        """The byte after the last batch."""
        return self.last.position + self.last.size


@dataclass(frozen=True, slots=True)
class _Place:
    """A stretch of another partition: the .log file that has it, and the byte at which it begins there. lacks: whether
    that file lacks it there."""

    log: Path
    position: int
    lacks: bool = False


def runs_of_others(directory: Path, name: str, content: Content) -> list[Run]:
    """Return the batches of other partitions in a damaged .log file, in the order of the file; none if the file has no
    damage, or if all its batches are another partition's.

    directory: that of the partition. name: of the file. content: the file's bytes, which may lie in the directory of
    another partition. Raises UnreadableInput.
    """
    stretches = _stretches(name, content)
    if len(stretches) < 2:
        return []
    logs = _Logs(directory, {path.resolve() for path in paths_in(content)})
    with closing(ContentSource(name, content)) as source:
        places = [logs.place_of(source, each) for each in stretches]
        taken: dict[int, _Place] = {}
        numbers = range(len(stretches))
        for owner, group in groupby(numbers, lambda i: _owner(places[i])):
            same = list(group)
            beside = [each for each in (same[0] - 1, same[-1] + 1) if each in numbers]
            edges = [stretches[each].last if each < same[0] else stretches[each].first for each in beside]
            if owner is None or not edges or any(logs.has(owner, source, each) for each in edges):
                continue
            found = {i: place for i in same if (place := places[i]) is not None}
            if _is_evident(source, [(stretches[i], place) for i, place in found.items()]):
                taken |= found
    file = _file_of(content)
    if file is not None:
        lacking = ((i, logs.lacking(file, stretches[i])) for i in numbers if places[i] is None)
        taken |= {i: place for i, place in lacking if place is not None}
    parsed = parse(name)
    return list(_runs(stretches, taken, None if parsed is None else parsed.base_offset))


def identities(name: str, content: Content, runs: Sequence[Run]) -> frozenset[tuple[int, int]]:
    """Return base offset and CRC of the batches in these runs of a .log file that the file has nowhere else: one
    transaction's markers may be equal in two partitions. Raises UnreadableInput."""
    inside: set[tuple[int, int]] = set()
    outside: set[tuple[int, int]] = set()
    with closing(ContentSource(name, content)) as source:
        for row in sound_batches(source):
            is_inside = any(run.position <= row.position < run.end for run in runs)
            (inside if is_inside else outside).add((row.base_offset, row.crc))
    return frozenset(inside - outside)


def _file_of(content: Content) -> Path | None:
    """Return the path of the file on disk whose bytes a content is from byte 0 on; None if it has other bytes."""
    match content.parts:
        case [part] if is_as_stored(part) and part.start == 0:
            return part.path
    return None


def _owner(place: _Place | None) -> Path | None:
    return None if place is None else place.log.parent


def _stretches(name: str, content: Content) -> list[_Stretch]:
    """Return the stretches of a .log file, in order; none if there are more than STRETCHES_MAX. Raises
    UnreadableInput."""
    for at_gaps in (True, False):
        found: list[_Stretch] = []
        is_behind_damage = True
        with closing(ContentSource(name, content)) as source:
            for row in _sound_or_none(source):
                if row is None:
                    is_behind_damage = True
                    continue
                if is_behind_damage or (at_gaps and row.base_offset != found[-1].last.last_offset + 1):
                    found.append(_Stretch(row, row))
                    if len(found) > STRETCHES_MAX:
                        break
                found[-1].add(row)
                is_behind_damage = False
        if len(found) <= STRETCHES_MAX:
            return found
    return []


def _sound_or_none(source: Source) -> Iterator[BatchRow | None]:
    """Yield the sound batches of a .log file; None for each batch that is not sound, and for damage between batches."""
    for part in read_segment(source):
        if isinstance(part, Damage):
            yield None
            continue
        rows = (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
        yield from (None if row.faults & UNSOUND or row.last_offset < row.base_offset else row for row in rows)
        part.release()


class _Logs:
    """The .log files of the other partitions in a log directory. directory: that of the partition itself. own: .log
    files that are the partition's, though they lie in another directory."""

    def __init__(self, directory: Path, own: Container[Path]) -> None:
        self._logs: dict[Path, list[tuple[int, Path]]] = defaultdict(list)
        self._blocks: dict[Path, list[Displaced]] = {}
        for path, base in logs_beside(directory):
            if path.resolve() not in own:
                self._logs[path.parent].append((base, path))

    def place_of(self, source: Source, stretch: _Stretch) -> _Place | None:
        """Return where another partition has a stretch of the .log file `source`; None if none has it."""
        probe = stretch.probe
        if probe is None:
            return None
        for each in self._logs:
            found = self._find(each, source, probe)
            if found is None:
                continue
            position = found.position - (probe.position - stretch.first.position)
            if position >= 0 and _is_same(source, stretch, found.log, position):
                return _Place(found.log, position)
        return None

    def lacking(self, file: Path, stretch: _Stretch) -> _Place | None:
        """Return where another partition's damaged .log file lacks a stretch of the .log file at `file`: in a block of
        it that lies in `file`. None if there is none."""
        if stretch.end - stretch.first.position > BLOCK_BYTES_MAX:
            return None
        offset = first_offset(stretch.first)
        for directory in self._logs:
            base, log = self._log_of(directory, offset)
            if log is None or not has_damage_before(log, base, offset):
                continue
            for each in self._blocks_of(log, file):
                if each.position <= stretch.first.position and stretch.end <= each.position + each.length:
                    return _Place(log, stretch.first.position, lacks=True)
        return None

    def has(self, directory: Path, source: Source, row: BatchRow) -> bool:
        """Whether the partition in `directory` has a batch of the .log file `source`."""
        return self._find(directory, source, row) is not None

    def _find(self, directory: Path, source: Source, row: BatchRow) -> _Place | None:
        offset = first_offset(row)
        base, log = self._log_of(directory, offset)
        position = None if log is None else position_of(log, base, offset)
        if log is None or position is None or bytes_at(log, position) != _read(source, row.position, HEADER_BYTES):
            return None
        return _Place(log, position)

    def _log_of(self, directory: Path, offset: int) -> tuple[int, Path | None]:
        """Return base offset and path of the .log file in a directory that may have an offset; (-1, None) if none."""
        return max((each for each in self._logs[directory] if each[0] <= offset), default=(-1, None))

    def _blocks_of(self, log: Path, file: Path) -> list[Displaced]:
        """Return the blocks of a damaged .log file that lie in the .log file at `file`; none if it cannot be read,
        which the plan of its own partition reports."""
        if log not in self._blocks:
            self._blocks[log] = []
            with suppress(OSError, UnreadableInput):
                self._blocks[log] = blocks_in(log, file)
        return self._blocks[log]


def _is_same(source: Source, stretch: _Stretch, log: Path, position: int) -> bool:
    """Whether a .log file has all bytes of a stretch of `source`, from byte `position` on."""
    at, shift = stretch.first.position, position - stretch.first.position
    while at < stretch.end:
        size = min(COMPARED_AT_ONCE_BYTES, stretch.end - at)
        if _read(source, at, size) != bytes_at(log, at + shift, size):
            return False
        at += size
    return True


def _is_evident(source: Source, found: Sequence[tuple[_Stretch, _Place]]) -> bool:
    """Whether adjacent stretches have several timestamps, or are in sectors that another .log file has as well, in
    damage that begins before them or ends behind them."""
    if len(set().union(*(stretch.timestamps for stretch, _ in found))) >= TIMESTAMPS_LEAST:
        return True
    (first, place), (last, behind) = found[0], found[-1]
    before = min(PAGE_BYTES, first.first.position, place.position)
    one = _read(source, first.first.position - before, before)
    other = bytes_at(place.log, place.position - before, before)
    begin = first.first.position - common(one[::-1], other[::-1])
    end = behind.position + last.end - last.first.position
    rest = common(_read(source, last.end, PAGE_BYTES), bytes_at(behind.log, end, PAGE_BYTES))
    is_begin = begin < first.first.position and -begin % SECTOR_BYTES <= min(CHANCE_BYTES, first.first.position - begin)
    return is_begin or (rest > 0 and (last.end + rest) % SECTOR_BYTES <= min(CHANCE_BYTES, rest))


def common(one: bytes, other: bytes) -> int:
    """Return the number of bytes that are equal at the beginning of both."""
    size = min(len(one), len(other))
    if one[:size] == other[:size]:
        return size
    return next(i for i in range(size) if one[i] != other[i])


def _read(source: Source, position: int, size: int) -> bytes:
    data = bytearray(size)
    return bytes(data[: source.read_at(position, memoryview(data))])


def _runs(stretches: Sequence[_Stretch], taken: dict[int, _Place], base: int | None) -> Iterator[Run]:
    """Yield the runs of the stretches that are another partition's. taken: by the number of such a stretch, where the
    other partition has it. base: the base offset in the name of the .log file; None if the name has none."""
    own = [i for i in range(len(stretches)) if i not in taken]
    for i, place in sorted(taken.items()):
        stretch = stretches[i]
        before = max((each for each in own if each < i), default=None)
        behind = min((each for each in own if each > i), default=None)
        yield Run(
            stretch.first.position,
            stretch.end,
            stretch.first.base_offset,
            stretch.last.last_offset,
            place.log.parent.name,
            stretch.batches,
            base if before is None else stretches[before].last.last_offset + 1,
            None if behind is None else stretches[behind].first.base_offset,
            log=place.log.name,
            lacks=place.lacks,
        )
