"""Rows of a table as structs of Connect, by the dialect of their database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcli.connect.connectors.jdbc.dialect import Column, Dialect
from kcli.connect.data.builder import struct_schema
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.schema import Schema
from kcli.connect.data.struct import Struct


def table_schema(dialect: Dialect, table: str, columns: Sequence[Column]) -> Schema:
    """Return the schema of a table's rows. Raises ConnectError."""
    fields = ((each.name, dialect.schema_of(each).changed(optional=not each.is_required)) for each in columns)
    return struct_schema(fields, name=table)


def row_of(dialect: Dialect, schema: Schema, values: Sequence[Any]) -> Struct:
    """Return a row as a struct. Raises ConnectError for a value that its column's type does not have."""
    made = Struct(schema)
    of = dialect.from_column
    for field, value in zip(schema.fields, values, strict=True):
        if value is not None:
            try:
                made.values[field.index] = of(field.schema, value)
            except (TypeError, ValueError) as error:
                raise ConnectError(
                    f"column {field.name}: {value!r} is no value of the type {field.schema.type.name}"
                ) from error
    return made
