"""Changes of tables to records with Debezium's envelope. No I/O but the catalog's.

    topic     PREFIX.SCHEMA.TABLE, what a topic's name may not have being _
    key       PREFIX.SCHEMA.TABLE.Key: the columns of the primary key, else those of the replica identity's index
    value     PREFIX.SCHEMA.TABLE.Envelope: before, after (.Value), source, transaction (null), op, ts_ms, ts_us, ts_ns
    op        r: a row of the snapshot, c: insert, u: update, d: delete, t: truncate
    delete    and a tombstone behind it; an update of the key is a delete, a tombstone and an insert, with the headers
              __debezium.newkey and __debezium.oldkey
    before    what PostgreSQL sends of the old row; of columns that it does not send null, or where they are NOT NULL
              an empty value of their type

A Relation does not say which columns are NOT NULL: the catalog says what they are now. A null in such a column, from
before, makes it optional. Source: RelationalChangeRecordEmitter, TableSchemaBuilder, PgOutputMessageDecoder of
Debezium.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kcli.connect.connectors.postgres.catalog import Catalog, Facts
from kcli.connect.connectors.postgres.options import Options
from kcli.connect.connectors.postgres.pgoutput import Relation, RelationColumn, Value
from kcli.connect.connectors.postgres.types import Codec, codec_of, unchanged_from
from kcli.connect.data.builder import struct_schema
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import Header, SourceRecord
from kcli.connect.data.schema import INT64, STRING, Schema
from kcli.connect.data.struct import Struct
from kcli.connect.plugins import Offset, Partition

log = logging.getLogger("kcli.connect")
VERSION: Final = "3.2.0.Final"
SNAPSHOTS: Final = (
    "true",
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
    "false",
    "incremental",
)
OLD_KEY, NEW_KEY = "__debezium.oldkey", "__debezium.newkey"
FULL, DEFAULT = "f", "d"
_OPTIONAL_INT64: Final = INT64.changed(optional=True)
_OPTIONAL_STRING: Final = STRING.changed(optional=True)
_SNAPSHOT: Final = STRING.changed(
    name="io.debezium.data.Enum", version=1, parameters={"allowed": ",".join(SNAPSHOTS)}, optional=True, default="false"
)
SOURCE: Final = struct_schema(
    [
        ("version", STRING),
        ("connector", STRING),
        ("name", STRING),
        ("ts_ms", INT64),
        ("snapshot", _SNAPSHOT),
        ("db", STRING),
        ("sequence", _OPTIONAL_STRING),
        ("ts_us", _OPTIONAL_INT64),
        ("ts_ns", _OPTIONAL_INT64),
        ("schema", STRING),
        ("table", STRING),
        ("txId", _OPTIONAL_INT64),
        ("lsn", _OPTIONAL_INT64),
        ("xmin", _OPTIONAL_INT64),
    ],
    name="io.debezium.connector.postgresql.Source",
    version=1,
)
TRANSACTION: Final = struct_schema(
    [("id", STRING), ("total_order", INT64), ("data_collection_order", INT64)],
    name="event.block",
    version=1,
    optional=True,
)
HEARTBEAT_KEY: Final = struct_schema(
    [("serverName", STRING)], name="io.debezium.connector.common.ServerNameKey", version=1
)
HEARTBEAT: Final = struct_schema([("ts_ms", INT64)], name="io.debezium.connector.common.Heartbeat", version=1)


class Origin(NamedTuple):
    """Where a change is from. time_us: when it was committed, since 1970. committed: the LSN behind the last
    transaction that was complete before. snapshot: one of SNAPSHOTS."""

    time_us: int
    transaction: int | None
    lsn: int
    committed: int | None
    snapshot: str = "false"


class _Place(NamedTuple):
    """A column that is shown. at: its place in a row."""

    at: int
    name: str
    codec: Codec

    @property
    def is_required(self) -> bool:
        """Whether the column has a value in every row."""
        return not self.codec.schema.optional


@dataclass(frozen=True)
class Table:
    """A table that is captured, as its Relation has it."""

    relation: Relation
    topic: str
    places: tuple[_Place, ...]
    key_places: tuple[_Place, ...]
    key_schema: Schema | None
    value_schema: Schema
    envelope: Schema

    def row(self, values: Sequence[Value]) -> Struct:
        """Return a row as a struct. Raises ConnectError."""
        made = Struct(self.value_schema)
        made.values = [each.codec.value(values[each.at], each.name) for each in self.places]
        return made

    def old_row(self, values: Sequence[Value], *, is_key: bool) -> Struct:
        """Return an old row. is_key: only the columns of the replica identity are known. Raises ConnectError."""
        if not is_key:
            return self.row(values)
        columns = self.relation.columns
        made = Struct(self.value_schema)
        made.values = [
            each.codec.value(values[each.at], each.name)
            if columns[each.at].is_identity or not each.is_required
            else each.codec.missing
            for each in self.places
        ]
        return made

    def key(self, values: Sequence[Value]) -> Struct | None:
        """Return the key of a row; None for a table without one. Raises ConnectError."""
        if self.key_schema is None:
            return None
        made = Struct(self.key_schema)
        made.values = [each.codec.value(values[each.at], each.name) for each in self.key_places]
        return made

    def with_optional(self, columns: frozenset[str]) -> Table:
        """Return the table with columns that may be null, whatever the catalog says."""
        places = [
            each._replace(codec=each.codec.fitted(optional=True)) if each.name in columns else each
            for each in self.places
        ]
        return table_of(self.relation, self.topic, places, self.key_places)


def table_of(relation: Relation, topic: str, places: Sequence[_Place], key_places: Sequence[_Place]) -> Table:
    """Return a table with its schemas."""
    value = struct_schema(((each.name, each.codec.schema) for each in places), name=f"{topic}.Value", optional=True)
    keys = [(each.name, each.codec.schema) for each in key_places]
    key = struct_schema(keys, name=f"{topic}.Key") if keys else None
    envelope = struct_schema(
        [
            ("before", value),
            ("after", value),
            ("source", SOURCE),
            ("transaction", TRANSACTION),
            ("op", STRING),
            ("ts_ms", _OPTIONAL_INT64),
            ("ts_us", _OPTIONAL_INT64),
            ("ts_ns", _OPTIONAL_INT64),
        ],
        name=f"{topic}.Envelope",
        version=2,
    )
    return Table(relation, topic, tuple(places), tuple(key_places), key, value, envelope)


class Tables:
    """The tables that are captured. options: the connector's."""

    def __init__(self, options: Options, catalog: Catalog) -> None:
        self._options, self._catalog = options, catalog
        self._known: dict[int, Table | None] = {}

    def learn(self, relation: Relation) -> None:
        """Take a table as its Relation has it from now on. Raises RetriableError, ConnectError."""
        is_captured = self._options.captures(relation.schema, relation.name)
        self._catalog.forget_types()
        self._known[relation.oid] = self._made(relation) if is_captured else None

    def of(self, oid: int) -> Table | None:
        """Return a table; None for one that is not captured. Raises ConnectError for one without a Relation."""
        try:
            return self._known[oid]
        except KeyError:
            raise ConnectError(f"a change of the relation {oid}, which has not been described") from None

    def fitting(self, oid: int, *rows: Sequence[Value] | None) -> Table | None:
        """Return the table of rows, in which a column is optional from now on if it is null in one of them; None for a
        table that is not captured. Raises ConnectError."""
        table = self.of(oid)
        if table is None:
            return None
        for values in rows:
            if values is not None:
                if len(values) != len(table.relation.columns):
                    raise ConnectError(
                        f"{table.topic}: a row of {len(values)} values, not {len(table.relation.columns)}"
                    )
                nulls = frozenset(each.name for each in table.places if each.is_required and values[each.at] is None)
                if nulls:
                    self._known[oid] = table = table.with_optional(nulls)
        return table

    def _made(self, relation: Relation) -> Table:
        facts = self._catalog.facts(relation.oid)
        keys = _keys(relation, facts)
        places = [found for at, each in enumerate(relation.columns) if (found := self._place(at, each, facts))]
        shown = self._options.shows
        values = [each for each in places if shown(relation.schema, relation.name, each.name)]
        topic = topic_name(f"{self._options.prefix}.{relation.schema}.{relation.name}")
        return table_of(relation, topic, values, [each for each in places if each.name in keys])

    def _place(self, at: int, column: RelationColumn, facts: Facts) -> _Place | None:
        kind = self._catalog.type(column.type, column.modifier)
        codec = None if kind is None else codec_of(kind[0], kind[1], self._options.modes)
        if codec is None:
            name = column.type if kind is None else kind[0].name
            log.warning("the column %s is left out: there is no schema for its type %s", column.name, name)
            return None
        return _Place(at, column.name, codec.fitted(optional=column.name not in facts.required))


