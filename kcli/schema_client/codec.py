"""What a format makes of one schema: a codec of single values, between the format's encoding and JSON."""

from __future__ import annotations

from typing import Any, Protocol

from kcli.schema_client.sources import SchemaSource


class BadPayload(ValueError):
    """Bytes that are not in the encoding of their schema."""


class BadValue(ValueError):
    """A JSON value that does not fit its schema. The message begins with the path to the part that does not fit."""


class Codec(Protocol):
    """One schema's values. Both methods may be called by several threads."""

    @property
    def message_indexes(self) -> bytes:
        """What stands between the schema's id and an encoded value: the message indexes of Protobuf; else b""."""

    def decode(self, data: bytes) -> Any:
        """Return a value as json.dumps takes it. data: without schema id and message indexes. Raises BadPayload."""

    def encode(self, value: Any) -> bytes:
        """Return the encoding of a value as json.loads returns it. Raises BadValue."""


class Language(Protocol):
    """A module of this package: avro, protobuf, json_schema."""

    def codec(self, source: SchemaSource, indexes: tuple[int, ...]) -> Codec:
        """Return the codec of a schema. indexes: Protobuf's message indexes; () for the message that the source names,
        else the first one; other formats have none. Raises SchemaError, NotInstalled."""
