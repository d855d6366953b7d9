"""The files beside a partition's log that Kafka does not read, and that may have batches of the log.

    files_beside    all such files: those in the partition's directory whose names are not Kafka's (<offset>.log.1,
                    .bak, .gz, -20261129, .part; .<offset>.log.<any text> of rsync; .nfs<number>, a file that was
                    removed while it was open), and those in its subdirectories, as rsync's .rsync-partial
    versions        of these, the ones that may have batches of one .log file, and the files of its name in copies of
                    the directory: a file that has the name of the .log file, or whose first sound batch has an offset
                    of the segment
    files_with      of these, the ones that begin with a batch of given offsets
    lacking         the offsets that such a file has, and the .log file lost

A batch of a file beside fills damage if the batches on both sides of the damage are the same in both files (see
kcli.log.recovery.stray_copies), or if its bytes and offsets have room in the damage: with others
they continue the batch before it, or lead to the batch behind it, without a gap. In a compacted log, where offsets may
be missing, they have to fill all damaged bytes. Then no sound batch may be another one than that of the .log file with
the same offset, and the file may not be a copy of another partition's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from formats.archive import Archive
from formats.file_name import parse
from kcli.errors import UnreadableInput
from kcli.log.inflated import InflatedSource, archive_of, inflated_size
from kcli.log.partition_view import Content, ContentSource, FileRange, InflatedRange
from kcli.log.recovery.foreign import is_of_another
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.recovery.stray_copies import BATCHES_COMPARED, lacking_in
from kcli.log.segment_reader import sound_batches
from kcli.log.source import SEGMENT_BYTES_MAX, FileSource, Source

FILES_MAX = 10_000
"""The maximum number of files that are examined."""
INT_MAX = 2**31 - 1


def files_beside(directory: Path) -> Iterator[Path]:
    """Yield the files in a partition's directory whose names are not Kafka's, and the files in its subdirectories."""
    for path in listed(directory):
        if path.is_dir() and not path.is_symlink():
            yield from (each for each in listed(path) if each.is_file() and not each.is_symlink())
        elif parse(path.name) is None and path.is_file():
            yield path


def listed(directory: Path) -> list[Path]:
    """Return the entries of a directory in order; none if it cannot be read."""
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def is_named_for(path: Path, base: int) -> bool:
    """Whether the name of a file is that of the segment with base offset `base`, perhaps with a dot before it."""
    return path.name.removeprefix(".").startswith(f"{base:020}.")


def files_with(directory: Path, first: int, until: int) -> Iterator[Path]:
    """Yield the files beside the log in a partition's directory whose first sound batch has an offset from `first` on
    and below `until`, and that are no copies of another partition's log."""
    for path in islice(files_beside(directory), FILES_MAX):
        with suppress(UnreadableInput), closing(_opened(path)) as source:
            if _may_be_of(source, first, until) and not is_of_another(source, directory):
                yield path


def _opened(path: Path) -> Source:
    """Return the content of a file, decompressed if it is compressed. Raises UnreadableInput."""
    archive = archive_of(path)
    return FileSource(path) if archive is None else InflatedSource(path, archive)


def packed_log(log: Path, base: int, until: int | None) -> tuple[Archive, int] | None:
    """Return the kind of a file with the name of a .log file that is compressed, or a text of its bytes, and the first
    offset in it. None for any other file, and if the first batch in it does not fit the name. base, until: the base
    offsets of the segment and of the next one; None for the active segment. Raises UnreadableInput for the file."""
    archive = archive_of(log)
    if archive is None:
        return None
    with suppress(UnreadableInput), closing(InflatedSource(log, archive)) as source:
        first = next(sound_batches(source), None)
        if first is not None and first.base_offset >= base and (until is None or first.last_offset < until):
            return archive, first.base_offset
    return None


@dataclass(frozen=True, slots=True)
class Version:
    """A file that may have batches of a .log file. content: its bytes, decompressed. is_beside: whether it is one of
    `files_beside`, and not a file in a copy of the directory."""

    path: Path
    content: Content
    is_beside: bool


