"""The format of each type of schema, imported at its first schema."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from kcli.schemas.parsed import Format, ParsedSchema
from kcli.schemas.schema import SIZE_MAX, InvalidSchema, SchemaType

_MODULES = {SchemaType.AVRO: "avro", SchemaType.PROTOBUF: "protobuf", SchemaType.JSON: "json_schema"}


def parse(schema_type: SchemaType, text: str, references: Mapping[str, str]) -> ParsedSchema:
    """Return the parsed schema of a type.

    references: the name of each reference, direct or not, with its schema's text, each after those to which it refers
    itself. Raises InvalidSchema.
    """
    size = len(text) + sum(len(each) for each in references.values())
    if size > SIZE_MAX:
        raise InvalidSchema(f"the schema and its references have {size:,} characters, at most {SIZE_MAX:,} are allowed")
    module = cast("Format", import_module(f"kcli.schemas.{_MODULES[schema_type]}"))
    return module.parse(text, references)
