"""Time index (`.timeindex`): for some offsets of the segment, the largest timestamp up to each.

    entry  12 bytes, big endian, sorted by timestamp and offset, no header
      timestamp        int64   the largest timestamp of the segment up to the offset, ms since 1970
      relative_offset  int32   offset of the record with that timestamp, or a later offset, less the base offset

Kafka appends an entry together with one of the offset index, if the largest timestamp has grown since the last entry,
and a last one when it rolls or closes the segment. Zeros behind the last entry are preallocated, as in the offset
index. An entry of zeros is valid only if it is the whole file: a segment whose largest timestamp is 0. Source:
TimeIndex in Kafka's storage module.
"""

from dataclasses import dataclass
from typing import NamedTuple

from formats.fixed import Field, FixedLayout


class TimeIndexEntry(NamedTuple):
    """One entry: the timestamp in milliseconds since 1970, the offset relative to the segment's base offset."""

    timestamp: int
    relative_offset: int


ENTRY = FixedLayout(
    "time index entry",
    TimeIndexEntry,
    Field("timestamp", "int64", "the largest timestamp up to this point, ms since 1970"),
    Field("relative_offset", "int32", "the offset that has it, or a later one, less the base offset of the segment"),
)


@dataclass(frozen=True, slots=True)
class TimeIndex:
    """The entries of one file, and the number of preallocated bytes (zeros) behind them."""

    entries: tuple[TimeIndexEntry, ...]
    slack_bytes: int = 0


def parse(data: bytes) -> TimeIndex:
    """Return the time index that `data` holds. The order and the values of the entries are not checked.

    Raises BadLength if `data` is not a whole number of entries; the error's position is the end of the last whole one.
    """
    used = len(data) if len(data) == ENTRY.size else ENTRY.used(data)
    return TimeIndex(tuple(ENTRY.unpack_all(data, used)), len(data) - used)


def build(index: TimeIndex) -> bytes:
    """Return the bytes of an index file. Raises BadValue for a number that does not fit its field."""
    return ENTRY.pack_all(index.entries) + bytes(index.slack_bytes)
