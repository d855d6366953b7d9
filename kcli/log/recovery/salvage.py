"""The sound batches behind damage, which Kafka would lose: counted, or kept at their own offsets.

kept       a batch that consumers and, in a coordinator's topic, the coordinator can read (kcli.log.recovery.readable),
           with offsets within its segment, stays
resized    a batch with a wrong length gets the right one, if its CRC is right over all bytes up to the next batch
shifted    a batch into which bytes were inserted, or which has lost CRs, is as before, where the CRC tells how
recounted  a batch with a wrong record count gets the right one, if its payload is whole records
last       a batch with a wrong last offset gets that of its last record (kcli.log.recovery.batch_last_offset)
magic      a batch of magic 2 whose header has another magic gets magic 2, if its CRC is right as one of magic 2
epochs     a batch with one bit of its leader epoch flipped gets the epoch of the batches beside it
put back   a sound batch with a wrong base offset gets the right one, if the batches beside it leave only one possible
in order   batches that come after others with higher offsets are put before them: a .log file whose batches were
           exchanged, moved or rotated is whole again
left out   are all bytes between kept batches, and these batches: one that cannot be read; in a coordinator's topic, one
           whose key belongs to another partition; one with offsets that another batch has, such as a copy, or a batch
           that contradicts others (kcli.log.recovery.contradicting); one whose last offset is wrong, as the batches
           beside it show; one with offsets so high that the log would have none left for appends. Offsets without a
           batch are a gap, as in a compacted log: Kafka reads past it
renamed    a .log file whose name is above its first offset gets the name of that offset, if the .log files before it
           end at or below that offset
exchanged  .log files that have each other's names, by the offsets of most of their batches, get their own names back
displaced  a block of a damaged .log file that lies in another .log file, at the same byte, is taken from there
removed    a .log file whose batches are those of another partition, or that the cleaner has replaced, is removed
rebuilt    an index, or a leader-epoch checkpoint, that contradicts the batches is built anew from them
swap       if a damaged swap file replaced .log files, their batches after those of the swap file are kept, too
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path

from formats.file_name import FileKind, FileName, build, parse, parse_directory
from formats.kernels.columns import BatchRow
from kcli.errors import StartRefused, UnreadableInput
from kcli.log.legacy_message import message_at
from kcli.log.partition_view import Content, ContentSource, FileRange, Part, PartitionView, paths_in
from kcli.log.recovery.batch_epochs import RightEpoch
from kcli.log.recovery.batch_length import resized
from kcli.log.recovery.batch_magic import RightMagic, has_doubtful_magic, mended_rows, with_right_magics, wrong_magics
from kcli.log.recovery.contradicting import contradicting
from kcli.log.recovery.end_markers import EndMarker
from kcli.log.recovery.files_beside import Version, lacking, versions
from kcli.log.recovery.foreign import foreign_owner
from kcli.log.recovery.misdirected import Home, Run
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.readable import MAGIC_WITH_HEADER, Room, first_offset, in_place, limit_of
from kcli.log.recovery.segment import INT_MAX, OFFSET_MAX, RecoverySegment
from kcli.log.recovery.shifted_batches import Shift
from kcli.log.segment_reader import UNSOUND, Damage, read_segment
from kcli.log.text_mode import TextMode

FIRST_BYTES = 1 << 16
PREFIX = struct.Struct(">qi")  # base offset, length
SORTED_MAX = 1 << 20
"""The maximum number of batches of one .log file that are sorted in memory, at 150 bytes each; a file with more batches
is kept in its own order."""
HASH_BITS = 1 << 27
"""The number of hashes, a bit each (16 MiB), by which batches that a log has twice are looked for."""
COPIES_MAX = 1 << 20
"""The maximum number of batches kept in memory because an earlier batch has the same hash, at 150 bytes each."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes [position, position + length) of a .log file that salvage leaves out; the length is 0 if only offsets are
    missing.

    first_offset, last_offset: the offsets, both inclusive, that no batch has after salvage; no offset if last_offset is
    below first_offset. last_offset is None at the end of the log, if it is not known how many offsets are missing.
    contradicting: the first and last offset of the sound batches in these bytes that are not the log's own (see
    kcli.log.recovery.contradicting), or that have the offsets of other batches; None if there are none.
    """

    file: str
    position: int
    length: int
    first_offset: int
    last_offset: int | None
    contradicting: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PutBack:
    """A sound batch with a wrong base offset, which no CRC covers. before: the base offset in the file. base_offset,
    last_offset: the right ones, which are the only offsets that the batch can have."""

    file: str
    position: int
    before: int
    base_offset: int
    last_offset: int

    @property
    def overlapped(self) -> range:
        """The offsets above `last_offset`, up to the last offset that the batch would have with the base offset in the
        file."""
        return range(self.last_offset + 1, self.before + self.last_offset - self.base_offset + 1)


@dataclass(frozen=True, slots=True)
class RightLength:
    """A batch whose header has a wrong length, which no CRC covers. before: the length in the file. length: the right
    one, with which the CRC is right. Both count the bytes behind the length field."""

    file: str
    position: int
    before: int
    length: int


@dataclass(frozen=True, slots=True)
class ShiftedBatch:
    """A batch that is again as it was before bytes were inserted into it, or lost. file: the name of the .log file."""

    file: str
    shift: Shift


@dataclass(frozen=True, slots=True)
class RightCount:
    """A batch whose header has a wrong record count, with a CRC that is right for it. before: the count in the file.
    count: the number of records in the batch."""

    file: str
    position: int
    before: int
    count: int


@dataclass(frozen=True, slots=True)
class WrongLastOffset:
    """A batch whose header has a wrong last offset, with a CRC that is right for it. before: the last offset in the
    file. last_offset: that of the batch's last record. base_offset: that of the batch."""

    file: str
    position: int
    before: int
    base_offset: int
    last_offset: int

    @property
    def own_offsets(self) -> range:
        """The offsets of the batch, with the right last offset."""
        return range(self.base_offset, self.last_offset + 1)


