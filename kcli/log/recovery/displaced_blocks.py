"""Blocks of a .log file that another .log file has at the same byte: two writes that went to each other's file, or one
write that went to the wrong file.

A block is [begin, end) in whole pages, and tears a batch at each edge, unless a batch or the file begins or ends there.
It is another file's if the batches from the torn one at its begin up to the first own batch behind it are sound, in the
order of their offsets and within the segment, with the other file's bytes in its place. The CRC of a torn batch, which
covers bytes of both files, leaves no doubt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from kcli.log.partition_view import Content, ContentSource, FileRange, Part
from kcli.log.recovery.foreign import HEADER_BYTES, MAGIC, MAGIC_AT, PREFIX, bytes_at, logs_beside
from kcli.log.recovery.readable import first_offset
from kcli.log.segment_reader import SMALLEST_LENGTH, UNSOUND, Window, read_segment, sound_batches

PAGE_BYTES = 4096
BLOCK_BYTES_MAX = 1 << 20
PLACES_MAX = 32
"""The maximum number of damaged places of one .log file that are compared with other files."""
STRETCHES_MAX = 256
"""The maximum number of stretches of adjacent batches of one .log file that are put in order."""
BEGINS_MAX = 16
"""The maximum number of pages within one batch at which a block may begin."""
CRC_AT, COVERED_FROM = 17, 21


@dataclass(frozen=True, slots=True)
class Displaced:
    """Bytes [position, position + length) of a .log file that lie in the file `log`, at the same byte. begin, end: the
    bytes of the batches that are whole with these bytes. batches: the number of these batches. first_offset,
    last_offset: theirs."""

    position: int
    length: int
    log: Path
    begin: int
    end: int
    batches: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class _Place:
    """Bytes [start, stop) of a .log file without a batch of its own. next_offset: the lowest offset that a batch there
    may have."""

    start: int
    stop: int
    next_offset: int


@dataclass(slots=True)
class _Stretch:
    """Adjacent sound batches, bytes [start, stop) of a .log file."""

    start: int
    first_offset: int
    stop: int = 0
    last_offset: int = -1
    batches: int = 0


def has_damage(name: str, content: Content) -> bool:
    """Whether a .log file has bytes that are no sound batch. Raises UnreadableInput."""
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source, resync=False):
            if not isinstance(part, Window) or part.batches.first_fault() >= 0:
                return True
            part.release()
    return False


def logs_around(directory: Path) -> list[Path]:
    """Return the .log files of a partition's directory, and those of the other partitions in the log directory."""
    return [*_logs(directory), *(path for path, _ in logs_beside(directory))]


def displaced_blocks(
    name: str, content: Content, base: int, following: int | None, others: Sequence[Path]
) -> list[Displaced]:
    """Return the blocks of a damaged .log file that lie in other files, in the order of the file.

    name: of the file. content: its bytes. base: its base offset. following: that of the next segment, None for the last
    one. others: the .log files that are compared. Raises UnreadableInput.
    """
    places = _places(name, content, base, following)
    if not places or len(places) > PLACES_MAX:
        return []
    found: list[Displaced] = []
    for place in places:
        if found and place.start < found[-1].position + found[-1].length:
            continue
        blocks = (each for log in others for each in _blocks(name, content, place, places, log, following))
        block = next(blocks, None)
        if block is not None:
            found.append(block)
    return found


def is_exchange(log: Path, block: Displaced) -> bool:
    """Return whether the bytes of a .log file that lie where its block should be are those that the other file lacks.
    Raises UnreadableInput."""
    return any((each.position, each.length) == (block.position, block.length) for each in blocks_in(block.log, log))


def blocks_in(log: Path, other: Path) -> list[Displaced]:
    """Return the blocks of a damaged .log file that lie in the .log file `other`; none if the name of `log` has no base
    offset. Raises UnreadableInput."""
    if not log.stem.isdecimal():
        return []
    base = int(log.stem)
    bases = (int(each.stem) for each in _logs(log.parent) if each.stem.isdecimal())
    following = min((each for each in bases if each > base), default=None)
    content = Content((FileRange(log, 0, log.stat().st_size),))
    return displaced_blocks(log.name, content, base, following, [other])


def _logs(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob(f"*{FileKind.LOG}") if path.is_file())


def with_blocks(content: Content, blocks: Iterable[Displaced], directory: Path) -> Content:
    """Return the content of a .log file with blocks of it from other files in their places: of a file in `directory`,
    that of the partition, as a range of it, of another partition's file in memory."""
    parts: list[Part] = []
    at = 0
    for each in blocks:
        stop = each.position + each.length
        parts += content.between(at, each.position).parts
        is_own = each.log.parent == directory
        block = FileRange(each.log, each.position, each.length)
        parts.append(block if is_own else bytes_at(each.log, each.position, each.length))
        at = stop
    return Content((*parts, *content.between(at, content.size).parts))


