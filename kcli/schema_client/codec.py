"""The codec of a schema: converts single values between the encoding of the schema's format and JSON."""

from __future__ import annotations

from typing import Any, Protocol

from kcli.schema_client.sources import SchemaSource


class BadPayload(ValueError):
    """Bytes that are not in the encoding of their schema."""


class BadValue(ValueError):
    """A JSON value that does not fit its schema. The message begins with the path to the part that does not fit."""


class Codec(Protocol):
    """Decodes and encodes values of one schema. Both methods may be called by several threads."""

    @property
    def message_indexes(self) -> bytes:
        """The bytes between the schema's id and an encoded value: the message indexes of Protobuf; b"" for other
        formats."""

    def decode(self, data: bytes) -> Any:
        """Decode a value, which json.dumps can serialize. data: the encoded value, without schema id and message
        indexes. Raises BadPayload."""

    def encode(self, value: Any) -> bytes:
        """Encode a value that json.loads has returned. Raises BadValue."""


class Language(Protocol):
    """A module of this package: avro, protobuf, json_schema."""

    def codec(self, source: SchemaSource, indexes: tuple[int, ...]) -> Codec:
        """Return the codec of a schema. indexes: Protobuf's message indexes; () for the message that the source names,
        else the first one; other formats have none. Raises SchemaError, NotInstalled."""