@dataclass(frozen=True, slots=True)
class Misdirected:
    """The batches of other partitions in a .log file, in the order of the file."""

    file: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Reordered:
    """A .log file whose batches salvage puts in order. batches: the number of batches that come after others with
    higher offsets."""

    file: str
    batches: int


@dataclass(frozen=True, slots=True)
class Refilled:
    """Batches that take the place of damaged ones in a .log file. source: the file that has them: the .deleted file of
    the same segment, as the segment was before the log cleaner replaced it; a file beside it; the file of the same name
    in a copy of the partition's directory, as <directory>/<file>; or a .log file that has a block of this one. batches:
    their number. position: the byte of the block in both files; None if there is none."""

    file: str
    source: str
    batches: int
    first_offset: int
    last_offset: int
    position: int | None = None


@dataclass(frozen=True, slots=True)
class Renamed:
    """A file and its new name. The file is a .log file whose name is above its first offset, or a file of a segment
    that has another name, such as one with the suffix .deleted. others: if the .log file was cut into parts, of which
    `file` is the first, the parts after it."""

    file: str
    name: str
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class Lost:
    """The number of sound batches that are lost, and of their records; their first and last offset, None if no batch is
    lost. others: the batches of other partitions behind the damage, which do not count."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    others: Sequence[Run] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that salvage leaves out as a whole, and why. file: its path relative to the partition's directory."""

    file: str
    reason: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking all files, for a partition's directory.

    contradicted: the names of indexes and of the leader-epoch checkpoint that contradict the batches. renamed: by the
    name that each gets, the files with batches that no .log file of the partition has, and the other files of the same
    segments. removed: the names of files that salvage leaves out: those of another partition, those of segments that
    the cleaner has replaced, and empty .log files that other files replace. made: by the name that each gets, the
    content of .log files that are made of other files, whose batches no .log file has: of a compressed file, or of the
    parts into which a .log file was cut. unused: the files that salvage does not use, but reports. lost: the first and
    last offset of each range of offsets that no .log file of a segment has; last is None if it is not known. moved: by
    name, the .log files that salvage puts into the directories of other partitions, each with words that name the .log
    file to which its batches belong. copies: the directories that may be copies of this one, from whose .log files
    salvage takes batches (see kcli.log.recovery.stray_copies). last_epoch: the last batch of the log, if a bit of its
    leader epoch was flipped.
    """

    contradicted: Collection[str] = ()
    renamed: Mapping[str, Path] = field(default_factory=dict)
    removed: Collection[str] = ()
    made: Mapping[str, Content] = field(default_factory=dict)
    unused: Sequence[LeftOut] = ()
    lost: Sequence[tuple[int, int | None]] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    copies: Sequence[Path] = ()
    last_epoch: RightEpoch | None = None

    def without_renamed(self, directory: Path, refused: StartRefused) -> Checked:
        """Return a Checked like this one that uses no files under other names, and lists these as `unused`. refused:
        the reason why a start fails with these files."""
        why = f"is not used: with it a start would fail: {refused.file}: {refused.reason}"
        unused = [
            LeftOut(os.path.relpath(path, directory), f"it is {name}, and {why}")
            for name, paths in self._paths.items()
            for path in paths
            if is_log(name)
        ]
        return replace(self, renamed={}, made={}, unused=[*self.unused, *unused])

    def within(self, directory: Path) -> Checked:
        """Return this Checked without the files from outside the directory and without `moved`; both are added to
        `unused`. Recovery in place renames files within a directory, but copies no files and no batches of `copies`."""
        outside = {name: each for name, each in self._paths.items() if any(path.parent != directory for path in each)}
        unused = [
            LeftOut(os.path.relpath(path, directory), f"it is {name}: salvage with --out takes it")
            for name, paths in outside.items()
            for path in paths
        ]
        renamed = {name: path for name, path in self.renamed.items() if name not in outside}
        made = {name: content for name, content in self.made.items() if name not in outside}
        unused += [LeftOut(name, f"{what}: salvage with --out puts it there") for name, what in self.moved.items()]
        return replace(self, renamed=renamed, made=made, unused=[*self.unused, *unused], moved={}, copies=())

    @property
    def has_logs(self) -> bool:
        """Whether there are .log files to restore that have other names, are compressed or are cut into parts."""
        return bool(self.renamed or self.made)

    @property
    def _paths(self) -> dict[str, Sequence[Path]]:
        """The files under other names, by the name that each gets when salvage restores it."""
        renamed = {name: (path,) for name, path in self.renamed.items()}
        return {**renamed, **{name: paths_in(content) for name, content in self.made.items()}}


@dataclass(frozen=True, slots=True)
class LogStart:
    """A log start offset that salvage sets. before: the offset in the checkpoint, which is above the log end offset, or
    which no broker has written (see kcli.log.recovery.wrong_log_starts), or below which records were deleted; 0 if the
    checkpoint has no entry. log_start_offset: the new one: the base offset of the first segment; or, with by_epochs,
    the offset at which the leader epochs begin, which shows that the records below it were deleted."""

    before: int
    log_start_offset: int
    log_end_offset: int
    by_epochs: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that cannot be read as a whole, and the number of its bytes that can be read. If it is a .log file,
    salvage uses these bytes; else salvage leaves the file out."""

    file: str
    error: UnreadableInput
    readable_bytes: int


