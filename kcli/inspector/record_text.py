"""Records as kafka-dump-log prints them: keys and payloads through its decoders, control records, and its errors.

    decoder              option                          key                        payload
    offsets              --offsets-decoder               {"type":..,"data":{..}}    {"version":..,"data":{..}}
    transaction-log      --transaction-log-decoder         or: Unknown record type    or <DELETE> for a tombstone,
    share-group-state    --share-group-state-decoder       or: Error at offset        nothing if the key is an error
    cluster-metadata     --cluster-metadata-decoder      nothing                    {"type":..,"version":..,"data":{..}}
    remote-log-metadata  --remote-log-metadata-decoder   nothing                    Java's toString of the metadata

The texts are those of Kafka 4.3 to the letter, its error messages included. Source: `DumpLogSegments`,
`CoordinatorRecordSerde`, `AbstractApiMessageSerde`, `RemoteLogMetadataSerde`, `ControlRecordType`.
"""

import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from formats.errors import BadValue, FormatError, Truncated, UnknownType, UnknownVersion
from formats.internal_topic import EMBEDDED, record_types
from formats.java_text import jackson, java_utf8
from formats.message import MessageSchema, read_uvarint, reader
from formats.message_json import json_text, printable, to_json

__all__ = ["DECODERS", "Decoder", "control_text", "decoder", "java_utf8"]

