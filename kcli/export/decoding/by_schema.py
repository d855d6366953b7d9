"""Decoders of payloads with a schema: one schema for all, or the schema whose id in a registry is in each payload's
header (Confluent's wire format)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from formats.kernels.payload.payloads import NO_HEADER
from kcli.export.decoding.errors import SchemaError
from kcli.export.decoding.programs import Program, ProgramDecoder
from kcli.export.decoding.shapes import Node, kernel_payloads, run
from kcli.export.decoding.sources import Registry, SchemaSource, UnknownSchema, resolve
from kcli.export.decoding.unify import settle, unify, unify_all

# After this many unknown ids no more ids are requested from the registry: it is assumed that the payloads have no
# header, and that the supposed ids are part of their data.
UNKNOWN_MAX = 1000


class Language(Protocol):
    """The interface of the modules avro, protobuf and json_schema: types and programs from schemas.

    language: AVRO, PROTOBUF or JSON, as a registry names it. header: the kind of Confluent header.
    """

    language: str
    header: int

    def prepare(self, source: SchemaSource) -> SchemaSource:
        """Return the source in the form that the workers need: whatever requires a compiler or a file is done. Raises
        SchemaError."""
        ...

    def type_of(self, source: SchemaSource, header: bytes) -> pa.DataType:
        """Return the Arrow type for values with this schema and header. Raises SchemaError."""
        ...

    def program(self, root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> Program:
        """Return the kernel's program that decodes values of these schemas, by header, into the columns of one type."""
        ...


class SchemaDecoder(ProgramDecoder):
    """Decodes payloads that all have one schema, and no header."""

    def __init__(self, language: Language, source: SchemaSource) -> None:
        """Prepare the schema and its program. Raises SchemaError."""
        self.language = Named(language)
        self.source = language.prepare(source)
        super().__init__(settle(language.type_of(self.source, b"")))
        _ = self.program

    def make_program(self) -> Program:
        """Return the kernel's program for the one schema."""
        return self.language.module.program(self.root, {b"": self.source}, NO_HEADER)


class RegistryDecoder(ProgramDecoder):
    """Decodes payloads with Confluent's header, with schemas from a registry.

    The type is the common type of the schemas in the survey's headers. A schema whose id is first met while decoding is
    requested from the registry; its payloads decode if the schema's type fits the common type, and otherwise get a
    reason.
    sources: schemas by header. refused: reasons by header, for headers whose schema cannot be used.
    """

    def __init__(self, language: Language, registry: Registry, headers: frozenset[bytes]) -> None:
        """headers: the distinct headers of the surveyed payloads. Raises SchemaError, RegistryError."""
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
        super().__init__(settle(unify_all(types)))
        _ = self.program

    def make_program(self) -> Program:
        """Return the kernel's program for all schemas in `sources`; made anew after a schema is added."""
        module = self.language.module
        return module.program(self.root, self.sources, module.header)

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads: (values, reasons), as Decoder.decode.

        Raises RegistryError where the registry does not answer a request for a new schema.
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
    """A picklable reference to a language's module: the pickle has the module's name."""

    def __init__(self, module: Any) -> None:
        self.module: Language = module

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.module.__name__,)  # type: ignore[attr-defined]


def _named(name: str) -> Named:
    from importlib import import_module

    return Named(import_module(name))


def schema_id(header: bytes) -> int:
    """Return the schema id in Confluent's header (bytes 1 to 4)."""
    return int.from_bytes(header[1:5])
