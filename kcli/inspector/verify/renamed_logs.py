"""Finding the .log file of a missing segment under a name that Kafka does not read, or compressed under its own.

    lost+found/#131077       fsck puts files without a name there
    .Trash-0/files/          a file manager puts deleted files there (kcli.log.trash)
    orders-0-20261128/       a copy of the partition's directory orders-0
    <offset>.LOG             made by a copy through a file system that does not keep upper and lower case apart
    <offset>.log.gz, .bak    made from the .log file by a log rotation or an operator, also as .log.1, .log-20261129
    <offset>.log<CR>         made by a script whose lines end with CR LF
    <offset>.log             compressed in its place by a backup or an operator
    <offset>.<any text>      the whole file, beside an older or emptied one that has its name: a synchronization of two
                             disks keeps both versions, one of them under such a name
    .<offset>.log.<any text> an incomplete or whole copy, as rsync names it until it is whole
    .rsync-partial/, .~tmp~/ rsync keeps incomplete files there
    <offset>.log.part        an incomplete or whole download, also as .partial, .crdownload, .tmp
    .nfs<number>             a file that NFS keeps because it was removed while it was open
    <offset>.log.partaa, ... the file cut into parts (see split_logs), which are read joined

A file is the missing .log file if the headers of its batches have the missing offsets and one more condition holds: the
last entry of the indexes that were left behind leads to one of these batches; or, if no index is left, the batches of
one file or of several begin and end exactly where the log has a gap. A file is a longer version of the .log file with
its base offset if it has every sound batch of that .log file, by offsets and CRC, and more; if that one has no sound
batch, the file is a longer version if an index leads to its last batch, or if it ends where the next .log file begins.
A file in the partition's directory whose name contains that of the missing .log file, or an .nfs file that begins at
the first missing offset, is this file, too, if all its bytes are sound batches, and if it ends at or above the offset
up to which the log once went; if several .log files are missing, the last of them has to. The same holds for a file
beside an empty .log file at the end of the log. Thus the .log file of a small partition of a compacted topic is found,
whose indexes have no entry yet. The keys of a coordinator's records may not all belong to other partitions.
Such a file that begins at the first missing offset but has no other of these proofs, is a part of the missing .log
file, unless it is a copy of another partition's .log file: its batches are kept. Joined parts with such a name that
lack none of the offsets are the whole file. Damage hides no file: of one that begins with damage the first sound batch
counts, and the offsets in its damage are named.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.archive import Archive
from formats.errors import FormatError
from formats.file_name import FileKind, FileName, build, parse, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps, split_logs
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, load
from kcli.inspector.verify.segment_names import (
    INDEX_KINDS,
    Header,
    SegmentFiles,
    first_any_header,
    log_name,
    read_any_header,
    read_any_headers,
)
from kcli.log.inflated import InflatedSource, archive_of
from kcli.log.log_directory import DEPTH_MAX, LOST_AND_FOUND
from kcli.log.partition_view import ContentSource
from kcli.log.recovery.batch_length import MAGIC
from kcli.log.recovery.files_beside import FILES_MAX, files_beside, is_named_for, listed, packed_log
from kcli.log.recovery.foreign import is_of_another
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.stray_copies import is_named_copy
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, Source
from kcli.log.trash import is_in_trash, is_trash, original_path

if TYPE_CHECKING:  # imported at run time for a coordinator's topic
    from kcli.log.recovery.misdirected import Home

PARTS_NAMED = 4
"""The maximum number of parts of a .log file that a text names one by one."""

DELETED = f"{FileKind.LOG}.deleted"
_OF_LOG = re.compile(r"\.?([0-9]{20})\.log(?:[^0-9A-Za-z].*)?", re.DOTALL)
"""The names under which a program writes a .log file until it is complete, or under which it keeps a copy of it."""


_Files = tuple[Path, ...]
"""A file, or the parts of one .log file in their order."""
_Spans = Mapping[int, Sequence[tuple[int, _Files]]]
"""By first offset, the files that begin there, each with the last offset of its last batch plus 1."""


class Gap(NamedTuple):
    """The offsets that a log lacks: from `first` to below `until`, or all from `first` on if `until` is None.

    indexes: the index files that are left without their .log files, by the base offset in their names. is_exact:
    whether the missing batches have all of these offsets; in a compacted log they may not. foreign: the base offsets in
    the names of the directory's .log files that are another partition's. is_whole: whether no segment of the log is
    left, so that the log may have begun at any offset.
    """

    first: int
    until: int | None
    indexes: Mapping[int, Mapping[FileKind, Path]]
    is_exact: bool
    foreign: Collection[int] = ()
    is_whole: bool = False
    reached: int = 0
    keys: Home | None = None

    def ends_at(self, end: int) -> bool:
        """Whether the last missing .log file may end at this offset."""
        return end == self.until if self.until is not None else bool(self.reached) and end >= self.reached


class RenamedLog(NamedTuple):
    """A file with the batches of a missing segment, or a longer version of a .log file. command: the shell command that
    gives the file, and the files that belong to the same segment, their right names. end: for a file with only a part
    of the missing .log file, the last offset of its last batch plus 1; else None. others: if the .log file was cut into
    parts, those after `path`, in their order. holes: the offsets below its last batch that the file lacks, as ranges
    (first, last), both inclusive."""

    path: Path
    base_offset: int
    command: str
    end: int | None = None
    others: tuple[Path, ...] = ()
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The file; if the .log file was cut into parts, all of them in their order."""
        return (self.path, *self.others)

    @property
    def text(self) -> str:
        """Return the path; for a .log file that was cut into parts, their number and paths."""
        if not self.others:
            return f"{self.path}, in the trash of a file manager" if is_in_trash(self.path) else str(self.path)
        count = f"{len(self.files):,} parts"
        is_short = len(self.files) <= PARTS_NAMED
        paths = ", ".join(map(str, self.files)) if is_short else f"{self.path} to {self.files[-1]}"
        return f"{count}, whose join has all of them: {paths}" if self.end is None else f"the join of {count}: {paths}"

    @property
    def is_as_stored(self) -> bool:
        """Whether the content of `path` is that of the .log file: it is neither compressed nor one of several parts.
        Raises UnreadableInput."""
        return not self.others and self.archive is None

    @property
    def archive(self) -> Archive | None:
        """Return the kind of a compressed file; None for a file that is not compressed. Raises UnreadableInput."""
        return archive_of(self.path)