@dataclass(slots=True)
class Salvaged:
    """The changes that salvage makes to a partition.

    unread: the files that cannot be read as a whole: of a .log file the readable part is kept, any other file is left
    out. restored: the files that get the name of a segment's file whose offsets were missing; their present names have
    the suffix .deleted, or another form. text_mode: the .log files that are changed back to what they were before a
    transfer in text mode. rebuilt: the names of indexes and of the leader-epoch checkpoint that contradict the batches,
    and that Kafka's start would not correct, and of a snapshot that gets its footer. records: the number of kept
    records that Kafka would lose. markers: the end markers of transactions that are written anew. misdirected: the
    batches of other partitions that are left out.
    log_start: the log start offset that is set back; None if it is unchanged. topic_id: the topic id that is written
    into partition.metadata; directory: the new name of the directory; each None if it is unchanged. flat: the names of
    the files in the log directory of which the partition's directory is made.
    """

    unread: list[Unread] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    reordered: list[Reordered] = field(default_factory=list)
    put_back: list[PutBack] = field(default_factory=list)
    resized: list[RightLength] = field(default_factory=list)
    shifted: list[ShiftedBatch] = field(default_factory=list)
    recounted: list[RightCount] = field(default_factory=list)
    last_offsets: list[WrongLastOffset] = field(default_factory=list)
    magics: list[RightMagic] = field(default_factory=list)
    refilled: list[Refilled] = field(default_factory=list)
    epochs: list[RightEpoch] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    restored: list[Renamed] = field(default_factory=list)
    text_mode: dict[str, TextMode] = field(default_factory=dict)
    rebuilt: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    records: int = 0
    markers: list[EndMarker] = field(default_factory=list)
    misdirected: list[Misdirected] = field(default_factory=list)
    log_start: LogStart | None = None
    topic_id: str | None = None
    directory: str | None = None
    flat: Sequence[str] = ()


def behind_damage(
    name: str,
    content: Content,
    position: int,
    from_offset: int = 0,
    end_offset: int = 0,
    known: OffsetRanges | None = None,
    until_offset: int = OFFSET_MAX,
    others: Sequence[Run] = (),
) -> Lost:
    """Count the sound batches of a .log file from byte `position` on that begin at an offset from `from_offset` to
    `until_offset`, both inclusive. A batch does not count if all its offsets are those of batches before it (also in
    the bytes before `position`), or in `known`.

    end_offset: the offset after the last batch before `position`. known: offsets that are counted already; those of
    this file are added. others: the batches of other partitions in the file, which do not count. Raises
    UnreadableInput.
    """
    found, known = Lost(others=others), OffsetRanges() if known is None else known
    is_start_known = position == 0
    for row, shift in _with_shifts(_sound_rows(name, content, position), end_offset):
        if not from_offset <= first_offset(row) <= until_offset:
            continue
        if any(run.position <= row.position < run.end for run in others):
            continue
        if not is_start_known and row.base_offset < end_offset:
            for kept in _sound_rows(name, content, 0, position):
                known.add(kept.base_offset, kept.last_offset)
            is_start_known = True
        if not known.add(row.base_offset, row.last_offset):
            continue
        found.batches += 1
        found.records += _record_count(row)
        first, last = found.first_offset, found.last_offset
        base_offset, last_offset = row.base_offset - shift, row.last_offset - shift
        found.first_offset = base_offset if first is None else min(first, base_offset)
        found.last_offset = last_offset if last is None else max(last, last_offset)
    return found


def _with_shifts(rows: Iterable[BatchRow], end_offset: int) -> Iterator[tuple[BatchRow, int]]:
    """Yield the batches, each with the number by which its base offset is too high: 0, unless the base offset is above
    that of the next batch, and its offsets fit between the batch before it and the next one. Then the base offset,
    which no CRC covers, is damaged. end_offset: the offset after the batch before the first one."""
    for row, following in pairwise(chain(rows, (None,))):
        assert row is not None, "only the last one is None"
        is_above = following is not None and row.base_offset >= following.base_offset
        shift = row.last_offset + 1 - following.base_offset if is_above and following is not None else 0
        shift = shift if row.base_offset - shift >= end_offset else 0
        yield row, shift
        end_offset = row.last_offset + 1 - shift


def own_offsets(logs: Mapping[str, Content], name: str) -> tuple[int, int]:
    """Return the lowest and the highest offset at which a batch of a .log file may begin. Batches with other offsets
    belong to another segment or partition.

    logs: all .log files of the directory, by name. The lowest offset is the base offset in the name. If the file's
    first offset is lower than the name, and the segment before ends at or below it, the name is wrong, and the lowest
    offset is the file's first offset. The highest offset is the one below the base offset of the next segment, if that
    segment begins with its base offset. Raises UnreadableInput.
    """
    base = _base_of(name)
    behind = min((each for each in logs if _base_of(each) > base), key=_base_of, default=None)
    above = named_above(logs, name)
    lowest = base if above is None else above
    is_bound = behind is not None and begin_offset(behind, logs[behind]) == _base_of(behind)
    return lowest, _base_of(behind) - 1 if behind is not None and is_bound else OFFSET_MAX


def named_above(logs: Mapping[str, Content], name: str) -> int | None:
    """Return the first offset of a .log file whose name is above that offset, if the .log files before it end at or
    below it; else None. Kafka serves such a file if the first batch has the offset in the name, too. logs: all .log
    files of the directory, by name. Raises UnreadableInput."""
    base, start = _base_of(name), begin_offset(name, logs[name])
    if start is None or start >= base:
        return None
    before = max((each for each in logs if _base_of(each) < base), key=_base_of, default=None)
    rows = () if before is None else _sound_rows(before, logs[before], 0)
    ends = (row.last_offset + 1 for row in rows if row.last_offset < base)
    return start if start >= max(ends, default=0 if before is None else _base_of(before)) else None


def _sound_rows(name: str, content: Content, start: int, stop: int | None = None) -> Iterator[BatchRow]:
    """Yield the sound batches of a .log file that begin in bytes [start, stop); a batch with a wrong length (see
    kcli.log.recovery.batch_length) or a wrong magic (batch_magic) is yielded with the right one. Raises
    UnreadableInput."""
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, start=start):
            if isinstance(part, Damage):
                mended = resized(name, content, part)
                rows = mended_rows(name, content, part.position, part.length) if mended is None else (mended.row,)
                yield from (row for row in rows if stop is None or row.position < stop)
                continue
            for i in range(part.batches.count):
                row = BatchRow._make(part.batches.row(i))
                if stop is not None and row.position >= stop:
                    return
                if has_doubtful_magic(row):
                    row = next(mended_rows(name, content, row.position, row.size), row)
                if not row.faults & UNSOUND and row.last_offset >= row.base_offset:
                    yield row
    finally:
        source.close()


