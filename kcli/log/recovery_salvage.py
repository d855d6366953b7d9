"""The sound batches behind damage, which Kafka would lose: counted, or kept at their own offsets.

A batch is kept whose framing and CRC hold and whose offsets lie above those before it, within its segment. The bytes in
between go; the offsets that no batch has any more are a gap, as in a compacted log, which Kafka reads past. A log whose
name lies above its first batch is named by that, where the logs before it leave room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BatchRow
from formats.kernels.log import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from kcli.log.recovery_view import Content, ContentSource, FileRange, PartitionView
from kcli.log.segment import INT_MAX, Segment
from kcli.log.segment_reader import Damage, read_segment

UNSOUND = FAULT_BAD_CRC | FAULT_SHORT_HEADER
LEGACY_MAGIC = 2
FIRST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [position, position + length) of a log that are no sound batches in order; they are left out.

    No batch has the offsets first_offset..last_offset any more; last_offset is None at the end of the log.
    """

    file: str
    position: int
    length: int
    first_offset: int
    last_offset: int | None


@dataclass(frozen=True, slots=True)
class Renamed:
    """A log that was named above its first batch, and its name now."""

    file: str
    name: str


@dataclass(slots=True)
class Lost:
    """Sound batches, their records, first and last offset (None: there are none)."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None


def behind_damage(name: str, content: Content, position: int) -> Lost:
    """Count the sound batches of a log from byte `position` on. Raises UnreadableInput."""
    found = Lost()
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, start=position):
            if isinstance(part, Damage):
                continue
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if row.faults & UNSOUND or row.base_offset < 0 or row.last_offset < row.base_offset:
                    continue
                found.batches += 1
                found.records += _record_count(row)
                first, last = found.first_offset, found.last_offset
                found.first_offset = row.base_offset if first is None else min(first, row.base_offset)
                found.last_offset = row.last_offset if last is None else max(last, row.last_offset)
    finally:
        source.close()
    return found


def salvage(view: PartitionView, files: Mapping[str, int]) -> tuple[list[Gap], list[Renamed], int]:
    """Leave only sound batches in order in those of the view's logs that `files` names, each with the bytes that Kafka
    would keep of it.

    Returns what was left out, what has another name, and how many records stay that Kafka would not keep. Other names
    of `files` are of files that keep Kafka from starting; they go, and a start builds them anew, as it does the indexes
    of the logs. Raises UnreadableInput.
    """
    for name in [each for each in view.names() if each in files and not _is_log(each)]:
        view.remove(name.replace(".txnindex", ".index"))
        view.remove(name)
    names = {int(name.partition(".")[0]): name for name in view.names() if _is_log(name)}
    bases = sorted(names)
    gaps: list[Gap] = []
    renamed: list[Renamed] = []
    next_offset = saved_records = 0
    for number, base in enumerate(bases):
        if names[base] not in files:
            continue
        content = view.files[names[base]]
        start = _first_offset(names[base], content)
        if (start is None or start < base) and number and names[bases[number - 1]] not in files:
            next_offset = _end_offset(names[bases[number - 1]], view, bases[number - 1])
        first = start if start is not None and next_offset <= start < base else base
        limit = bases[number + 1] if number + 1 < len(bases) else first + INT_MAX + 1
        kept = _Kept(names[base], content, max(first, next_offset), min(limit, first + INT_MAX + 1))
        kept.read(files[names[base]])
        saved_records += kept.saved_records
        for name in Segment(view, base).names:
            view.remove(name)
        gaps += kept.gaps
        if not kept.content().size and first < next_offset:
            continue  # an empty log there would hide the end of the one before it
        next_offset = kept.next_offset
        name = build(FileName(FileKind.LOG, first))
        if first != base:
            renamed.append(Renamed(names[base], name))
        view.put(name, kept.content())
    return gaps, renamed, saved_records


def _is_log(name: str) -> bool:
    """Is it the name of a log as Kafka gives it?"""
    parsed = parse(name)
    return parsed is not None and parsed.kind is FileKind.LOG and name == build(parsed) and not parsed.state


def _first_offset(name: str, content: Content) -> int | None:
    """The offset of the batch that the log begins with; None where it does not begin with a sound one."""
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, resync=False, window_bytes=FIRST_BYTES):
            row = None if isinstance(part, Damage) else BatchRow._make(part.batches.row(0))
            return None if row is None or row.faults & UNSOUND else _first_of(row)
    finally:
        source.close()
    return None


def _end_offset(name: str, view: PartitionView, base: int) -> int:
    """Behind the last sound batch of a log."""
    kept = _Kept(name, view.files[name], base, base + INT_MAX + 1)
    kept.read()
    return kept.next_offset


def _record_count(row: BatchRow) -> int:
    return row.count if row.magic >= LEGACY_MAGIC else 1


def _first_of(row: BatchRow) -> int:
    return row.base_offset if row.magic >= LEGACY_MAGIC else row.last_offset


class _Kept:
    """The sound batches of one log, as ranges of it, with offsets from `next_offset` on and below `limit`."""

    def __init__(self, name: str, content: Content, next_offset: int, limit: int) -> None:
        self._name = name
        self._content = content
        self._limit = limit
        self._ranges: list[list[int]] = []
        self.next_offset = next_offset
        self.saved_records = 0
        self.gaps: list[Gap] = []

    def read(self, saved_from: int = 0) -> None:
        """Read all of the log. saved_from: records of batches from this byte on are counted."""
        source = ContentSource(self._name, self._content)
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    continue
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    if self._batch(row) and row.position >= saved_from:
                        self.saved_records += _record_count(row)
        finally:
            source.close()
        end = self._ranges[-1][1] if self._ranges else 0
        if end < self._content.size:
            self.gaps.append(Gap(self._name, end, self._content.size - end, self.next_offset, None))

    def _batch(self, row: BatchRow) -> bool:
        """Does the batch stay?"""
        first = _first_of(row)
        if row.faults & UNSOUND or first < self.next_offset or not first <= row.last_offset < self._limit:
            return False
        end = self._ranges[-1][1] if self._ranges else 0
        if row.position > end:
            self.gaps.append(Gap(self._name, end, row.position - end, self.next_offset, first - 1))
        if row.position == end and self._ranges:
            self._ranges[-1][1] = row.position + row.size
        else:
            self._ranges.append([row.position, row.position + row.size])
        self.next_offset = row.last_offset + 1
        return True

    def content(self) -> Content:
        """The log without its gaps."""
        part = self._content.parts[0]
        assert isinstance(part, FileRange), "salvage works on what is on disk"
        return Content(tuple(FileRange(part.path, part.start + start, end - start) for start, end in self._ranges))
