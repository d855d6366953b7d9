"""Offsets that two segments of a partition have, with different batches: two brokers have written the log at once.

    927.log   927..931  932..936  937..941        the batches go on, without a gap, behind the next segment's begin
    932.log             932..936  937..941  ...   with other batches

Kafka keeps both files. A consumer that reads on from below 932 gets the batches of 927.log, and then those of 932.log
behind them; one that begins at 932 or above gets those of 932.log. Salvage keeps the version of the segment that is
named after these offsets, and leaves the batches out that the segment before it has of them.
Source: UnifiedLog.read, LocalLog.read (segments.floorSegment).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from formats.file_name import FileKind
from formats.kernels.columns import BatchRow
from kcli.log.partition_view import Content, ContentSource
from kcli.log.segment_reader import sound_batches

DOUBLED_MAX = 1 << 16
"""The maximum number of batches of one .log file that are compared with those of the next segments."""
MAGIC_WITH_COUNT = 2


@dataclass(frozen=True, slots=True)
class Doubled:
    """The batches at the end of a .log file that reach into the next segment, which has other batches at their offsets.

    file: the name of the .log file. following: that of the next segment's .log file. rows: these batches, in order.
    """

    file: str
    following: str
    rows: tuple[BatchRow, ...]

    @property
    def first_offset(self) -> int:
        """The base offset of the first of these batches."""
        return self.rows[0].base_offset

    @property
    def last_offset(self) -> int:
        """The last offset of the last of these batches."""
        return self.rows[-1].last_offset


def doubled(logs: Mapping[str, Content], name: str) -> Doubled | None:
    """Return the batches of a .log file of which the next segment has another version; None if there are none.

    There are some only if the offsets of the file's batches, all with as many offsets as records, go on without a gap
    to its end, the next segment begins with the offset in its name, and the next segments have not all of these
    batches. logs: all .log files of the partition, by name. Raises UnreadableInput.
    """
    base = _base_of(name)
    behind = sorted((each for each in logs if _base_of(each) > base), key=_base_of)
    if not behind:
        return None
    begin = _base_of(behind[0])
    rows = _running_into(logs[name], name, begin)
    if not rows:
        return None
    first = next(_rows(behind[0], logs[behind[0]]), None)
    if first is None or first.base_offset != begin:
        return None
    lacking = {(each.base_offset, each.crc, each.size) for each in rows}
    for each in behind:
        if _base_of(each) > rows[-1].last_offset:
            break
        for row in _rows(each, logs[each]):
            lacking.discard((row.base_offset, row.crc, row.size))
            if row.base_offset > rows[-1].last_offset:
                break
    return Doubled(name, behind[0], tuple(rows)) if lacking else None


def _running_into(content: Content, name: str, begin: int) -> list[BatchRow]:
    """Return the batches at the end of a .log file, up to DOUBLED_MAX, from the one on that has the offset `begin`.
    There are none if the batch before has not the offset before them, or if they do not end with the file."""
    found: list[BatchRow] = []
    end = 0, _base_of(name)
    for row in _rows(name, content):
        if row.last_offset >= begin:
            if (row.position, row.base_offset) != end or not _is_full(row) or len(found) >= DOUBLED_MAX:
                return []
            found.append(row)
        elif found:
            return []
        end = row.position + row.size, row.last_offset + 1
    return found if end[0] == content.size else []


def _is_full(row: BatchRow) -> bool:
    """Whether a batch has as many records as offsets."""
    return row.magic < MAGIC_WITH_COUNT or row.count == row.last_offset - row.base_offset + 1


def _rows(name: str, content: Content) -> Iterator[BatchRow]:
    with closing(ContentSource(name, content)) as source:
        yield from sound_batches(source)


def _base_of(name: str) -> int:
    return int(name.removesuffix(FileKind.LOG))
