"""The SQL of a database and its types, without a connection. SQLite and PostgreSQL have one each.

quoted     a name as SQL has it; a table's name may have its schema before it
type_of    a schema of Connect to the type of a column; to_column: its values
schema_of  a column to its schema; from_column: its values
time_of    the time of a row, from the columns of timestamp.column.name; time_value, time_ns: the same time as the
           database takes it and in nanoseconds
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from typing import Any

from kcli.connect.data.errors import ConnectError
from kcli.connect.data.schema import Schema


@dataclass(frozen=True)
class Column:
    """A column of a table. declared: its type as the database names it. increments: the database counts it up with each
    row. precision, scale: of a number, where they are declared."""

    name: str
    declared: str
    is_required: bool
    is_key: bool
    increments: bool = False
    precision: int | None = None
    scale: int | None = None


class Operation(StrEnum):
    """What a row of values does."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """What rows of values do to a table. keys, values: the columns of the primary key and the others, in the order in
    which a row has their values."""

    operation: Operation
    table: str
    keys: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns."""
        return self.keys + self.values


class Dialect(ABC):
    """The SQL of a database and its types."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """Return a name as SQL has it."""

    def folded(self, name: str) -> str:
        """Return a name as the database stores it."""
        return name

    def qualified(self, table: str) -> str:
        """Return a table's name as SQL has it."""
        return self.quoted(table)

    def topic_name(self, table: str) -> str:
        """Return what a topic is named after: the table's name without its schema."""
        return table

    @abstractmethod
    def type_of(self, schema: Schema) -> str:
        """Return the type of a column for values of a schema. Raises ConnectError."""

    @abstractmethod
    def literal(self, value: Any) -> str:
        """Return a value that the database takes as SQL has it."""

    @abstractmethod
    def to_column(self, schema: Schema | None, value: Any) -> Any:
        """Return a value of Connect as the database takes it. Raises ConnectError."""

    @abstractmethod
    def schema_of(self, column: Column) -> Schema:
        """Return the schema of a column that is required. Raises ConnectError."""

    @abstractmethod
    def from_column(self, schema: Schema, value: Any) -> Any:
        """Return a column's value, which is not null, as one of Connect's. Raises ValueError, TypeError."""

    def selected(self, column: Column) -> str:
        """Return how a query asks for a column."""
        return self.quoted(column.name)

    @abstractmethod
    def placeholder(self, number: int) -> str:
        """Return what stands for a value in a query. number: from 1 on."""

    @abstractmethod
    def time_of(self, columns: Sequence[str]) -> str:
        """Return the expression for the time of a row: the first of the columns that is not null."""

    @abstractmethod
    def time_value(self, time_ns: int) -> Any:
        """Return nanoseconds since 1970 as `time_of` is compared with them."""

    @abstractmethod
    def time_ns(self, value: Any) -> int:
        """Return the value of a column of `time_of` in nanoseconds since 1970. Raises ValueError, TypeError."""

    def create_table(self, table: str, columns: Sequence[tuple[str, Schema]], keys: Sequence[str]) -> str:
        """Return the statement that creates a table. keys: the columns of the primary key."""
        parts = [self._column(name, schema, is_key=name in keys) for name, schema in columns]
        if keys:
            parts.append(f"PRIMARY KEY({','.join(map(self.quoted, keys))})")
        return f"CREATE TABLE {self.qualified(table)} (\n" + ",\n".join(parts) + ")"

    def add_column(self, table: str, name: str, schema: Schema) -> str:
        """Return the statement that adds a column to a table."""
        return f"ALTER TABLE {self.qualified(table)} ADD {self._column(name, schema, is_key=False)}"

    def _column(self, name: str, schema: Schema, *, is_key: bool) -> str:
        spec = f"{self.quoted(name)} {self.type_of(schema)}"
        if schema.default is not None and not is_key:
            return f"{spec} DEFAULT {self.literal(self.to_column(schema, schema.default))}"
        return f"{spec} NULL" if schema.optional and not is_key else f"{spec} NOT NULL"


def unmapped(schema: Schema) -> ConnectError:
    """Return the error for a schema that has no column type."""
    return ConnectError(
        f"{schema.name} ({schema.type.name}) type doesn't have a mapping to the SQL database column type"
    )


def unsupported(value: Any) -> ConnectError:
    """Return the error for a value that no column takes."""
    return ConnectError(f"Unsupported source data type: {type(value).__name__}")


def text_literal(text: str) -> str:
    """Return a text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def is_number(value: Any) -> bool:
    """Whether SQL has a value as a number."""
    return isinstance(value, (int, float, Decimal)) and isfinite(value)