def salvage(
    view: PartitionView,
    files: Mapping[str, int],
    replaced: Mapping[str, Content],
    home: Home,
    reached: int | None = None,
    copies: Sequence[Path] = (),
    *,
    is_compacted: bool = False,
) -> Salvaged:
    """Replace .log files of a view by their readable batches, in order. Returns the changes.

    files: the .log files to replace, by name, each with the number of bytes that Kafka would keep; and other files that
    keep Kafka from starting. These other files are removed, and so are the indexes of the .log files: a start rebuilds
    them. replaced: the .log files that a swap file has replaced, by name; if one of these is also in `files`, its
    batches after those of the swap file are restored. home: the partition; in the files that it names, batches of
    other partitions are left out. reached: the log end offset that the checkpoints state; None if they have no entry.
    copies: as in Checked. is_compacted: whether the log may lack offsets. Raises UnreadableInput.
    """
    salvaged = Salvaged()
    for name in [each for each in view.names() if each in files and not is_log(each)]:
        if name.endswith(FileKind.LOG):
            salvaged.left_out.append(LeftOut(name, "its name is no offset: where its batches belong is not known"))
        view.remove(name.replace(".txnindex", ".index"))
        view.remove(name)
    for name in [each for each in view.names() if each in files and is_log(each)]:
        if _is_of_another_directory(view, name):  # an exchanged log of another directory, put here where it belongs
            continue
        is_mixed = name in home.mixed or name in home.copied
        owner = None if is_mixed else foreign_owner(view.directory, name, view.files[name])
        if owner is not None:
            salvaged.left_out.append(LeftOut(name, f"its batches are those of {owner}"))
            _remove(view, name)
    replaced = {name: content for name, content in replaced.items() if name in files and is_log(name)}
    names = {_base_of(name): name for name in (*replaced, *view.names()) if is_log(name)}
    bases = sorted(names)
    remaining = sorted(_base_of(name) for name in view.names() if is_log(name))
    twice = _Copies({name: content for name, content in view.files.items() if is_log(name)})
    next_offset = 0
    for number, base in enumerate(bases):
        name = names[base]
        if name not in files:
            continue
        contents = [each[name] for each in (view.files, replaced) if name in each]
        magics = wrong_magics(name, contents[0])
        contents[0] = with_right_magics(contents[0], magics)
        start = begin_offset(name, contents[0], home.copied.get(name, ()))
        if (start is None or start < base) and number and names[bases[number - 1]] not in files:
            next_offset = _end_offset(names[bases[number - 1]], view, bases[number - 1], home)
        following = next((each for each in remaining if each > base), None)
        first = start if start is not None and next_offset <= start < base else base
        if start is not None and start - base > INT_MAX:
            far = next(map(first_offset, in_place(name, contents[0], home)), base)
            first = far if far - base > INT_MAX and (following is None or far < following) else base
        limit = first + INT_MAX + 1 if following is None else following
        limit = min(limit, first + INT_MAX + 1, OFFSET_MAX)
        kept = _Kept(
            name,
            home,
            max(first, next_offset),
            limit,
            reached if following is None else following,
            twice.has,
            magics,
        )
        _fill(kept, name, view, copies, following, is_compacted=is_compacted)
        kept.read(contents[0], files[name])
        for more in contents[1:]:
            kept.read_behind(more)
        salvaged.records += kept.saved_records
        _remove(view, name)
        salvaged.gaps += [_ended(gap, following) for gap in kept.gaps]
        kept.add_to(salvaged)
        if not kept.ranges and (first < next_offset or first >= OFFSET_MAX):
            continue  # an empty log there would hide the end of the log before it, or have no offset to append at
        next_offset = kept.next_offset
        new = build(FileName(FileKind.LOG, first))
        if first != base:
            salvaged.renamed.append(Renamed(name, new))
        view.put(new, Content(tuple(kept.ranges)))
    return salvaged


def cut_before_copies(view: PartitionView, copies: Collection[Path]) -> Iterator[str]:
    """Yield the .log files of a log that was never compacted which lack batches at their ends, though other segments
    follow, and a file beside them or in a directory of `copies` has these. Raises UnreadableInput."""
    logs = sorted(name for name in view.names() if is_log(name))
    for name, following in pairwise(logs):
        until = _base_of(following)
        longer = [each for each in _versions(view, name, until, copies) if each.content.size > view.size(name)]
        if any(any(True for _ in _lacking(view, name, each, until, is_compacted=False)) for each in longer):
            yield name


def _versions(view: PartitionView, name: str, until: int | None, copies: Iterable[Path]) -> Iterator[Version]:
    return versions(view.directory / name, until, copies)


def _lacking(
    view: PartitionView, name: str, version: Version, until: int | None, *, is_compacted: bool
) -> OffsetRanges:
    """Return the offsets that a .log file of the view lost and a version of it has (see files_beside)."""
    with closing(ContentSource(name, view.files.get(name, Content(())))) as own:
        return lacking(view.directory / name, own, version, until, is_compacted=is_compacted)


def _fill(
    kept: _Kept, name: str, view: PartitionView, copies: Iterable[Path], until: int | None, *, is_compacted: bool
) -> None:
    """Let `kept` take batches for the damaged bytes of a .log file from its .deleted file; if there is none, from the
    files beside it and in the directories `copies` that have any (see files_beside). until: the base offset of the next
    segment. Raises UnreadableInput."""
    older = f"{name}.deleted"
    if older in view.original:
        kept.fill_from(older, view.original[older])
        return
    for each in _versions(view, name, until, copies):
        offsets = _lacking(view, name, each, until, is_compacted=is_compacted)
        if any(True for _ in offsets):
            kept.fill_from(_place(each.path, view.directory), each.content, offsets)


