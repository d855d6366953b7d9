"""Records of Kafka's internal topics: decode and encode their keys and values.

    topic                  key                           value
    __consumer_offsets     type int16, message (v0)      version int16, message; null: tombstone
    __transaction_state    type int16, message (v0)      version int16, message; null: tombstone
    __share_group_state    type int16, message (v0)      version int16, message; null: tombstone
    __cluster_metadata     null                          frame 1, type, version as unsigned varints, message
    __remote_log_metadata  null                          frame 1, type, version as unsigned varints, message

In a GroupMetadataValue whose protocolType is "consumer", the subscription and assignment of each member are messages
of their own (version int16, message): they become {"version", "data"}, or stay bytes if they do not parse.
Kafka's coordinators ignore bytes behind a message; they are kept in `key_rest` and `value_rest`. Behind a metadata
record they are an error. Source: `CoordinatorRecordSerde`, `AbstractApiMessageSerde`, `ConsumerProtocol`.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from formats.errors import BadLength, BadValue, FormatError, Truncated, UnknownType, UnknownVersion
from formats.message import MessageSchema, build, parse, read_uvarint, reader, schemas
from formats.message import to_json as message_json
from formats.varint import uvarint

FRAME_VERSION: Final = 1
"""The only frame version of metadata records."""

EMBEDDED: Final = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}
"""The fields of a classic group's member that hold a message of the consumer protocol -> the message's name."""

_COORDINATORS: Final = {
    "__consumer_offsets": "consumer_offsets",
    "__transaction_state": "transaction_state",
    "__share_group_state": "share_group_state",
}
_FRAMED: Final = {"__cluster_metadata": "cluster_metadata", "__remote_log_metadata": "remote_log_metadata"}
T = TypeVar("T")
_INT16: Final = struct.Struct(">h")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedRecord:
    """A record of an internal topic.

    `key_type`: the id of the record type; metadata records have it in their value. `key_name` and `key`: name and
    fields of the key's message, None for a metadata record. `value_version`, `value_name` and `value`: version, name
    and fields of the value's message; version and fields are None for a tombstone. Fields are as
    `formats.message.parse` returns them.
    """

    key_type: int
    key_name: str | None
    key: dict[str, Any] | None
    value_version: int | None
    value_name: str
    value: dict[str, Any] | None
    key_rest: bytes = b""
    value_rest: bytes = b""


def is_internal(topic: str) -> bool:
    """Whether `decode` knows the records of this topic."""
    return topic in _COORDINATORS or topic in _FRAMED


def decode(topic: str, key: bytes | None, value: bytes | None) -> DecodedRecord:
    """Return the fields of one record that is not a control record. The key of a metadata record is ignored.

    Raises UnknownType, UnknownVersion, BadLength for bytes behind a metadata record, BadValue for a missing key or
    value and for any other topic, and other FormatErrors. For a fault within the key or the value, the error's reason
    begins with "key" or "value", and its position is in that part.
    """
    if topic in _FRAMED:
        if value is None:
            raise BadValue(f"a record of {topic} without a value")
        return _within("value", _decode_framed, topic, value)
    if topic not in _COORDINATORS:
        raise BadValue(f"{topic} is not an internal topic")
    if key is None:
        raise BadValue(f"a record of {topic} without a key")
    key_type, key_schema, decoded_key, key_rest = _within("key", _decode_key, topic, key)
    value_schema = record_types(topic)[key_type][1]
    version, decoded, value_rest = (
        (None, None, b"") if value is None else _within("value", _decode_value, value_schema, value)
    )
    return DecodedRecord(
        key_type=key_type,
        key_name=key_schema.name,
        key=decoded_key,
        value_version=version,
        value_name=value_schema.name,
        value=decoded,
        key_rest=key_rest,
        value_rest=value_rest,
    )


def encode(topic: str, record: DecodedRecord) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of a record, the inverse of `decode`.

    Raises FormatError for a value that the schema does not allow.
    """
    if topic in _FRAMED:
        if record.value is None or record.value_version is None:
            raise BadValue(f"a record of {topic} without a value")
        frame = b"".join(_framed(each) for each in (FRAME_VERSION, record.key_type, record.value_version))
        return None, frame + build(record.value_name, record.value_version, record.value)
    if topic not in _COORDINATORS:
        raise BadValue(f"{topic} is not an internal topic")
    if record.key is None or record.key_name is None:
        raise BadValue(f"a record of {topic} without a key")
    key = _int16(record.key_type) + build(record.key_name, 0, record.key) + record.key_rest
    if record.value is None or record.value_version is None:
        return key, None
    raw = build(record.value_name, record.value_version, _build_members(record.value_name, record.value))
    return key, _int16(record.value_version) + raw + record.value_rest