def find(directory: Path, home: Path | None, *gaps: Gap, beside: Iterable[Path] = ()) -> list[RenamedLog]:
    """Return the files that have the missing batches of a partition's log, in the order of their base offsets; no file
    for a segment that several files fit.

    directory: the partition's directory. home: the log directory that contains it. gaps: the missing offsets; if no
    file has any of the first gap's, those of the second one, and so on. beside: the other log directories of the
    broker, in which only a directory with -delete or -stray of the partition is looked at.
    """
    files = list(
        split_logs.with_parts(list(islice(chain(_files(directory, home), _set_aside(directory, beside)), FILES_MAX)))
    )
    return next((found for gap in gaps if (found := _fitting(files, directory, gap))), [])


def _fitting(candidates: Iterable[_Files], directory: Path, gap: Gap) -> list[RenamedLog]:
    found: dict[int, list[_Files]] = {}
    spans: dict[int, list[tuple[int, _Files]]] = {}
    named: dict[int, list[tuple[int, _Files]]] = {}
    parts: dict[int, list[RenamedLog]] = {}
    holes: dict[_Files, tuple[tuple[int, int], ...]] = {}
    is_bare = gap.is_exact and not gap.indexes and gap.until is not None
    for files in candidates:
        with suppress(UnreadableInput, FormatError), closing(_open(*files)) as source:
            first = first_any_header(source)
            if first is None or (first.first < gap.first and not gap.is_whole):
                continue
            base = _base_of(source, first, gap)
            part = (
                None if base is None or len(files) == 1 else _part(files, source, directory, gap, base, is_proven=True)
            )
            if part is not None and part.end is not None:
                parts.setdefault(part.base_offset, []).append(part)
                continue
            if base is not None:
                found.setdefault(base, []).append(files)
                holes[files] = _holes(_offsets(source)[0], base) if gap.is_exact else ()
                continue
            begin = first.first if read_any_header(source, 0) is not None else gap.first
            end = _end(read_any_headers(source, 0)) if is_bare else None
            if end is not None and (gap.until is None or end <= gap.until):
                spans.setdefault(first.first, []).append((end, files))
                holes[files] = _holes(_offsets(source)[0], first.first)
            name = _base_of_nfs(files[0], directory, begin) or _base_in_name(files[0], directory)
            if name is None or not gap.first <= name <= first.first:
                continue
            is_beside = len(files) == 1 and directory in files[0].parents
            if is_beside:
                end = _sound_end(source, name, gap)
                if end is not None and not _is_of_others(source, directory, gap.keys):
                    named.setdefault(name, []).append((end, files))
            part = _part(files, source, directory, gap, name, is_proven=False)
            if part is not None and part.end is None:
                found.setdefault(name, []).append(files)
            elif part is not None:
                parts.setdefault(name, []).append(part)
    if is_bare:
        found |= _chain(gap, spans)
    found |= _by_name(gap, named, found)
    whole = [
        RenamedLog(each[0][0], base, _command(each[0], directory, base), None, each[0][1:], holes.get(each[0], ()))
        for base, each in found.items()
        if len(each) == 1 and (base in gap.foreign or not (directory / log_name(base)).exists())
    ]
    for base, each in parts.items():
        if base not in found and not (directory / log_name(base)).exists():
            whole.append(max(each, key=lambda part: part.end or 0))
    return sorted(whole, key=lambda each: each.base_offset)