def _place(copy: Path, directory: Path) -> str:
    """Return the path of a version of a .log file; from the partition's directory on, or from the log directory on that
    has this directory, if the file is in there."""
    if copy.is_relative_to(directory):
        return str(copy.relative_to(directory))
    home, path = directory.absolute().parent, copy.absolute()
    return str(path.relative_to(home) if path.is_relative_to(home) else copy)


def put_back(logs: Mapping[str, Content], name: str, home: Home, room: tuple[int, int | None]) -> Iterator[PutBack]:
    """Yield the batches of a .log file whose base offset is wrong, and for which the batches beside them leave only one
    possible base offset.

    logs: all .log files of the partition, by name. home: the partition. room: the first offset of the file, and the
    offset after its last (None if that is not known). Raises UnreadableInput.
    """
    place = Room(*room, is_copy=_Copies(logs).has)
    for row in in_place(name, logs[name], home, room=place):
        if row.position in place.moved:
            yield PutBack(name, row.position, place.moved[row.position], row.base_offset, row.last_offset)


def wrong_last_offsets(
    logs: Mapping[str, Content], name: str, home: Home, base: int, following: int | None, reached: int | None
) -> Iterator[WrongLastOffset]:
    """Yield the batches of a .log file whose last offset is wrong (kcli.log.recovery.batch_last_offset).

    logs: all .log files of the partition, by name. home: the partition. base: the first offset of the file. following:
    the base offset of the next segment; None for the last one. reached: the log end offset that the checkpoints state;
    None if they have no entry. Raises UnreadableInput.
    """
    end = reached if following is None else following
    place = Room(base, end, limit_of(base, following), is_copy=_Copies(logs).has)
    for row in in_place(name, logs[name], home, room=place):
        if row.position in place.last_offsets:
            yield _last_offset(name, row, place)


def _last_offset(name: str, row: BatchRow, room: Room) -> WrongLastOffset:
    before, _ = room.last_offsets[row.position]
    return WrongLastOffset(name, row.position, before, row.base_offset, row.last_offset)


