"""SQLite, by Python's sqlite3: names in backquotes; a table's writers wait for each other.

url          jdbc:sqlite:PATH, with jdbc:sqlite::memory: and parameters refused, as tasks share nothing but the file
to SQLite    boolean 0 or 1; Decimal as text; Date, Time, Timestamp: milliseconds, as SQLite's JDBC driver has them
from SQLite  by the declared type: INT*: int64, but TINYINT int8, SMALLINT int16; REAL, FLO*, DOUB*, NUMERIC,
             DECIMAL: float64; BOOLEAN; DATE, TIMESTAMP, DATETIME: Timestamp, of milliseconds or of ISO's text;
             BLOB: bytes; others: string. A column that is not NOT NULL is optional
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from kcli.connect.connectors.jdbc.database import SQLITE, Database
from kcli.connect.connectors.jdbc.dialect import (
    Change,
    Column,
    Dialect,
    Operation,
    is_number,
    text_literal,
    unmapped,
    unsupported,
)
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.logical import TIMESTAMP
from kcli.connect.data.schema import BOOLEAN, BYTES, FLOAT64, INT8, INT16, INT64, STRING, Schema, Type
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_DECIMAL, LOGICAL_TIME, LOGICAL_TIMESTAMP, Date

BUSY_S: Final = 5.0
ROWS: Final = 1000
NS_PER_MS: Final = 1_000_000
_LOGICAL: Final = (LOGICAL_DECIMAL, LOGICAL_DATE, LOGICAL_TIME, LOGICAL_TIMESTAMP)
_KINDS: Final = {"TABLE": "table", "VIEW": "view"}
_TYPES: Final = {
    Type.BOOLEAN: "INTEGER",
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}
_DECLARED: Final[dict[type, str]] = {int: "INTEGER", float: "REAL", bytes: "BLOB"}


class SqliteDialect(Dialect):
    """SQLite's SQL."""

    def quoted(self, name: str) -> str:
        """Return a name in backquotes."""
        return "`" + name.replace("`", "``") + "`"

    def type_of(self, schema: Schema) -> str:
        """Return the type of a column for values of a schema. Raises ConnectError."""
        if schema.name in _LOGICAL:
            return "NUMERIC"
        if schema.type not in _TYPES:
            raise unmapped(schema)
        return _TYPES[schema.type]

    def literal(self, value: Any) -> str:
        """Return a value as SQL has it."""
        if isinstance(value, bytes):
            return f"x'{value.hex()}'"
        return str(value) if is_number(value) else text_literal(str(value))

    def to_column(self, schema: Schema | None, value: Any) -> Any:  # noqa: ARG002 (SQLite's values tell their types)
        """Return a value of Connect as SQLite takes it. Raises ConnectError."""
        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return int(value) if isinstance(value, bool) else value
        if isinstance(value, Date):
            return value.millis
        if isinstance(value, Decimal):
            return str(value)
        raise unsupported(value)

    def schema_of(self, column: Column) -> Schema:
        """Return the schema of a column by its declared type."""
        declared = column.declared
        if "INT" in declared:
            return {"TINYINT": INT8, "SMALLINT": INT16, "INT2": INT16}.get(declared, INT64)
        if declared.startswith("BOOL"):
            return BOOLEAN
        if declared.startswith(("DATE", "TIMESTAMP")):
            return TIMESTAMP
        if "BLOB" in declared or "BINARY" in declared:
            return BYTES
        if declared.startswith(("REAL", "FLO", "DOUB", "NUM", "DEC")):
            return FLOAT64
        return STRING

    def from_column(self, schema: Schema, value: Any) -> Any:
        """Return a column's value as one of Connect's. Raises ValueError, TypeError."""
        if schema.name == TIMESTAMP.name:
            return Date(_millis_of(value))
        match schema.type:
            case Type.STRING:
                return value if isinstance(value, str) else str(value)
            case Type.BYTES:
                return value if isinstance(value, bytes) else str(value).encode()
            case Type.BOOLEAN:
                return bool(int(value))
            case Type.FLOAT64:
                return float(value)
            case _:
                return int(value)

    def placeholder(self, number: int) -> str:  # noqa: ARG002 (SQLite counts by itself)
        """Return what stands for a value."""
        return "?"

    def time_of(self, columns: Sequence[str]) -> str:
        """Return the time of a row in milliseconds."""
        return f"COALESCE({', '.join(map(self._millis, columns))}, NULL)"

    def time_value(self, time_ns: int) -> int:
        """Return milliseconds."""
        return time_ns // NS_PER_MS

    def time_ns(self, value: Any) -> int:
        """Return a time of SQLite in nanoseconds. Raises ValueError, TypeError."""
        return _millis_of(value) * NS_PER_MS

    def _millis(self, column: str) -> str:
        name = self.quoted(column)
        as_text = f"CAST(ROUND((JULIANDAY({name}) - 2440587.5) * 86400000) AS INTEGER)"
        return f"CASE TYPEOF({name}) WHEN 'text' THEN {as_text} ELSE {name} END"


