"""Serdes of Avro, Protobuf and JSON Schema, with the schemas of a registry.

    schemas = SchemaRegistry("http://localhost:8081")
    orders = schemas.avro("orders-value", ORDER)       # registered with the first value, unless the subject has it
    prices = schemas.of_subject("prices-value")        # the latest version of a subject

Bytes are in Confluent's wire format, and are read by the schema with which they were written. Values are what
json.loads returns: a record or message is a dict. A value of an Avro union has its type's name, {"string": "x"}, when
it is read, and need not have it when it is written; Avro's bytes are text of as many characters, Protobuf's are Base64.
Nothing is asked of the registry before the first record. Needs the extra `registry`. Source: AbstractKafkaSchemaSerDe
of Confluent.
"""

from __future__ import annotations

from typing import Any

from kcli.schema_client.client import RegistryClient
from kcli.schema_client.http import DEFAULT, Access, HttpTransport
from kcli.schema_client.reading import PayloadReader
from kcli.schema_client.registry import TransportRegistry
from kcli.schema_client.sources import RegisteredSchema
from kcli.schema_client.writing import PayloadWriter, writer_of_file, writer_of_subject
from kcli.streams.serdes import Serde

LATEST = "latest"


class SchemaRegistry:
    """A registry with Confluent's API. url: may contain user and password. access: a login and authorities of TLS. It
    can be pickled, and so can its serdes: workers of Spark connect by themselves."""

    def __init__(self, url: str, access: Access = DEFAULT) -> None:
        """Raises UsageError, UnreadableInput."""
        self._given = url, access
        transport = HttpTransport(url, access)
        self._client, self._registry = RegistryClient(transport), TransportRegistry(transport)
        self._reader = PayloadReader(self._registry)

    def __reduce__(self) -> tuple[type[SchemaRegistry], tuple[str, Access]]:
        return SchemaRegistry, self._given

    def avro(self, subject: str, schema: str) -> Serde[Any]:
        """Return the serde that writes by an Avro schema. schema: its JSON."""
        return self._serde("Avro", subject, RegisteredSchema("AVRO", schema), None)

    def protobuf(self, subject: str, schema: str, *, message: str | None = None) -> Serde[Any]:
        """Return the serde that writes by a Protobuf schema. schema: the text of the .proto file. message: the name of
        the message, None for the first one."""
        return self._serde("Protobuf", subject, RegisteredSchema("PROTOBUF", schema), message)

    def json_schema(self, subject: str, schema: str) -> Serde[Any]:
        """Return the serde that writes JSON by a JSON Schema. schema: its JSON."""
        return self._serde("JSON Schema", subject, RegisteredSchema("JSON", schema), None)

    def of_subject(self, subject: str, *, version: int | str = LATEST, message: str | None = None) -> Serde[Any]:
        """Return the serde that writes by a version of a subject. message: as for `protobuf`."""
        return self._serde("schema", subject, version, message)

    def _serde(self, name: str, subject: str, schema: RegisteredSchema | int | str, message: str | None) -> Serde[Any]:
        return Serde(f"{name} of {subject}", _Write(self, subject, schema, message), self._read)

    def _read(self, data: bytes) -> Any:
        return self._reader.value(data)

    def _writer(self, subject: str, schema: RegisteredSchema | int | str, message: str | None) -> PayloadWriter:
        if isinstance(schema, RegisteredSchema):
            return writer_of_file(self._client, self._registry, subject, schema, message)
        return writer_of_subject(self._client, self._registry, subject, schema, message)


class _Write:
    """Writes values by a schema, which is asked for with the first one; in a worker of Spark anew."""

    def __init__(
        self, registry: SchemaRegistry, subject: str, schema: RegisteredSchema | int | str, message: str | None
    ) -> None:
        self._registry, self._given = registry, (subject, schema, message)
        self._writer: PayloadWriter | None = None

    def __reduce__(self) -> tuple[type[_Write], tuple[Any, ...]]:
        return _Write, (self._registry, *self._given)

    def __call__(self, value: Any) -> bytes:
        if self._writer is None:
            self._writer = self._registry._writer(*self._given)  # noqa: SLF001 (a part of the registry)
        return self._writer.encode(value)
