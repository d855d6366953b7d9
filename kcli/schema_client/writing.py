"""Encodes JSON as keys and values of records, by one schema: magic 0, the schema's id, message indexes, the encoded
value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kcli.schema_client.client import RegistryClient
from kcli.schema_client.codec import Codec
from kcli.schema_client.reading import language_of
from kcli.schema_client.sources import RegisteredSchema, Registry, source_of


@dataclass(frozen=True, slots=True)
class PayloadWriter:
    """Encodes values by a schema of a registry. subject: the subject under which the schema is registered."""

    codec: Codec
    schema_id: int
    subject: str

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a key or value. value: as json.loads returns it. Raises BadValue."""
        return b"\0" + self.schema_id.to_bytes(4) + self.codec.message_indexes + self.codec.encode(value)


def writer_of_file(
    client: RegistryClient, registry: Registry, subject: str, schema: RegisteredSchema, message: str | None
) -> PayloadWriter:
    """Register a schema under a subject, unless the subject has it already, and return its writer. message: the name of
    a Protobuf message, None for the first one. Raises SchemaError, before the schema is registered, if it cannot be
    used to encode values; RegistryError; Incompatible."""
    codec = _codec(registry, schema, message)
    return PayloadWriter(codec, client.register(subject, schema), subject)


def writer_of_subject(
    client: RegistryClient, registry: Registry, subject: str, version: int | str, message: str | None
) -> PayloadWriter:
    """Return the writer for a version of a subject. message: as for writer_of_file. Raises SchemaError, RegistryError,
    Missing."""
    found = client.version(subject, version)
    return PayloadWriter(_codec(registry, found.schema, message), found.id, subject)


def _codec(registry: Registry, schema: RegisteredSchema, message: str | None) -> Codec:
    source = replace(source_of(registry, schema), message=message)
    return language_of(schema.language).codec(source, ())
