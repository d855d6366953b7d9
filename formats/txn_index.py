"""Transaction index (`.txnindex`): the aborted transactions that end in the segment.

    entry  34 bytes, big endian, in the order of the abort markers, no header
      version             int16   0
      producer_id         int64   whose transaction
      first_offset        int64   of its first record, perhaps in an earlier segment
      last_offset         int64   of its abort marker
      last_stable_offset  int64   as it was when the marker was appended: no transaction below it is open

The file exists only where there is an entry, or was one. Consumers with read_committed skip what it lists.
Source: AbortedTxn and TransactionIndex in Kafka's storage module; KIP-98.
"""

from typing import NamedTuple

from formats.errors import UnknownVersion
from formats.fixed import Field, FixedLayout

VERSION = 0


class AbortedTxn(NamedTuple):
    """One aborted transaction; all offsets absolute, `last_offset` that of the marker."""

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
    """The aborted transactions in `data`. Raises BadLength behind the last whole entry, UnknownVersion at one."""
    entries = ENTRY.unpack_all(data)
    for index, entry in enumerate(entries):
        if entry.version != VERSION:
            raise UnknownVersion(f"transaction index version {entry.version}, not {VERSION}", index * ENTRY.size)
    return tuple(entries)


def build(entries: tuple[AbortedTxn, ...]) -> bytes:
    """The bytes of a transaction index. Raises BadValue where a number does not fit."""
    return ENTRY.pack_all(entries)