Decoder = Callable[[int, bytes | None, bytes | None], tuple[str | None, str | None]]
"""A function of a record's offset, key and value, which returns the texts after `key: ` and `payload: `; None for a
text that is not printed."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
_END_MARKERS: Final = {0: "ABORT", 1: "COMMIT"}
_CONTROL_MESSAGES: Final = {
    2: ("LeaderChangeMessage", "LeaderChange: "),
    3: ("SnapshotHeaderRecord", "SnapshotHeader "),
    4: ("SnapshotFooterRecord", "SnapshotFooter "),
    5: ("KRaftVersionRecord", "KRaftVersion "),
    6: ("VotersRecord", "KRaftVoters "),
}


def decoder(name: str) -> Decoder:
    """Return the decoder of that name, one of DECODERS. The decoder raises BadValue for a record without a key: Kafka's
    tool ends with an exception at such a record."""
    return DECODERS[name]


def control_text(key: bytes | None, value: bytes | None) -> str:
    """Return what Kafka's tool prints of a control record after `headerKeys: [..]`; the text begins with a space.

    Raises FormatError if Kafka's tool ends with an exception before it prints any of this text.
    """
    control_type = _control_type(key)
    if control_type not in _END_MARKERS and control_type not in _CONTROL_MESSAGES:
        return f" controlType: UNKNOWN({control_type})"
    if value is None:
        raise BadValue("a control record without a value")
    if control_type in _END_MARKERS:
        if len(value) < 2:
            raise Truncated("the bytes end inside the version of an end transaction marker", 0)
        version = _INT16.unpack_from(value)[0]
        if version < 0:
            raise UnknownVersion(f"end transaction marker of version {version}", 0)
        if len(value) < 6:
            raise Truncated("the bytes end inside the coordinator epoch", 2)
        return f" endTxnMarker: {_END_MARKERS[control_type]} coordinatorEpoch: {_INT32.unpack_from(value, 2)[0]}"
    message, title = _CONTROL_MESSAGES[control_type]
    decoded, _ = reader(message, 0)(value, 0)
    return f" {title}{jackson(to_json(message, decoded['version'], decoded))}"


def _control_type(key: bytes | None) -> int:
    if key is None:
        raise BadValue("a control record without a key")
    if len(key) < 4:
        raise Truncated(f"the key of a control record has {len(key)} bytes, not 4", 0)
    version = _INT16.unpack_from(key)[0]
    if version < 0:
        raise UnknownVersion(f"control record key of version {version}", 0)
    control_type: int = _INT16.unpack_from(key, 2)[0]
    return control_type


def _message_of(error: FormatError) -> str:
    """The message of the exception that Kafka throws for `error`: "null" if the bytes end too early
    (BufferUnderflowException)."""
    return "null" if isinstance(error, Truncated) else error.reason


def _coordinator(topic: str) -> Decoder:
    def decode(offset: int, key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if key is None:
            raise BadValue(
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
        try:
            return _coordinator_record(record_types(topic), key, value)
        except UnknownType as error:
            return f"Unknown record type {error.reason} at offset {offset}, skipping.", None
        except FormatError as error:
            return f"Error at offset {offset}, skipping. {error.reason}", None

    return decode


def _coordinator_record(
    types: dict[int, tuple[MessageSchema, MessageSchema]], key: bytes, value: bytes | None
) -> tuple[str, str]:
    record_type = _leading_int16(key, "key")
    if record_type not in types:
        raise UnknownType(str(record_type))
    key_schema, value_schema = types[record_type]
    # Kafka uses the record type as the version of the key, which shows only in the error for a key that cannot be read.
    data = _message_behind_int16(key_schema.name, record_type, key, "key")
    key_text = f'{{"type":"{record_type}","data":{json_text(key_schema.name, 0, data)}}}'
    if value is None:
        return key_text, "<DELETE>"
    version = _leading_int16(value, "value")
    if version not in value_schema.versions:
        raise UnknownVersion(f"Found an unknown record version {version} for {record_type} type")
    data = _message_behind_int16(value_schema.name, version, value, "value")
    if value_schema.name == "GroupMetadataValue" and data["protocolType"] == "consumer":
        for member in data["members"]:
            _print_embedded(member)
    return key_text, f'{{"version":"{version}","data":{json_text(value_schema.name, version, data)}}}'


def _leading_int16(data: bytes, part: str) -> int:
    if len(data) < 2:
        raise BadValue(f"Could not read version from {part}'s buffer.")
    number: int = _INT16.unpack_from(data)[0]
    return number


def _message_behind_int16(name: str, version: int, data: bytes, part: str) -> dict[str, Any]:
    try:
        return reader(name, version)(data, 2)[0]
    except FormatError as error:
        reason = f"Could not read record with version {version} from {part}'s buffer due to: {_message_of(error)}."
        raise BadValue(reason) from None


def _print_embedded(member: dict[str, Any]) -> None:
    """Replace a member's subscription and assignment with their JSON text; bytes that do not parse stay (shown as
    base64)."""
    for field, message in EMBEDDED.items():
        raw = member[field]
        try:
            version = _leading_int16(raw, field)
            member[field] = json_text(message, version, reader(message, version)(raw, 2)[0])
        except FormatError:
            continue


def _cluster_metadata(offset: int, _key: bytes | None, value: bytes | None) -> tuple[None, str]:
    try:
        message, version, data = _framed("__cluster_metadata", value)
    except FormatError as error:
        return None, f"Error at {offset}, skipping. {error.reason}"
    text = json_text(message.name, version, data)
    return None, f'{{"type":"{_enum_name(message.name)}","version":{version},"data":{text}}}'


def _remote_log_metadata(offset: int, _key: bytes | None, value: bytes | None) -> tuple[None, str]:
    if value is None:
        reason = (
            'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
            '"org.apache.kafka.common.record.internal.Record.value()" is null'
        )
        return None, f"Error at offset {offset}, skipping. {reason}"
    try:
        message, _, data = _framed("__remote_log_metadata", value)
        return None, _REMOTE[message.name](data)
    except FormatError as error:
        return None, f"Error at offset {offset}, skipping. {error.reason}"


def _framed(topic: str, value: bytes | None) -> tuple[MessageSchema, int, dict[str, Any]]:
    frame, position = _frame_part(value, 0, "frame version")
    if frame == 0:
        raise UnknownVersion(
            "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview release "
            "of KRaft in 2.8 to newer versions are not supported."
        )
    if frame != 1:
        raise UnknownVersion(
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            "(only frame version 1 is supported)"
        )
    record_type, position = _frame_part(value, position, "type")
    version, position = _frame_part(value, position, "version")
    known = record_types(topic).get(record_type)
    if known is None:
        reason = f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {record_type}"
        raise UnknownType(reason)
    assert value is not None
    try:
        data, end = reader(known[1].name, version)(value, position)
    except FormatError:
        raise BadValue(f"Failed to deserialize record with type {record_type}") from None
    if end < len(value):
        raise BadValue(f"Found {len(value) - end} byte(s) of garbage after {record_type}")
    return known[1], version, data


def _frame_part(value: bytes | None, position: int, entity: str) -> tuple[int, int]:
    try:
        number, position = read_uvarint(value or b"", position)
    except FormatError:
        raise BadValue(f"Error while reading {entity}") from None
    if number > 0x7FFF:
        raise BadValue(f"Value for {entity} was too large.")
    # Kafka casts the number to a short, which may be negative.
    return ((number + 0x8000) & 0xFFFF) - 0x8000, position


@cache
def _enum_name(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def _segment_metadata(data: dict[str, Any]) -> str:
    start, end, epochs = data["startOffset"], data["endOffset"], data["segmentLeaderEpochs"]
    if start < 0:
        raise BadValue(f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative")
    if end < start:
        raise BadValue(
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
    if not epochs:
        raise BadValue("segmentLeaderEpochs can not be null or empty")
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(data['remoteLogSegmentId'])}, startOffset={start}, "
        f"endOffset={end}, brokerId={data['brokerId']}, maxTimestampMs={data['maxTimestampMs']}, "
        f"eventTimestampMs={data['eventTimestampMs']}, segmentLeaderEpochs={_epochs(epochs)}, "
        f"segmentSizeInBytes={data['segmentSizeInBytes']}, customMetadata={_custom(data)}, "
        f"state={_segment_state(data)}, txnIdxEmpty={_boolean(data['txnIndexEmpty'])}}}"
    )


def _segment_update(data: dict[str, Any]) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(data['remoteLogSegmentId'])}, "
        f"customMetadata={_custom(data)}, state={_segment_state(data)}, "
        f"eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
    )


def _segment_snapshot(data: dict[str, Any]) -> str:
    state = _segment_state(data)
    epochs = data["segmentLeaderEpochs"]
    if not epochs:
        raise BadValue("segmentLeaderEpochs can not be null or empty")
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={data['segmentId']}, startOffset={data['startOffset']}, "
        f"endOffset={data['endOffset']}, maxTimestampMs={data['maxTimestampMs']}, "
        f"segmentLeaderEpochs={_epochs(epochs)}, segmentSizeInBytes={data['segmentSizeInBytes']}, "
        f"customMetadata={_custom(data)}, state={state}, txnIdxEmpty={_boolean(data['txnIndexEmpty'])}}}"
    )


def _partition_delete(data: dict[str, Any]) -> str:
    state = data["remotePartitionDeleteState"]
    if not 0 <= state < len(_PARTITION_STATES):
        raise BadValue("null")
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_topic_id_partition(data['topicIdPartition'])}, "
        f"state={_PARTITION_STATES[state]}, eventTimestampMs={data['eventTimestampMs']}, brokerId={data['brokerId']}}}"
    )


_REMOTE: Final = {
    "RemoteLogSegmentMetadataRecord": _segment_metadata,
    "RemoteLogSegmentMetadataUpdateRecord": _segment_update,
    "RemotePartitionDeleteMetadataRecord": _partition_delete,
    "RemoteLogSegmentMetadataSnapshotRecord": _segment_snapshot,
}


def _segment_id(entry: dict[str, Any]) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_id_partition(entry['topicIdPartition'])}, id={entry['id']}}}"


def _topic_id_partition(entry: dict[str, Any]) -> str:
    return f"{entry['id']}:{printable(entry['name'])}-{entry['partition']}"


def _epochs(entries: list[dict[str, Any]]) -> str:
    by_epoch = {entry["leaderEpoch"]: entry["offset"] for entry in entries}
    return "{" + ", ".join(f"{epoch}={by_epoch[epoch]}" for epoch in sorted(by_epoch)) + "}"


def _custom(data: dict[str, Any]) -> str:
    raw = data["customMetadata"]
    return "Optional.empty" if raw is None else f"Optional[CustomMetadata{{{len(raw)} bytes}}]"


def _segment_state(data: dict[str, Any]) -> str:
    state = data["remoteLogSegmentState"]
    if not 0 <= state < len(_SEGMENT_STATES):
        raise BadValue("state can not be null")
    return _SEGMENT_STATES[state]


def _boolean(value: bool) -> str:
    return "true" if value else "false"


DECODERS: Final[dict[str, Decoder]] = {
    "offsets": _coordinator("__consumer_offsets"),
    "transaction-log": _coordinator("__transaction_state"),
    "cluster-metadata": _cluster_metadata,
    "share-group-state": _coordinator("__share_group_state"),
    "remote-log-metadata": _remote_log_metadata,
}
"""The decoders by NAME of the option --NAME-decoder."""
