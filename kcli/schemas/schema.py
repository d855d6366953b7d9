"""A schema as it is registered. Source: the REST API of Confluent's Schema Registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from kcli.errors import KcliError

SIZE_MAX = 16 << 20
"""The largest text of a schema, its references included, in characters."""
DEPTH_MAX = 200
"""The greatest depth of a schema. Deeper schemas are refused before they are parsed."""


class SchemaType(StrEnum):
    """The formats of schemas."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class Reference(NamedTuple):
    """A reference to a schema that another schema uses. name: the name in the other schema: an Avro full name, an
    imported .proto file, a `$ref`. subject, version: where the used schema is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema's text, with everything that is registered together with it.

    metadata, rule_set: as JSON has them; None if it has none.
    """

    type: SchemaType
    text: str
    references: Sequence[Reference] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None


class InvalidSchema(KcliError):
    """A text that is no schema of its format, or one that is too large or too deep. The message is one line."""