class _Copies:
    """The batches that the .log files of a partition have twice, recognized by base offset, CRC and size. The first
    call of `has` reads all headers, and reads them again if batches have equal hashes. The memory used is bounded
    (HASH_BITS, COPIES_MAX).

    logs: all .log files of the partition, by name.
    """

    def __init__(self, logs: Mapping[str, Content]) -> None:
        self._logs = logs
        self._twice: Container[tuple[int, int, int]] | None = None

    def has(self, row: BatchRow) -> bool:
        """Return whether the files have this batch twice; True for every batch if more than COPIES_MAX batches may be
        there twice. Raises UnreadableInput."""
        if self._twice is None:
            possible = self._possible()
            if possible is None:
                return True
            if possible:
                possible.update(each for each in self._identities() if each in possible)
            self._twice = {each for each, count in possible.items() if count > 1}
        return _identity(row) in self._twice

    def _possible(self) -> Counter[tuple[int, int, int]] | None:
        """Return the batches that may be there twice, since an earlier batch has the same hash: (base offset, CRC,
        size), each with the count 0; None if there are more than COPIES_MAX."""
        hashes = bytearray(HASH_BITS // 8)  # a bit for each hash
        possible: Counter[tuple[int, int, int]] = Counter()
        for each in self._identities():
            at, bit = divmod(hash(each) % HASH_BITS, 8)
            if hashes[at] >> bit & 1:
                possible[each] = 0
                if len(possible) > COPIES_MAX:
                    return None
            hashes[at] |= 1 << bit
        return possible

    def _identities(self) -> Iterator[tuple[int, int, int]]:
        for name, content in self._logs.items():
            yield from map(_identity, _sound_rows(name, content, 0))


def _identity(row: BatchRow) -> tuple[int, int, int]:
    return row.base_offset, row.crc, row.size


def put_exchanged_in_place(view: PartitionView) -> None:
    """Rename .log files of the view that have each other's names, as the offsets of most of their sound batches show:
    each file gets the name of the segment to which these belong. The indexes of these files are removed: a start
    rebuilds them. Raises UnreadableInput."""
    logs = {_base_of(name): view.files[name] for name in view.names() if is_log(name)}
    bases = sorted(logs)
    right = {}
    for base, content in logs.items():
        name = build(FileName(FileKind.LOG, base))
        if begin_offset(name, content) != base:
            place = _place_by_most(name, content, bases)
            if place not in (None, base):
                right[base] = place
    before = None
    while before != right:
        before = right
        named = list(right.values())
        right = {base: start for base, start in right.items() if start in right and named.count(base) == 1}
    for base in right:
        _remove(view, build(FileName(FileKind.LOG, base)))
    for base, start in right.items():
        view.put(build(FileName(FileKind.LOG, start)), logs[base])


def _place_by_most(name: str, content: Content, bases: Sequence[int]) -> int | None:
    """Return the base offset of the segment to which most sound batches of a .log file belong by their offsets; None if
    the file has none. bases: the base offsets of all segments, sorted. Raises UnreadableInput."""
    counts: Counter[int] = Counter()
    for row in _sound_rows(name, content, 0):
        at = bisect_right(bases, first_offset(row))
        counts[bases[at - 1] if at else -1] += 1
    return max(counts, key=counts.__getitem__, default=None)


def exchanged_within(view: PartitionView) -> list[Renamed]:
    """Return the .log files that have exchanged their names in the view: most bytes of each lie on disk under the name
    of another .log file, and the view still has a file with that name."""
    sources: dict[str, Counter[str]] = {}
    for name in [each for each in view.names() if is_log(each)]:
        counts = sources.setdefault(name, Counter())
        for part in view.files[name].parts:
            if isinstance(part, FileRange) and part.path.parent == view.directory:
                counts[part.path.name] += part.length
    most = {name: max(counts, key=counts.__getitem__, default=name) for name, counts in sources.items()}
    return [Renamed(source, name) for name, source in most.items() if source != name and source in sources]


def known_offsets(view: PartitionView) -> OffsetRanges:
    """Return the offsets that the sound batches of the view have. Raises UnreadableInput."""
    known = OffsetRanges()
    for name in [each for each in view.names() if is_log(each)]:
        source = ContentSource(name, view.files[name])
        try:
            for row in _sound_rows(name, view.files[name], 0):
                message = message_at(source, row.position) if row.magic < MAGIC_WITH_HEADER and row.codec else None
                known.add(first_offset(row) if message is None else message.first, row.last_offset)
        finally:
            source.close()
    return known


def missing(view: PartitionView, gaps: Iterable[Gap], lost: Iterable[tuple[int, int]]) -> Iterator[Gap]:
    """Yield a gap of no bytes for each range of lost offsets that are neither in a sound batch of the view nor in one
    of `gaps`.

    lost: first and last offset of each range. Raises UnreadableInput.
    """
    known = known_offsets(view)
    for gap in gaps:
        last = OFFSET_MAX if gap.last_offset is None else gap.last_offset
        if last >= gap.first_offset:
            known.add(gap.first_offset, last)
    for first, last in lost:
        for start, end in known.lacking(first, last):
            yield Gap(build(FileName(FileKind.LOG, start)), 0, 0, start, end)


def without_offsets(gaps: Iterable[Gap], offsets: Iterable[int]) -> list[Gap]:
    """Return the gaps without the given offsets, because there are batches at these offsets now: a gap is shortened, or
    split in two."""
    left = list(gaps)
    for offset in offsets:
        for at, gap in enumerate(left):
            if gap.first_offset <= offset and (gap.last_offset is None or offset <= gap.last_offset):
                behind = Gap(gap.file, gap.position + gap.length, 0, offset + 1, gap.last_offset)
                before = replace(gap, last_offset=offset - 1)
                if offset == gap.first_offset:
                    left[at] = replace(gap, first_offset=offset + 1)
                else:
                    left[at : at + 1] = [before] if offset == gap.last_offset else [before, behind]
                break
    return left


def gaps_between(view: PartitionView, known: Iterable[Gap]) -> Iterator[Gap]:
    """Yield a gap for each segment that ends below the base offset of the next one. The view's indexes must be sound.
    known: gaps that are not to be yielded again. Raises StartRefused, UnreadableInput."""
    ends = {gap.last_offset for gap in known}
    for name, following in pairwise(sorted(name for name in view.names() if is_log(name))):
        segment = RecoverySegment(view, _base_of(name))
        end, last_offset = segment.read_next_offset(), _base_of(following) - 1
        if end <= last_offset and last_offset not in ends:
            yield Gap(name, segment.size, 0, end, last_offset)


def _ended(gap: Gap, following: int | None) -> Gap:
    """Return the gap. If it has no last offset, it ends just below `following`, the base offset of the next segment
    (None: there is no next segment, and the gap is unchanged)."""
    return gap if gap.last_offset is not None or following is None else replace(gap, last_offset=following - 1)


def _is_of_another_directory(view: PartitionView, name: str) -> bool:
    parts = view.files[name].parts
    return any(isinstance(part, FileRange) and part.path.parent != view.directory for part in parts)


def _base_of(name: str) -> int:
    return int(name.partition(".")[0])


def _remove(view: PartitionView, log: str) -> None:
    for name in RecoverySegment(view, _base_of(log)).names:
        view.remove(name)


def topic_of(directory: Path) -> str:
    """Return the topic in the name of a partition's directory; "" if the name is not that of a partition."""
    name = parse_directory(directory.absolute().name)
    return "" if name is None else name.topic


def is_log(name: str) -> bool:
    """Whether this is the name of a .log file in the form that Kafka gives it (20 digits)."""
    parsed = parse(name)
    base = None if parsed is None else parsed.base_offset
    return base is not None and name == build(FileName(FileKind.LOG, base))


def begin_offset(name: str, content: Content, of_others: Container[tuple[int, int]] = ()) -> int | None:
    """Return the first offset of a .log file; None if it does not begin with a sound batch of its own. of_others: base
    offset and CRC of each batch that is another partition's."""
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, resync=False, window_bytes=FIRST_BYTES):
            row = None if isinstance(part, Damage) else BatchRow._make(part.batches.row(0))
            is_own = row is not None and not row.faults & UNSOUND and (row.base_offset, row.crc) not in of_others
            return first_offset(row) if row is not None and is_own else None
    finally:
        source.close()
    return None


def _end_offset(name: str, view: PartitionView, base: int, home: Home) -> int:
    """Return the offset after the last batch that salvage would keep of a .log file. base: the base offset in its
    name."""
    kept = _Kept(name, home, base, base + INT_MAX + 1)
    kept.read(view.files[name])
    return kept.next_offset


def _record_count(row: BatchRow) -> int:
    return row.count if row.magic >= MAGIC_WITH_HEADER else 1


