"""Control records: records that brokers and KRaft voters append for each other, and that no application receives.

    key     int16 version (0), int16 type; readers ignore the bytes that a later version may add
      type  0 abort, 1 commit: end of the producer's transaction              int16 version, EndTxnMarker
            2 leader change: the new leader, all voters, who voted for it     LeaderChangeMessage
            3, 4 snapshot header, footer: first, last record of `.checkpoint` SnapshotHeaderRecord, SnapshotFooterRecord
            5 KRaft version                                                   KRaftVersionRecord
            6 KRaft voters: the voter set from this record on (KIP-853)       VotersRecord
    value   the message named above; those of types 2 to 6 begin with their own version

A batch with the control bit holds only control records; a transaction marker is the only record of its batch.
Field tables: schemas/control_records.json.
Source: ControlRecordType, EndTransactionMarker, ControlRecordUtils; KIP-98, KIP-595, KIP-630.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from formats import message
from formats.errors import BadValue, FormatError, UnknownType, UnknownVersion
from formats.fixed import Field, FixedLayout

VERSION = 0


class ControlType(IntEnum):
    """The type of a control record, which its key holds."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @property
    def is_marker(self) -> bool:
        """Whether the record is a transaction marker, which ends a producer's transaction."""
        return self <= ControlType.COMMIT


class ControlRecordKey(NamedTuple):
    """The key of a control record; its type need not be in ControlType."""

    version: int
    type: int


KEY = FixedLayout(
    "control record key",
    ControlRecordKey,
    Field("version", "int16", "0"),
    Field("type", "int16", "the type of the record: see above"),
)

MESSAGES = {
    ControlType.ABORT: "EndTxnMarker",
    ControlType.COMMIT: "EndTxnMarker",
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One control record: its type, the version of its message and the message's fields."""

    type: ControlType
    version: int
    value: dict[str, Any]


def parse_key(key: bytes | None) -> ControlRecordKey:
    """Return the key of a control record; its type need not be in ControlType.

    Raises BadValue, Truncated, UnknownVersion.
    """
    if key is None:
        raise BadValue("a control record without a key")
    parsed = KEY.unpack(key)
    if parsed.version < 0:
        raise UnknownVersion(f"control record key version {parsed.version}", 0)
    return parsed


def parse(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Return the control record that a record's key and value hold.

    Raises FormatError, with positions in key or value.
    """
    number = parse_key(key).type
    if number not in MESSAGES:
        raise UnknownType(f"control record type {number}", 2)
    control_type = ControlType(number)
    if value is None or len(value) < 2:
        raise BadValue(f"a {control_type.name} record whose value has no version", 0)
    version = int.from_bytes(value[:2], signed=True)
    if version < 0:
        raise UnknownVersion(f"{MESSAGES[control_type]} version {version}", 0)
    if not control_type.is_marker:
        return ControlRecord(control_type, version, message.parse(MESSAGES[control_type], version, value))
    try:
        return ControlRecord(control_type, version, message.parse(MESSAGES[control_type], VERSION, value[2:]))
    except FormatError as error:
        raise error.at(2) from None


def build(record: ControlRecord) -> tuple[bytes, bytes]:
    """Return key and value of a control record. Raises FormatError for a value that does not fit its message."""
    prefix = record.version.to_bytes(2, signed=True) if record.type.is_marker else b""
    version = VERSION if record.type.is_marker else record.version
    return KEY.pack((VERSION, record.type)), prefix + message.build(MESSAGES[record.type], version, record.value)
