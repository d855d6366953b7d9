"""Offset index (`.index`): for some offsets of the segment, the position of their batch in the `.log`.

    entry  8 bytes, big endian, sorted by offset, no header
      relative_offset  int32   last offset of a batch, less the base offset of the segment
      position         int32   byte in the .log where that batch begins

There is one entry every `index.interval.bytes` (4 KiB) of log. Kafka preallocates the file and trims it on roll and on
close, so a crash leaves preallocated zeros behind the last entry: they are not damage. The first batch of a segment is
never in its index, hence an entry of zeros is always preallocated. Source: OffsetIndex in Kafka's storage module.
"""

from dataclasses import dataclass
from typing import NamedTuple

from formats.fixed import Field, FixedLayout


class OffsetIndexEntry(NamedTuple):
    """One entry: a batch's last offset, less the segment's base offset, and the byte in the `.log` where the batch
    begins."""

    relative_offset: int
    position: int


ENTRY = FixedLayout(
    "offset index entry",
    OffsetIndexEntry,
    Field("relative_offset", "int32", "last offset of a batch, less the base offset of the segment"),
    Field("position", "int32", "byte in the .log where that batch begins"),
)


@dataclass(frozen=True, slots=True)
class OffsetIndex:
    """The entries of one file, and the number of preallocated bytes (zeros) behind them."""

    entries: tuple[OffsetIndexEntry, ...]
    slack_bytes: int = 0


def parse(data: bytes) -> OffsetIndex:
    """Return the offset index that `data` holds. The order and the values of the entries are not checked.

    Raises BadLength if `data` is not a whole number of entries; the error's position is the end of the last whole one.
    """
    used = ENTRY.used(data)
    return OffsetIndex(tuple(ENTRY.unpack_all(data, used)), len(data) - used)


def build(index: OffsetIndex) -> bytes:
    """Return the bytes of an index file. Raises BadValue for a number that does not fit its field."""
    return ENTRY.pack_all(index.entries) + bytes(index.slack_bytes)
