"""PostgreSQL, by psycopg.

url              jdbc:postgresql://HOST[:PORT][,HOST...]/DATABASE[?PARAMETERS], with pgjdbc's parameters
to PostgreSQL    int8, int16: SMALLINT; int32: INT; int64: BIGINT; float32: REAL; float64: DOUBLE PRECISION; BOOLEAN;
                 string: TEXT; bytes: BYTEA; Decimal: DECIMAL; Date: DATE; Time: TIME; Timestamp: TIMESTAMP, in UTC
from PostgreSQL  the same back, timestamptz too; numeric(p, s): Decimal of the scale, or as numeric.mapping says; oid:
                 int64; money: float64; arrays are refused; others (json, uuid, inet, an enum): their text
writing          COPY into the table; for upsert, update and delete into a temporary table, whose last row for each key
                 goes to the table by one statement. A few rows are statements of their own, all sent at once
                 (pipeline mode). The server reads text as the type of its column: json, uuid or an enum
reading          by a cursor of the server
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import psycopg

from kcli.connect.connectors.jdbc.database import POSTGRES, Database
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
from kcli.connect.connectors.postgres.connecting import Connection, connected, errors_of
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.logical import DATE, DAY_MS, TIME, TIMESTAMP, decimal_schema
from kcli.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    Type,
)
from kcli.connect.data.values import LOGICAL_DATE, LOGICAL_DECIMAL, LOGICAL_TIME, LOGICAL_TIMESTAMP, Date

ROWS: Final = 1000
FEW: Final = 50
"""How many rows are sent as statements of their own."""
KEEPING_NUMBER: Final = "__kcli_number"
NAME_MAX: Final = 2
_PART: Final = r'(?:"(?:[^"]|"")+"|[^".]+)'
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LOGICAL: Final = {
    LOGICAL_DECIMAL: "DECIMAL",
    LOGICAL_DATE: "DATE",
    LOGICAL_TIME: "TIME",
    LOGICAL_TIMESTAMP: "TIMESTAMP",
}
_TYPES: Final = {
    Type.BOOLEAN: "BOOLEAN",
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
}
_SCHEMAS: Final = {
    "boolean": BOOLEAN,
    "smallint": INT16,
    "integer": INT32,
    "bigint": INT64,
    "oid": INT64,
    "real": FLOAT32,
    "double precision": FLOAT64,
    "money": FLOAT64,
    "bytea": BYTES,
    "date": DATE,
    "time without time zone": TIME,
    "time with time zone": TIME,
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMP,
}
_AS_TEXT: Final = ("text", "character varying", "character", "name")
_KINDS: Final = {
    "TABLE": "r",
    "PARTITIONED TABLE": "p",
    "VIEW": "v",
    "MATERIALIZED VIEW": "m",
    "FOREIGN TABLE": "f",
}
_INTEGERS: Final = ((2, INT8), (4, INT16), (9, INT32), (18, INT64))
"""The digits that fit the types of integers."""
_DIRECTLY: Final = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "ApplicationName": "application_name",
    "options": "options",
    "gssEncMode": "gssencmode",
}
"""pgjdbc's parameters that libpq has under these names."""
_SERVERS: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}
_OF_NO_MATTER: Final = frozenset(
    (
        "adaptiveFetch", "autosave", "binaryTransfer", "defaultRowFetchSize", "logUnclosedConnections",
        "preferQueryMode", "prepareThreshold", "reWriteBatchedInserts", "socketTimeout", "stringtype", "tcpKeepAlive",
    )
)  # fmt: skip
"""pgjdbc's parameters that change nothing here."""
_TABLES: Final = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind::text = ANY(%s) AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'
AND n.nspname LIKE %s ORDER BY 1, 2"""
_COLUMNS: Final = """
SELECT a.attname, format_type(b.typid, NULL), a.attnotnull, coalesce(a.attnum = ANY(i.indkey), false),
a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false), b.typmod
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END AS typid,
CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END AS typmod) b
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


