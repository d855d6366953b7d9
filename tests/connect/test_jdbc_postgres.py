"""The JDBC connectors on PostgreSQL: types both ways, how rows are written and found, a server that is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from kcli.connect.connectors.jdbc.postgres import joined, parameters_of, parts_of
from kcli.connect.connectors.jdbc.sink import JdbcSink
from kcli.connect.connectors.jdbc.source import JdbcSource
from kcli.connect.data.builder import array_schema, struct_schema
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.logical import DATE, TIME, TIMESTAMP, decimal_schema
from kcli.connect.data.records import SinkRecord, SourceRecord
from kcli.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
)
from kcli.connect.data.values import Date
from kcli.connect.engine.offsets import partition_key
from kcli.connect.engine.tasks import SinkContext, SourceContext
from kcli.testing.kafka import Kafka
from tests.connect.postgres import Database
from tests.connect.test_jdbc import BY_KEY, CREATES, ORDER, record, struct
from tests.connect.turns import consumed, turn


def write(database: Database, *records: SinkRecord, **more: str) -> None:
    task = JdbcSink.TASK()
    config = {name.replace("_", "."): text for name, text in more.items()}
    task.start({"connection.url": database.url, **config}, SinkContext("out"))
    try:
        task.put(records)
    finally:
        task.stop()


ALL = struct_schema(
    [
        ("flag", BOOLEAN),
        ("tiny", INT8),
        ("small", INT16),
        ("medium", INT32),
        ("large", INT64),
        ("single", FLOAT32),
        ("real", FLOAT64),
        ("text", Schema(STRING.type, default="it's")),
        ("data", BYTES),
        ("price", decimal_schema(2)),
        ("day", DATE),
        ("time", TIME),
        ("at", TIMESTAMP),
        ("none", OPTIONAL_STRING),
    ]
)


def all_values() -> list[Any]:
    day = 86_400_000
    numbers = [True, -1, -2, -3, 1 << 60, 1.5, -1e300, "tab\there\\", b"\0\xff", Decimal("-12.50")]
    return [*numbers, Date(19_000 * day), Date(day - 1), Date(1_600_000_000_123), None]


def test_inserts_into_a_table_that_is_made(postgres: Database) -> None:
    """Each type of Connect has its column, and comes back as the same value."""
    write(postgres, record(struct(ALL, *all_values())), **CREATES)
    types = postgres.run(
        "SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns "
        "WHERE table_name = 'orders' ORDER BY ordinal_position"
    )
    assert types == [
        ("flag", "boolean", "NO", None),
        ("tiny", "smallint", "NO", None),
        ("small", "smallint", "NO", None),
        ("medium", "integer", "NO", None),
        ("large", "bigint", "NO", None),
        ("single", "real", "NO", None),
        ("real", "double precision", "NO", None),
        ("text", "text", "YES", "'it''s'::text"),
        ("data", "bytea", "NO", None),
        ("price", "numeric", "NO", None),
        ("day", "date", "NO", None),
        ("time", "time without time zone", "NO", None),
        ("at", "timestamp without time zone", "NO", None),
        ("none", "text", "YES", None),
    ]
    postgres.run("ALTER TABLE orders ALTER price TYPE numeric(9, 2)")
    (found,) = Reading(postgres, mode="bulk").records()
    assert (found.topic, found.value.schema.name) == ("p-orders", "orders")
    assert found.value.values == all_values()
    by_name = {each.name: each.schema for each in found.value.schema.fields}
    for field in ALL.fields:
        schema = {"tiny": INT16, "text": STRING.changed(optional=True)}.get(field.name, field.schema)
        assert by_name[field.name] == schema


def test_upserts_updates_and_deletes(postgres: Database) -> None:
    """Of several records of a key in a batch the last one counts."""
    what = struct_schema([("what", OPTIONAL_STRING)])

    def of(key: int, text: str | None) -> SinkRecord:
        return record(None if text is None else struct(what, text), key, INT64)

    def rows() -> list[tuple[Any, ...]]:
        return postgres.run("SELECT id, what FROM orders ORDER BY 1")

    write(postgres, of(1, "a"), of(2, "b"), of(1, "c"), insert_mode="upsert", **BY_KEY)
    assert rows() == [(1, "c"), (2, "b")]
    more = {"insert_mode": "upsert", "delete_enabled": "true", "batch_size": "2"}
    write(postgres, of(1, None), of(3, "d"), of(2, "e"), of(2, "f"), of(3, None), **more, **BY_KEY)
    assert rows() == [(2, "f")]
    write(postgres, of(2, "g"), of(2, "h"), of(9, "no row"), insert_mode="update", **BY_KEY)
    assert rows() == [(2, "h")]
    key = struct_schema([("id", INT64)])
    write(
        postgres,
        *[record(struct(key, each), struct(key, each), key) for each in (2, 5)],
        insert_mode="upsert",
        **BY_KEY,
    )
    assert rows() == [(2, "h"), (5, None)]
    with pytest.raises(ConnectError, match=r'duplicate key value .*"orders_pkey".*Key .id.=.2. already exists'):
        write(postgres, of(8, "not kept"), of(2, "i"), **BY_KEY)
    assert rows() == [(2, "h"), (5, None)]


def test_columns_of_types_that_connect_has_not(postgres: Database) -> None:
    """A text becomes json, uuid or an enum; a Timestamp is one of UTC."""
    postgres.run(
        "CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE SCHEMA s; SET TIME ZONE 'Asia/Tokyo';"
        "CREATE TABLE s.orders (id uuid PRIMARY KEY, doc jsonb, how mood, at timestamptz, more numeric, list int[])"
    )
    schema = struct_schema([("id", STRING), ("doc", STRING), ("how", STRING), ("at", TIMESTAMP), ("more", FLOAT64)])
    value = struct(schema, "00000000-0000-0000-0000-00000000000a", '{"a": 1}', "bad", Date(1500), 0.5)
    for mode in ("insert", "upsert"):
        more = {"pk_mode": "record_value", "pk_fields": "id", "table_name_format": "s.${topic}"}
        write(postgres, record(value), insert_mode=mode, **more)
    (row,) = postgres.run("SELECT id::text, doc->>'a', how::text, extract(epoch from at), more::text FROM s.orders")
    assert row == ("00000000-0000-0000-0000-00000000000a", "1", "bad", Decimal("1.5"), "0.5")
    with pytest.raises(ConnectError, match=r"column list is an array \(integer\[\]\), for which there is no schema"):
        Reading(postgres, mode="bulk").records()
    postgres.run(
        "ALTER TABLE s.orders DROP list, ADD span interval DEFAULT '1 day 02:00', ADD cost money DEFAULT 1234.5"
    )
    with pytest.raises(ConnectError, match=r"column more: Decimal\('0.5'\) is no value of the type BYTES"):
        Reading(postgres, mode="bulk").records()
    (found,) = Reading(postgres, mode="bulk", numeric_mapping="best_fit").records()
    assert found.value.values == [row[0], '{"a": 1}', "bad", Date(1500), 0.5, "P1DT2H", 1234.5]
    with pytest.raises(ConnectError, match="invalid input value for enum mood"):
        write(postgres, record(struct(schema, row[0], "{}", "so so", Date(0), 0.5)), table_name_format="s.orders")


def test_numbers_by_their_digits(postgres: Database) -> None:
    postgres.run(
        "CREATE TABLE t (a numeric(2), b numeric(9), c numeric(18), d numeric(6, 2), e numeric(30), f numeric)"
    )
    postgres.run("INSERT INTO t VALUES (12, 123, 1234, 1.5, 5, 7)")
    names = {
        "none": ["bytes"] * 6,
        "precision_only": ["int8", "int32", "int64", "bytes", "bytes", "bytes"],
        "best_fit": ["int8", "int32", "int64", "float64", "bytes", "float64"],
        "best_fit_eager_double": ["int8", "int32", "int64", "float64", "bytes", "float64"],
    }
    for mapping, types in names.items():
        (found,) = Reading(postgres, mode="bulk", numeric_mapping=mapping).records()
        assert [each.schema.type.value for each in found.value.schema.fields] == types
        assert [*map(float, found.value.values)] == [12, 123, 1234, 1.5, 5, 7]
    (found,) = Reading(postgres, mode="bulk").records()
    assert str(found.value.get("d")) == "1.50"


def test_tables_are_made_and_changed(postgres: Database) -> None:
    postgres.run('CREATE TABLE "Orders" (id INTEGER)')
    row = record(struct(ORDER, 1, "x"))
    with pytest.raises(ConnectError, match="Table orders is missing and auto-creation is disabled"):
        write(postgres, row)
    with pytest.raises(ConnectError, match=r"Table Orders is missing fields \(\[what\]\) and auto-evolution is dis"):
        write(postgres, row, table_name_format="Orders")
    write(postgres, row, table_name_format="Orders", auto_evolve="true")
    assert postgres.run('SELECT * FROM "Orders"') == [(1, "x")]
    write(postgres, row, table_name_format="Orders", quote_sql_identifiers="never", **CREATES)
    assert postgres.run("SELECT * FROM orders") == [(1, "x")]
    arrays = struct_schema([("id", array_schema(INT64))])
    with pytest.raises(ConnectError, match="Unsupported source data type: list"):
        write(postgres, record(struct(arrays, [1])), table_name_format="other", **CREATES)
    with pytest.raises(ConnectError, match="NUL"):
        write(postgres, record(struct(ORDER, 1, "\0")), **CREATES)


def test_names_of_tables_and_urls() -> None:
    for text, parts in {"t": ["t"], "s.t": ["s", "t"], "db.s.t": ["s", "t"], '"a.b"."c""d"': ["a.b", 'c"d']}.items():
        assert parts_of(text) == parts
    assert joined(["a.b", 'c"d']) == '"a.b"."c""d"'
    for text in ("", ".", "a.", 'a"b'):
        with pytest.raises(ConnectError, match="is no name of a table"):
            parts_of(text)
    url = "jdbc:postgresql://a:1,b,[::1]:3/my%20db?user=u&password=p%26&sslmode=require&currentSchema=x&prepareThreshold=0"
    assert parameters_of(url) == {
        "host": "a,b,::1",
        "port": "1,5432,3",
        "dbname": "my db",
        "user": "u",
        "password": "p&",
        "sslmode": "require",
        "options": "-c search_path=x",
    }
    assert parameters_of("jdbc:postgresql:db?ssl=true") == {
        "host": "localhost",
        "dbname": "db",
        "sslmode": "verify-full",
    }
    with pytest.raises(ConnectError, match="the parameter sslMode=x is not known"):
        parameters_of("jdbc:postgresql:db?sslMode=x")
    with pytest.raises(ConnectError, match="is no list of HOST:PORT"):
        parameters_of("jdbc:postgresql://a:b/db")


class Reading:
    """A source's task, started again and again where it was."""

    def __init__(self, database: Database, **more: str) -> None:
        config = {name.replace("_", "."): text for name, text in more.items()}
        self.config = {"connection.url": database.url, "topic.prefix": "p-", **config}
        self.offsets: dict[str, Mapping[str, Any]] = {}

    def records(self) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for each in JdbcSource(self.config).task_configs(1):
            task = JdbcSource.TASK()
            task.start(each, SourceContext(self.offsets))
            try:
                while polled := task.poll():
                    found += polled
            finally:
                task.stop()
        for one in found:
            assert one.source_partition is not None
            assert one.source_offset is not None
            self.offsets[partition_key(one.source_partition)] = one.source_offset
        return found

    def values(self) -> list[list[Any]]:
        return [each.value.values for each in self.records()]