def _offsets(source: Source) -> tuple[OffsetRanges, int]:
    """Return the offsets of a file's sound batches, and the bytes of these batches. Raises UnreadableInput."""
    offsets, sound_bytes = OffsetRanges(), 0
    for row in sound_batches(source):
        header = None if row.magic >= MAGIC else read_any_header(source, row.position)
        offsets.add(row.base_offset if header is None else header.first, row.last_offset)
        sound_bytes += row.size
    return offsets, sound_bytes


def _holes(offsets: OffsetRanges, base: int) -> tuple[tuple[int, int], ...]:
    """Return the offsets from `base` up to the last one that a file lacks."""
    return tuple(offsets.lacking(base, max((last for _, last in offsets), default=base - 1)))


def _part(files: _Files, source: Source, directory: Path, gap: Gap, base: int, *, is_proven: bool) -> RenamedLog | None:
    """Return the part of a missing .log file that a file, or the joined parts in `files`, have; None if they have no
    part of it. The `end` of the result is None if joined parts lack none of the offsets, or a sound file with the name
    of the .log file.

    source: the content of the files. base: the base offset of the missing .log file. is_proven: whether an index leads
    to a batch of the files; else only their name says so. Raises UnreadableInput.
    """
    offsets, sound_bytes = _offsets(source)
    end = max((last + 1 for _, last in offsets), default=base)
    if end <= base or (gap.until is not None and end > gap.until) or _is_of_others(source, directory, gap.keys):
        return None
    holes = _holes(offsets, base) if gap.is_exact else ()
    # A .log file of a compacted topic may lack offsets, also at its end: it is whole if it has no damage.
    is_sound = not holes if gap.is_exact else sound_bytes == source.size()
    ends_well = gap.until in (None, end) or (is_proven and not gap.is_exact)
    is_kept = _has_own_name(files[0], base) and sound_bytes == source.size()  # not a download that broke off
    is_whole = (len(files) > 1 or is_kept) and is_sound and ends_well
    return RenamedLog(
        files[0], base, next_steps.salvage(directory), None if is_whole else end, others=files[1:], holes=holes
    )


def _was(path: Path, directory: Path, name: str) -> bool:
    """Whether a file in a trash had this name in a partition's directory."""
    original = original_path(path)
    return original is not None and (original.parent.name, original.name) == (directory.absolute().name, name)


def _has_own_name(path: Path, base: int) -> bool:
    """Whether a file has, or had before it was put into a trash, the name of the .log file with base offset `base`."""
    return (original_path(path) or path).name == log_name(base)


