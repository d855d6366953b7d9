"""Offsets between two segments of a log that no .log file has: all files of a segment were lost, the end of one, or the
content of its .log file; and offsets that two segments have.

Kafka does not notice: it starts with the segments that are there, and consumers read past the gap, unless it is damage
at which they stop. A topic that was ever compacted may have such gaps anyway. Only the end of each segment is read:
from the last entry of its offset index on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from typing import NamedTuple

from formats.errors import Truncated
from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BatchRow
from formats.offset_index import ENTRY
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.deleted import epoch_starts
from kcli.log.recovery.retention import NEVER, Retention, largest_timestamp
from kcli.log.recovery.salvage import begin_offset, behind_damage, is_log
from kcli.log.segment_reader import UNSOUND, Damage, Window, read_segment

INT_MAX = 2**31 - 1
TAIL_BYTES_MAX = 8 << 20
"""How much of a .log file is read for its last batch, in bytes; between two entries of an offset index are
index.interval.bytes and at most one batch."""


class Gap(NamedTuple):
    """Offsets, `first` to `last`, that the .log file `before` should have, or other .log files between it and
    `following`. before: "" if no .log file is before these."""

    before: str
    following: str
    first: int
    last: int


def gaps(files: Mapping[str, Content], log_start_offset: int) -> Iterator[Gap]:
    """Yield the gaps from the log start offset on between the .log files in a partition's directory, adjacent ones
    joined, except those whose offsets a file has that a start deletes, such as *.log.deleted. files: the content of the
    directory's files by name. Raises UnreadableInput."""
    gap: Gap | None = None
    for each in _gaps(files, log_start_offset):
        if gap is not None and gap.last + 1 == each.first:
            gap = gap._replace(following=each.following, last=each.last)
            continue
        if gap is not None:
            yield gap
        gap = each
    if gap is not None:
        yield gap


def overlaps(files: Mapping[str, Content]) -> Iterator[tuple[str, str, int]]:
    """Yield each two adjacent .log files in a partition's directory of which the first has offsets at or above the base
    offset of the second, and the last one of them. files: the content of the directory's files by name. The end of a
    .log file with more than TAIL_BYTES_MAX behind the last entry of its offset index is not known. Raises
    UnreadableInput."""
    bases = sorted(int(name[:20]) for name in files if is_log(name))
    for base, following in pairwise(bases):
        name, behind = (build(FileName(FileKind.LOG, each)) for each in (base, following))
        index = files.get(build(FileName(FileKind.OFFSET_INDEX, base)))
        position = _last_position(index, base, base + INT_MAX)
        if not 0 < files[name].size - position <= TAIL_BYTES_MAX:
            continue
        first = begin_offset(name, files[name])
        last = max((row.last_offset for row in _rows(name, files[name], position)), default=-1)
        if first is not None and base <= first < following <= last:
            yield name, behind, last


def stop_at(name: str, content: Content) -> tuple[int, int] | None:
    """Return the byte of the first damage in a .log file, and the offset there, at which consumers stop; None if there
    is none before the end, where a batch may be torn: consumers pass over that. Raises UnreadableInput."""
    end = int(name[:20])
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source, resync=False):
            if isinstance(part, Damage):
                return None if isinstance(part.error, Truncated) else (part.position, end)
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if row.faults & UNSOUND:
                    return row.position, end
                end = row.last_offset + 1
            part.release()
    return None


def lost_begin(files: Mapping[str, Content], log_start_offset: int, retention: Retention | None) -> Gap | None:
    """Return the offsets before the first .log file in a partition's directory that no file has, though its leader
    epochs begin there; None if there are none, and if retention can have deleted them. retention: the topic's; None if
    it has none. Raises UnreadableInput."""
    bases = sorted(int(name[:20]) for name in files if is_log(name))
    first = max([log_start_offset, *epoch_starts(files)[:1]])
    if not bases or not epoch_starts(files) or not log_start_offset <= first < bases[0]:
        return None
    if any(first <= each < bases[0] for each in _removed(files)):
        return None
    name = build(FileName(FileKind.LOG, bases[0]))
    if retention is not None:
        kept = sum(files[build(FileName(FileKind.LOG, each))].size for each in bases)
        before = next((row.max_timestamp for row in _rows(name, files[name], 0)), NEVER)
        with closing(ContentSource(name, files[name])) as source:
            if retention.by_size(kept) or retention.by_time(before, largest_timestamp(source)):
                return None
    return Gap("", name, first, bases[0] - 1)


def _removed(files: Mapping[str, Content]) -> set[int]:
    """Return the base offsets of the .log files that a start deletes or renames, such as *.log.deleted."""
    parsed = (parse(name) for name in files)
    return {each.base_offset or 0 for each in parsed if each and each.kind is FileKind.LOG and each.state}


def _gaps(files: Mapping[str, Content], log_start_offset: int) -> Iterator[Gap]:
    """Yield the gaps between each two .log files."""
    bases = sorted(int(name[:20]) for name in files if is_log(name))
    removed = _removed(files)
    for base, following in pairwise(bases):
        if following <= log_start_offset:
            continue
        name, behind = (build(FileName(FileKind.LOG, each)) for each in (base, following))
        first = max(_end(name, files, base, following), log_start_offset)
        if first < following and not any(first <= each < following for each in removed):
            begin = begin_offset(behind, files[behind])
            if begin is None or begin >= following:
                yield Gap(name, behind, first, following - 1)


def _end(name: str, files: Mapping[str, Content], base: int, following: int) -> int:
    """Return the offset behind the last sound batch of a .log file, at most `following`; `base` if it has none."""
    position = _last_position(files.get(build(FileName(FileKind.OFFSET_INDEX, base))), base, following)
    last = -1
    if 0 < position < files[name].size:
        last = max((row.last_offset for row in _rows(name, files[name], position)), default=-1)
    if not base <= last < following:
        found = behind_damage(name, files[name], 0, until_offset=following - 1).last_offset
        last = base - 1 if found is None else found
    return min(last + 1, following)


def _last_position(index: Content | None, base: int, following: int) -> int:
    """Return the position in the last entry of an offset index with an offset below `following`; 0 if there is none."""
    if index is None:
        return 0
    data = bytearray(index.size)
    with closing(ContentSource("", index)) as source:
        source.read_at(0, memoryview(data))
    while data := data.rstrip(b"\0"):  # behind the last entry, Kafka fills an index with zeros
        start = (len(data) - 1) // ENTRY.size * ENTRY.size
        relative, position = ENTRY.unpack(bytes(data[start:]).ljust(ENTRY.size, b"\0"), 0)
        if 0 <= relative < following - base:
            return position
        del data[start:]
    return 0


def _rows(name: str, content: Content, position: int) -> Iterator[BatchRow]:
    """Yield the batches from a byte on, up to the first damage."""
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source, start=position, resync=False):
            if not isinstance(part, Window):
                return
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if row.faults:
                    return
                yield row