def test_new_rows_are_found(postgres: Database) -> None:
    """Times are exact to the microsecond; the database counts an identity column by itself."""
    postgres.run(
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz(6) NOT NULL);"
        "INSERT INTO t (at) VALUES ('2020-01-01 00:00:00.000001+00'), ('2020-01-01 00:00:00.000002+00')"
    )
    at = {"timestamp_column_name": "at"}
    readings = [
        Reading(postgres, mode="incrementing"),
        Reading(postgres, mode="timestamp", **at),
        Reading(postgres, mode="timestamp+incrementing", **at),
        Reading(postgres, mode="incrementing", incrementing_column_name="id", query="SELECT id, '%s' AS x FROM t"),
    ]
    for each in readings:
        assert [row[0] for row in each.values()] == [1, 2]
        assert each.values() == []
    assert readings[2].offsets == {
        partition_key({"protocol": "1", "table": "public.t"}): {
            "incrementing": 2,
            "timestamp": 1_577_836_800_000,
            "timestamp_nanos": 2000,
        }
    }
    postgres.run("INSERT INTO t (at) VALUES ('2020-01-01 00:00:00.000003+00')")
    for each in readings:
        assert [row[0] for row in each.values()] == [3]


def test_which_tables_are_read(postgres: Database) -> None:
    postgres.run('CREATE SCHEMA s; CREATE TABLE s.a (i int); CREATE TABLE b (i int); CREATE TABLE "B" (i int)')
    postgres.run("CREATE VIEW v AS SELECT 1 AS i; CREATE TABLE s.b (i int)")

    def tables(**more: str) -> str:
        config = {name.replace("_", "."): text for name, text in more.items()}
        source = JdbcSource({"connection.url": postgres.url, "topic.prefix": "", "mode": "bulk", **config})
        return ";".join(each["tables"] for each in source.task_configs(2))

    with pytest.raises(ConnectError, match="several tables are called b, and would have one topic"):
        tables()
    assert tables(schema_pattern="public") == "public.B;public.b"
    assert tables(table_whitelist="s.b,a") == "s.a;s.b"
    assert tables(table_blacklist="b,B") == "s.a"
    assert tables(table_types="view") == "public.v"
    assert tables(schema_pattern="none") == ""