class Sqlite(Database):
    """A connection to SQLite."""

    dialect = SqliteDialect()

    def __init__(self, path: str, *, is_made: bool) -> None:
        """is_made: whether a file that is missing is created. Raises ConnectError for what is no path."""
        if not path or path.startswith(":") or "?" in path:
            raise ConnectError(f"connection.url={SQLITE + path!r}: it is not {SQLITE}PATH")
        self._path, self._is_made = path, is_made
        self._connection: sqlite3.Connection | None = None

    def tables(self, schemas: str, types: Sequence[str]) -> list[str]:  # noqa: ARG002 (SQLite has no schemas)
        """Return the names of all tables."""
        kinds = ", ".join(text_literal(_KINDS[each]) for each in types if each in _KINDS)
        rows = self.query(f"SELECT name FROM sqlite_master WHERE type IN ({kinds}) AND name NOT LIKE 'sqlite_%'", ())  # noqa: S608
        return sorted(name for (name,) in rows)

    def columns(self, table: str) -> list[Column]:
        """Return the columns of a table; [] if there is no such table."""
        found = self.query(f"PRAGMA table_info({self.dialect.quoted(table)})", ())
        return [
            Column(
                name,
                declared.upper(),
                is_required=bool(required) or bool(key),
                is_key=bool(key),
                increments=bool(key) and "INT" in declared.upper(),
            )
            for _, name, declared, required, _, key in found
        ]

    def query(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query."""
        try:
            cursor = self._opened().execute(sql, values)
            while rows := cursor.fetchmany(ROWS):
                yield from rows
        except sqlite3.Error as error:
            raise self._failure(error) from error

    def columns_of_query(self, sql: str) -> list[Column]:
        """Return the columns of a query, with the types that its first row has."""
        try:
            cursor = self._opened().execute(f"SELECT * FROM ({sql}) LIMIT 1")  # noqa: S608 (the user's own query)
            names = [each[0] for each in cursor.description]
            row = cursor.fetchone() or [None] * len(names)
        except sqlite3.Error as error:
            raise self._failure(error) from error
        types = (_DECLARED.get(type(each), "TEXT") for each in row)
        return [
            Column(name, declared, is_required=False, is_key=False) for name, declared in zip(names, types, strict=True)
        ]

    def execute(self, sql: str) -> None:
        """Run a statement, in the transaction that the next commit ends."""
        self._execute(sql, ((),))

    def write(self, change: Change, rows: Sequence[Sequence[Any]]) -> None:
        """Change a table by rows of values."""
        table, names = self.dialect.qualified(change.table), [self.dialect.quoted(each) for each in change.columns]
        keys, values = names[: len(change.keys)], names[len(change.keys) :]
        where = " AND ".join(f"{each} = ?" for each in keys)
        match change.operation:
            case Operation.DELETE:
                sql = f"DELETE FROM {table} WHERE {where}"  # noqa: S608 (names are quoted)
            case Operation.UPDATE:
                sql = f"UPDATE {table} SET {', '.join(f'{each} = ?' for each in values)} WHERE {where}"  # noqa: S608
                rows = [[*row[len(keys) :], *row[: len(keys)]] for row in rows]
            case _:
                how = "INSERT OR REPLACE" if change.operation is Operation.UPSERT else "INSERT"
                sql = f"{how} INTO {table}({','.join(names)}) VALUES({','.join('?' * len(names))})"
        self._execute(sql, rows)

    def commit(self) -> None:
        """Commit what was executed and written."""
        try:
            self._opened().commit()
        except sqlite3.Error as error:
            self.rollback()
            raise self._failure(error) from error

    def rollback(self) -> None:
        """Undo what was executed and written since the last commit."""
        if self._connection is not None:
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _execute(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        try:
            connection = self._opened()
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            connection.executemany(sql, rows)
        except sqlite3.Error as error:
            self.rollback()
            raise self._failure(error) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            where = f"file:{quote(self._path)}?mode={'rwc' if self._is_made else 'rw'}"
            self._connection = sqlite3.connect(where, timeout=BUSY_S, isolation_level=None, uri=True)
        return self._connection

    def _failure(self, error: sqlite3.Error) -> ConnectError:
        is_busy = isinstance(error, sqlite3.OperationalError) and re.search(r"locked|busy|unable to open", str(error))
        return (RetriableError if is_busy else ConnectError)(f"{self._path}: {error}")


def _millis_of(value: Any) -> int:
    """Return a time of SQLite in milliseconds since 1970. Raises ValueError, TypeError."""
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return Date.of(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).millis
    return int(value)
