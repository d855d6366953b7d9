"""Two directories of one partition in two log directories of a broker, compared by the offsets of their sound batches.

    one has all that the other has          it is the better one: a move with mv across disks that broke off while it
                                            removed the source leaves such a pair
    each has segments that the other lacks  the files of one complete the other (`Copy.completing`): a move that renames
                                            or removes file after file, as rsync --remove-source-files does, has broken
                                            off
    else                                    the better one is that whose log ends at the higher offset

Offsets below the log start of either directory do not count: they were deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import FileKind, parse
from kcli.errors import KcliError
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.recovery.offset_ranges import OffsetRanges
from kcli.log.segment_reader import sound_batches
from kcli.log.source import FileSource, read_whole

Ranges = Sequence[tuple[int, int]]
"""Ranges of offsets, (first, last), both inclusive, in order."""
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Copy(NamedTuple):
    """Two directories of one partition: `path`, and `other` in another log directory of the broker.

    end, other_end: the log end offsets; None if there is no log. only, other_only: the offsets that only `path`, or
    only `other`, has. left_out: the directory without partition.metadata: Kafka's start renames it to -stray, and
    serves the other directory. None if both have that file: Kafka does not start. completing: the files, by name, of
    the directory that salvage does not keep, which complete the log of the kept one; empty if they do not.

    is_kept: whether salvage keeps `path`. Salvage does not keep `left_out` if it has no offsets that the other lacks,
    or if `completing` is not empty. Otherwise, if only one of the two directories has offsets that the other lacks,
    salvage keeps that one; if both or neither have such offsets, the one whose log ends at the higher offset; at equal
    ends, the one that is no symbolic link, then the one in the log directory to which the metadata log assigns the
    partition.
    """

    path: Path
    other: Path
    end: int | None
    other_end: int | None
    is_kept: bool
    left_out: Path | None = None
    only: Ranges = ()
    other_only: Ranges = ()
    completing: Mapping[str, Path] = MappingProxyType({})

    @property
    def kept(self) -> Path:
        """The directory that salvage keeps."""
        return self.path if self.is_kept else self.other

    @property
    def second(self) -> Path:
        """The directory that salvage makes a stray."""
        return self.other if self.is_kept else self.path

    def only_in(self, directory: Path) -> Ranges:
        """Return the offsets that only `directory`, one of the two directories, has."""
        return self.only if directory == self.path else self.other_only

    def end_in(self, directory: Path) -> int | None:
        """Return the log end offset of one of the two directories; None if it has no log."""
        return self.end if directory == self.path else self.other_end


Segments = Mapping[int, OffsetRanges]
"""The offsets of the sound batches in each segment of a log, by the segment's base offset."""


def compared(
    here: PartitionDirectory,
    there: PartitionDirectory,
    ends: tuple[int | None, int | None],
    is_better: bool,
    left_out: Path | None = None,
) -> Copy:
    """Compare two directories of one partition, and return what each has.

    ends: their log end offsets. is_better: whether salvage keeps `here` if both or neither have offsets that the other
    lacks. left_out: as in Copy. Raises UnreadableInput.
    """
    one, two = _segments(here.path), _segments(there.path)
    log_start = max(_log_start(here), _log_start(there))
    only, other_only = (
        lacking(_joined(without), _joined(having), log_start) for having, without in ((one, two), (two, one))
    )
    is_kept = bool(only) if bool(only) != bool(other_only) else is_better
    if left_out is not None and not (only or other_only):
        is_kept = left_out != here.path
    completing: Mapping[str, Path] = {}
    if only and other_only:
        keeps_here = is_better if left_out is None else left_out != here.path
        kept, second = (here, there) if keeps_here else (there, here)
        logs = (two, one, other_only) if keeps_here else (one, two, only)
        completing = {
            name: path for name, path in _completing(second, *logs).items() if not (kept.path / name).exists()
        }
        is_kept = keeps_here if completing else is_better
    return Copy(here.path, there.path, *ends, is_kept, left_out, only, other_only, completing)


def sound_offsets(directory: Path) -> OffsetRanges:
    """Return the offsets of the sound batches in a partition's directory. Raises UnreadableInput."""
    return _joined(_segments(directory))