def test_a_server_that_is_lost(postgres: Database) -> None:
    """The sink's records are put again, the source's rows are read again; a wrong database or password is no such
    thing."""
    postgres.run("CREATE TABLE orders (id bigint NOT NULL, what text)")
    sink, source = JdbcSink.TASK(), JdbcSource.TASK()
    more = {"connection.url": postgres.url, "topic.prefix": "", "mode": "incrementing", "poll.interval.ms": "0"}
    sink.start({**more, "max.retries": "1"}, SinkContext("out"))
    source.start({**more, "tables": "orders", "incrementing.column.name": "id"}, SourceContext({}))
    sink.put([record(struct(ORDER, 1, "x"))])
    assert [each.value.values for each in source.poll()] == [[1, "x"]]
    postgres.server.kill()
    try:
        with pytest.raises(RetriableError):
            sink.put([record(struct(ORDER, 2, "y"))])
        assert source.poll() == []
        with pytest.raises(ConnectError):
            sink.put([record(struct(ORDER, 2, "y"))])
        assert source.poll() == []
    finally:
        postgres.server.start()
    sink.put([record(struct(ORDER, 2, "y"))])
    assert [each.value.values for each in source.poll()] == [[2, "y"]]
    sink.stop()
    source.stop()
    wrong = JdbcSink.TASK()
    wrong.start({"connection.url": postgres.url.replace(postgres.name, "none")}, SinkContext("out"))
    with pytest.raises(ConnectError, match='database "none" does not exist') as failure:
        wrong.put([record(struct(ORDER, 1, "x"))])
    assert not isinstance(failure.value, RetriableError)


