"""Time index (`.timeindex`): the largest timestamp up to an offset, sparsely.

    entry  12 bytes, big endian, sorted by both, no header
      timestamp        int64   the largest timestamp of the segment up to this point, ms since 1970
      relative_offset  int32   the offset that has it, or a later one, less the base offset of the segment

Entries come with those of the offset index, but only where the largest timestamp grew; the last one is added when the
segment is rolled or closed. Zeros behind the last entry are preallocated slack, as in the offset index. An entry of
zeros is real only where it is the whole file: a segment whose largest timestamp is 0.
Source: TimeIndex in Kafka's storage module.
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
    """The entries of one file, and how many bytes of zeros lie behind them."""

    entries: tuple[TimeIndexEntry, ...]
    slack_bytes: int = 0


def parse(data: bytes) -> TimeIndex:
    """The index that `data` holds; order and truth are not judged. Raises BadLength behind the last whole entry."""
    entries = ENTRY.unpack_all(data)
    used = len(data) if len(data) == ENTRY.size else ENTRY.used(data)
    return TimeIndex(tuple(entries[: used // ENTRY.size]), len(data) - used)


def build(index: TimeIndex) -> bytes:
    """The bytes of an index file. Raises BadValue where a number does not fit."""
    return ENTRY.pack_all(index.entries) + bytes(index.slack_bytes)