def lacking(one: OffsetRanges, other: OffsetRanges, log_start: int) -> list[tuple[int, int]]:
    """Return the offsets from `log_start` on that `other` has and `one` lacks."""
    return [each for first, last in other if last >= log_start for each in one.lacking(max(first, log_start), last)]


def count(ranges: Ranges) -> int:
    """Return the number of offsets in the ranges."""
    return sum(last - first + 1 for first, last in ranges)


def _completing(second: PartitionDirectory, segments: Segments, kept: Segments, only: Ranges) -> dict[str, Path]:
    """Return the files in the directory `second` that complete the log of the kept directory, by name. The segments
    among them must have all of the offsets `only`, and join the segments of the kept log without an overlap and, unless
    the log was compacted, without a gap; otherwise return an empty dict.

    segments, kept: those of the two directories. only: the offsets that only `second` has. Raises UnreadableInput.
    """
    has = _joined(kept)
    moved = {}
    for base, offsets in segments.items():
        first, last = _bounds(offsets, base)
        if last >= only[0][0] and base not in kept and [*has.lacking(first, last)] == [(first, last)]:
            moved[base] = offsets
    if lacking(_joined(moved), OffsetRanges(only), 0):
        return {}
    together = {**kept, **moved}
    whole = sorted((base, _bounds(each, base)[1]) for base, each in together.items())
    ends = [(one[1] + 1, two[0]) for one, two in pairwise(whole) if (one[0] in moved) != (two[0] in moved)]
    is_compacted = any(len([*each]) > 1 for each in together.values())
    if any(end > base or (end < base and not is_compacted) for end, base in ends):
        return {}
    end = max(last for _, last in whole) + 1
    files = (path for path in sorted(second.path.iterdir()) if path.is_file())
    return {path.name: path for path in files if _belongs(path.name, moved, kept, end)}


def _belongs(file: str, moved: Segments, kept: Segments, end: int) -> bool:
    """Whether a file is moved together with the segments `moved` of its directory: a .log or index file of a segment in
    `moved`, an index of a segment in `kept`, a producer snapshot of an offset up to `end`, or the leader epochs."""
    name = parse(file)
    if name is None or name.state:
        return False
    if name.kind is FileKind.PRODUCER_SNAPSHOT:
        return name.base_offset is not None and name.base_offset <= end
    of_moved = name.kind in {FileKind.LOG, *INDEXES} and name.base_offset in moved
    return of_moved or (name.kind in INDEXES and name.base_offset in kept) or name.kind is FileKind.LEADER_EPOCHS


def _joined(segments: Segments) -> OffsetRanges:
    """Return the offsets of all segments, joined."""
    return OffsetRanges(each for _, offsets in sorted(segments.items()) for each in offsets)


def _bounds(offsets: OffsetRanges, base: int) -> tuple[int, int]:
    """Return the first and last offset of a segment; the base offset and the one before it if it has no sound batch."""
    ranges = [*offsets]
    return (ranges[0][0], ranges[-1][1]) if ranges else (base, base - 1)


def _segments(directory: Path) -> Segments:
    """Return the offsets of the sound batches of each segment in a partition's directory, by the segment's base offset.
    Raises UnreadableInput."""
    found: dict[int, OffsetRanges] = {}
    for path in sorted(directory.glob(f"*{FileKind.LOG}")):
        name = parse(path.name)
        if name is None or name.state or name.base_offset is None:
            continue
        offsets = found[name.base_offset] = OffsetRanges()
        source = FileSource(path)
        try:
            for row in sound_batches(source):
                if row.base_offset >= 0:
                    offsets.add(row.base_offset, row.last_offset)
        finally:
            source.close()
    return found


def _log_start(directory: PartitionDirectory) -> int:
    """Return the offset below which the records of a partition were deleted, by log-start-offset-checkpoint and the
    leader epochs; 0 if these do not say so or cannot be read, which other checks report."""
    home = LogDirectory(directory.path.absolute().parent)
    offsets = [0, home.legible_offsets(FileKind.LOG_START_OFFSETS).get(directory.partition, 0)]
    with suppress(KcliError, FormatError):
        epochs = parse_leader_epochs(read_whole(directory.path / FileKind.LEADER_EPOCHS))
        offsets += [each.start_offset for each in epochs[:1]]
    return max(offsets)