class _Rows:
    """The batches of a .log file that salvage may keep, in the order of their offsets.

    is_ordered: whether the batches have that order in the file. claims: unless is_ordered, the position of each batch
    that is left out, with the first and last offset in its header. contradicting: as claims, of the batches among these
    that contradict others (see kcli.log.recovery.contradicting).
    """

    def __init__(self, name: str, home: Home, content: Content, room: Room) -> None:
        self._name = name
        self._home = home
        self._content = content
        self._room = room
        self.claims: list[tuple[int, int, int]] = []
        self.contradicting: list[tuple[int, int, int]] = []
        self.is_ordered = self._is_ordered()

    def _is_ordered(self) -> bool:
        """Whether the offsets rise through the file; True for a file of more than SORTED_MAX batches."""
        is_ordered, end = True, -1
        for number, row in enumerate(in_place(self._name, self._content, self._home, room=self._room)):
            if number >= SORTED_MAX:
                return True
            is_ordered = is_ordered and first_offset(row) > end
            end = max(end, row.last_offset)
        return is_ordered

    def __iter__(self) -> Iterator[BatchRow]:
        rows = in_place(self._name, self._content, self._home, room=self._room)
        return rows if self.is_ordered else self._sorted()

    def _claim(self, row: BatchRow) -> None:
        self.claims.append((row.position, first_offset(row), row.last_offset))

    def _sorted(self) -> Iterator[BatchRow]:
        width = len(BatchRow._fields)
        cells = array("q")
        for kept in in_place(self._name, self._content, self._home, self._claim, self._room):
            cells.extend(kept)

        def row(number: int) -> BatchRow:
            return BatchRow._make(cells[number * width : (number + 1) * width])

        firsts = array("q", (first_offset(row(number)) for number in range(len(cells) // width)))
        foreign = set(contradicting(len(firsts), row))
        for each in map(row, sorted(foreign)):
            self._claim(each)
            self.contradicting.append(self.claims[-1])
        for number in sorted(range(len(firsts)), key=firsts.__getitem__):
            if number not in foreign:
                yield row(number)


@dataclass(slots=True)
class _Filler:
    """Another version of a .log file whose batches fill gaps in it. source, content: of that file. room: has what is
    corrected in its headers. rows: its batches behind `row`, the next one; None behind the last. fills_end: whether
    they go behind the end of the .log file."""

    source: str
    content: Content
    room: Room
    rows: Iterator[BatchRow]
    row: BatchRow | None
    fills_end: bool


class _Kept:
    """The batches that salvage keeps of one .log file, and of other versions of this file.

    name: the name of the .log file. next_offset: the lowest offset that the next kept batch may have. limit: a batch
    with this offset or a higher one is not kept. end, is_copy: fields of the Room by which wrong base
    offsets are corrected. magics: the batches whose magic is corrected in the content that `read` gets.

    ranges: the bytes of the kept batches, in the order of their offsets. out_of_order: the number of kept batches that
    the .log file has behind a kept batch with higher offsets. put_back: an entry for each batch that is kept with a
    corrected base offset.
    """

    def __init__(
        self,
        name: str,
        home: Home,
        next_offset: int,
        limit: int,
        end: int | None = None,
        is_copy: Callable[[BatchRow], bool] = lambda _: False,
        magics: Iterable[RightMagic] = (),
    ) -> None:
        self._name = name
        self._home = home
        self._limit = limit
        self.ranges: list[Part] = []
        self.next_offset = next_offset
        self.saved_records = 0
        self.out_of_order = 0
        self.put_back: list[PutBack] = []
        self.resized: list[RightLength] = []
        self.recounted: list[RightCount] = []
        self.last_offsets: list[WrongLastOffset] = []
        self.magics: list[RightMagic] = []
        self._room = Room(next_offset, end, limit, is_copy=is_copy, magics={each.position: each for each in magics})
        self.gaps: list[Gap] = []
        self.refilled: list[Refilled] = []
        self._versions: list[_Filler] = []

    def fill_from(self, source: str, content: Content, offsets: OffsetRanges | None = None) -> None:
        """Let `read` fill gaps: where it leaves out bytes of the file, it keeps the batches that an older version or a
        copy of the file has for the missing offsets. source: the name of that file. content: its content. offsets: if
        set, only batches with these offsets are kept, also where no bytes are left out at the end of the file. Of
        several such files the one with the lowest offsets comes first."""
        room = Room()
        rows = _Rows(self._name, self._home, content, room)
        wanted = (row for row in rows if offsets is None or offsets.has(first_offset(row)))
        self._versions.append(_Filler(source, content, room, wanted, next(wanted, None), fills_end=offsets is not None))

    def _fill(self, limit: int) -> None:
        """Keep the batches of the other versions between the offsets kept so far and `limit`, which is not included."""
        begins = [
            (first_offset(each.row), number) for number, each in enumerate(self._versions) if each.row is not None
        ]
        for _, number in sorted(begins):
            version, found = self._versions[number], list[BatchRow]()
            while (row := version.row) is not None and row.last_offset < limit:
                if self._batch(version.content, row, 0, version.room):
                    found.append(row)
                version.row = next(version.rows, None)
            if found:
                first, last = first_offset(found[0]), found[-1].last_offset
                self.refilled.append(Refilled(self._name, version.source, len(found), first, last))

    def read(self, content: Content, saved_from: int = 0) -> None:
        """Keep the batches of the file. saved_from: the records of batches from this byte on are counted in
        saved_records."""
        rows = _Rows(self._name, self._home, content, self._room)
        if not rows.is_ordered:
            self._read_sorted(content, rows, saved_from)
            return
        end = 0
        for row in rows:
            if row.position > end and self.next_offset < first_offset(row) <= row.last_offset < self._limit:
                self._fill(first_offset(row))
            next_offset = self.next_offset
            if self._batch(content, row, saved_from, self._room):
                if row.position > end:
                    length = row.position - end
                    self.gaps.append(Gap(self._name, end, length, next_offset, first_offset(row) - 1))
                end = row.position + row.size
        if end < content.size:
            self._fill(self._limit)
            self.gaps.append(Gap(self._name, end, content.size - end, self.next_offset, None))
        elif any(each.fills_end for each in self._versions):
            self._fill(self._limit)

    def _read_sorted(self, content: Content, rows: _Rows, saved_from: int) -> None:
        kept: list[tuple[int, int]] = []  # position and end of each kept batch
        missing: list[_Missing] = []
        end = 0
        last: BatchRow | None = None
        for row in rows:
            next_offset = self.next_offset
            if self._batch(content, row, saved_from, self._room):
                last = row
                if first_offset(row) > next_offset:
                    missing.append(_Missing(next_offset, first_offset(row) - 1, end, row.position))
                end = row.position + row.size
                kept.append((row.position, end))
            elif last is not None and first_offset(row) <= last.last_offset and _identity(row) != _identity(last):
                rows.contradicting.append((row.position, first_offset(row), row.last_offset))
        missing.append(_Missing(self.next_offset, None, end, content.size))
        least = content.size
        for position, _ in reversed(kept):
            self.out_of_order += position > least
            least = min(least, position)
        kept.sort()
        between = zip([0, *(stop for _, stop in kept)], [*(start for start, _ in kept), content.size], strict=True)
        found = _accounted(self._name, [each for each in between if each[0] < each[1]], missing, rows.claims)
        self.gaps += [_with_contradicting(gap, rows.contradicting) for gap in found]

    def add_to(self, salvaged: Salvaged) -> None:
        """Add to `salvaged` the changes of this .log file: batches put in the order of their offsets, corrected base
        offsets, lengths, counts, last offsets and magics, and batches taken from an older version of the file."""
        if self.out_of_order:
            salvaged.reordered.append(Reordered(self._name, self.out_of_order))
        salvaged.put_back += self.put_back
        salvaged.resized += self.resized
        salvaged.recounted += self.recounted
        salvaged.last_offsets += self.last_offsets
        salvaged.magics += self.magics
        salvaged.refilled += self.refilled

    def read_behind(self, content: Content) -> None:
        """Keep those batches of another version of the file whose offsets are above all offsets kept so far."""
        room = Room()
        for row in _Rows(self._name, self._home, content, room):
            if self._batch(content, row, 0, room) and self.gaps and self.gaps[-1].last_offset is None:
                self.gaps[-1] = replace(self.gaps[-1], last_offset=first_offset(row) - 1)

    def _batch(self, content: Content, row: BatchRow, saved_from: int, room: Room) -> bool:
        """Keep the batch if its offsets follow those kept so far and are below the limit. Returns whether it is kept.
        saved_from: the records of a batch from this byte on are counted in saved_records. room: has the base offsets,
        lengths, record counts and last offsets that `in_place` has corrected."""
        first = first_offset(row)
        if first < self.next_offset or not first <= row.last_offset < self._limit:
            return False
        offset, length = room.moved.get(row.position), room.resized.get(row.position)
        if offset is not None:
            self.put_back.append(PutBack(self._name, row.position, offset, row.base_offset, row.last_offset))
        if length is not None:
            self.resized.append(RightLength(self._name, row.position, length, row.size - PREFIX.size))
        if row.position in room.magics:
            self.magics.append(room.magics[row.position])
        batch = content.between(row.position, row.position + row.size)
        if row.position in room.recounted:
            before, batch = room.recounted[row.position]
            self.recounted.append(RightCount(self._name, row.position, before, row.count))
        if row.position in room.last_offsets:
            _, batch = room.last_offsets[row.position]
            self.last_offsets.append(_last_offset(self._name, row, room))
        if offset is not None or length is not None:
            self.ranges.append(PREFIX.pack(row.base_offset, row.size - PREFIX.size))
            batch = batch.between(PREFIX.size, batch.size)
        self._keep(batch)
        self.next_offset = row.last_offset + 1
        if row.position >= saved_from:
            self.saved_records += _record_count(row)
        return True

    def _keep(self, content: Content) -> None:
        for part in content.parts:
            last = self.ranges[-1] if self.ranges else None
            if isinstance(last, FileRange) and isinstance(part, FileRange) and _is_next(last, part):
                self.ranges[-1] = replace(last, length=last.length + part.length)
            else:
                self.ranges.append(part)


def _is_next(last: FileRange, part: FileRange) -> bool:
    is_same = replace(last, start=0, length=0) == replace(part, start=0, length=0)
    return is_same and last.start + last.length == part.start


@dataclass(frozen=True, slots=True)
class _Missing:
    """Offsets `first` to `last` that no batch has; if `last` is None, all offsets after the last batch.
    position_before: the byte at which the batch before these offsets ends; position_behind: the byte at which the batch
    after them begins."""

    first: int
    last: int | None
    position_before: int
    position_behind: int


def _accounted(
    name: str, left_out: Iterable[tuple[int, int]], missing: list[_Missing], claims: list[tuple[int, int, int]]
) -> Iterator[Gap]:
    """Yield a gap for each range of bytes that is left out of a .log file whose batches are put in order. The offsets
    of the gap are those missing offsets that were in these bytes: either a batch in the range has them in its header,
    or the range is adjacent to the batch before or after the missing offsets.

    left_out: first byte and end of each range. claims: the position of each batch that is left out, and the first and
    last offset in its header.
    """
    for start, stop in left_out:
        stated = [(first, last) for position, first, last in claims if start <= position < stop]
        found = next((each for each in missing if _is_there(each, start, stop, stated)), None)
        if found is not None:
            missing.remove(found)
            yield Gap(name, start, stop - start, found.first, found.last)
        else:
            nothing = missing[-1].first if missing else 0
            yield Gap(name, start, stop - start, nothing, nothing - 1)


def _with_contradicting(gap: Gap, batches: Iterable[tuple[int, int, int]]) -> Gap:
    """Return the gap with the offsets of those of the `batches` (see _Rows) that lie in its bytes."""
    inside = [each for each in batches if gap.position <= each[0] < gap.position + gap.length]
    bounds = (min(each[1] for each in inside), max(each[2] for each in inside)) if inside else None
    return replace(gap, contradicting=bounds)


def _is_there(each: _Missing, start: int, stop: int, stated: list[tuple[int, int]]) -> bool:
    if each.last is None:  # after the last batch, there may be nothing missing
        return any(last >= each.first for _, last in stated)
    if any(first <= each.last and last >= each.first for first, last in stated):
        return True
    return start == each.position_before or stop == each.position_behind
