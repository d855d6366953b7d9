"""Schemas as text, from files and registries, together with the schemas that they refer to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kcli.errors import UnreadableInput
from kcli.schema_client.errors import SchemaError

REFERENCES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one schema to another.

    name: the name that the first schema uses for the other: a type's full name, or a file to import. subject, version:
    those of the other schema in the registry.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema in a registry. language: the registry's schema type AVRO, PROTOBUF or JSON."""

    language: str
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """A schema with the text of all schemas that it refers to, so that workers need no registry for it.

    imports: (name, text) of the schemas referred to, each after the schemas that it refers to. folder: a local
    directory with further files that a schema file imports; None for a schema from a registry. compiled: the schema's
    serialized FileDescriptorSet (Protobuf), None before `prepare`. message: the name of the Protobuf message to decode,
    None if the spec does not name one.
    """

    text: str = ""
    imports: tuple[tuple[str, str], ...] = ()
    folder: str | None = None
    compiled: bytes | None = None
    message: str | None = None


class Registry(Protocol):
    """Returns schemas by id, and by subject and version. Its methods raise UnknownSchema and RegistryError."""

    @property
    def name(self) -> str:
        """The registry's name in errors."""
        ...

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with this id."""
        ...

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema with this GUID."""
        ...

    def referred(self, reference: Reference) -> RegisteredSchema:
        """Return the schema that a reference names."""
        ...


class UnknownSchema(SchemaError):
    """The registry has no schema with this id, none at this subject and version, or one of another schema type than the
    format needs."""


def registered_schema(answer: Any) -> RegisteredSchema:
    """Return the schema in a JSON answer of a registry. Raises ValueError."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("schema"), str):
        raise ValueError("no text under 'schema'")  # noqa: TRY004 (a bad answer, not a bad argument)
    language = answer.get("schemaType") or "AVRO"
    references = []
    for reference in answer.get("references") or []:
        if not isinstance(reference, dict):
            raise ValueError("a reference that is no object")  # noqa: TRY004 (a bad answer, not a bad argument)
        name, subject, version = (reference.get(key) for key in ("name", "subject", "version"))
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            raise ValueError("a reference without name, subject and version")  # noqa: TRY004 (a bad answer, not a bad argument)
        references.append(Reference(name, subject, version))
    return RegisteredSchema(str(language), answer["schema"], tuple(references))


def resolve(registry: Registry, schema_id: int, language: str) -> SchemaSource:
    """Return the schema with this id and all schemas that it refers to. language: AVRO, PROTOBUF or JSON.

    Raises UnknownSchema, also for a schema of another schema type, SchemaError and RegistryError.
    """
    registered = registry.schema(schema_id)
    if registered.language != language:
        raise UnknownSchema(f"schema {schema_id} of {registry.name} is {registered.language}, not {language}")
    return source_of(registry, registered)


def source_of(registry: Registry, registered: RegisteredSchema) -> SchemaSource:
    """Return a schema with all schemas that it refers to. registry: the registry that has them. Raises UnknownSchema,
    SchemaError, RegistryError."""
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
    """Return the bytes of a schema file. Raises UnreadableInput."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableInput.of(path, error) from error


def schema_text(data: bytes, path: str) -> str:
    """Return the text of a schema file, given by its bytes. Raises UnreadableInput."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnreadableInput(path, "not UTF-8 text") from error
