"""JdbcSinkConnector: records to rows of tables.

    table        table.name.format, with ${topic} for the record's topic; [schema.]table is one name in SQLite
    insert       a row for each record          upsert  a row for each primary key, that of its last record
    update       the row of the primary key     delete  a record without a value, with delete.enabled and record_key
    pk.mode      kafka: topic, partition and offset; record_key: the key, or its fields; record_value: fields of values
    auto.create  a table that is missing; auto.evolve: columns that are missing, which must be optional

A batch of records is one transaction of the database. It comes again after a failure: with upsert, or a primary key of
pk.mode=kafka and upsert, nothing is doubled. A database that is busy is tried again, max.retries times. Source:
Aiven's and Confluent's JdbcSinkTask, PreparedStatementBinder, FieldsMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from kcli.connect.config.config_def import ConfigDef, ConfigValue, words
from kcli.connect.connectors.jdbc import options
from kcli.connect.connectors.jdbc.database import Database, database_of
from kcli.connect.connectors.jdbc.dialect import Change, Operation
from kcli.connect.connectors.sink import SinkConnector
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import INT32, INT64, STRING, Schema, Type
from kcli.connect.data.struct import Struct
from kcli.connect.data.texts import java_text
from kcli.connect.engine.tasks import SinkContext, SinkTask, config_int

KAFKA_KEYS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
KAFKA_SCHEMAS: Final = (STRING, INT32, INT64)
VERSION: Final = "10.8.4"
Columns = tuple[tuple[str, Schema], ...]


class JdbcSink(SinkConnector):
    """The connector, under Confluent's class name."""

    CLASS = "io.confluent.connect.jdbc.JdbcSinkConnector"
    TASK_CLASS = "io.confluent.connect.jdbc.sink.JdbcSinkTask"
    VERSION = VERSION

    @classmethod
    def config(cls) -> ConfigDef:
        """Return the connector's options."""
        return options.SINK

    @classmethod
    def check(cls, properties: Mapping[str, str | None], values: Mapping[str, ConfigValue]) -> None:
        """Refuse deletes without a key, updates without a primary key, and a login to SQLite."""
        options.check_connection(properties, values)
        mode = properties.get("pk.mode") or "none"
        if (properties.get("delete.enabled") or "").lower() == "true" and mode != "record_key" and "pk.mode" in values:
            values["pk.mode"].errors.append("Deletes are only supported for pk.mode record_key")
        if properties.get("insert.mode") in ("upsert", "update") and mode == "none" and "pk.mode" in values:
            values["pk.mode"].errors.append(f"insert.mode={properties['insert.mode']} needs a primary key: pk.mode")
        fields = words(properties.get("pk.fields") or "")
        if mode == "kafka" and len(fields) not in (0, len(KAFKA_KEYS)) and "pk.fields" in values:
            values["pk.fields"].errors.append("pk.mode=kafka has three columns: for topic, partition and offset")

    class TASK(SinkTask):
        """Writes batches of records."""

        def start(self, config: Mapping[str, str], context: SinkContext) -> None:
            """Have the database. Raises ConnectError, NotInstalled."""
            self._database = database_of(config, is_made=True)
            self._writer = Writer(config, self._database, context.connector)
            self._context = context
            context.retry_s = config_int(config, "retry.backoff.ms", 3000) / 1000
            self._retries = config_int(config, "max.retries", 10)

        def put(self, records: Sequence[SinkRecord]) -> None:
            """Write records in one transaction. Raises RetriableError, ConnectError."""
            try:
                self._writer.write(records)
                self._database.commit()
            except RetriableError as error:
                self._database.close()
                self._writer.forget_tables()
                if self._context.retries >= self._retries:
                    raise ConnectError(str(error)) from error
                raise
            except BaseException:
                self._database.rollback()
                raise

        def stop(self) -> None:
            """Close the database."""
            found: Database | None = getattr(self, "_database", None)
            if found is not None:
                found.close()