def _base_in_name(path: Path, directory: Path) -> int | None:
    """Return the base offset in the name of a file that has the name of a .log file, perhaps with a dot before the name
    or a suffix after it; None for any other file, and for a .log file in its place. Of a file in a trash the name
    before its deletion counts."""
    name = _OF_LOG.fullmatch((original_path(path) or path).name)
    is_other = path.parent != directory or parse(path.name) is None
    return int(name[1]) if name is not None and is_other else None


def _base_of_nfs(path: Path, directory: Path, first: int) -> int | None:
    """Return `first`, the first offset of a file, if it is a file of the directory that NFS keeps because it was
    removed while it was open: its name is that of no log any more. Return None for any other file."""
    return first if path.parent == directory and path.name.startswith(".nfs") else None


def _sound_end(source: Source, base: int, gap: Gap) -> int | None:
    """Return the last offset of a file plus 1; None if not all its bytes are sound batches with rising offsets, or if
    it lacks an offset from `base` on that the missing batches have. Raises UnreadableInput."""
    end, sound_bytes = base, 0
    for row in sound_batches(source):
        if row.base_offset < end or (gap.is_exact and row.base_offset > end):
            return None
        end, sound_bytes = row.last_offset + 1, sound_bytes + row.size
    return end if sound_bytes and sound_bytes == source.size() else None


def _is_of_others(source: Source, directory: Path, keys: Home | None) -> bool:
    """Whether a file has the batches of another partition. Raises UnreadableInput."""
    if keys is not None and keys.has_keys:
        from kcli.log.recovery.misdirected import has_only_others  # imported only for a coordinator's topic

        if has_only_others(source, keys):
            return True
    return is_of_another(source, directory)


def _by_name(gap: Gap, named: _Spans, found: Mapping[int, list[_Files]]) -> dict[int, list[_Files]]:
    """Return, by base offset, the files that have the names of the missing .log files and, together with those in
    `found`, all of their offsets; empty if there are no such files, or if several fit one name.

    named: by the base offset in its name, each file whose bytes are all sound batches, with its end.
    """
    bases = sorted({*found, *named})
    if not named or not (set(gap.indexes) or {gap.first}) <= set(bases):
        return {}
    fitting: dict[int, list[_Files]] = {}
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if base in found:
            continue
        for end, files in named[base]:
            if gap.ends_at(end) if following is None else _ends_before(end, following, gap):
                fitting.setdefault(base, []).append(files)
    return fitting if all(len(fitting.get(base, ())) == 1 for base in named if base not in found) else {}


def _chain(gap: Gap, spans: _Spans) -> dict[int, list[_Files]]:
    """Return the files, by first offset, that one after the other have all offsets of the gap; empty if there are no
    such files, or if several files begin at the same offset."""
    begins = sorted(spans, key=lambda begin: (_was_deleted(spans[begin]), begin)) if gap.is_whole else [gap.first]
    return next((chain for begin in begins if (chain := _chain_from(begin, gap.until, spans))), {})


def _was_deleted(files: Iterable[tuple[int, _Files]]) -> bool:
    """Whether, by its name, one of these files is a segment that Kafka had deleted, and so no part of the log any
    more."""
    return any(DELETED in paths[0].name for _, paths in files)


def _chain_from(first: int, until: int | None, spans: _Spans) -> dict[int, list[_Files]]:
    chain: dict[int, list[_Files]] = {}
    while first != until:
        if len(spans.get(first, ())) != 1:
            return {}
        end, files = spans[first][0]
        chain[first] = [files]
        first = end
    return chain


def _ends_before(end: int, following: int, gap: Gap) -> bool:
    """Whether a .log file that ends at this offset can be the one before that with the base offset `following`."""
    return end == following if gap.is_exact else end <= following


