"""The interface of a parsed schema, and of the modules that parse each format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self, runtime_checkable


class Incompatibility(NamedTuple):
    """A reason why a reader with one schema cannot read data of a writer with another one.

    kind: the name that Confluent's registry gives it, such as READER_FIELD_MISSING_DEFAULT_VALUE. path: where in the
    schema, as the format writes paths. text: the message of Confluent's registry, with `%s` in place of `new` and
    `old`: first for the reader, then for the writer. kcli.schemas.compatibility puts these words in.
    """

    kind: str
    path: str
    text: str


class ParsedSchema(Protocol):
    """A schema of one of the formats, and the schemas that it refers to."""

    @property
    def canonical(self) -> str:
        """The text that a registry stores for the schema and returns: Confluent's canonicalString."""

    def normalized(self) -> Self:
        """Return the normalized schema; schemas with the same meaning have the same normalized text. Raises
        InvalidSchema if the format cannot normalize the schema."""

    def formatted(self, form: str) -> str:
        """Return the text in one of the forms of the query parameter `format`: "" is `canonical`; unknown forms are
        `canonical`, too. Avro has "resolved" (references inlined); Protobuf "serialized" (base64 of a
        FileDescriptorProto) and "ignore_extensions". Raises InvalidSchema if the form is too deep."""

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        """Return why this schema cannot read data of the writer's schema, by Confluent's isBackwardCompatible; an empty
        list if it can."""

    def validate_new(self) -> None:
        """Check the schema by the rules for new schemas. Raises InvalidSchema."""


@runtime_checkable
class Comparable(Protocol):
    """A schema of a format in which equal schemas may have different canonical texts: only Avro's is one."""

    def equivalent(self, other: ParsedSchema) -> bool:
        """Return whether two schemas are equal by Confluent's `equivalent`, without metadata and rules."""

    def shared_text(self) -> str:
        """Return a text that equivalent schemas share; other schemas may have it, too. Raises InvalidSchema."""


def equivalent(one: ParsedSchema, other: ParsedSchema) -> bool:
    """Return whether a registry takes two schemas for equal when it looks one up; their references are not compared."""
    if isinstance(one, Comparable):
        return one.equivalent(other)
    return type(one) is type(other) and one.canonical == other.canonical


def shared_text(schema: ParsedSchema) -> str:
    """Return a text that is the same for all schemas that are `equivalent` to this one, and perhaps for others. Raises
    InvalidSchema."""
    return schema.shared_text() if isinstance(schema, Comparable) else schema.canonical


class Format(Protocol):
    """A module of kcli.schemas: avro, protobuf, json_schema."""

    def parse(self, text: str, references: Mapping[str, str]) -> ParsedSchema:
        """Return the parsed schema. references: the name of each reference, direct or not, with its schema's text, each
        after those to which it refers itself. Raises InvalidSchema."""