def to_json(record: DecodedRecord) -> dict[str, Any]:
    """Return a decoded record as a JSON tree, under the names of DecodedRecord's fields.

    Keys and values are as Kafka's JSON converters print them, embedded messages are {"version": ..., "data": ...}.
    Bytes behind a message are left out.
    """
    value = None
    if record.value is not None and record.value_version is not None:
        value = _value_json(record.value_name, record.value_version, record.value)
    return {
        "key_type": record.key_type,
        "key_name": record.key_name,
        "key": None if record.key is None or record.key_name is None else message_json(record.key_name, 0, record.key),
        "value_version": record.value_version,
        "value_name": record.value_name,
        "value": value,
    }


@cache
def record_types(topic: str) -> dict[int, tuple[MessageSchema, MessageSchema]]:
    """Return the schemas of key and value by record type id; for a metadata topic both are the schema of the value."""
    messages = schemas(_FRAMED.get(topic) or _COORDINATORS[topic])
    keys = {each.api_key: each for each in messages if each.type in ("coordinator-key", "metadata")}
    values = {each.api_key: each for each in messages if each.type in ("coordinator-value", "metadata")}
    return {type_id: (keys[type_id], value) for type_id, value in values.items() if type_id is not None}


def _within(part: str, function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except FormatError as error:
        raise type(error)(f"{part}: {error.reason}", error.position) from None


def _decode_key(topic: str, key: bytes) -> tuple[int, MessageSchema, dict[str, Any], bytes]:
    key_type = _read_int16(key, "the record type")
    known = record_types(topic).get(key_type)
    if known is None:
        raise UnknownType(f"{topic} has no record type {key_type}", 0)
    decoded, end = reader(known[0].name, 0)(key, 2)
    return key_type, known[0], decoded, key[end:]


def _decode_value(message: MessageSchema, value: bytes) -> tuple[int, dict[str, Any], bytes]:
    version = _read_int16(value, "the version")
    message.check(version)
    decoded, end = reader(message.name, version)(value, 2)
    _parse_members(message.name, decoded)
    return version, decoded, value[end:]


def _decode_framed(topic: str, value: bytes) -> DecodedRecord:
    frame, position = read_uvarint(value, 0, "the frame version")
    if frame != FRAME_VERSION:
        raise UnknownVersion(f"frame version {frame}, not {FRAME_VERSION}", 0)
    type_at = position
    key_type, position = read_uvarint(value, position, "the record type")
    known = record_types(topic).get(key_type)
    if known is None:
        raise UnknownType(f"{topic} has no record type {key_type}", type_at)
    version, begin = read_uvarint(value, position, "the version")
    if version not in known[1].versions:
        raise UnknownVersion(f"{known[1].name} has no version {version}, only {known[1].versions}", position)
    decoded, end = reader(known[1].name, version)(value, begin)
    if end < len(value):
        raise BadLength(f"{len(value) - end} bytes behind {known[1].name}", end)
    return DecodedRecord(
        key_type=key_type, key_name=None, key=None, value_version=version, value_name=known[1].name, value=decoded
    )


def _parse_members(name: str, value: dict[str, Any]) -> None:
    if name != "GroupMetadataValue" or value["protocolType"] != "consumer":
        return
    for member in value["members"]:
        for field, message in EMBEDDED.items():
            raw = member[field]
            try:
                version = _read_int16(raw, "the version")
                member[field] = {"version": version, "data": parse(message, version, raw[2:])}
            except FormatError:
                continue


def _build_members(name: str, value: dict[str, Any]) -> dict[str, Any]:
    if name != "GroupMetadataValue":
        return value
    return value | {"members": [_build_member(member) for member in value.get("members", [])]}


def _build_member(member: dict[str, Any]) -> dict[str, Any]:
    built = dict(member)
    for field, message in EMBEDDED.items():
        match member.get(field):
            case {"version": int(version), "data": dict(data)}:
                built[field] = _int16(version) + build(message, version, data)
    return built


def _value_json(name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
    if name != "GroupMetadataValue":
        return message_json(name, version, value)
    bare = [
        member | {field: b"" for field in EMBEDDED if isinstance(member[field], dict)} for member in value["members"]
    ]
    node = message_json(name, version, value | {"members": bare})
    for printed, member in zip(node["members"], value["members"], strict=True):
        for field, message in EMBEDDED.items():
            match member[field]:
                case {"version": int(its_version), "data": dict(data)}:
                    printed[field] = {"version": its_version, "data": message_json(message, its_version, data)}
    return node


def _read_int16(data: bytes, name: str) -> int:
    if len(data) < 2:
        raise Truncated(f"the bytes end inside {name}", 0)
    number: int = _INT16.unpack_from(data)[0]
    return number


def _int16(number: int) -> bytes:
    if not -0x8000 <= number < 0x8000:
        raise BadValue(f"{number} is beyond int16")
    return _INT16.pack(number)


def _framed(number: int) -> bytes:
    if not 0 <= number < 0x8000:
        raise BadValue(f"{number} is neither a record type nor a version")
    return uvarint(number)