def _keys(relation: Relation, facts: Facts) -> frozenset[str]:
    """Return the columns of the key."""
    flagged = frozenset(each.name for each in relation.columns if each.is_identity)
    known = frozenset(facts.keys)
    if relation.identity == DEFAULT:
        return flagged
    has_all = known <= {each.name for each in relation.columns}
    return known if known and has_all else frozenset() if relation.identity == FULL else flagged


class Events:
    """Makes the records of changes."""

    def __init__(self, options: Options, tables: Tables) -> None:
        self._options, self._tables = options, tables
        self._partition: Partition = {"server": options.prefix}

    def read(self, oid: int, values: Sequence[Value], origin: Origin) -> list[SourceRecord]:
        """Return the record of a row of the snapshot. Raises ConnectError."""
        return self._new("r", oid, values, origin)

    def insert(self, oid: int, new: Sequence[Value], origin: Origin) -> list[SourceRecord]:
        """Return the records of an insert. Raises ConnectError."""
        return self._new("c", oid, new, origin)

    def update(
        self, oid: int, old: Sequence[Value] | None, new: Sequence[Value], origin: Origin, *, is_key: bool
    ) -> list[SourceRecord]:
        """Return the records of an update. old: the old row, if it is known; is_key: only its replica identity. Raises
        ConnectError."""
        whole = None if is_key else old
        new = unchanged_from(new, whole)
        table = self._tables.fitting(oid, new, whole)
        if table is None or "u" in self._options.skipped:
            return []
        after, key = table.row(new), table.key(new)
        before = None if old is None else table.old_row(old, is_key=is_key)
        old_key = None if old is None else table.key(old)
        if key is None or old_key is None or old_key == key:
            return [self._record(table, key, self._envelope(table, "u", before, after, origin))]
        deleted = self._record(table, old_key, self._envelope(table, "d", before, None, origin))
        created = self._record(table, key, self._envelope(table, "c", None, after, origin))
        deleted.headers = (Header(NEW_KEY, key, table.key_schema),)
        created.headers = (Header(OLD_KEY, old_key, table.key_schema),)
        return [deleted, *self._tombstone(deleted), created]

    def delete(self, oid: int, old: Sequence[Value], origin: Origin, *, is_key: bool) -> list[SourceRecord]:
        """Return the records of a delete. Raises ConnectError."""
        table = self._tables.fitting(oid, None if is_key else old)
        if table is None or "d" in self._options.skipped:
            return []
        before = table.old_row(old, is_key=is_key)
        deleted = self._record(table, table.key(old), self._envelope(table, "d", before, None, origin))
        return [deleted, *self._tombstone(deleted)]

    def truncate(self, oids: Sequence[int], origin: Origin) -> list[SourceRecord]:
        """Return the records of tables that are empty now. Raises ConnectError."""
        if "t" in self._options.skipped:
            return []
        tables = [table for each in oids if (table := self._tables.of(each))]
        return [self._record(each, None, self._envelope(each, "t", None, None, origin)) for each in tables]

    def heartbeat(self, time_ms: int) -> SourceRecord:
        """Return the record that says that the connector is alive."""
        key, value = Struct(HEARTBEAT_KEY), Struct(HEARTBEAT)
        key.values, value.values = [self._options.prefix], [time_ms]
        return SourceRecord(
            topic=topic_name(f"{self._options.heartbeat_prefix}.{self._options.prefix}"),
            key_schema=HEARTBEAT_KEY,
            key=key,
            value_schema=HEARTBEAT,
            value=value,
            source_partition=self._partition,
        )

    def _new(self, operation: str, oid: int, values: Sequence[Value], origin: Origin) -> list[SourceRecord]:
        table = self._tables.fitting(oid, values)
        if table is None or operation in self._options.skipped:
            return []
        envelope = self._envelope(table, operation, None, table.row(values), origin)
        return [self._record(table, table.key(values), envelope)]

    def _record(self, table: Table, key: Struct | None, value: Struct) -> SourceRecord:
        return SourceRecord(
            topic=table.topic,
            key_schema=None if key is None else key.schema,
            key=key,
            value_schema=table.envelope,
            value=value,
            source_partition=self._partition,
        )

    def _tombstone(self, record: SourceRecord) -> list[SourceRecord]:
        if record.key is None or not self._options.tombstones:
            return []
        return [replace(record, value_schema=None, value=None, headers=())]

    def _envelope(
        self, table: Table, operation: str, before: Struct | None, after: Struct | None, origin: Origin
    ) -> Struct:
        now_us = time.time_ns() // 1000
        made = Struct(table.envelope)
        source = self._source(table.relation, origin)
        made.values = [before, after, source, None, operation, now_us // 1000, now_us, now_us * 1000]
        return made

    def _source(self, relation: Relation, origin: Origin) -> Struct:
        made = Struct(SOURCE)
        committed = "null" if origin.committed is None else f'"{origin.committed}"'
        made.values = [
            VERSION,
            "postgresql",
            self._options.prefix,
            origin.time_us // 1000,
            origin.snapshot,
            self._options.database,
            f'[{committed},"{origin.lsn}"]',
            origin.time_us,
            origin.time_us * 1000,
            relation.schema,
            relation.name,
            origin.transaction,
            origin.lsn,
            None,
        ]
        return made


def with_offset(records: Sequence[SourceRecord], offset: Offset) -> Sequence[SourceRecord]:
    """Give records their offset; return them."""
    for each in records:
        each.source_offset = offset
    return records


def topic_name(name: str) -> str:
    """Return a name as a topic may have it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
