"""Parse and build messages: the records, keys and data structures of Kafka's schemas, in any version.

A value is a plain dict with the fields of that version in schema order, under Kafka's JSON names:

    bool, int8 .. int64, uint16, uint32   bool, int      float64  float
    string   str; bytes that are not UTF-8 become lone surrogates (surrogateescape), which `build` turns back
    bytes    bytes                                       uuid     22 characters of url-safe base64, as Kafka prints it
    array    list        struct   dict                   null     None
    unknown tagged fields        a list of (tag, bytes) under UNKNOWN_TAGS, if there are any

`parse` uses the compiled reader, `build` the Construct definition, which is imported at first use. For bytes that Kafka
wrote, `build` of the parsed value returns the same bytes. Source: Kafka's message generator; KIP-482 for tagged fields.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from formats.errors import BadLength
from formats.message_compiler import Reader, compile_reader, read_uvarint, uuid_bytes, uuid_text
from formats.message_json import json_text, to_json
from formats.message_schema import UNKNOWN_TAGS, Layout, MessageSchema, Versions, schema, schema_files, schemas

if TYPE_CHECKING:
    from formats.message_construct import Fields

__all__ = [
    "UNKNOWN_TAGS",
    "Layout",
    "MessageSchema",
    "Reader",
    "Versions",
    "build",
    "definition",
    "json_text",
    "parse",
    "read_uvarint",
    "reader",
    "schema",
    "schema_files",
    "schemas",
    "to_json",
    "uuid_bytes",
    "uuid_text",
]


def parse(name: str, version: int, data: bytes | memoryview) -> dict[str, Any]:
    """Return the value of the message that fills `data`.

    name: the message's name in Kafka's schemas ("OffsetCommitValue"). Raises UnknownType for a name that no schema has,
    UnknownVersion, BadLength for bytes behind the message, and other FormatErrors with their position in `data`.
    """
    schema(name).check(version)
    raw = bytes(data)
    value, end = reader(name, version)(raw, 0)
    if end < len(raw):
        raise BadLength(f"{len(raw) - end} bytes behind {name}", end)
    return value


def build(name: str, version: int, value: dict[str, Any]) -> bytes:
    """Return the bytes of a message. A field that `value` lacks has its default.

    Raises UnknownType, UnknownVersion, and BadValue or BadLength, without a position, for a value that the schema does
    not allow.
    """
    schema(name).check(version)
    return definition(name, version).build(value)


@cache
def reader(name: str, version: int) -> Reader:
    """Return the compiled reader of a message: a function of bytes and of the position where a message begins, which
    returns the message's value and the position behind the message.

    A version that the message does not have is read as Kafka's classes read it: as the nearest version, but with
    UnknownVersion at the first struct that refuses the version (message_schema.Struct).
    """
    message = schema(name)
    layout = message.layout(version)
    return compile_reader(layout) if layout.version == version else reader(name, layout.version)


@cache
def definition(name: str, version: int) -> "Fields":
    """Return the Construct of a message in one of its versions. Raises UnknownType, UnknownVersion."""
    from formats.message_construct import message_construct

    schema(name).check(version)
    return message_construct(schema(name).layout(version))