@dataclass(frozen=True)
class Shape:
    """How records of a topic with the same schemas are written. keys, values: columns of the primary key and others."""

    table: str
    keys: Columns
    values: Columns

    def change(self, operation: Operation) -> Change:
        """Return what rows of this shape do."""
        keys, values = (tuple(name for name, _ in each) for each in (self.keys, self.values))
        return Change(operation, self.table, keys, values)

    @property
    def columns(self) -> Columns:
        """All columns, those of the primary key first."""
        return self.keys + self.values


class Writer:
    """Writes records by a configuration. connector: its name, for messages."""

    def __init__(self, config: Mapping[str, str], target: Database, connector: str) -> None:
        self._config, self._database, self._connector = config, target, connector
        self._dialect = target.dialect
        self._mode = Operation(config.get("insert.mode", "insert"))
        self._pk_mode = config.get("pk.mode", "none")
        self._pk_fields = words(config.get("pk.fields", ""))
        self._fields = frozenset(words(config.get("fields.whitelist", "")))
        self._deletes = config.get("delete.enabled", "false").lower() == "true"
        self._batch = config_int(config, "batch.size", 3000) or 1
        self._shapes: dict[tuple[str | None, Schema | None, Schema | None, bool], Shape] = {}
        self._known: dict[str, set[str]] = {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        """Write records in their order, without a commit. Raises RetriableError, ConnectError."""
        for (_, is_delete), run in groupby(records, key=self._kind):
            part = list(run)
            shape = self._shape(part[0])
            rows = [self._row(shape, each, is_delete=is_delete) for each in part]
            if not is_delete:
                self._prepare(shape)
            change = shape.change(Operation.DELETE if is_delete else self._mode)
            for start in range(0, len(rows), self._batch):
                self._database.write(change, rows[start : start + self._batch])

    def forget_tables(self) -> None:
        """Look at the tables again: a rollback has undone what was created and added."""
        self._known.clear()

    def _kind(self, record: SinkRecord) -> tuple[tuple[str | None, int, int], bool]:
        return (record.topic, id(record.key_schema), id(record.value_schema)), self._deletes and record.value is None

    def _shape(self, record: SinkRecord) -> Shape:
        known = record.topic, record.key_schema, record.value_schema, record.value is None
        if known not in self._shapes:
            self._shapes[known] = self._new_shape(record)
        return self._shapes[known]

    def _new_shape(self, record: SinkRecord) -> Shape:
        table = self._config.get("table.name.format", "${topic}").replace("${topic}", record.topic or "")
        keys = tuple(self._key_columns(record))
        if record.value is None and self._deletes:
            return Shape(table, keys, ())
        if not isinstance(record.value, Struct):
            raise ConnectError(
                f"Sink connector '{self._connector}' is configured with 'delete.enabled={str(self._deletes).lower()}' "
                f"and 'pk.mode={self._pk_mode}' and therefore requires records with a non-null Struct value and "
                f"non-null Struct schema, but found record at {_place(record)} with "
                f"{'a null' if record.value is None else 'another'} value and "
                f"{'null' if record.value_schema is None else record.value_schema} value schema."
            )
        names = {name for name, _ in keys}
        values = tuple(
            (field.name, field.schema)
            for field in record.value.schema.fields
            if field.name not in names and (not self._fields or field.name in self._fields)
        )
        if not keys and not values:
            raise ConnectError(f"No fields found using key and value schemas for table: {table}")
        return Shape(table, keys, values)

    def _key_columns(self, record: SinkRecord) -> Iterator[tuple[str, Schema]]:
        match self._pk_mode:
            case "kafka":
                yield from zip(self._pk_fields or KAFKA_KEYS, KAFKA_SCHEMAS, strict=True)
            case "record_key":
                yield from self._columns_of_key(record)
            case "record_value":
                schema = record.value_schema
                if schema is None or schema.type is not Type.STRUCT:
                    raise ConnectError(
                        f"PK mode for table '{record.topic}' is record_value, but the value is no struct"
                    )
                for name in self._pk_fields or [field.name for field in schema.fields]:
                    yield name, _field(schema, name, "record_value")
            case _:
                return

    def _columns_of_key(self, record: SinkRecord) -> Iterator[tuple[str, Schema]]:
        schema = record.key_schema
        if schema is None:
            raise ConnectError(f"PK mode for table '{record.topic}' is record_key, but record key schema is missing")
        if schema.type is Type.STRUCT:
            for name in self._pk_fields or [field.name for field in schema.fields]:
                yield name, _field(schema, name, "record_key")
        elif len(self._pk_fields) == 1:
            yield self._pk_fields[0], schema
        else:
            raise ConnectError(
                f"Need exactly one PK column defined since the key schema for records is a primitive type, defined "
                f"columns are: [{', '.join(self._pk_fields)}]"
            )

    def _row(self, shape: Shape, record: SinkRecord, *, is_delete: bool) -> list[Any]:
        keys = self._key_values(shape, record)
        if is_delete:
            return keys
        assert isinstance(record.value, Struct), "the shape was made of one"
        to_column = self._dialect.to_column
        return keys + [to_column(schema, record.value.get(name)) for name, schema in shape.values]

    def _key_values(self, shape: Shape, record: SinkRecord) -> list[Any]:
        if self._pk_mode == "kafka":
            return [record.topic, record.partition, record.offset]
        holder = record.key if self._pk_mode == "record_key" else record.value
        if holder is None:
            raise ConnectError(
                f"Sink connector '{self._connector}' is configured with 'delete.enabled={str(self._deletes).lower()}' "
                f"and 'pk.mode={self._pk_mode}' and therefore requires records with a non-null key and non-null Struct "
                f"or primitive key schema, but found record at {_place(record)} with a null key and "
                f"{'null' if record.key_schema is None else record.key_schema} key schema."
            )
        if isinstance(holder, Struct):
            return [self._dialect.to_column(schema, holder.get(name)) for name, schema in shape.keys]
        return [self._dialect.to_column(schema, holder) for _, schema in shape.keys]

    def _prepare(self, shape: Shape) -> None:
        """Have the table with the columns of a shape, if it may be created and changed. Raises ConnectError."""
        wanted = {name for name, _ in shape.columns}
        if wanted <= self._known.get(shape.table, set()):
            return
        there = {each.name for each in self._database.columns(shape.table)}
        if not there:
            if self._config.get("auto.create", "false").lower() != "true":
                raise ConnectError(f"Table {shape.table} is missing and auto-creation is disabled")
            keys = [name for name, _ in shape.keys]
            self._database.execute(self._dialect.create_table(shape.table, shape.columns, keys))
        elif missing := [each for each in shape.columns if self._dialect.folded(each[0]) not in there]:
            self._add(shape.table, missing)
        self._known[shape.table] = there | wanted

    def _add(self, table: str, missing: Columns | list[tuple[str, Schema]]) -> None:
        for name, schema in missing:
            if not schema.optional and schema.default is None:
                raise ConnectError(
                    f"Cannot ALTER TABLE {table} to add missing field {name}, as the field is not optional and does "
                    "not have a default value"
                )
        if self._config.get("auto.evolve", "false").lower() != "true":
            names = ", ".join(name for name, _ in missing)
            raise ConnectError(f"Table {table} is missing fields ([{names}]) and auto-evolution is disabled")
        for name, schema in missing:
            self._database.execute(self._dialect.add_column(table, name, schema))


def _field(schema: Schema, name: str, mode: str) -> Schema:
    field = schema.field(name)
    if field is None:
        raise ConnectError(f"PK mode {mode}: the schema does not contain the field {name} of pk.fields")
    return field.schema


def _place(record: SinkRecord) -> str:
    return (
        f"(topic='{record.topic}',partition={record.partition},offset={record.offset},"
        f"timestamp={java_text(record.timestamp)})"
    )