class PostgresDialect(Dialect):
    """PostgreSQL's SQL. folds: names are in lower case, as those without quotes are. numerics: numeric.mapping."""

    def __init__(self, *, folds: bool, numerics: str) -> None:
        self._folds, self._numerics = folds, numerics

    def quoted(self, name: str) -> str:
        """Return a name in quotes."""
        return '"' + self.folded(name).replace('"', '""') + '"'

    def folded(self, name: str) -> str:
        """Return a name as the database stores it."""
        return name.lower() if self._folds else name

    def qualified(self, table: str) -> str:
        """Return the names of a schema and a table in quotes."""
        return ".".join(map(self.quoted, parts_of(table)))

    def topic_name(self, table: str) -> str:
        """Return the table's name without its schema."""
        return parts_of(table)[-1]

    def type_of(self, schema: Schema) -> str:
        """Return the type of a column for values of a schema. Raises ConnectError."""
        found = _LOGICAL.get(schema.name or "") or _TYPES.get(schema.type)
        if found is None:
            raise unmapped(schema)
        return found

    def literal(self, value: Any) -> str:
        """Return a value as SQL has it."""
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'"
        return str(value) if is_number(value) else text_literal(str(value))

    def to_column(self, schema: Schema | None, value: Any) -> Any:
        """Return a value of Connect as psycopg takes it. Raises ConnectError."""
        if value is None or isinstance(value, (bool, int, float, str, bytes, Decimal)):
            return value
        if isinstance(value, Date):
            try:
                moment = value.moment.replace(tzinfo=None)
            except OverflowError:
                raise ConnectError(f"the date of {value.millis} ms is outside of the years 1 to 9999") from None
            match None if schema is None else schema.name:
                case "org.apache.kafka.connect.data.Date":
                    return moment.date()
                case "org.apache.kafka.connect.data.Time":
                    return moment.time()
            return moment
        raise unsupported(value)

    def schema_of(self, column: Column) -> Schema:
        """Return the schema of a column. Raises ConnectError."""
        if column.declared.endswith("[]"):
            raise ConnectError(f"column {column.name} is an array ({column.declared}), for which there is no schema")
        if column.declared == "numeric":
            return self._numeric(column.precision, column.scale)
        return _SCHEMAS.get(column.declared, STRING)

    def from_column(self, schema: Schema, value: Any) -> Any:
        """Return a column's value as one of Connect's. Raises ValueError, TypeError."""
        how = _FROM.get(schema.name or schema.type)
        return value if how is None else how(schema, value)

    def selected(self, column: Column) -> str:
        """Return a column, as text if its type has no schema of its own."""
        name = self.quoted(column.name)
        if column.declared == "money":
            return f"{name}::numeric::double precision"
        if column.declared in _SCHEMAS or column.declared in _AS_TEXT or column.declared == "numeric":
            return name
        return f"{name}::text"

    def placeholder(self, number: int) -> str:
        """Return what stands for a value."""
        return f"${number}"

    def time_of(self, columns: Sequence[str]) -> str:
        """Return the first column that is not null."""
        names = [self.quoted(each) for each in columns]
        return names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})"

    def time_value(self, time_ns: int) -> datetime:
        """Return a moment."""
        return _EPOCH + timedelta(microseconds=time_ns // 1000)

    def time_ns(self, value: Any) -> int:
        """Return a moment in nanoseconds. Raises TypeError."""
        return _micros(value) * 1000

    def _numeric(self, precision: int | None, scale: int | None) -> Schema:
        mapping = self._numerics
        if precision is None and mapping.startswith("best_fit"):
            return FLOAT64
        if precision is None or scale is None or mapping == "none":
            return decimal_schema(scale or 0)
        if scale <= 0 or mapping == "best_fit_eager_double":
            found = next((schema for digits, schema in _INTEGERS if precision - min(scale, 0) <= digits), None)
            if scale > 0:
                return FLOAT64
            if found is not None and (scale == 0 or mapping != "precision_only"):
                return found
        elif mapping == "best_fit" and precision <= _INTEGERS[-1][0]:
            return FLOAT64
        return decimal_schema(scale)


class Postgres(Database):
    """A connection to PostgreSQL."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Raises ConnectError for a URL with a parameter that is not known."""
        self._parameters = parameters_of(config["connection.url"])
        for name in ("user", "password"):
            if config.get(f"connection.{name}"):
                self._parameters[name] = config[f"connection.{name}"]
        self._name = self._parameters.get("dbname", "postgres")
        self.dialect: PostgresDialect = PostgresDialect(
            folds=config.get("quote.sql.identifiers", "always") == "never",
            numerics=config.get("numeric.mapping", "none").lower(),
        )
        self._connection: Connection | None = None
        self._stages: dict[tuple[str, tuple[str, ...]], str] = {}
        self._pipeline = ExitStack()
        self._is_pipelined = False

    def tables(self, schemas: str, types: Sequence[str]) -> list[str]:
        """Return the names of all tables, each with its schema."""
        kinds = [_KINDS[each] for each in types if each in _KINDS]
        found = [joined(row) for row in self._rows(_TABLES, kinds, schemas or "%")]
        self.rollback()
        return found

    def columns(self, table: str) -> list[Column]:
        """Return the columns of a table; [] if there is no such table."""
        found = self._rows(_COLUMNS, self.dialect.qualified(table))
        return [
            Column(name, declared, required, is_key, increments, *_digits(declared, modifier))
            for name, declared, required, is_key, increments, modifier in found
        ]

    def columns_of_query(self, sql: str) -> list[Column]:
        """Return the columns of a query."""
        with errors_of(self._name), self._opened().cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({sql}) AS kcli LIMIT 0".encode())  # noqa: S608 (the user's own query)
            described = cursor.description or ()
        types = [each.type_code for each in described]
        names = dict(self._rows("SELECT oid::bigint, format_type(oid, NULL) FROM pg_type WHERE oid = ANY(%s)", types))
        return [
            Column(
                each.name,
                names[each.type_code],
                is_required=False,
                is_key=False,
                precision=each.precision,
                scale=each.scale,
            )
            for each in described
        ]

    def query(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query; the transaction ends with the last one."""
        with errors_of(self._name):
            connection = self._opened()
            try:
                with psycopg.RawServerCursor(connection, "kcli") as cursor:
                    cursor.execute(sql.encode(), values)
                    while rows := cursor.fetchmany(ROWS):
                        yield from rows
            finally:
                self.rollback()

    def execute(self, sql: str) -> None:
        """Run a statement, in the transaction that the next commit ends."""
        with errors_of(self._name):
            self._synced().execute(sql.encode())

    def write(self, change: Change, rows: Sequence[Sequence[Any]]) -> None:
        """Change a table by rows of values."""
        with errors_of(self._name):
            if len(rows) <= FEW:
                self._write_few(change, rows)
                return
            self._synced()
            table, columns = self.dialect.qualified(change.table), self._list(change.columns)
            if change.operation is Operation.INSERT:
                self._copy(f"{table} ({columns})", rows)
                return
            stage = self._stage(change)
            self._copy(stage, [(number, *row) for number, row in enumerate(rows)])
            connection = self._opened()
            connection.execute(self._merged(change, stage).encode())
            connection.execute(f"TRUNCATE {stage}".encode())

    def commit(self) -> None:
        """Commit what was executed and written."""
        with errors_of(self._name):
            self._synced().commit()

    def rollback(self) -> None:
        """Undo what was executed and written since the last commit."""
        self._stages.clear()
        with suppress(psycopg.Error):  # those of statements that are undone
            self._end_pipeline()
        if self._connection is not None and not self._connection.closed:
            with errors_of(self._name):
                self._connection.rollback()

    def close(self) -> None:
        """Close the connection, if there is one."""
        self._stages.clear()
        with suppress(psycopg.Error):
            self._end_pipeline()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> Connection:
        if self._connection is None:
            self._connection = connected(self._parameters)
            self._connection.autocommit = False
        return self._connection

    def _synced(self) -> Connection:
        """Return the connection, with all statements done. Raises psycopg's errors."""
        self._end_pipeline()
        return self._opened()

    def _end_pipeline(self) -> None:
        self._is_pipelined = False
        self._pipeline.close()

    def _write_few(self, change: Change, rows: Sequence[Sequence[Any]]) -> None:
        """Send a statement for each row; its error may come with a later call."""
        connection = self._opened()
        if not self._is_pipelined:
            self._pipeline.enter_context(connection.pipeline())
            self._is_pipelined = True
        sql, cursor = self._statement(change).encode(), psycopg.RawCursor(connection)
        for row in rows:
            cursor.execute(sql, row)

    def _statement(self, change: Change) -> str:
        """Return the statement for one row."""
        table, keys = self.dialect.qualified(change.table), change.keys
        marks = {name: f"${number}" for number, name in enumerate(change.columns, 1)}
        where = " AND ".join(f"{self.dialect.quoted(each)} = {marks[each]}" for each in keys)
        match change.operation:
            case Operation.DELETE:
                return f"DELETE FROM {table} WHERE {where}"  # noqa: S608 (names are quoted)
            case Operation.UPDATE:
                changes = ", ".join(f"{self.dialect.quoted(each)} = {marks[each]}" for each in change.values)
                return f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608
        sql = f"INSERT INTO {table} ({self._list(change.columns)}) VALUES ({', '.join(marks.values())})"  # noqa: S608
        return sql if change.operation is Operation.INSERT else sql + self._on_conflict(change)

    def _on_conflict(self, change: Change) -> str:
        quoted = self.dialect.quoted
        changes = ", ".join(f"{quoted(each)} = EXCLUDED.{quoted(each)}" for each in change.values)
        then = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        return f" ON CONFLICT ({self._list(change.keys)}) {then}"

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with errors_of(self._name):
            return self._synced().execute(sql.encode(), values).fetchall()

    def _list(self, names: Sequence[str], table: str = "") -> str:
        return ", ".join(table + self.dialect.quoted(each) for each in names)

    def _copy(self, to: str, rows: Sequence[Sequence[Any]]) -> None:
        with self._opened().cursor() as cursor, cursor.copy(f"COPY {to} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def _stage(self, change: Change) -> str:
        """Return the temporary table for rows of these columns; it is empty."""
        known = change.table, change.columns
        if known not in self._stages:
            name = f"pg_temp.kcli_{len(self._stages)}"
            table = f"CREATE TEMPORARY TABLE {name.removeprefix('pg_temp.')} ON COMMIT DELETE ROWS"
            columns = f"0::bigint AS {KEEPING_NUMBER}, {self._list(change.columns)}"
            rows = f"SELECT {columns} FROM {self.dialect.qualified(change.table)} WITH NO DATA"  # noqa: S608 (quoted)
            sql = f"DROP TABLE IF EXISTS {name}; {table} AS {rows}"
            self._opened().execute(sql.encode())
            self._stages[known] = name
        return self._stages[known]

    def _merged(self, change: Change, stage: str) -> str:
        """Return the statement that brings the last row for each key to the table."""
        quoted, table = self.dialect.quoted, self.dialect.qualified(change.table)
        keys, columns = self._list(change.keys), self._list(change.columns)
        last = f"SELECT DISTINCT ON ({keys}) {columns} FROM {stage} ORDER BY {keys}, {KEEPING_NUMBER} DESC"  # noqa: S608
        where = " AND ".join(f"kcli_t.{quoted(each)} = kcli_s.{quoted(each)}" for each in change.keys)
        match change.operation:
            case Operation.DELETE:
                return f"DELETE FROM {table} AS kcli_t USING {stage} AS kcli_s WHERE {where}"  # noqa: S608
            case Operation.UPDATE:
                changes = ", ".join(f"{quoted(each)} = kcli_s.{quoted(each)}" for each in change.values)
                return f"UPDATE {table} AS kcli_t SET {changes} FROM ({last}) AS kcli_s WHERE {where}"  # noqa: S608
        return f"INSERT INTO {table} ({columns}) {last}{self._on_conflict(change)}"


def parameters_of(url: str) -> dict[str, str]:
    """Return libpq's parameters for a URL of pgjdbc. Raises ConnectError."""
    place, _, query = url.removeprefix(POSTGRES).partition("?")
    found: dict[str, str] = {}
    if place.startswith("//"):
        hosts, _, database = place[2:].partition("/")
        if hosts:
            pairs = [re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d+))?", each) for each in hosts.split(",")]
            if not all(pairs):
                raise ConnectError(f"connection.url: {hosts!r} is no list of HOST:PORT")
            found["host"] = ",".join(each[1].strip("[]") or "localhost" for each in pairs if each)
            found["port"] = ",".join(each[2] or "5432" for each in pairs if each)
    else:
        database = place.removeprefix("/")
    if database:
        found["dbname"] = unquote(database)
    found.setdefault("host", "localhost")
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _DIRECTLY:
            found[_DIRECTLY[name]] = value
        elif name == "ssl":
            found |= {"sslmode": "verify-full"} if value != "false" else {}
        elif name == "currentSchema":
            path = value.replace("\\", "\\\\").replace(" ", "\\ ")
            found["options"] = f"{found.get('options', '')} -c search_path={path}".strip()
        elif name == "targetServerType" and value in _SERVERS:
            found["target_session_attrs"] = _SERVERS[value]
        elif name not in _OF_NO_MATTER:
            raise ConnectError(f"connection.url: the parameter {name}={value} is not known")
    return found


def parts_of(table: str) -> list[str]:
    """Return the schema, if there is one, and the name of a table: `s.t`, `t` or `"a.b".t`. Raises ConnectError."""
    if not re.fullmatch(rf"{_PART}(?:\.{_PART})*", table):
        raise ConnectError(f"{table!r} is no name of a table")
    found = re.findall(_PART, table)
    return [each[1:-1].replace('""', '"') if each[0] == '"' else each for each in found][-NAME_MAX:]


def joined(parts: Sequence[str]) -> str:
    """Return the names of a schema and a table as one text."""
    return ".".join('"' + each.replace('"', '""') + '"' if '"' in each or "." in each else each for each in parts)


def _digits(declared: str, modifier: int) -> tuple[int | None, int | None]:
    """Return the precision and the scale of a numeric column."""
    if declared != "numeric" or modifier < 0:
        return None, None
    scale = (modifier - 4) & 0x7FF
    return (modifier - 4) >> 16, scale - 0x800 if scale & 0x400 else scale


def _micros(value: Any) -> int:
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value.toordinal() - _EPOCH.toordinal()) * DAY_MS * 1000
    raise TypeError(f"{value!r} is no time")


def _decimal(schema: Schema, value: Any) -> Decimal:
    scale = int((schema.parameters or {})["scale"])
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError(value)
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    if -exponent > scale and any(digits[scale + exponent :]):
        raise ValueError(value)
    more = scale + exponent
    return Decimal((sign, digits[:more] if more < 0 else (*digits, *(0,) * more), -scale))


def _time(_schema: Schema, value: Any) -> Date:
    if not isinstance(value, time):
        raise TypeError(value)
    moment = datetime.combine(_EPOCH.date(), value, tzinfo=value.tzinfo or UTC)
    return Date((moment - _EPOCH) // timedelta(milliseconds=1) % DAY_MS)


_FROM: Final[dict[object, Callable[[Schema, Any], Any]]] = {
    LOGICAL_DECIMAL: _decimal,
    LOGICAL_DATE: lambda _, value: Date(_micros(value) // 1000),
    LOGICAL_TIME: _time,
    LOGICAL_TIMESTAMP: lambda _, value: Date(_micros(value) // 1000),
    Type.FLOAT64: lambda _, value: float(value),
    Type.INT8: lambda _, value: int(value),
    Type.INT16: lambda _, value: int(value),
    Type.INT32: lambda _, value: int(value),
    Type.INT64: lambda _, value: int(value),
    Type.BYTES: lambda _, value: bytes(value),
}
