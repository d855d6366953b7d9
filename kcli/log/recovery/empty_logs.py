"""Empty .log files that no broker has made: `touch`, a script or a wrong copy has made them in a partition's directory.

    among     another .log file has the offset in the file's name within its batches, and has batches behind it
    behind    the log ends below the offset in the file's name, and no other file says that the log had reached more

Kafka takes such a file for a segment. If it is the last one, the log ends at the offset in its name, and producers'
records get offsets from there on; any other one keeps consumers from reading the other file's batches behind it.

A .log file that was emptied is none of these: its index has entries, or the log before it ends at or below the offset
in its name, and the checkpoints, a producer snapshot, a leader epoch or another file say that the log went on. Source:
LogSegments.floorSegment, LocalLog.read.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from formats.file_name import FileKind, parse
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.apply import INDEXES
from kcli.log.recovery.deleted import epoch_starts, has_entry
from kcli.log.segment_reader import Damage, read_segment


@dataclass(frozen=True, slots=True)
class EmptyLog:
    """An empty .log file that no broker has made.

    base_offset: the offset in its name. before: the .log file with batches before it. end: the offset behind the last
    batch of that file. following: the base offset of the next .log file with batches; None if there is none.
    """

    file: str
    base_offset: int
    before: str
    end: int
    following: int | None

    @property
    def names(self) -> list[str]:
        """The names of the .log file and of the indexes that a start makes beside it."""
        return [self.file, *(f"{self.base_offset:020}{kind}" for kind in INDEXES)]

    @property
    def is_among(self) -> bool:
        """Whether the offset in the name is within the batches of `before`."""
        return self.base_offset < self.end

    @property
    def hides_end(self) -> bool:
        """Whether the log ends at the file, in Kafka's eyes, and `before` has batches from there on."""
        return self.is_among and self.following is None

    @property
    def what(self) -> str:
        """What the file is, in words."""
        if self.is_among:
            offsets = f"{self.base_offset:,}..{self.end - 1:,}"
            return f"it is empty, and {self.before} has the offsets from its name on ({offsets})"
        return (
            f"it is empty, and no file says that the log, which ends at {self.end:,} in {self.before}, had reached it"
        )

    @property
    def outcome(self) -> str:
        """The reaction of Kafka to the file, in words."""
        if self.hides_end:
            return f"Kafka ends the log at {self.base_offset:,}, and new records get these offsets again"
        if self.following is not None:
            return f"consumers that begin at {self.base_offset:,} or behind it get no record below {self.following:,}"
        return f"Kafka ends the log at {self.base_offset:,}, and no record gets the offsets between"


class _Extent(NamedTuple):
    """The offset behind the last batch of a .log file, whether all its bytes are batches, and whether a batch has the
    looked-for offset, or batches lie on both sides of it."""

    end: int
    is_whole: bool
    has: bool
    is_around: bool


def empty_logs(
    files: Mapping[str, Content], *, reached: int, is_compacted: bool, is_metadata: bool = False
) -> list[EmptyLog]:
    """Return the empty .log files in a partition's directory that no broker has made, by offset.

    files: the content of the directory's files by name. reached: the offset that the log had reached by the offset
    checkpoints, 0 if they do not have it: then no file counts as one behind the end, but for the metadata log
    (is_metadata), which no checkpoint has. is_compacted: whether the log may have gaps. Raises UnreadableInput.
    """
    named = {name: parsed for name in files if (parsed := parse(name)) is not None and parsed.base_offset is not None}
    logs = {each.base_offset or 0: name for name, each in named.items() if each.kind is FileKind.LOG and not each.state}
    filled = sorted(base for base, name in logs.items() if files[name].size)
    empty = [base for base, name in sorted(logs.items()) if not files[name].size and not _is_indexed(files, base)]
    found = []
    for base in empty:
        below = [each for each in filled if each < base]
        if not below:
            continue
        before, following = logs[below[-1]], next((each for each in filled if each > base), None)
        extent = _extent(before, files[before], base)
        is_among = extent.end > base and (extent.has or (is_compacted and extent.is_around))
        is_behind = base > extent.end and following is None and extent.is_whole and bool(reached or is_metadata)
        if is_behind:
            others = (
                each.base_offset or 0
                for each in named.values()
                if each.state or each.kind not in (FileKind.LOG, *INDEXES) or each.base_offset not in empty
            )
            is_bare = not any(f"{base:020}{kind}" in files for kind in INDEXES)
            is_behind = (is_bare or not is_metadata) and extent.end >= max([reached, *others, *epoch_starts(files)])
        if is_among or is_behind:
            found.append(EmptyLog(logs[base], base, before, extent.end, following))
    return found


def _is_indexed(files: Mapping[str, Content], base: int) -> bool:
    """Whether an index of a segment has an entry."""
    return any(has_entry(files, f"{base:020}{kind}") for kind in INDEXES)


def _extent(name: str, content: Content, offset: int) -> _Extent:
    """Return how far a .log file goes, and whether it has an offset. Raises UnreadableInput."""
    end, is_whole, has, is_below, is_around = 0, True, False, False, False
    with closing(ContentSource(name, content)) as source:
        for part in read_segment(source, check_crc=False, resync=False):
            if isinstance(part, Damage):
                is_whole = False
                break
            for i in range(part.batches.count):
                first, last = part.batches.field(i, BASE_OFFSET), part.batches.field(i, LAST_OFFSET)
                has = has or first <= offset <= last
                is_around = is_around or (is_below and first > offset)
                is_below, end = is_below or last < offset, last + 1
            part.release()
    return _Extent(end, is_whole, has, is_around)
