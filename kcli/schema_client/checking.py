"""Compares schemas of files and registries: by a compatibility level, in both directions, and as texts.

The rules are those of kcli.schemas; a comparison needs no registry.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from kcli.errors import UnreadableInput, UsageError
from kcli.schema_client.client import Finding, Version, findings_of, parse_references, reference
from kcli.schema_client.registry import SUFFIXES
from kcli.schema_client.sources import (
    RegisteredSchema,
    Registry,
    SchemaSource,
    read_schema_file,
    schema_text,
    source_of,
)
from kcli.schemas.compatibility import Level
from kcli.schemas.formats import parse
from kcli.schemas.parsed import ParsedSchema
from kcli.schemas.schema import InvalidSchema, SchemaType

BACKWARD, FORWARD = "backward", "forward"


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed schema, and its name in messages."""

    name: str
    schema: RegisteredSchema
    parsed: ParsedSchema


class Comparison(NamedTuple):
    """Why a new schema is not compatible with an older one. direction: BACKWARD if the new one cannot read what the
    older one wrote, FORWARD the other way round; "" if a registry has found the incompatibility and has not named the
    direction."""

    against: str
    direction: str
    findings: Sequence[Finding]


def is_file(text: str) -> bool:
    """Whether an argument names a file with a schema rather than a subject: it has the suffix of a schema file."""
    return Path(text).suffix in SUFFIXES


def schema_of_file(path: Path, kind: str | None, references: Sequence[str]) -> RegisteredSchema:
    """Return the schema in a file; `-` is standard input. kind: the schema type, None to take it from the suffix.
    references: texts NAME=SUBJECT:VERSION. Raises UsageError, UnreadableInput."""
    try:
        made = tuple(reference(name, target) for name, target in parse_references(references))
    except ValueError as error:
        raise UsageError(f"--reference {error}") from None
    return RegisteredSchema(_kind(path, kind), _text(path), made)


def imports_of_files(references: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return name and text of references NAME=FILE. Raises UsageError, UnreadableInput."""
    try:
        return tuple((name, _text(Path(target))) for name, target in parse_references(references))
    except ValueError as error:
        raise UsageError(f"--reference {str(error).replace('SUBJECT:VERSION', 'FILE')}") from None


def of_file(path: Path, kind: str | None, imports: tuple[tuple[str, str], ...]) -> Named:
    """Parse the schema in a file. imports: the schemas to which it refers. Raises UsageError, UnreadableInput,
    InvalidSchema."""
    schema = RegisteredSchema(_kind(path, kind), _text(path))
    return _named(str(path), schema, SchemaSource(schema.text, imports))


def of_schema(name: str, schema: RegisteredSchema, registry: Registry) -> Named:
    """Parse a schema of a registry. registry: has the schemas to which it refers. Raises InvalidSchema, SchemaError,
    RegistryError."""
    return _named(name, schema, source_of(registry, schema))


def of_version(version: Version, registry: Registry) -> Named:
    """Parse the schema of a version. Raises as `of_schema`."""
    return of_schema(f"{version.subject}:{version.version}", version.schema, registry)


def _named(name: str, schema: RegisteredSchema, source: SchemaSource) -> Named:
    try:
        kind = SchemaType(schema.language)
    except ValueError:
        raise InvalidSchema(f"{name}: {schema.language} is none of {', '.join(SchemaType)}") from None
    try:
        return Named(name, schema, parse(kind, source.text, dict(source.imports)))
    except InvalidSchema as error:
        raise InvalidSchema(f"{name}: {error}") from None


def _kind(path: Path, kind: str | None) -> str:
    found = kind or SUFFIXES.get(path.suffix)
    if found is None:
        raise UsageError(f"{path}: which schema type? its suffix is none of {', '.join(SUFFIXES)}: give --type")
    return str(found)


def _text(path: Path) -> str:
    if str(path) != "-":
        return schema_text(read_schema_file(str(path)), str(path))
    try:
        return schema_text(sys.stdin.buffer.read(), "standard input")
    except OSError as error:
        raise UnreadableInput.of("standard input", error) from None


def compare(new: Named, older: Sequence[Named], level: Level) -> list[Comparison]:
    """Return why a schema is not compatible with older ones, an empty list if it is compatible. older: the oldest
    first; only the last one counts if the level is not transitive. Raises InvalidSchema."""
    directions = [BACKWARD] * level.is_backward + [FORWARD] * level.is_forward
    found = []
    for old in reversed(older if level.is_transitive else older[-1:]):
        for direction in directions:
            reader, writer = (new, old) if direction == BACKWARD else (old, new)
            findings = unreadable(reader, writer)
            if findings:
                found.append(Comparison(old.name, direction, findings))
    return found


def both_ways(new: Named, old: Named) -> tuple[list[Finding], list[Finding]]:
    """Return which data of the old schema a reader with the new schema cannot read, and which data of the new one a
    reader with the old schema cannot read."""
    return unreadable(new, old), unreadable(old, new)


def unreadable(reader: Named, writer: Named) -> list[Finding]:
    """Return which data of the writer's schema a reader with the reader's schema cannot read."""
    if reader.schema.language != writer.schema.language:
        text = f"{reader.name} is {reader.schema.language}, {writer.name} is {writer.schema.language}"
        return [Finding("TYPE_CHANGED", "", text)]
    return [
        Finding(each.kind, each.path, _with_sides(" ".join(each.text.split()), reader.name, writer.name))
        for each in reader.parsed.incompatibilities(writer.parsed)
    ]


def _with_sides(message: str, reader: str, writer: str) -> str:
    """Return the description in a registry's message, with the names of the two schemas in place of its two `%s`."""
    text = findings_of([message])
    described = text[0].text if text else message
    names = iter((reader, writer))
    return re.sub(r"the %s schema|%s", lambda _: next(names), described, count=2)


def pretty(schema: RegisteredSchema) -> str:
    """Return a schema's text for people: JSON is indented."""
    if schema.language == "PROTOBUF":
        return schema.text.rstrip("\n")
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text


def unified(old: Named, new: Named) -> list[str]:
    """Return the lines of a unified diff of two schemas' texts."""
    before, after = ((pretty(each.schema) + "\n").splitlines(keepends=True) for each in (old, new))
    return list(unified_diff(before, after, old.name, new.name))
