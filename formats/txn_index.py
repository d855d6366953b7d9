"""Transaction index (`.txnindex`): the aborted transactions that end in the segment.

    entry  34 bytes, big endian, in the order of the abort markers, no header
      version             int16   0
      producer_id         int64   producer of the transaction
      first_offset        int64   offset of its first record, perhaps in an earlier segment
      last_offset         int64   offset of its abort marker
      last_stable_offset  int64   last stable offset when the marker was appended

Kafka creates the file with its first entry. Consumers with isolation.level=read_committed skip the records of the
transactions that it lists.
Source: AbortedTxn and TransactionIndex in Kafka's storage module; KIP-98.
"""

from typing import NamedTuple

from formats.errors import UnknownVersion
from formats.fixed import Field, FixedLayout

VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction. All offsets are absolute; `last_offset` is that of the abort marker."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


ENTRY = FixedLayout(
    "aborted transaction",
    AbortedTxn,
    Field("version", "int16", "0"),
    Field("producer_id", "int64", "whose transaction"),
    Field("first_offset", "int64", "of its first record, perhaps in an earlier segment"),
    Field("last_offset", "int64", "of its abort marker"),
    Field("last_stable_offset", "int64", "as it was when the marker was appended"),
)


def parse(data: bytes) -> tuple[AbortedTxn, ...]:
    """Return the aborted transactions in `data`.

    Raises BadLength if `data` is not a whole number of entries, with the end of the last whole entry as its position;
    UnknownVersion at an entry of another version.
    """
    entries = ENTRY.unpack_all(data)
    for index, entry in enumerate(entries):
        if entry.version != VERSION:
            raise UnknownVersion(f"transaction index version {entry.version}, not {VERSION}", index * ENTRY.size)
    return tuple(entries)


def build(entries: tuple[AbortedTxn, ...]) -> bytes:
    """Return the bytes of a transaction index. Raises BadValue for a number that does not fit its field."""
    return ENTRY.pack_all(entries)