def _places(name: str, content: Content, base: int, following: int | None) -> list[_Place]:
    """Return the bytes of a .log file without a sound batch of the segment in the order of the offsets; none if the
    file is in more than STRETCHES_MAX pieces. Raises UnreadableInput."""
    stretches: list[_Stretch] = []
    with closing(ContentSource(name, content)) as source:
        for row in sound_batches(source):
            first = first_offset(row)
            if first < base or (following is not None and row.last_offset >= following):
                continue
            last = stretches[-1] if stretches else None
            if last is None or row.position != last.stop or first <= last.last_offset:
                last = _Stretch(row.position, first)
                stretches.append(last)
                if len(stretches) > STRETCHES_MAX:
                    return []
            last.stop, last.last_offset, last.batches = row.position + row.size, row.last_offset, last.batches + 1
    found, at, next_offset = [], 0, base
    for each in _in_order(stretches):
        if each.start > at:
            found.append(_Place(at, each.start, next_offset))
        at, next_offset = each.stop, each.last_offset + 1
    if at < content.size:
        found.append(_Place(at, content.size, next_offset))
    return found


def _in_order(stretches: Sequence[_Stretch]) -> list[_Stretch]:
    """Return those of the stretches, given in the order of the file, that have the most batches of all choices whose
    offsets rise through the file."""
    best: list[tuple[int, int]] = []  # for each stretch, the batches up to it, and the number of the one before it
    for i, each in enumerate(stretches):
        before = [(best[j][0], j) for j in range(i) if stretches[j].last_offset < each.first_offset]
        batches, j = max(before, default=(0, -1))
        best.append((batches + each.batches, j))
    chosen: list[_Stretch] = []
    at = max(range(len(best)), key=lambda i: best[i][0], default=-1)
    while at >= 0:
        chosen.append(stretches[at])
        at = best[at][1]
    return chosen[::-1]


def _blocks(
    name: str, content: Content, place: _Place, places: Sequence[_Place], log: Path, following: int | None
) -> Iterator[Displaced]:
    """Yield the block that begins in a place and lies in the file `log`."""
    for begin in _begins(name, content, place, log):
        stop = min(content.size, begin + BLOCK_BYTES_MAX)
        block = bytes_at(log, begin, stop - begin)
        mixed = Content((*content.between(0, begin).parts, block))
        rows, end = _rows(name, mixed, place, following)
        for until in _ends(end, begin + len(block), content.size):
            whole = Content((*mixed.between(0, until).parts, *content.between(until, content.size).parts))
            rows, end = _rows(name, whole, place, following, stop=_stop(places, until))
            is_torn = any(row.position < each < row.position + row.size for row in rows for each in (begin, until))
            if is_torn and end >= until and any(each.stop == end for each in places):
                first, last = first_offset(rows[0]), rows[-1].last_offset
                yield Displaced(begin, until - begin, log, place.start, end, len(rows), first, last)
                return


def _stop(places: Sequence[_Place], until: int) -> int:
    """Return the byte at which the first own batch behind a block begins that ends at byte `until`."""
    return min((each.stop for each in places if each.stop >= until), default=until)


def _begins(name: str, content: Content, place: _Place, log: Path) -> Iterator[int]:
    """Yield the pages at which a block from the file `log` may begin in a place: with it, the first batch is sound."""
    with closing(ContentSource(name, content)) as source:
        head = bytearray(min(place.stop - place.start, BLOCK_BYTES_MAX))
        del head[source.read_at(place.start, memoryview(head)) :]
    first = -(-place.start // PAGE_BYTES) * PAGE_BYTES
    for begin in range(first, min(place.stop, first + BEGINS_MAX * PAGE_BYTES), PAGE_BYTES):
        own = bytes(head[: begin - place.start])
        batch = own + bytes_at(log, begin, HEADER_BYTES)
        if len(batch) < HEADER_BYTES or batch[MAGIC_AT] != MAGIC:
            return
        _, length = PREFIX.unpack_from(batch)
        size = PREFIX.size + length
        if length < SMALLEST_LENGTH or not len(own) < size <= BLOCK_BYTES_MAX:
            return
        batch = own + bytes_at(log, begin, size - len(own))
        if crc32c(batch[COVERED_FROM:size]) == int.from_bytes(batch[CRC_AT:COVERED_FROM]):
            yield begin


def _ends(end: int, stop: int, size: int) -> Iterator[int]:
    """Yield the bytes at which a block may end if the batches are sound up to byte `end`. stop: the end of the bytes
    that the other file has. size: that of the .log file."""
    if end >= size:
        yield size
        return
    first = -(-end // PAGE_BYTES) * PAGE_BYTES
    yield from range(first, min(stop, first + BEGINS_MAX * PAGE_BYTES) + 1, PAGE_BYTES)


def _rows(
    name: str, content: Content, place: _Place, following: int | None, stop: int | None = None
) -> tuple[list[BatchRow], int]:
    """Return the sound batches from the begin of a place on, in the order of their offsets and within the segment, up
    to byte `stop` and up to the first that is not so; and the byte at which they end."""
    found: list[BatchRow] = []
    end, next_offset = place.start, place.next_offset
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source, start=place.start, stop=stop, resync=False):
            if not isinstance(part, Window):
                break
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                is_within = next_offset <= first_offset(row) and (following is None or row.last_offset < following)
                if row.faults & UNSOUND or not is_within:
                    return found, end
                found.append(row)
                end, next_offset = row.position + row.size, row.last_offset + 1
    return found, end
