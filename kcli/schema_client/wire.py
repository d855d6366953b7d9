"""Confluent's wire format: which schema a record's key or value was written with.

    before the payload    byte 0   magic 0
                          int32    id of the schema, big endian
                          ...      Protobuf: the message indexes
    in a header           byte 0   magic 1, then the 16 bytes of the schema's GUID; or magic 0 and its id
                          ...      Protobuf: the message indexes
                          the payload then has nothing before it

    message indexes       zigzag   their number, then each, outermost message first; one byte 0 for the first message

The headers are `__key_schema_id` and `__value_schema_id`, of clients 8.0 and later. Source: Confluent, "Wire Format".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kcli.schema_client.codec import BadPayload

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
INDEXES_MAX = 100
"""The greatest depth of a nested message."""


class SchemaId(NamedTuple):
    """The id of a schema in a key, value or header. id: the id, or the GUID as text. at: the byte after it."""

    id: int | str
    at: int


def schema_id(data: bytes) -> SchemaId:
    """Return the schema id with which the bytes begin. Raises BadPayload."""
    if data[:1] == b"\0":
        if len(data) < 5:
            raise BadPayload("the schema's id is cut off")
        return SchemaId(int.from_bytes(data[1:5], signed=True), 5)
    if data[:1] == b"\1":
        if len(data) < 17:
            raise BadPayload("the schema's GUID is cut off")
        return SchemaId(str(UUID(bytes=data[1:17])), 17)
    raise BadPayload("no schema's id: it does not begin with a byte 0" if data else "no schema's id: it is empty")


def message_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the message indexes in `data` from byte `at` on, and the byte after them. Raises BadPayload."""
    count, at = _zigzag(data, at)
    if not 0 <= count <= INDEXES_MAX:
        raise BadPayload(f"{count} message indexes")
    found = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        found.append(index)
    return tuple(found) or (0,), at


def header_of(headers: Iterable[tuple[str, bytes | None]], name: str) -> bytes | None:
    """Return the value of the last header with this name, as Kafka's clients do; None if there is none."""
    found = None
    for each, value in headers:
        if each == name:
            found = value
    return found


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + 5, len(data))):
        value |= (data[position] & 0x7F) << shift
        if data[position] < 0x80:
            return value >> 1 ^ -(value & 1), position + 1
        shift += 7
    raise BadPayload("the message indexes are cut off")
