"""Avro's schemas: the canonical form of a text, and the data of a writer's schema that a reader's schema cannot read.

json_text      JSON as Avro's parser reads and prints it
types          the types that schemas consist of
names          which names are allowed
parser         JSON values to types
defaults       which defaults of fields are allowed
logical        logical types
printing       types to JSON: the canonical form, with or without the types of references
normalizing    the normalized form, which is equal for schemas with the same meaning
fingerprints   the specification's Parsing Canonical Form, and its fingerprints
resolution     the data that a reader cannot read

Start with AvroSchema, below. Source: Avro specification 1.12; AvroSchema of Confluent's Schema Registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeVar

from kcli.schemas.avro.fingerprints import parsing_canonical_form
from kcli.schemas.avro.json_text import Json, parse_json
from kcli.schemas.avro.names import check_reachable
from kcli.schemas.avro.normalizing import normalized_json
from kcli.schemas.avro.parser import Parser
from kcli.schemas.avro.printing import to_json
from kcli.schemas.avro.resolution import compare
from kcli.schemas.avro.types import Schema, full_name, same_schema
from kcli.schemas.jackson import json_text
from kcli.schemas.parsed import Incompatibility, ParsedSchema
from kcli.schemas.schema import InvalidSchema

T = TypeVar("T", bound="AvroSchema")


@dataclass(frozen=True)
class AvroSchema:
    """A schema of Avro, and the schemas that it refers to.

    canonical: the text without white space; types that references define are only named in it. schema: its type.
    references: the texts of its references, each after those to which it refers itself.
    """

    canonical: str
    schema: Schema = field(compare=False)
    references: Mapping[str, str] = field(compare=False)
    _node: Json = field(compare=False, repr=False)
    _referenced: frozenset[str] = field(compare=False, repr=False)
    _is_strict: bool = field(compare=False, repr=False)

    def normalized(self) -> Self:
        """Return the schema in its normalized form. Raises InvalidSchema if it cannot be normalized."""
        return _parsed(type(self), normalized_json(self.schema, self._referenced), self.references)

    def formatted(self, form: str) -> str:
        """Return the text in a form: "resolved" has the types of references in full. Raises InvalidSchema if they nest
        too deep."""
        return json_text(to_json(self.schema)) if form.strip().lower() == "resolved" else self.canonical

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        """Return why this schema cannot read data of the writer's schema; an empty list if it can."""
        return compare(self.schema, writer.schema)

    def equivalent(self, other: ParsedSchema) -> bool:
        """Return whether two schemas have the same types, docs and aliases. The order of properties and aliases does
        not count, nor whether a type is defined in the schema or in a reference."""
        return isinstance(other, AvroSchema) and same_schema(self.schema, other.schema, with_docs=True)

    def validate_new(self) -> None:
        """Check the names and defaults of the schema and of its references by the rules for new schemas. Raises
        InvalidSchema."""
        if not self._is_strict:
            _parse_all(Parser(strict=True), self._node, self.references)

    def shared_text(self) -> str:
        """Return the Parsing Canonical Form, which equivalent schemas share. Raises InvalidSchema."""
        return self.parsing_canonical_form

    @cached_property
    def parsing_canonical_form(self) -> str:
        """The specification's Parsing Canonical Form, of which fingerprints are made. Raises InvalidSchema if the types
        of references nest too deep in it."""
        return parsing_canonical_form(self.schema)


def parse(text: str, references: Mapping[str, str]) -> AvroSchema:
    """Return the schema of a text.

    references: the name of each reference with its text, each after those to which it refers itself. Raises
    InvalidSchema.
    """
    return _parsed(AvroSchema, parse_json(text), references)


def _parsed(kind: type[T], node: Json, references: Mapping[str, str]) -> T:
    """Return the schema of a JSON value. It is first parsed by the strict rules for new schemas, which nearly all
    schemas pass."""
    try:
        schema, referenced = _parse_all(Parser(strict=True), node, references)
        is_strict = True
    except InvalidSchema:
        schema, referenced = _parse_all(Parser(strict=False), node, references)
        check_reachable(schema)
        is_strict = False
    return kind(json_text(to_json(schema, referenced)), schema, references, node, referenced, is_strict)


def _parse_all(parser: Parser, node: Json, references: Mapping[str, str]) -> tuple[Schema, frozenset[str]]:
    """Return the schema of a value, and the full names of its references' outermost types. Raises InvalidSchema."""
    referenced = frozenset(full_name(parser.parse(parse_json(each))) for each in references.values())
    return parser.parse(node), referenced
