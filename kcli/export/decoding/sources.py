"""Schemas as text: where they come from, and what of other schemas they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kcli.errors import UnreadableInput
from kcli.export.decoding.errors import SchemaError

REFERENCES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one needs. name: as it is called there: a type's full name, or a file to import."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """What a registry knows of a schema. language: AVRO, PROTOBUF or JSON."""

    language: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema with all that it needs: plain text, so that workers need no registry for it.

    imports: (name, text), each behind those that it needs itself. folder: where else to look for what a file imports,
    on this machine. compiled: of Protobuf, its descriptors, once made.
    message: which one of a Protobuf file, where it is told.
    """

    text: str = ""
    imports: tuple[tuple[str, str], ...] = ()
    folder: str | None = None
    compiled: bytes | None = None
    message: str | None = None


class Registry(Protocol):
    """Schemas by id, and by subject and version. Both raise UnknownSchema and RegistryError."""

    @property
    def name(self) -> str:
        """What to call it in an error."""
        ...

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with this id."""
        ...

    def referred(self, reference: Reference) -> RegisteredSchema:
        """The schema that a reference names."""
        ...


class UnknownSchema(SchemaError):
    """The registry has no such schema."""


def resolve(registry: Registry, schema_id: int, language: str) -> SchemaSource:
    """The schema with this id and all that it refers to. Raises UnknownSchema, SchemaError, RegistryError."""
    registered = registry.schema(schema_id)
    if registered.language != language:
        raise UnknownSchema(f"schema {schema_id} of {registry.name} is {registered.language}, not {language}")
    imports: dict[str, str] = {}
    _add_imports(registry, registered.references, imports, ())
    return SchemaSource(registered.text, tuple(imports.items()))


def _add_imports(
    registry: Registry, references: Iterable[Reference], imports: dict[str, str], path: tuple[str, ...]
) -> None:
    for reference in references:
        if reference.name in imports:
            continue
        if reference.name in path or len(path) > REFERENCES_MAX or len(imports) > REFERENCES_MAX:
            raise SchemaError(f"schemas of {registry.name} refer to each other in a circle: {reference.name}")
        found = registry.referred(reference)
        _add_imports(registry, found.references, imports, (*path, reference.name))
        imports[reference.name] = found.text


def read_schema_file(path: str) -> bytes:
    """The bytes of a schema file. Raises UnreadableInput."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableInput(path, error.strerror or str(error)) from error


def schema_text(data: bytes, path: str) -> str:
    """The text of a schema file. Raises UnreadableInput."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableInput(path, "not UTF-8 text") from error
