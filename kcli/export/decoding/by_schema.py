"""Payloads with a schema: one for all, or one by its id in a registry before each payload (Confluent's wire format)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from formats.kernels import payload as kernel
from kcli.export.decoding.errors import SchemaError
from kcli.export.decoding.programs import Program, ProgramDecoder
from kcli.export.decoding.shapes import Node, kernel_payloads, run
from kcli.export.decoding.sources import Registry, SchemaSource, UnknownSchema, resolve
from kcli.export.decoding.unify import settle, unify, unify_all

# Ids that the registry has not: so many are asked for, then no more, for they are no ids but other payloads' bytes.
UNKNOWN_MAX = 1000


class Language(Protocol):
    """Avro, Protobuf or JSON: what each makes of a schema. The modules of these names are such."""

    language: str
    header: int

    def prepare(self, source: SchemaSource) -> SchemaSource:
        """What workers get: all that takes a compiler or a file is done. Raises SchemaError."""
        ...

    def type_of(self, source: SchemaSource, header: bytes) -> pa.DataType:
        """The type of values with this schema behind this header. Raises SchemaError."""
        ...

    def program(self, root: Node, sources: Mapping[bytes, SchemaSource], header: int) -> Program:
        """What reads values with these schemas, by header, into one type's columns."""
        ...


class SchemaDecoder(ProgramDecoder):
    """Payloads that all have one schema, and no header."""

    def __init__(self, language: Language, source: SchemaSource) -> None:
        """Raises SchemaError."""
        self.language = Named(language)
        self.source = language.prepare(source)
        super().__init__(settle(language.type_of(self.source, b"")))
        _ = self.program

    def make_program(self) -> Program:
        """See ProgramDecoder."""
        return self.language.module.program(self.root, {b"": self.source}, kernel.NO_HEADER)


class RegistryDecoder(ProgramDecoder):
    """Payloads with Confluent's header, of any of the schemas that a registry has.

    The type is what the schemas that were seen have in common. A schema that comes up later is asked for; its payloads
    decode if they fit the type, else the reason tells what does not.
    """

    def __init__(self, language: Language, registry: Registry, headers: frozenset[bytes]) -> None:
        """headers: those that were seen. Raises SchemaError, RegistryError."""
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
        """See ProgramDecoder; anew when a schema is added."""
        module = self.language.module
        return module.program(self.root, self.sources, module.header)

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads. Raises RegistryError where it does not answer for a schema not seen before."""
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
        return f"schema {schema_id(payload)}: so many ids are not in {self.registry.name} that no more were asked for"


class Named:
    """A module that a pickle names."""

    def __init__(self, module: Any) -> None:
        self.module: Language = module

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.module.__name__,)  # type: ignore[attr-defined]


def _named(name: str) -> Named:
    from importlib import import_module

    return Named(import_module(name))


def schema_id(header: bytes) -> int:
    """The id in Confluent's header."""
    return int.from_bytes(header[1:5])