def longer(
    segment: SegmentFiles, until: int | None, *, is_compacted: bool, reached: int = 0, keys: Home | None = None
) -> RenamedLog | None:
    """Return the longer version of a segment's .log file that lies beside it in another file; None if there is none, or
    more than one.

    until: the base offset of the next .log file; None for the last. is_compacted: whether the topic is, or was,
    compacted. If so, the longer file may be the .log file from before a compaction, and counts only if an index leads
    to a batch that the .log file itself lacks, or if the last .log file is empty and the longer one reaches the end of
    the log: no compaction empties the last one. reached: for the last .log file, the log end offset in the checkpoints;
    0 if they have none. keys: see `Gap`.
    """
    log, base = segment.files[FileKind.LOG], segment.base
    files = (path for path in files_beside(log.parent) if path.parent == log.parent and is_named_for(path, base))
    beside = split_logs.with_parts(list(islice(files, FILES_MAX)))
    end = Gap(base, until, {}, not is_compacted, reached=reached, keys=keys)
    found = [each for each in beside if _is_longer(each, segment, end)]
    if len(found) != 1:
        return None
    moved = [(log, log.with_name(f"{log.name}.moved"))]
    path, *others = found[0]
    archive = archive_of(path)
    if archive is not None or others:
        made = next_steps.join(found[0], log) if archive is None else next_steps.decompress(path, log, archive)
        return RenamedLog(path, base, f"{next_steps.move(moved)} && {made}", others=tuple(others))
    return RenamedLog(path, base, next_steps.move([*moved, (path, log)]))


def _is_longer(files: _Files, segment: SegmentFiles, gap: Gap) -> bool:
    base, until, is_compacted = segment.base, gap.until, not gap.is_exact
    indexes = {kind: file for kind, file in segment.files.items() if kind in INDEX_KINDS}
    try:
        source = _open(*files)
    except UnreadableInput:
        return False
    try:
        own = FileSource(segment.files[FileKind.LOG])
        try:
            if is_compacted and _leads_to_a_batch(indexes, base, own):
                return False
            mine = ((row.base_offset, row.last_offset, row.crc) for row in sound_batches(own))
            wanted = next(mine, None)
            is_empty = wanted is None
            end = last = base
            for row in sound_batches(source):
                if row.base_offset < end or (until is not None and row.last_offset >= until):
                    return False
                end = row.last_offset + 1
                if (row.base_offset, row.last_offset, row.crc) == wanted:
                    last = row.last_offset
                    wanted = next(mine, None)
        finally:
            own.close()
        if wanted is not None:
            return False
        if is_empty or is_compacted:
            if end > base and _leads_to_a_batch(indexes, base, source):
                return True
            end_proves = gap.ends_at(end) and is_empty and (until is None or not is_compacted)
            return end > base and end_proves and not _is_of_others(source, segment.files[FileKind.LOG].parent, gap.keys)
        return end > last + 1
    except (UnreadableInput, FormatError):
        return False
    finally:
        source.close()


def compressed(path: Path, base: int, until: int | None) -> Finding | None:
    """Return the finding that a file with the name of a .log file is compressed, or a text of its bytes; None if it is
    neither.

    The first batch in the decompressed content has to fit the name. base, until: the base offsets of the segment and of
    the next one; None for the active segment. Raises UnreadableInput.
    """
    packed = packed_log(path, base, until)
    if packed is None:
        return None
    archive, first = packed
    moved = path.with_name(f"{path.name}{archive.suffix}")
    what = f"a text of the log's bytes, as {archive} writes it" if archive.is_text else f"{archive} of the log"
    undo = "decode" if archive.is_text else "inflate"
    return Finding(
        path=str(path),
        kind="log-compressed",
        severity="error",
        position=0,
        expected="batches",
        found=f"{what}: it {undo}s to batches from offset {first:,} on, which Kafka does not read",
        action=f"keep the broker from starting, as a start may cut the file to 0 bytes, and {undo} it",
        command=f"{next_steps.move([(path, moved)])} && {next_steps.decompress(moved, path, archive)}",
        valid_batches_before=0,
        valid_bytes_before=0,
    )


def _files(directory: Path, home: Path | None) -> Iterator[Path]:
    """Yield the files whose names are not Kafka's: in the partition's directory and its subdirectories, in the log
    directory, in subdirectories of the log directory that are not a partition's, and in the lost+found beside the log
    directory. Yield all files in a trash, and in copies of the partition's directory."""
    yield from files_beside(directory)
    if home is None:
        return
    name = directory.absolute().name
    for path in listed(home):
        if parse(path.name) is None and path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink():
            if is_trash(path):
                yield from (each for each in _below(path, DEPTH_MAX) if _may_be_of(each, directory))
            elif parse_directory(path.name) is None:
                yield from _below(path, DEPTH_MAX)
            elif path.name.startswith(name) and is_named_copy(path, directory):
                yield from _below(path, 0)
    yield from _below(home.absolute().parent / LOST_AND_FOUND, DEPTH_MAX)