def test_rows_to_rows(postgres: Database, kafka: Kafka) -> None:
    """A table becomes a topic becomes a table, as JSON with schemas; the sink may repeat."""
    postgres.run(
        "CREATE TABLE t (id serial PRIMARY KEY, price numeric(10, 3), at timestamptz DEFAULT '2020-01-01 00:00:01+00');"
        "INSERT INTO t (price) SELECT i / 8.0 FROM generate_series(1, 3000) i"
    )
    json_converter = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    both = {"connection.url": postgres.url, **json_converter}
    source = {"name": "in", "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector", "mode": "incrementing"}
    source |= {"topic.prefix": "rows-", "poll.interval.ms": "60000", "batch.max.rows": "1000", **both}
    (task,) = JdbcSource(source).task_configs(1)
    outcome = turn(kafka, source, task=task, offsets={})
    assert (outcome.trace, outcome.records) == (None, 3000)
    first = json.loads(consumed(kafka, "rows-t", 3000)[0].value())["payload"]
    assert first == {"id": 1, "price": "fQ==", "at": 1_577_836_801_000}
    sink = {"name": "out", "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": "rows-t", **both}
    sink |= {"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert", "auto.create": "true"}
    for _ in range(2):
        outcome = turn(kafka, sink | {"table.name.format": "copy"})
        assert (outcome.trace, outcome.records) == (None, 3000)
    (same,) = postgres.run(
        "SELECT count(*) FROM t JOIN copy c ON (t.id, t.price, t.at::timestamp) = (c.id, c.price, c.at)"
    )
    assert same == (3000,)
