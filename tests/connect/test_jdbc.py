"""The JDBC connectors on SQLite: rows to records and back, keys, deletes, tables that are made and changed."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from kcli.connect.config.config_def import ConfigValue
from kcli.connect.connectors.jdbc.sink import JdbcSink
from kcli.connect.connectors.jdbc.source import JdbcSource
from kcli.connect.connectors.jdbc.sqlite import Sqlite
from kcli.connect.data.builder import struct_schema
from kcli.connect.data.errors import ConnectError, RetriableError
from kcli.connect.data.logical import TIMESTAMP, decimal_schema
from kcli.connect.data.records import SinkRecord, SourceRecord
from kcli.connect.data.schema import BOOLEAN, BYTES, FLOAT64, INT32, INT64, OPTIONAL_STRING, STRING, Schema
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date
from kcli.connect.engine.offsets import partition_key
from kcli.connect.engine.tasks import SinkContext, SourceContext
from kcli.connect.engine.turn import Clock
from kcli.testing.kafka import Kafka
from tests.connect.turns import consumed, turn

ORDER = struct_schema([("id", INT64), ("what", OPTIONAL_STRING)], name="order")


def struct(schema: Schema, *values: Any) -> Struct:
    made = Struct(schema)
    for field, value in zip(schema.fields, values, strict=True):
        made.put(field.name, value)
    return made


def record(value: Struct | None, key: Any = None, key_schema: Schema | None = None, offset: int = 0) -> SinkRecord:
    schema = None if value is None else value.schema
    return SinkRecord(
        topic="orders", partition=0, key_schema=key_schema, key=key, value_schema=schema, value=value, offset=offset
    )


def rows(path: Path, sql: str = "SELECT * FROM orders ORDER BY 1") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def run(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def write(path: Path, *records: SinkRecord, **more: str) -> None:
    task = JdbcSink.TASK()
    config = {name.replace("_", "."): text for name, text in more.items()}
    task.start({"connection.url": f"jdbc:sqlite:{path}", **config}, SinkContext("out"))
    try:
        task.put(records)
    finally:
        task.stop()


CREATES = {"auto_create": "true"}
BY_KEY = {"pk_mode": "record_key", "pk_fields": "id", **CREATES}


def test_inserts_into_a_table_that_is_made(tmp_path: Path) -> None:
    """Each type of Connect has its column."""
    schema = struct_schema(
        [
            ("flag", BOOLEAN),
            ("small", INT32),
            ("real", FLOAT64),
            ("text", Schema(STRING.type, default="it's")),
            ("data", BYTES),
            ("price", decimal_schema(2)),
            ("at", TIMESTAMP),
            ("none", OPTIONAL_STRING),
        ]
    )
    path = tmp_path / "db"
    value = struct(schema, bool(1), 5, 1.5, "x", b"\0\1", Decimal("12.50"), Date(86_400_000), None)
    write(path, record(value), record(value, offset=1), **CREATES)
    assert rows(path) == [(1, 5, 1.5, "x", b"\0\1", 12.5, 86_400_000, None)] * 2
    (sql,) = rows(path, "SELECT sql FROM sqlite_master")[0]
    assert sql == (
        "CREATE TABLE `orders` (\n`flag` INTEGER NOT NULL,\n`small` INTEGER NOT NULL,\n`real` REAL NOT NULL,\n"
        "`text` TEXT DEFAULT 'it''s',\n`data` BLOB NOT NULL,\n`price` NUMERIC NOT NULL,\n`at` NUMERIC NOT NULL,\n"
        "`none` TEXT NULL)"
    )


def test_upserts_updates_and_deletes(tmp_path: Path) -> None:
    path = tmp_path / "db"
    what = struct_schema([("what", OPTIONAL_STRING)])

    def of(key: int, text: str | None) -> SinkRecord:
        return record(None if text is None else struct(what, text), key, INT64)

    write(path, of(1, "a"), of(2, "b"), of(1, "c"), insert_mode="upsert", **BY_KEY)
    assert rows(path) == [(1, "c"), (2, "b")]
    write(path, of(1, None), of(3, "d"), of(2, "e"), of(3, None), insert_mode="upsert", delete_enabled="true", **BY_KEY)
    assert rows(path) == [(2, "e")]
    write(path, of(2, "f"), of(9, "no row"), insert_mode="update", **BY_KEY)
    assert rows(path) == [(2, "f")]
    with pytest.raises(ConnectError, match=r"UNIQUE constraint failed: orders\.id"):
        write(path, of(8, "not kept"), of(2, "g"), **BY_KEY)
    assert rows(path) == [(2, "f")]


def test_a_delete_with_a_schema_before_rows_of_the_same(tmp_path: Path) -> None:
    """As JsonConverter gives it: {"schema": ..., "payload": null}."""
    path = tmp_path / "db"
    what = struct_schema([("what", OPTIONAL_STRING)])
    more = {"insert_mode": "upsert", "delete_enabled": "true", **BY_KEY}
    write(path, record(struct(what, "a"), 1, INT64), **more)
    gone = SinkRecord(topic="orders", partition=0, key_schema=INT64, key=9, value_schema=what, value=None, offset=0)
    write(path, gone, record(struct(what, "b"), 1, INT64), record(struct(what, "c"), 2, INT64), **more)
    assert rows(path) == [(1, "b"), (2, "c")]


def test_a_row_without_a_key_is_an_error(tmp_path: Path) -> None:
    optional = Schema(INT64.type, optional=True)
    with pytest.raises(ConnectError, match="requires records with a non-null key"):
        write(tmp_path / "db", record(struct(ORDER, 1, "a"), None, optional), **BY_KEY)


def test_primary_keys(tmp_path: Path) -> None:
    value = struct(ORDER, 7, "x")
    write(tmp_path / "kafka", record(value, offset=4), pk_mode="kafka", **CREATES)
    assert rows(tmp_path / "kafka") == [("orders", 0, 4, 7, "x")]
    write(tmp_path / "value", record(value), pk_mode="record_value", pk_fields="id", insert_mode="upsert", **CREATES)
    write(
        tmp_path / "value", record(struct(ORDER, 7, "y")), pk_mode="record_value", pk_fields="id", insert_mode="upsert"
    )
    assert rows(tmp_path / "value") == [(7, "y")]
    key = struct_schema([("a", STRING), ("b", STRING)])
    write(tmp_path / "key", record(value, struct(key, "k", "l"), key), pk_mode="record_key", **CREATES)
    assert rows(tmp_path / "key") == [("k", "l", 7, "x")]
    write(tmp_path / "white", record(value), fields_whitelist="what", table_name_format="t_${topic}", **CREATES)
    assert rows(tmp_path / "white", "SELECT * FROM t_orders") == [("x",)]


def test_a_table_gets_columns(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, "CREATE TABLE orders (id INTEGER)")
    with pytest.raises(
        ConnectError, match=r"Table orders is missing fields \(\[what\]\) and auto-evolution is disabled"
    ):
        write(path, record(struct(ORDER, 1, "x")))
    write(path, record(struct(ORDER, 1, "x")), auto_evolve="true")
    assert rows(path) == [(1, "x")]
    required = struct_schema([("id", INT64), ("new", INT64)])
    with pytest.raises(ConnectError, match="to add missing field new, as the field is not optional and does not have"):
        write(path, record(struct(required, 1, 2)), auto_evolve="true")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with pytest.raises(ConnectError, match="Table orders is missing and auto-creation is disabled"):
        write(path, record(struct(ORDER, 1, "x")))
    reason = "requires records with a non-null Struct value and non-null Struct schema, but found record at"
    with pytest.raises(
        ConnectError, match=rf"{reason} \(topic='orders',partition=0,offset=0,timestamp=null\) with a null"
    ):
        write(path, record(None))
    with pytest.raises(ConnectError, match="record key schema is missing"):
        write(path, record(struct(ORDER, 1, "x")), **BY_KEY)
    with pytest.raises(ConnectError, match=r"defined columns are: \[a, b\]"):
        write(path, record(struct(ORDER, 1, "x"), 1, INT64), pk_mode="record_key", pk_fields="a,b")
    with pytest.raises(ConnectError, match="it is not jdbc:sqlite:PATH or jdbc:postgresql"):
        JdbcSink.TASK().start({"connection.url": "jdbc:oracle:thin:@x"}, SinkContext("out"))
    values = {"pk.mode": ConfigValue("pk.mode")}
    JdbcSink.check({"delete.enabled": "true", "insert.mode": "upsert"}, values)
    assert values["pk.mode"].errors[0] == "Deletes are only supported for pk.mode record_key"
    for names, count in (("", 0), ("t,p,o", 0), ("t,p", 1)):
        values = {"pk.fields": ConfigValue("pk.fields")}
        JdbcSink.check({"pk.mode": "kafka", "pk.fields": names}, values)
        assert len(values["pk.fields"].errors) == count


def test_a_busy_database_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.connect.connectors.jdbc.sqlite.BUSY_S", 0.05)
    path = tmp_path / "db"
    run(path, "CREATE TABLE orders (id INTEGER, what TEXT)")
    task = JdbcSink.TASK()
    task.start({"connection.url": f"jdbc:sqlite:{path}", "max.retries": "1"}, SinkContext("out"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RetriableError, match="database is locked"):
            task.put([record(struct(ORDER, 1, "x"))])
        with pytest.raises(ConnectError, match="database is locked"):
            task.put([record(struct(ORDER, 1, "x"))])
        other.execute("COMMIT")
    task.put([record(struct(ORDER, 1, "x"))])
    task.stop()
    assert rows(path) == [(1, "x")]


def test_a_table_that_was_rolled_back_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error at the commit undoes CREATE TABLE: the next try does not believe that the table is there."""
    monkeypatch.setattr("kcli.connect.connectors.jdbc.sqlite.BUSY_S", 0.05)
    path = tmp_path / "db"
    run(path, "CREATE TABLE other (id INTEGER)")
    task = JdbcSink.TASK()
    task.start({"connection.url": f"jdbc:sqlite:{path}", "auto.create": "true"}, SinkContext("out"))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM other").fetchall()
        with pytest.raises(RetriableError, match="database is locked"):
            task.put([record(struct(ORDER, 1, "x"))])
        reader.execute("COMMIT")
    task.put([record(struct(ORDER, 1, "x"))])
    task.stop()
    assert rows(path) == [(1, "x")]


