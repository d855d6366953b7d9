"""The sound batches behind damage, which Kafka would lose: counted, or kept at their own offsets.

A batch is kept whose framing and CRC hold and whose offsets lie above those before it, within its segment. The bytes in
between go; the offsets that no batch has any more are a gap, as in a compacted log, which Kafka reads past. A log whose
name lies above its first batch is named by that, where the logs before it leave room; one that another partition has
under a name that fits it better stays out. Of what a damaged swap file replaced the batches behind its own stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from formats.file_name import FileKind, FileName, build, parse
from formats.kernels.columns import BatchRow
from formats.kernels.log import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from kcli.log.recovery_foreign import foreign_owner
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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A log that stays out as a whole."""

    file: str
    reason: str


@dataclass(slots=True)
class Salvaged:
    """Gaps in logs that stay, logs with another name, logs that stay out, and how many records stay that Kafka would
    not keep."""

    gaps: list[Gap] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    records: int = 0


def behind_damage(name: str, content: Content, position: int, from_offset: int = 0) -> Lost:
    """Count the sound batches of a log from byte `position` on that begin at an offset or behind. Raises
    UnreadableInput."""
    found = Lost()
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, start=position):
            if isinstance(part, Damage):
                continue
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if row.faults & UNSOUND or row.base_offset < from_offset or row.last_offset < row.base_offset:
                    continue
                found.batches += 1
                found.records += _record_count(row)
                first, last = found.first_offset, found.last_offset
                found.first_offset = row.base_offset if first is None else min(first, row.base_offset)
                found.last_offset = row.last_offset if last is None else max(last, row.last_offset)
    finally:
        source.close()
    return found


def salvage(view: PartitionView, files: Mapping[str, int], replaced: Mapping[str, Content]) -> Salvaged:
    """Leave only sound batches in order in those of the view's logs that `files` names, each with the bytes that Kafka
    would keep of it.

    replaced: logs that a swap file has replaced, by name. Of those that `files` names the sound batches behind those of
    the swap file come back. Other names of `files` are of files that keep Kafka from starting; they go, and a start
    builds them anew, as it does the indexes of the logs. Raises UnreadableInput.
    """
    done = Salvaged()
    for name in [each for each in view.names() if each in files and not _is_log(each)]:
        if name.endswith(FileKind.LOG):
            done.left_out.append(LeftOut(name, "its name is no offset: where its batches belong is not known"))
        view.remove(name.replace(".txnindex", ".index"))
        view.remove(name)
    for name in [each for each in view.names() if each in files and _is_log(each)]:
        owner = foreign_owner(view.directory, name, view.files[name])
        if owner is not None:
            done.left_out.append(LeftOut(name, f"its batches are those of {owner}"))
            _remove(view, name)
    replaced = {name: content for name, content in replaced.items() if name in files and _is_log(name)}
    names = {_base_of(name): name for name in (*replaced, *view.names()) if _is_log(name)}
    bases = sorted(names)
    there = sorted(_base_of(name) for name in view.names() if _is_log(name))
    next_offset = 0
    for number, base in enumerate(bases):
        name = names[base]
        if name not in files:
            continue
        contents = [each[name] for each in (view.files, replaced) if name in each]
        start = _first_offset(name, contents[0])
        if (start is None or start < base) and number and names[bases[number - 1]] not in files:
            next_offset = _end_offset(names[bases[number - 1]], view, bases[number - 1])
        first = start if start is not None and next_offset <= start < base else base
        limit = next((each for each in there if each > base), first + INT_MAX + 1)
        kept = _Kept(name, max(first, next_offset), min(limit, first + INT_MAX + 1))
        kept.read(contents[0], files[name])
        for more in contents[1:]:
            kept.read_behind(more)
        done.records += kept.saved_records
        _remove(view, name)
        done.gaps += kept.gaps
        if not kept.ranges and first < next_offset:
            continue  # an empty log there would hide the end of the one before it
        next_offset = kept.next_offset
        new = build(FileName(FileKind.LOG, first))
        if first != base:
            done.renamed.append(Renamed(name, new))
        view.put(new, Content(tuple(kept.ranges)))
    return done


def _base_of(name: str) -> int:
    return int(name.partition(".")[0])


def _remove(view: PartitionView, log: str) -> None:
    for name in Segment(view, _base_of(log)).names:
        view.remove(name)


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
    kept = _Kept(name, base, base + INT_MAX + 1)
    kept.read(view.files[name])
    return kept.next_offset


def _record_count(row: BatchRow) -> int:
    return row.count if row.magic >= LEGACY_MAGIC else 1


def _first_of(row: BatchRow) -> int:
    return row.base_offset if row.magic >= LEGACY_MAGIC else row.last_offset


class _Kept:
    """The sound batches of one log, as ranges of files, with offsets from `next_offset` on and below `limit`."""

    def __init__(self, name: str, next_offset: int, limit: int) -> None:
        self._name = name
        self._limit = limit
        self.ranges: list[FileRange] = []
        self.next_offset = next_offset
        self.saved_records = 0
        self.gaps: list[Gap] = []

    def read(self, content: Content, saved_from: int = 0) -> None:
        """Read all of the log. saved_from: records of batches from this byte on are counted."""
        end = 0
        for row in self._rows(content):
            next_offset = self.next_offset
            if self._batch(content, row):
                if row.position > end:
                    length = row.position - end
                    self.gaps.append(Gap(self._name, end, length, next_offset, _first_of(row) - 1))
                end = row.position + row.size
                if row.position >= saved_from:
                    self.saved_records += _record_count(row)
        if end < content.size:
            self.gaps.append(Gap(self._name, end, content.size - end, self.next_offset, None))

    def read_behind(self, content: Content) -> None:
        """Read another state of the log: what lies behind that read so far stays, too."""
        for row in self._rows(content):
            if self._batch(content, row):
                self.saved_records += _record_count(row)
                if self.gaps and self.gaps[-1].last_offset is None:
                    self.gaps[-1] = replace(self.gaps[-1], last_offset=_first_of(row) - 1)

    def _rows(self, content: Content) -> Iterator[BatchRow]:
        source = ContentSource(self._name, content)
        try:
            for part in read_segment(source):
                if not isinstance(part, Damage):
                    yield from (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
        finally:
            source.close()

    def _batch(self, content: Content, row: BatchRow) -> bool:
        """Does the batch stay?"""
        first = _first_of(row)
        if row.faults & UNSOUND or first < self.next_offset or not first <= row.last_offset < self._limit:
            return False
        self._keep(content, row.position, row.size)
        self.next_offset = row.last_offset + 1
        return True

    def _keep(self, content: Content, position: int, size: int) -> None:
        part = content.parts[0]
        assert isinstance(part, FileRange), "salvage works on what is on disk"
        last = self.ranges[-1] if self.ranges else None
        if last is not None and last.path == part.path and last.start + last.length == part.start + position:
            self.ranges[-1] = FileRange(part.path, last.start, last.length + size)
        else:
            self.ranges.append(FileRange(part.path, part.start + position, size))
