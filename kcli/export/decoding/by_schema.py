"""Decoders of payloads with a schema: one schema for all payloads, or for each payload the schema whose id is in its
Schema Registry prefix.

The prefix (Confluent's wire format) is a zero byte and the schema id, for Protobuf followed by message indexes. The
code calls it `header`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from formats.kernels.payload.payloads import NO_HEADER
from kcli.export.decoding.programs import Program, ProgramDecoder
from kcli.export.decoding.shapes import Node, kernel_payloads, run
from kcli.export.decoding.unify import settle, unify, unify_all
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import Registry, SchemaSource, UnknownSchema, resolve

# After this many ids that the registry does not know, no more ids are requested from it: the payloads are assumed to
# have no Schema Registry prefix, so that the supposed ids are part of their data.
UNKNOWN_MAX = 1000


class Language(Protocol):
    """The interface of the modules avro, protobuf and json_schema, which make types and programs from schemas.

    language: the registry's schema type AVRO, PROTOBUF or JSON. header: the kind of Schema Registry prefix, SCHEMA_ID
    or SCHEMA_MESSAGE of formats.kernels.payload.payloads.
    """

    language: str
    header: int

    def prepare(self, source: SchemaSource) -> SchemaSource:
        """Return the source in a form for which workers need neither a compiler nor further files. Raises
        SchemaError."""
        ...

    def type_of(self, source: SchemaSource, header: bytes) -> pa.DataType:
        """Return the Arrow type for values with this schema. header: the payload's Schema Registry prefix, which for
        Protobuf selects the message; b"" without one. Raises SchemaError."""
        ...

    def program(self, root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> Program:
        """Return the program with which compiled code decodes payloads into the columns of the tree `root`.

        sources: Schema Registry prefix of a payload -> schema. header: the kind of prefix, as in the attribute, or
        NO_HEADER.
        """
        ...


class SchemaDecoder(ProgramDecoder):
    """Decodes payloads that all have one schema, and no Schema Registry prefix."""

    def __init__(self, language: Language, source: SchemaSource) -> None:
        """Prepare the schema and its program. Raises SchemaError."""
        self.language = Named(language)
        self.source = language.prepare(source)
        super().__init__(language.type_of(self.source, b""))
        _ = self.program

    def make_program(self) -> Program:
        """Return the program that decodes payloads of the one schema."""
        return self.language.module.program(self.root, {b"": self.source}, NO_HEADER)


class RegistryDecoder(ProgramDecoder):
    """Decodes payloads with a Schema Registry prefix, with schemas from a registry.

    The column has the common type of the schemas whose prefixes the survey, a first pass over the payloads, has found.
    A schema whose id is first met while decoding is requested from the registry; its payloads decode if all of its
    fields fit into the common type. Otherwise their values are null, each with a reason.

    sources: schemas by prefix. refused: reasons by prefix, for prefixes whose schema cannot be used.
    """

    def __init__(self, language: Language, registry: Registry, headers: frozenset[bytes]) -> None:
        """Request the schemas of the surveyed payloads. headers: the distinct Schema Registry prefixes of these
        payloads. Raises SchemaError, RegistryError."""
        self.language = Named(language)
        self.registry = registry
        self.sources: dict[bytes, SchemaSource] = {}
        self.refused: dict[bytes, str] = {}
        types = []
        for header in sorted(headers):
            if len(self.refused) >= UNKNOWN_MAX:
                break
            try:
                source = resolve(registry, schema_id(header), language.language)
            except UnknownSchema as error:
                self.refused[header] = str(error)
                continue
            try:
                source = language.prepare(source)
                types.append(language.type_of(source, header))
                unify_all(types)
            except SchemaError as error:
                raise SchemaError(f"schema {schema_id(header)} of {registry.name}: {error}") from error
            self.sources[header] = source
        super().__init__(unify_all(types))
        _ = self.program

    def make_program(self) -> Program:
        """Return the program for all schemas in `sources`. It is made again after `decode` has added a schema."""
        module = self.language.module
        return module.program(self.root, self.sources, module.header)

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads: (values, reasons), as Decoder.decode.

        Raises RegistryError if the registry does not answer a request for a new schema.
        """
        before = len(self.sources)
        for header in kernel_payloads(payloads).headers(self.language.module.header):
            if header not in self.sources and header not in self.refused and len(self.refused) < UNKNOWN_MAX:
                self._add(header)
        if len(self.sources) > before:
            self.__dict__.pop("program", None)
        return run(self.program.decode, self.root, payloads, self._header_reason)

    def _add(self, header: bytes) -> None:
        module = self.language.module
        try:
            source = module.prepare(resolve(self.registry, schema_id(header), module.language))
            fits = settle(unify(self.type, module.type_of(source, header))) == self.type
        except UnknownSchema as error:
            self.refused[header] = str(error)
        except SchemaError as error:
            self.refused[header] = f"schema {schema_id(header)} of {self.registry.name}: {error}"
        else:
            if fits:
                self.sources[header] = source
            else:
                name = f"schema {schema_id(header)} of {self.registry.name}"
                self.refused[header] = f"{name} has fields that the table has not: it came up later"

    def _header_reason(self, payload: bytes) -> str:
        for header, reason in self.refused.items():
            if payload.startswith(header):
                return reason
        return f"schema {schema_id(payload)}: so many ids are not in {self.registry.name} that no more were requested"


class Named:
    """A picklable reference to the module of a schema language: the pickle has the module's name."""

    def __init__(self, module: Any) -> None:
        self.module: Language = module

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.module.__name__,)  # type: ignore[attr-defined]


def _named(name: str) -> Named:
    from importlib import import_module

    return Named(import_module(name))


def schema_id(header: bytes) -> int:
    """Return the schema id in a Schema Registry prefix (bytes 1 to 4)."""
    return int.from_bytes(header[1:5])