def _set_aside(directory: Path, homes: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of a partition's directories with -delete or -stray in other log directories, as a move of the
    partition to another log directory leaves one."""
    for path in (each for home in homes for each in listed(home)):
        name = parse_directory(path.name)
        if name is not None and name.state in ("delete", "stray") and is_named_copy(path, directory):
            yield from _below(path, 0)


def _may_be_of(path: Path, directory: Path) -> bool:
    """Whether a file in a trash may have been deleted from a partition's directory."""
    original = original_path(path)
    return original is None or original.parent.name == directory.absolute().name


def _below(directory: Path, depth: int) -> Iterator[Path]:
    for path in listed(directory):
        if path.is_symlink():
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and depth:
            yield from _below(path, depth - 1)


def _base_of(source: Source, first: Header, gap: Gap) -> int | None:
    """Return the base offset of the missing segment to which a file belongs: the file's first batch has offsets between
    that base offset and the end of the gap, and the last entry of the segment's indexes, which were left without a .log
    file, points to a batch in the file. Returns None if there is no such segment. Raises UnreadableInput and
    FormatError."""
    if gap.until is not None and first.last >= gap.until:
        return None
    fitting = (base for base in gap.indexes if base <= first.first)
    return next((base for base in fitting if _leads_to_a_batch(gap.indexes[base], base, source)), None)


def _leads_to_a_batch(indexes: Mapping[FileKind, Path], base: int, source: Source) -> bool:
    """Return whether the last entry of the offset index (if that has no entry, of the time index) agrees with a batch
    in `source`. base: the base offset that the entries are relative to."""
    if FileKind.OFFSET_INDEX in indexes:
        offsets, _ = load(indexes[FileKind.OFFSET_INDEX], OFFSET_ENTRY_BYTES)
        if offsets.count:
            relative, position = offsets.fields(offsets.count - 1)
            header = next(read_any_headers(source, position), None) if position >= 0 else None
            return header is not None and header.last == base + relative
    if FileKind.TIME_INDEX in indexes:
        times, _ = load(indexes[FileKind.TIME_INDEX], TIME_ENTRY_BYTES)
        if times.count:
            timestamp, relative = times.fields(times.count - 1)
            return any(
                (header.max_timestamp, header.last) == (timestamp, base + relative)
                for header in read_any_headers(source, 0)
            )
    return False


def _end(headers: Iterable[Header]) -> int:
    """Return the end offset of a file's leading batches, up to the first gap between their offsets; 0 without a
    batch."""
    end = None
    for header in headers:
        if end is not None and header.first != end:
            break
        end = header.last + 1
    return end or 0


def _open(path: Path, *others: Path) -> Source:
    """Return the content of a file, decompressed if it is compressed; with `others`, the joined content of parts.
    Raises UnreadableInput."""
    if others:
        return ContentSource(str(path), split_logs.content_of((path, *others)))
    archive = archive_of(path)
    return FileSource(path) if archive is None else InflatedSource(path, archive)


def _command(files: _Files, directory: Path, base: int) -> str:
    """Return the command that gives a .log file the name that its base offset demands, or makes it from its parts. If
    the present name differs from that name only in case, the command also renames the index and snapshot files beside
    it; if the file lies in a trash, those that were deleted with it."""
    path, target = files[0], directory / log_name(base)
    if len(files) > 1:
        return next_steps.join(files, target)
    archive = archive_of(path)
    if archive is not None:
        return next_steps.decompress(path, target, archive)
    pairs = [(path, target)]
    for kind in (*INDEX_KINDS, FileKind.PRODUCER_SNAPSHOT):
        name = build(FileName(kind, base))
        others = (each for each in listed(path.parent) if each.name != name and each.name.lower() == name)
        other = next(others, None) if path.name.lower() == log_name(base) else None
        if is_in_trash(path):
            other = next((each for each in listed(path.parent) if _was(each, directory, name)), None)
        if other is not None and not os.path.lexists(directory / name):
            pairs.append((other, directory / name))
    return next_steps.move(pairs)