class Reading:
    """A source's task, started again and again where it was."""

    def __init__(self, path: Path, **more: str) -> None:
        config = {name.replace("_", "."): text for name, text in more.items()}
        self.config = {"connection.url": f"jdbc:sqlite:{path}", "topic.prefix": "p-", **config}
        self.offsets: dict[str, Mapping[str, Any]] = {}

    def records(self) -> list[SourceRecord]:
        found: list[SourceRecord] = []
        for each in JdbcSource(self.config).task_configs(1):
            task = JdbcSource.TASK()
            task.start(each, SourceContext(self.offsets))
            while polled := task.poll():
                assert len(polled) <= 100
                found += polled
            task.stop()
        for one in found:
            assert one.source_partition is not None
            assert one.source_offset is not None
            self.offsets[partition_key(one.source_partition)] = one.source_offset
        return found

    def values(self) -> list[list[Any]]:
        return [each.value.values for each in self.records()]


TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, what TEXT, at TIMESTAMP NOT NULL);"


def test_bulk(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(
        path, "CREATE TABLE t (a BOOLEAN, b REAL NOT NULL, c BLOB, d SMALLINT); INSERT INTO t VALUES (1, 1.5, x'00', 3)"
    )
    run(path, "CREATE TABLE other (a TEXT)")
    reading = Reading(path, mode="bulk", table_whitelist="t")
    (found,) = reading.records()
    assert (found.topic, found.value.values, found.key) == ("p-t", [True, 1.5, b"\0", 3], None)
    assert [(each.name, each.schema.type.value, each.schema.optional) for each in found.value.schema.fields] == [
        ("a", "boolean", True),
        ("b", "float64", False),
        ("c", "bytes", True),
        ("d", "int16", True),
    ]
    assert len(reading.values()) == 1


def test_incrementing(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE + "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20)")
    reading = Reading(path, mode="incrementing")
    first = reading.records()
    assert [each.value.values for each in first] == [[1, "a", Date(10)], [2, "b", Date(20)]]
    assert first[1].source_partition == {"protocol": "1", "table": "t"}
    assert first[1].source_offset == {"incrementing": 2}
    run(path, "INSERT INTO t VALUES (3, 'c', 5); UPDATE t SET what = 'not seen' WHERE id = 1")
    assert reading.values() == [[3, "c", Date(5)]]
    run(path, f"INSERT INTO t SELECT value, 'x', 0 FROM json_each('{json.dumps(list(range(4, 400)))}')")
    assert len(reading.values()) == 396


@pytest.mark.parametrize("text", [False, True])
def test_timestamp_and_incrementing(tmp_path: Path, *, text: bool) -> None:
    """Times are numbers of milliseconds, or texts; rows of the same time are told apart by their number."""
    path = tmp_path / "db"

    def at(seconds: int) -> str:
        return f"'1970-01-01 00:00:{seconds:02}'" if text else str(seconds * 1000)

    run(path, TABLE + f"INSERT INTO t VALUES (1, 'a', {at(10)}), (2, 'b', {at(20)})")
    both = Reading(path, mode="timestamp+incrementing", timestamp_column_name="at", incrementing_column_name="id")
    only = Reading(path, mode="timestamp", timestamp_column_name="at")
    assert [each[0] for each in both.values()] == [1, 2]
    assert [each[0] for each in only.values()] == [1, 2]
    assert [*both.offsets.values()] == [{"incrementing": 2, "timestamp": 20_000, "timestamp_nanos": 0}]
    run(path, f"INSERT INTO t VALUES (3, 'c', {at(20)}); UPDATE t SET what = 'new', at = {at(30)} WHERE id = 1")
    assert [each[:2] for each in both.values()] == [[3, "c"], [1, "new"]]
    assert [each[:2] for each in only.values()] == [[1, "new"]]
    assert both.values() == []


def numbers(count: int) -> str:
    return f"json_each('{json.dumps(list(range(1, count + 1)))}')"


class Halting(Reading):
    """A source whose task is stopped after each batch of ten rows."""

    def records(self) -> list[SourceRecord]:
        (config,) = JdbcSource(self.config).task_configs(1)
        task = JdbcSource.TASK()
        task.start({**config, "batch.max.rows": "10"}, SourceContext(self.offsets))
        found = list(task.poll())
        task.stop()
        for one in found:
            assert one.source_partition is not None
            assert one.source_offset is not None
            self.offsets[partition_key(one.source_partition)] = one.source_offset
        return found


def test_rows_of_the_same_time_are_not_passed_over(tmp_path: Path) -> None:
    """A task that stops between them reads them again: its offset is the time before until the last of them."""
    path = tmp_path / "db"
    run(path, TABLE + "INSERT INTO t VALUES (100, 'first', 10), (101, 'first', 10)")
    run(path, f"INSERT INTO t SELECT value, 'x', 20 FROM {numbers(8)}")
    reading = Halting(path, mode="timestamp", timestamp_column_name="at")
    first = reading.records()
    assert [each.value.values[0] for each in first] == [100, 101, *range(1, 9)]
    at_ten, at_twenty = ({"timestamp": each, "timestamp_nanos": each * 1_000_000} for each in (10, 20))
    assert [each.source_offset for each in first] == [{}, *[at_ten] * 8, at_twenty]
    assert reading.records() == []
    run(path, f"INSERT INTO t SELECT value + 200, 'x', 30 FROM {numbers(12)}")
    assert [each.value.values[0] for each in reading.records()] == list(range(201, 211))
    assert reading.offsets == {partition_key({"protocol": "1", "table": "t"}): at_twenty}
    assert [each.value.values[0] for each in reading.records()] == list(range(201, 211))


@pytest.mark.parametrize("mode", ["incrementing", "timestamp"])
def test_rows_before_a_busy_database_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    path = tmp_path / "db"
    run(path, TABLE + f"INSERT INTO t SELECT value, 'x', 1 + value / 4 FROM {numbers(9)}")
    task = JdbcSource.TASK()
    more = {"timestamp.column.name": "at", "poll.interval.ms": "0"}
    (config,) = JdbcSource({"connection.url": f"jdbc:sqlite:{path}", "mode": mode, **more}).task_configs(1)
    task.start({"topic.prefix": "p-", **config}, SourceContext({}))
    query, left = Sqlite.query, iter(range(5, -1, -1))

    def breaking(self: Sqlite, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        for each in query(self, sql, values):
            if "PRAGMA" not in sql and next(left, None) == 0:
                raise RetriableError("database is locked")
            yield each

    monkeypatch.setattr(Sqlite, "query", breaking)
    first, second = [[each.value.values[0] for each in task.poll()] for _ in range(2)]
    task.stop()
    assert first == [1, 2, 3, 4]
    assert second == ([4, 5, 6, 7, 8, 9] if mode == "timestamp" else [5, 6, 7, 8, 9])


@pytest.mark.parametrize("mode", ["bulk", "timestamp", "incrementing"])
def test_a_turn_ends_where_the_next_can_go_on(
    tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """All of a table that has no offsets is one turn, unless the connector is stopped; so are rows of the same time."""
    path = tmp_path / "db"
    run(path, TABLE + f"INSERT INTO t SELECT value, 'x', 1 + (value > 25) FROM {numbers(30)}")
    source = {"name": "in", "connector.class": JdbcSource.CLASS, "mode": mode, "topic.prefix": f"{mode}-"}
    source |= {"connection.url": f"jdbc:sqlite:{path}", "batch.max.rows": "10", "timestamp.column.name": "at"}
    (task,) = JdbcSource(source).task_configs(1)

    def of_a_turn() -> int:
        has_time = iter([True])
        monkeypatch.setattr(Clock, "has_time", lambda _: next(has_time, False))
        outcome = turn(kafka, source, task=task, offsets={})
        assert outcome.trace is None
        return outcome.records

    assert of_a_turn() == {"bulk": 30, "timestamp": 30, "incrementing": 10}[mode]
    monkeypatch.setattr(Clock, "is_stopped", lambda _: True)
    assert of_a_turn() == 10


def test_a_query(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, TABLE + "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20)")
    sql = "SELECT id, what || '!' AS what FROM t"
    reading = Reading(path, mode="incrementing", query=sql, incrementing_column_name="id", validate_non_null="false")
    found = reading.records()
    assert [each.value.values for each in found] == [[1, "a!"], [2, "b!"]]
    assert (found[0].topic, found[0].source_partition) == ("p-", {"query": "query"})
    run(path, "INSERT INTO t VALUES (3, 'c', 30)")
    assert reading.values() == [[3, "c!"]]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "db"
    run(path, "CREATE TABLE t (id INTEGER, d SMALLINT); INSERT INTO t VALUES (1, 'no number')")
    with pytest.raises(ConnectError, match=r"incrementing\.column\.name is not set, and there is no such column"):
        Reading(path, mode="incrementing").records()
    with pytest.raises(ConnectError, match="which may be null"):
        Reading(path, mode="incrementing", incrementing_column_name="id").records()
    with pytest.raises(ConnectError, match="t has no column at"):
        Reading(path, mode="timestamp", timestamp_column_name="at").records()
    with pytest.raises(ConnectError, match="column d: 'no number' is no value of the type INT16"):
        Reading(path, mode="bulk").records()
    values = {name: ConfigValue(name) for name in ("query", "timestamp.column.name", "table.blacklist")}
    JdbcSource.check({"mode": "timestamp", "query": "x", "table.whitelist": "t"}, values)
    assert [bool(each.errors) for each in values.values()] == [True, True, False]


def test_a_database_that_is_not_there_is_not_made_to_be_read(tmp_path: Path) -> None:
    """The connector fails, with the reason; a task tries again."""
    path = tmp_path / "missing"
    config = {"connection.url": f"jdbc:sqlite:{path}", "mode": "bulk", "topic.prefix": ""}
    with pytest.raises(ConnectError, match="unable to open database file"):
        JdbcSource(config).task_configs(1)
    task = JdbcSource.TASK()
    task.start({**config, "tables": "orders"}, SourceContext({}))
    assert task.poll() == []
    assert not path.exists()
    odd = tmp_path / "a b#c%20"
    run(odd, "CREATE TABLE orders (id INTEGER)")
    assert JdbcSource({**config, "connection.url": f"jdbc:sqlite:{odd}"}).task_configs(1)[0]["tables"] == "orders"


@pytest.mark.parametrize("connector", [JdbcSource, JdbcSink])
def test_options_without_effect_are_errors(connector: type[JdbcSource | JdbcSink]) -> None:
    login = {"connection.user": "me", "connection.password": "secret"}
    for url, count in (("jdbc:sqlite:x", 2), ("jdbc:postgresql://h/d", 0)):
        values = {name: ConfigValue(name) for name in ("connection.url", *login)}
        connector.check({"connection.url": url, **login}, values)
        errors = [error for each in values.values() for error in each.errors]
        assert errors == [f"{name} is set, but SQLite has no users" for name in login][:count]


def test_rows_to_rows(tmp_path: Path, kafka: Kafka) -> None:
    """A table becomes a topic becomes a table, as JSON with schemas."""
    path = tmp_path / "db"
    run(path, TABLE + "INSERT INTO t VALUES (1, 'a', 10), (2, NULL, 20)")
    json_converter = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    url = {"connection.url": f"jdbc:sqlite:{path}", **json_converter}
    source = {
        "name": "in",
        "connector.class": "io.aiven.connect.jdbc.JdbcSourceConnector",
        "mode": "incrementing",
        **url,
    }
    source |= {"topic.prefix": "rows-", "poll.interval.ms": "60000"}
    outcome = turn(kafka, source, task=JdbcSource(source).task_configs(1)[0], offsets={})
    assert (outcome.trace, outcome.records) == (None, 2)
    assert outcome.rest.until_s is not None
    assert 50 < outcome.rest.until_s - time.time() < 60
    assert json.loads(consumed(kafka, "rows-t", 2)[0].value())["payload"] == {"id": 1, "what": "a", "at": 10}
    sink = {"name": "out", "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": "rows-t", **url}
    sink |= {"pk.mode": "record_value", "pk.fields": "id", "insert.mode": "upsert", "auto.create": "true"}
    for _ in range(2):
        outcome = turn(kafka, sink | {"table.name.format": "copy"})
        assert (outcome.trace, outcome.records) == (None, 2)
    assert rows(path, "SELECT * FROM copy") == [(1, "a", 10), (2, None, 20)]


def test_the_engine_waits_for_a_busy_database(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.connect.connectors.jdbc.sqlite.BUSY_S", 0.05)
    path = tmp_path / "db"
    run(path, "CREATE TABLE t (line TEXT)")
    kafka.seed({"t": 1})
    kafka.produce(
        "t",
        {
            "value": json.dumps(
                {
                    "schema": {"type": "struct", "fields": [{"type": "string", "field": "line"}]},
                    "payload": {"line": "x"},
                }
            )
        },
    )
    sink = {"name": "out", "connector.class": JdbcSink.CLASS, "topics": "t", "connection.url": f"jdbc:sqlite:{path}"}
    sink |= {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "retry.backoff.ms": "50",
        "max.retries": "100",
    }
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.7, lambda: other.execute("COMMIT"))
    timer.start()
    outcome = turn(kafka, sink)
    timer.join()
    other.close()
    assert (outcome.trace, rows(path, "SELECT * FROM t")) == (None, [("x",)])


@pytest.mark.parametrize("connector", [JdbcSource, JdbcSink])
def test_a_database_that_is_not_known_is_an_error_of_validation(connector: Any) -> None:
    def errors(url: str) -> list[str]:
        values = {"connection.url": ConfigValue("connection.url")}
        connector.check({"connection.url": url}, values)
        return values["connection.url"].errors

    reason = "it is not jdbc:sqlite:PATH or jdbc:postgresql://HOST:PORT/DATABASE, the databases that are known"
    assert errors("jdbc:mysql://db/shop") == [f"connection.url: {reason}"]
    for known in ("jdbc:sqlite:/x", "jdbc:postgresql://db/shop", "${file:/run/secrets:url}", ""):
        assert errors(known) == []
