"""What each format makes of a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self, runtime_checkable


class Incompatibility(NamedTuple):
    """Why a reader with one schema cannot read what a writer with another one has written.

    kind: the name that Confluent's registry gives it, such as READER_FIELD_MISSING_DEFAULT_VALUE. path: where in the
    schema, as the format writes paths. text: the whole message, as Confluent's registry answers with it; in place of
    `new` and `old`, which kcli.schemas.compatibility puts in, it has `%s`: first the reader's side, then the writer's.
    """

    kind: str
    path: str
    text: str


class ParsedSchema(Protocol):
    """A schema of one of the formats, and the schemas that it refers to."""

    @property
    def canonical(self) -> str:
        """The text that a registry stores for it and answers with: Confluent's canonicalString."""

    def normalized(self) -> Self:
        """Return the schema whose canonical text is the same for all schemas that mean the same. Raises InvalidSchema
        for one that the format cannot normalize."""

    def formatted(self, form: str) -> str:
        """Return the text in one of the forms of the query parameter `format`: "" is `canonical`; unknown forms are
        `canonical`, too. Avro has "resolved" (references inlined); Protobuf "serialized" (base64 of a
        FileDescriptorProto) and "ignore_extensions". Raises InvalidSchema if the form is too deep."""

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        """Return why this schema, as the reader's, cannot read data of the writer's: Confluent's isBackwardCompatible.
        Empty if it can."""

    def validate_new(self) -> None:
        """Check what is refused only for a schema that is about to be registered. Raises InvalidSchema."""


@runtime_checkable
class Comparable(Protocol):
    """A schema of a format in which equal ones may have different canonical texts: Avro."""

    def equivalent(self, other: ParsedSchema) -> bool:
        """Return whether two schemas are the same: Confluent's `equivalent`, without metadata and rules."""

    def shared_text(self) -> str:
        """Return a text that equivalent schemas share, and others may. Raises InvalidSchema."""


def equivalent(one: ParsedSchema, other: ParsedSchema) -> bool:
    """Return whether two schemas are the same to a registry that looks a schema up, whatever they refer to."""
    if isinstance(one, Comparable):
        return one.equivalent(other)
    return type(one) is type(other) and one.canonical == other.canonical


def shared_text(schema: ParsedSchema) -> str:
    """Return a text that all schemas have that are `equivalent` to this one, and perhaps others. Raises
    InvalidSchema."""
    return schema.shared_text() if isinstance(schema, Comparable) else schema.canonical


class Format(Protocol):
    """A module of kcli.schemas: avro, protobuf, json_schema."""

    def parse(self, text: str, references: Mapping[str, str]) -> ParsedSchema:
        """Return the parsed schema. references: the name of each reference, direct or not, with its schema's text, each
        behind the ones that it refers to. Raises InvalidSchema."""