def versions(log: Path, until: int | None, copies: Iterable[Path] = ()) -> Iterator[Version]:
    """Yield the files that may have batches of a .log file. until: the base offset of the next segment; None for the
    last one. copies: the directories that may be copies of the partition's."""
    base = int(log.stem)
    for path in islice(files_beside(log.parent), FILES_MAX):
        with suppress(UnreadableInput):  # it is none of Kafka's files
            archive = archive_of(path)
            with closing(_opened(path)) as source:
                if not (is_named_for(path, base) or _may_be_of(source, base, until)):
                    continue
            if archive is not None:
                yield Version(
                    path,
                    Content((InflatedRange(path, 0, inflated_size(path, archive), archive=archive),)),
                    is_beside=True,
                )
            elif (size := path.stat().st_size) <= SEGMENT_BYTES_MAX:
                yield Version(path, Content((FileRange(path, 0, size),)), is_beside=True)
    for copy in copies:
        path = copy / log.name
        if path.is_file():
            yield Version(path, Content((FileRange(path, 0, path.stat().st_size),)), is_beside=False)


def _may_be_of(source: Source, base: int, until: int | None) -> bool:
    first = next(sound_batches(source), None)
    return first is not None and base <= first.base_offset < (base + INT_MAX if until is None else until)


def lacking(log: Path, own: Source, version: Version, until: int | None, *, is_compacted: bool) -> OffsetRanges:
    """Return the offsets that a .log file lost and a version of it has. own: the content of the .log file. until: the
    base offset of the next segment; None for the last one. is_compacted: whether the log may lack offsets. Raises
    UnreadableInput for the .log file and for a file in a copy of the directory."""
    with closing(ContentSource(str(version.path), version.content)) as other:
        if not version.is_beside:
            return lacking_in(own, other, None if is_compacted else until)
        with suppress(UnreadableInput):
            found = lacking_in(own, other, None if is_compacted else until)
            if any(True for _ in found) or _contradicts(own, other) or is_of_another(other, log.parent):
                return found
            return _fitting(own, other, int(log.stem), until, is_compacted=is_compacted)
    return OffsetRanges()


def lacking_on_disk(log: Path, version: Version, until: int | None, *, is_compacted: bool) -> OffsetRanges:
    """As `lacking`, for a .log file as it is on disk. Raises UnreadableInput."""
    with closing(FileSource(log)) as own:
        return lacking(log, own, version, until, is_compacted=is_compacted)


def _contradicts(own: Source, other: Source) -> bool:
    """Whether two files have different batches with one offset."""
    mine, its = (
        {row.base_offset: (row.crc, row.size) for row in islice(sound_batches(each), BATCHES_COMPARED)}
        for each in (own, other)
    )
    return any(mine[offset] != its[offset] for offset in mine.keys() & its.keys())


@dataclass(slots=True)
class _Damage:
    """Damaged bytes of a .log file, their number, and the offsets that they may have had: from `first` to below
    `until`, or all from `first` on if `until` is None. found: the offsets of the batches that another file has for
    them; found_bytes: their size."""

    first: int
    until: int | None
    size: int
    found: OffsetRanges
    found_bytes: int = 0

    def is_filled(self, *, is_compacted: bool) -> bool:
        ranges = [*self.found]
        if not ranges or self.found_bytes > self.size:
            return False
        if is_compacted:
            return self.found_bytes == self.size
        return len(ranges) == 1 and (ranges[0][0] == self.first or ranges[0][1] + 1 == self.until)


def _fitting(own: Source, other: Source, base: int, until: int | None, *, is_compacted: bool) -> OffsetRanges:
    """Return the offsets of the batches in `other` that have room in the damage of `own`. Raises UnreadableInput."""
    damage = list(_damage(own, base, until))
    places = iter(damage)
    place = next(places, None)
    for row in sound_batches(other):
        while place is not None and place.until is not None and row.base_offset >= place.until:
            place = next(places, None)
        if place is None:
            break
        if row.base_offset >= place.first and (place.until is None or row.last_offset < place.until):
            place.found.add(row.base_offset, row.last_offset)
            place.found_bytes += row.size
    found = OffsetRanges()
    for each in damage:
        if each.is_filled(is_compacted=is_compacted):
            for first, last in each.found:
                found.add(first, last)
    return found


def _damage(own: Source, base: int, until: int | None) -> Iterator[_Damage]:
    end, next_offset = 0, base
    for row in sound_batches(own):
        if row.position > end and row.base_offset > next_offset:
            yield _Damage(next_offset, row.base_offset, row.position - end, OffsetRanges())
        end, next_offset = row.position + row.size, row.last_offset + 1
    if end < own.size():
        yield _Damage(next_offset, until, own.size() - end, OffsetRanges())
