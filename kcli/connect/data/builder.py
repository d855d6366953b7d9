"""Schemas that are checked as Kafka's SchemaBuilder checks them.

Source: org.apache.kafka.connect.data.SchemaBuilder, org.apache.kafka.connect.transforms.util.SchemaUtil.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kcli.connect.data.errors import DataError, SchemaBuilderError
from kcli.connect.data.schema import Field, Schema, Type
from kcli.connect.data.struct import validate


def struct_schema(fields: Iterable[tuple[str, Schema]], **about: Any) -> Schema:
    """Return the schema of a struct. about: further arguments of Schema but default. Raises SchemaBuilderError."""
    known: dict[str, Field] = {}
    for name, schema in fields:
        if not name:
            raise SchemaBuilderError("fieldName cannot be null.")
        if name in known:
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {name}")
        known[name] = Field(name, len(known), schema)
    return Schema(Type.STRUCT, fields=known.values(), **about)


def array_schema(value_schema: Schema, **about: Any) -> Schema:
    """Return the schema of an array. about: further arguments of Schema but default."""
    return Schema(Type.ARRAY, value_schema=value_schema, **about)


def map_schema(key_schema: Schema, value_schema: Schema, **about: Any) -> Schema:
    """Return the schema of a map. about: further arguments of Schema but default."""
    return Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema, **about)


def with_default(schema: Schema, default: Any) -> Schema:
    """Return the schema with a default, of a struct one that was made by this schema. Raises SchemaBuilderError if the
    default does not fit."""
    try:
        validate(schema, default)
    except DataError as error:
        raise SchemaBuilderError("Invalid default value") from error
    return schema.changed(default=default)


def basics(schema: Schema) -> dict[str, Any]:
    """Return the arguments of Schema that a transform copies to a schema made of this one (copySchemaBasics)."""
    return {"name": schema.name, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters or None}
