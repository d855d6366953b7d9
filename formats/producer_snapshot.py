"""Producer snapshot (`.snapshot`): the state of a partition's producers as of an offset.

    header  10 bytes, big endian
      version  int16    1, the only one that Kafka 4.3 has
      crc      uint32   CRC-32C of all bytes behind it
      entries  int32    number of entries
    entry   46 bytes, in no order
      producer_id               int64   assigned by the coordinator
      producer_epoch            int16   latest epoch in the log
      last_sequence             int32   last sequence number of its last batch, -1 if none is known
      last_offset               int64   last offset of that batch, -1 if none
      offset_delta              int32   last less first offset of that batch
      timestamp                 int64   max timestamp of that batch, or of the marker behind it, ms
      coordinator_epoch         int32   coordinator epoch of the last marker, -1 if none
      current_txn_first_offset  int64   first offset of its open transaction, -1 if none is open

The offset in the file's name is exclusive: the state is that of the records below it. Kafka writes a snapshot when it
rolls a segment and when it closes a log, and on loading replays only the records behind the latest one. Source:
ProducerStateManager in Kafka's storage module, KIP-98.
"""

from dataclasses import dataclass
from typing import NamedTuple

from formats.crc32c import crc32c
from formats.errors import BadChecksum, BadCount, Truncated, UnknownVersion
from formats.fixed import Field, FixedLayout

VERSION = 1
CRC_AT = 2
CRC_FROM = 6


class SnapshotHeader(NamedTuple):
    """The ten bytes before the entries."""

    version: int
    crc: int
    entries: int


class ProducerEntry(NamedTuple):
    """The state of one producer; -1 stands for none, times are milliseconds since 1970."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


HEADER = FixedLayout(
    "producer snapshot header",
    SnapshotHeader,
    Field("version", "int16", "1"),
    Field("crc", "uint32", "CRC-32C of all that follows"),
    Field("entries", "int32", "how many follow"),
)

ENTRY = FixedLayout(
    "producer entry",
    ProducerEntry,
    Field("producer_id", "int64", "assigned by the coordinator"),
    Field("producer_epoch", "int16", "latest epoch of the producer"),
    Field("last_sequence", "int32", "of its last batch, -1 if none is known"),
    Field("last_offset", "int64", "last offset of that batch, -1 if none"),
    Field("offset_delta", "int32", "last less first offset of that batch"),
    Field("timestamp", "int64", "max timestamp of that batch, or of the marker behind it, ms"),
    Field("coordinator_epoch", "int32", "of the last marker, -1 if none"),
    Field("current_txn_first_offset", "int64", "where its open transaction begins, -1 if none is open"),
)


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """The entries of one snapshot, in the order of the file."""

    entries: tuple[ProducerEntry, ...]


def parse(data: bytes) -> ProducerSnapshot:
    """Return the snapshot that `data` holds. Raises Truncated, UnknownVersion, BadCount, BadChecksum."""
    if len(data) >= 2 and (version := int.from_bytes(data[:2], signed=True)) != VERSION:
        raise UnknownVersion(f"producer snapshot version {version}, not {VERSION}", 0)
    header = HEADER.unpack(data)
    size = HEADER.size + header.entries * ENTRY.size
    if header.entries < 0 or size < len(data):
        raise BadCount(f"a count of {header.entries:,} entries in {len(data):,} bytes", CRC_FROM)
    if size > len(data):
        raise Truncated(f"{header.entries:,} entries take {size:,} bytes, {size - len(data):,} are missing", CRC_FROM)
    computed = crc32c(data[CRC_FROM:])
    if computed != header.crc:
        raise BadChecksum(f"CRC is 0x{header.crc:08x}, bytes give 0x{computed:08x}", CRC_AT)
    return ProducerSnapshot(tuple(ENTRY.unpack_all(data[HEADER.size :])))


def build(snapshot: ProducerSnapshot) -> bytes:
    """Return the bytes of a snapshot, CRC included. Raises BadValue for a number that does not fit its field."""
    entries = ENTRY.pack_all(snapshot.entries)
    covered = len(snapshot.entries).to_bytes(4) + entries
    return HEADER.pack((VERSION, crc32c(covered), len(snapshot.entries)))[:CRC_FROM] + covered
