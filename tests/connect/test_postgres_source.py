"""Change data of PostgreSQL: the envelope, types, keys, snapshots, filters, kills."""

from __future__ import annotations

import json
import math
import random
from decimal import Decimal
from typing import Any

import pytest

from kcli.connect.config.config_def import ConfigValue
from kcli.connect.connectors.postgres.source import PostgresSource
from kcli.connect.connectors.postgres.types import array_items
from kcli.connect.data.errors import ConnectError
from kcli.connect.data.records import SourceRecord
from kcli.connect.data.values import Date
from kcli.connect.engine.offsets import partition_key
from kcli.connect.plugins import task_class
from kcli.testing.kafka import Kafka
from tests.connect.capture import Capture, config_of, fields
from tests.connect.postgres import Database
from tests.connect.turns import consumed, turn

SERVER = partition_key({"server": "p"})


def operations(records: list[SourceRecord]) -> list[tuple[Any, ...]]:
    """The operations with their rows."""
    found: list[tuple[Any, ...]] = []
    for each in records:
        if each.value is None:
            found.append(("tombstone", *each.key.values))
            continue
        value = fields(each.value)
        rows = (None if value[name] is None else value[name].values for name in ("before", "after"))
        found.append((value["op"], *rows))
    return found


def confirmed(database: Database) -> int:
    """The slot's confirmed LSN."""
    ((text,),) = database.run(
        "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE database = %s", [database.name]
    )
    return int(text)


def test_a_snapshot_and_changes(postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, what text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    capture = Capture(postgres)
    first = capture.turn()
    assert operations(first) == [("r", None, [1, "a"]), ("r", None, [2, "b"])]
    assert [fields(each.value)["source"].get("snapshot") for each in first] == ["first", "last"]
    assert first[0].topic == "p.public.t"
    assert first[0].key.values == [1]
    offset = capture.offsets[SERVER]
    assert (offset["snapshot"], offset["snapshot_completed"]) == ("INITIAL", True)
    assert capture.turn() == []
    postgres.run("INSERT INTO t VALUES (3, 'c'); UPDATE t SET what = 'd' WHERE id = 1; DELETE FROM t WHERE id = 2")
    postgres.run("UPDATE t SET id = 9 WHERE id = 3; TRUNCATE t")
    later = capture.turn()
    assert operations(later) == [
        ("c", None, [3, "c"]),
        ("u", None, [1, "d"]),
        ("d", [2, None], None),
        ("tombstone", 2),
        ("d", [3, None], None),
        ("tombstone", 3),
        ("c", None, [9, "c"]),
        ("t", None, None),
    ]
    assert [(header.key, header.value.values) for each in later for header in each.headers] == [
        ("__debezium.newkey", [9]),
        ("__debezium.oldkey", [3]),
    ]
    assert later[-1].key is None
    source = fields(fields(later[0].value)["source"])
    assert (source["name"], source["db"], source["schema"], source["table"]) == ("p", postgres.name, "public", "t")
    assert source["snapshot"] == "false"
    assert json.loads(source["sequence"]) == [str(offset["lsn"]), str(source["lsn"])]
    last = capture.offsets[SERVER]
    assert last["lsn"] < last["lsn_commit"]
    assert {"lsn_proc", "txId", "ts_usec"} < last.keys()
    assert confirmed(postgres) < last["lsn_commit"]
    assert capture.turn() == []
    assert confirmed(postgres) >= last["lsn_commit"]


def test_the_envelope(postgres: Database) -> None:
    """Names, versions and the order of fields are Debezium's."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, what text NOT NULL); INSERT INTO t VALUES (1, 'a')")
    (record,) = Capture(postgres).turn()
    envelope = record.value.schema
    assert (envelope.name, envelope.version) == ("p.public.t.Envelope", 2)
    names = ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert [each.name for each in envelope.fields] == names
    assert {envelope.field(each).schema.name for each in ("before", "after")} == {"p.public.t.Value"}
    source = envelope.field("source").schema
    assert (source.name, source.version) == ("io.debezium.connector.postgresql.Source", 1)
    assert [each.name for each in source.fields] == [
        "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema", "table",
        "txId", "lsn", "xmin",
    ]  # fmt: skip
    assert record.key_schema is not None
    assert record.key_schema.name == "p.public.t.Key"
    value = fields(record.value)
    assert value["ts_ms"] == value["ts_us"] // 1000 == value["ts_ns"] // 1_000_000
    record.value.validate()
    record.key.validate()


TIME = "io.debezium.time"
UUID = "00000000-0000-0000-0000-00000000000a"
TYPES = [
    ("boolean", "true", "boolean", None, True),
    ("smallint", "-5", "int16", None, -5),
    ("bigint", "5", "int64", None, 5),
    ("real", "1.5", "float32", None, 1.5),
    ("double precision", "'NaN'", "float64", None, None),
    ("varchar(9)", "'é,\"'", "string", None, 'é,"'),
    ("bytea", "'\\x00ff'", "bytes", None, b"\0\xff"),
    ("numeric(9, 3)", "-1.5", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("-1.500")),
    ("numeric", "-1.25", "struct", "io.debezium.data.VariableScaleDecimal", [2, b"\x83"]),
    ("money", "'-1,234.5'", "bytes", "org.apache.kafka.connect.data.Decimal", Decimal("-1234.50")),
    ("date", "'2020-02-29'", "int32", f"{TIME}.Date", 18_321),
    ("date", "'0044-03-15 BC'", "int32", f"{TIME}.Date", -735_160),
    ("date", "'12020-01-01'", "int32", f"{TIME}.Date", 3_670_687),
    ("time", "'01:02:03.000004'", "int64", f"{TIME}.MicroTime", 3_723_000_004),
    ("time(3)", "'01:02:03.004'", "int32", f"{TIME}.Time", 3_723_004),
    ("timestamp", "'2020-01-01 00:00:00.000001'", "int64", f"{TIME}.MicroTimestamp", 1_577_836_800_000_001),
    ("timestamp(3)", "'1969-12-31 23:59:59.999'", "int64", f"{TIME}.Timestamp", -1),
    ("timestamp", "'infinity'", "int64", f"{TIME}.MicroTimestamp", 9_223_372_036_825_200_000),
    ("timestamptz", "'2020-01-01 01:00:00.5+01'", "string", f"{TIME}.ZonedTimestamp", "2020-01-01T00:00:00.5Z"),
    ("timetz", "'01:30:00+02'", "string", f"{TIME}.ZonedTime", "23:30:00Z"),
    ("interval", "'1 mon -2 days 03:00:00.5'", "int64", f"{TIME}.MicroDuration", 2_467_800_500_000),
    ("json", "'{\"a\": 1}'", "string", "io.debezium.data.Json", '{"a": 1}'),
    ("uuid", f"'{UUID}'", "string", "io.debezium.data.Uuid", UUID),
    ("mood", "'bad'", "string", "io.debezium.data.Enum", "bad"),
    ("positive", "5", "int32", None, 5),
    ("bit", "'1'", "boolean", None, True),
    ("bit(10)", "'1000000001'", "bytes", "io.debezium.data.Bits", b"\x01\x02"),
    ("inet", "'10.0.0.1'", "string", None, "10.0.0.1"),
    ("int4range", "'[1,5)'", "string", None, "[1,5)"),
    ("text[]", "ARRAY['a,b', NULL, 'NULL', '\"\\', '']", "array", None, ["a,b", None, "NULL", '"\\', ""]),
    ("int[]", "'{1,2}'", "array", None, [1, 2]),
    ("numeric(4, 1)[]", "'{1.5}'", "array", None, [Decimal("1.5")]),
]  # fmt: skip


def test_types(postgres: Database) -> None:
    """A value in the snapshot and in the stream has the same schema and value."""
    postgres.run("CREATE TYPE mood AS ENUM ('good', 'bad'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    columns = ", ".join(f"c{number} {each[0]}" for number, each in enumerate(TYPES))
    values = ", ".join(each[1] for each in TYPES)
    postgres.run(
        f"CREATE TABLE t (id serial PRIMARY KEY, {columns}, at point); INSERT INTO t VALUES (1, {values}, '(1,2)')"
    )
    capture = Capture(postgres)
    (first,) = capture.turn()
    postgres.run(f"INSERT INTO t VALUES (2, {values}); INSERT INTO t VALUES (3)")
    second, nulls = capture.turn()
    schemas = []
    for record in (first, second):
        after = fields(record.value)["after"]
        schemas.append(after.schema)
        after.validate()
        assert after.schema.field("at") is None
        for number, (declared, _, kind, name, value) in enumerate(TYPES):
            field = after.schema.field(f"c{number}")
            found = after.values[field.index]
            assert (declared, field.schema.type.value, field.schema.name) == (declared, kind, name)
            if value is None:
                assert math.isnan(found)
            else:
                assert getattr(found, "values", found) == value, declared
    assert schemas[0] == schemas[1]
    assert schemas[0].field("c7").schema.parameters == {"scale": "3", "connect.decimal.precision": "9"}
    assert schemas[0].field("c23").schema.parameters == {"allowed": "good,bad"}
    assert set(fields(nulls.value)["after"].values[1:]) == {None}


def test_modes_of_types(postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n numeric(9, 2), d date, t time, at timestamp)")
    postgres.run("INSERT INTO t VALUES (1, 1.5, '1970-01-02', '00:00:01', '1970-01-01 00:00:02.5')")
    (record,) = Capture(postgres, decimal_handling_mode="string", time_precision_mode="connect").turn()
    after = fields(record.value)["after"]
    assert after.values == [1, "1.50", Date(86_400_000), Date(1000), Date(2500)]
    after.validate()
    more = {
        "slot_name": "another",
        "decimal_handling_mode": "double",
        "time_precision_mode": "adaptive_time_microseconds",
    }
    (record,) = Capture(postgres, **more).turn()
    assert fields(record.value)["after"].values == [1, 1.5, 1, 1_000_000, 2_500_000]
    with pytest.raises(ValueError, match="no array of one dimension"):
        array_items("{{1,2},{3,4}}")
    assert array_items("{}") == []


def test_toasted_values_and_replica_identities(postgres: Database) -> None:
    """A value that PostgreSQL does not send has a placeholder; with REPLICA IDENTITY FULL it is the old row's."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, long text, data bytea)")
    postgres.run("ALTER TABLE t ALTER long SET STORAGE EXTERNAL, ALTER data SET STORAGE EXTERNAL")
    long = "x" * 10_000
    postgres.run("INSERT INTO t VALUES (1, 0, repeat('x', 10000), convert_to(repeat('x', 10000), 'UTF8'))")
    capture = Capture(postgres, snapshot_mode="no_data")
    assert capture.turn() == []
    postgres.run("UPDATE t SET n = 1; DELETE FROM t WHERE false")
    assert operations(capture.turn()) == [
        ("u", None, [1, 1, "__debezium_unavailable_value", b"__debezium_unavailable_value"])
    ]
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET n = 2")
    (update,) = operations(capture.turn())
    assert update == ("u", [1, 1, long, long.encode()], [1, 2, long, long.encode()])
    postgres.run("DELETE FROM t")
    assert operations(capture.turn()) == [("d", [1, 2, long, long.encode()], None), ("tombstone", 1)]
    postgres.run(
        "CREATE TABLE keyless (a int); ALTER TABLE keyless REPLICA IDENTITY FULL; INSERT INTO keyless VALUES (1)"
    )
    postgres.run("DELETE FROM keyless")
    records = capture.turn()
    assert operations(records) == [("c", None, [1]), ("d", [1], None)]
    assert {each.key for each in records} == {None}
    postgres.run("CREATE TABLE named (a int NOT NULL UNIQUE, b int NOT NULL)")
    postgres.run("ALTER TABLE named REPLICA IDENTITY USING INDEX named_a_key; INSERT INTO named VALUES (1, 5)")
    postgres.run("DELETE FROM named")
    records = capture.turn()
    assert operations(records) == [("c", None, [1, 5]), ("d", [1, 0], None), ("tombstone", 1)]
    for each in records:
        if each.value is not None:
            each.value.validate()


def test_tables_change(postgres: Database) -> None:
    """Each change has the columns of its time; a null from before NOT NULL makes the column optional."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture = Capture(postgres)
    assert capture.turn() == []
    postgres.run("INSERT INTO t VALUES (1); ALTER TABLE t ADD a int; INSERT INTO t VALUES (2); UPDATE t SET a = 5")
    postgres.run("ALTER TABLE t ALTER a SET NOT NULL; ALTER TABLE t RENAME a TO b; INSERT INTO t VALUES (3, 6)")
    postgres.run("ALTER TABLE t DROP b, ADD c text; INSERT INTO t VALUES (4, 'x')")
    records = capture.turn()
    rows = [dict(fields(fields(each.value)["after"])) for each in records]
    assert rows == [
        {"id": 1},
        {"id": 2, "a": None},
        {"id": 1, "a": 5},
        {"id": 2, "a": 5},
        {"id": 3, "b": 6},
        {"id": 4, "c": "x"},
    ]
    for each in records:
        each.value.validate()
    assert capture.turn() == []


def test_what_is_captured(postgres: Database) -> None:
    postgres.run(
        "CREATE SCHEMA s; CREATE TABLE s.a (id int PRIMARY KEY, x int, y int); CREATE TABLE b (id int PRIMARY KEY)"
    )
    postgres.run('CREATE TABLE "c d" (id int PRIMARY KEY); INSERT INTO s.a VALUES (1, 2, 3); INSERT INTO b VALUES (1)')
    postgres.run('INSERT INTO "c d" VALUES (1)')
    more = {"table_include_list": r"s\.A, public\.c.*", "column_exclude_list": r".*\.x", "skipped_operations": "c"}
    filtered = {"publication_autocreate_mode": "filtered", "replica_identity_autoset_values": r"s\.a:FULL"}
    capture = Capture(postgres, tombstones_on_delete="false", **more, **filtered)
    assert {each.topic: fields(fields(each.value)["after"]) for each in capture.turn()} == {
        "p.public.c_d": {"id": 1},
        "p.s.a": {"id": 1, "y": 3},
    }
    assert postgres.run("SELECT tablename FROM pg_publication_tables ORDER BY 1") == [("a",), ("c d",)]
    postgres.run("CREATE TABLE cc (id int PRIMARY KEY)")
    assert capture.turn() == []
    assert postgres.run("SELECT tablename FROM pg_publication_tables ORDER BY 1") == [("a",), ("c d",), ("cc",)]
    postgres.run("INSERT INTO s.a VALUES (2, 0, 0); DELETE FROM s.a WHERE id = 1; INSERT INTO b VALUES (2)")
    assert operations(capture.turn()) == [("d", [1, 3], None)]
    others = Capture(postgres, schema_exclude_list="s", table_exclude_list=r".*\.b", slot_name="others")
    assert {each.topic for each in others.turn()} == {"p.public.c_d"}


def test_modes_of_snapshots(postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    only = Capture(postgres, snapshot_mode="initial_only", slot_name="only")
    assert operations(only.turn()) == [("r", None, [1])]
    always = Capture(postgres, snapshot_mode="always")
    assert operations(always.turn()) == [("r", None, [1])]
    postgres.run("INSERT INTO t VALUES (2)")
    assert only.turn() == []
    assert operations(always.turn()) == [("r", None, [1]), ("r", None, [2]), ("c", None, [2])]
    assert postgres.run("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'only' OR temporary") == [(0,)]


def test_a_snapshot_that_is_interrupted(postgres: Database) -> None:
    """It begins anew; a row that was deleted meanwhile is deleted by the stream."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)")
    capture = Capture(postgres, max_batch_size="4")
    assert len(capture.turn(polls=2)) == 8
    assert capture.offsets[SERVER]["snapshot_completed"] is False
    postgres.run("DELETE FROM t WHERE id = 1")
    assert operations(capture.turn())[-2:] == [("d", [1], None), ("tombstone", 1)]
    assert [*capture.state("p.public.t")] == [(each,) for each in range(2, 11)]


def test_a_transaction_that_is_interrupted(postgres: Database) -> None:
    """It goes on behind the last change, also among those that have one place in the server's log."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE more (id int PRIMARY KEY)")
    capture = Capture(postgres, max_batch_size="7")
    assert capture.turn() == []
    with postgres.connect() as connection, connection.transaction():
        with connection.cursor().copy("COPY t FROM STDIN") as copy:  # several rows for one place in the log
            for number in range(50):
                copy.write_row([number])
        connection.execute("INSERT INTO more SELECT generate_series(0, 49)")
        postgres.run("INSERT INTO t VALUES (1000)")
    polls = 0
    while capture.turn(polls=3, loses=1):
        polls += 1
        if polls == 3:
            postgres.server.kill()
            postgres.server.start()
    capture.turn()
    numbers = [fields(each.value)["after"].values[0] for each in capture.records]
    assert numbers == [1000, *range(50), *range(50)]


def test_what_cannot_be(postgres: Database) -> None:
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    capture = Capture(postgres)
    capture.turn()
    postgres.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )
    with pytest.raises(
        ConnectError, match=r"the replication slot .* is gone, and with it changes since the connector's"
    ):
        capture.turn()
    with pytest.raises(ConnectError, match="there is no publication other, and publication"):
        Capture(postgres, publication_name="other", publication_autocreate_mode="disabled").turn()
    with pytest.raises(ConnectError, match='role "nobody" does not exist'):
        Capture(postgres, database_user="nobody").turn()
    postgres.run("SELECT pg_create_logical_replication_slot('wrong', 'test_decoding')")
    with pytest.raises(
        ConnectError, match="the replication slot wrong is one of the plug-in test_decoding and the datab"
    ):
        Capture(postgres, slot_name="wrong").turn()
    with pytest.raises(ConnectError, match="invalid sslmode value"):
        Capture(postgres, database_sslmode="certainly").turn()
    source = PostgresSource({})
    assert task_class(source) == "io.debezium.connector.postgresql.PostgresConnectorTask"
    assert source.alter_offsets([({"server": "p"}, {"lsn": 1}), ({"server": "p"}, None)])
    for partition, offset in (({"table": "x"}, None), ({"server": "p"}, {"lsn": "1"}), ({"server": "p"}, {})):
        with pytest.raises(ConnectError):
            source.alter_offsets([(partition, offset)])
    names = ("topic.prefix", "table.include.list", "table.exclude.list")
    values = {name: ConfigValue(name) for name in names}
    given = {"signal.data.collection": "x", "table.include.list": "(", "table.exclude.list": "x"}
    PostgresSource.check(given, values)
    assert [len(each.errors) for each in values.values()] == [1, 1, 1]
    found = PostgresSource.config().validate({"plugin.name": "wal2json", "provide.transaction.metadata": "true"})
    assert {name for name, each in found.items() if each.errors} == {
        "database.hostname", "database.user", "database.dbname", "topic.prefix", "plugin.name",
        "provide.transaction.metadata",
    }  # fmt: skip


def test_a_heartbeat_moves_the_slot(postgres: Database) -> None:
    """Changes of tables that are not captured keep no log on the server."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
    capture = Capture(postgres, table_include_list="public.t", heartbeat_interval_ms="1")
    (beat, *_) = capture.turn(polls=1)
    assert (beat.topic, beat.key.values) == ("__debezium-heartbeat.p", ["p"])
    before = confirmed(postgres)
    postgres.run("INSERT INTO other SELECT generate_series(1, 1000)")
    capture.turn(polls=2)
    capture.turn(polls=2)
    assert confirmed(postgres) > before


@pytest.mark.parametrize("exactly_once", [False, True])
def test_changes_to_a_topic(postgres: Database, kafka: Kafka, *, exactly_once: bool) -> None:
    """As JSON with schemas, with the offsets in the transaction if the worker has exactly-once support."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, price numeric(9, 2), at timestamptz); INSERT INTO t VALUES (1, 1.5)"
    )
    source = {"name": "in", "connector.class": PostgresSource.CLASS, **config_of(postgres)}
    source |= {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    offsets_topic = "connect-offsets" if exactly_once else None
    kafka.seed({"connect-offsets": 1})
    more: dict[str, Any] = {"exactly_once": exactly_once, "offsets_topic": offsets_topic}
    outcome = turn(kafka, source, offsets={}, **more)
    assert (outcome.trace, outcome.records, outcome.stored) == (None, 1, exactly_once)
    postgres.run("UPDATE t SET at = '2020-01-01 00:00:00+00'; DELETE FROM t")
    offsets = {name: offset for name, (_, offset) in outcome.offsets.items()}
    outcome = turn(kafka, source, offsets=offsets, producer=outcome.producer, **more)
    assert (outcome.trace, outcome.records) == (None, 3)
    messages = consumed(kafka, "p.public.t", 4)
    values = [each.value() and json.loads(each.value())["payload"] for each in messages]
    assert [each and each["op"] for each in values] == ["r", "u", "d", None]
    assert values[1]["after"] == {"id": 1, "price": "AJY=", "at": "2020-01-01T00:00:00Z"}
    assert json.loads(messages[3].key())["payload"] == {"id": 1}


COLUMNS = {
    "n": "int",
    "long": "text",
    "price": "numeric(12, 3)",
    "at": "timestamp",
    "kind": "text NOT NULL DEFAULT 'x'",
}


class Changes:
    """Random transactions on a table."""

    def __init__(self, database: Database, seed: int) -> None:
        self.random = random.Random(seed)
        self.database = database
        self.columns = ["n_0"]
        self.made = self.columns_made = 0
        database.run("CREATE TABLE t (id int PRIMARY KEY, n_0 int)")

    def run(self, count: int) -> None:
        """Make at least so many changes."""
        with self.database.connect() as connection:
            end = self.made + count
            while self.made < end:
                with connection.transaction():
                    for _ in range(self.random.randint(1, 8)):
                        connection.execute(self._statement().encode())
                    if self.random.random() < 0.1:
                        connection.execute("SAVEPOINT a")
                        connection.execute(b"UPDATE t SET n_0 = n_0 + 1; INSERT INTO t (id) VALUES (-1)")
                        connection.execute("ROLLBACK TO a")

    def _statement(self) -> str:
        made = self.random
        first, size = made.randrange(400), made.choice((1, 1, 2, 20))
        rows = f"id BETWEEN {first} AND {first + size - 1}"
        kind = made.random()
        if kind < 0.02:
            return self._change_table()
        if kind < 0.024:
            self.made += 1
            return "TRUNCATE t"
        self.made += size
        if kind < 0.5:
            names = ", ".join(self.columns)
            values = ", ".join(map(self._value, self.columns))
            update = ", ".join(f"{each} = EXCLUDED.{each}" for each in self.columns)
            inserted = (
                f"INSERT INTO t (id, {names}) SELECT i, {values} FROM generate_series({first}, {first + size - 1}) i"
            )
            return f"{inserted} ON CONFLICT (id) DO UPDATE SET {update}"
        if kind < 0.6:
            return f"DELETE FROM t WHERE {rows}"
        if kind < 0.65:
            return f"UPDATE t SET id = id + 1000000 + {self.made} * 1000 WHERE {rows}"
        column = made.choice(self.columns)
        return f"UPDATE t SET {column} = {self._value(column)} WHERE {rows}"

    def default(self, column: str) -> str | None:
        """What a row has in a column of which no change has told."""
        return "x" if kind_of(column) == "kind" else None

    def _value(self, column: str) -> str:
        number = self.random.randrange(1000)
        return {
            "n": f"{number}",
            "long": f"repeat('{number}', {self.random.choice((1, 3000))})",
            "price": f"{number} / 8.0",
            "at": f"'2020-01-01'::timestamp + {number} * interval '1 second'",
            "kind": f"'{number}'",
        }[kind_of(column)]

    def _change_table(self) -> str:
        if len(self.columns) < 2 or (len(self.columns) < 6 and self.random.random() < 0.6):
            kind = self.random.choice([*COLUMNS])
            self.columns_made += 1
            name = f"{kind}_{self.columns_made}"
            self.columns.append(name)
            storage = f"; ALTER TABLE t ALTER {name} SET STORAGE EXTERNAL" if kind == "long" else ""
            return f"ALTER TABLE t ADD {name} {COLUMNS[kind]}{storage}"
        return f"ALTER TABLE t DROP {self.columns.pop(self.random.randrange(1, len(self.columns)))}"


def kind_of(column: str) -> str:
    """The kind of a column: the beginning of its name."""
    return column.partition("_")[0]


def table_state(database: Database, columns: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of the table, as the source shows them."""
    names = ["id", *columns]
    shown = [f"(extract(epoch from {each}) * 1000000)::bigint" if kind_of(each) == "at" else each for each in names]
    rows = database.run(f"SELECT {', '.join(shown)} FROM t")
    return {(row[0],): dict(zip(names, row, strict=True)) for row in rows}


def exact(database: Database, *, changes: int, seed: int, kill_server: bool = True) -> None:
    """Random transactions, the task and the server killed in between: the records leave the table's exact rows, and
    each change comes once."""
    made = Changes(database, seed)
    made.run(changes // 10)
    capture = Capture(database, max_batch_size="50")
    chance = random.Random(seed)
    while made.made < changes:
        made.run(min(500, changes // 8))
        for _ in range(chance.randint(1, 3)):
            polls = chance.randint(1, 12)
            capture.turn(polls=polls, loses=chance.randint(0, min(2, polls)), idle=1)
        if kill_server and chance.random() < 0.25:
            database.server.kill()
            database.server.start()
    while capture.turn():
        pass
    rows, expected = capture.state("p.public.t"), table_state(database, made.columns)
    assert rows.keys() == expected.keys(), f"seed {seed}"
    for key, row in expected.items():
        assert {name: rows[key].get(name, made.default(name)) for name in row} == row, f"seed {seed}"
    places = []
    for each in capture.records:
        if each.value is not None:
            value = fields(each.value)
            identity = None if each.key is None else tuple(each.key.values)
            places += [(value["source"].get("lsn"), identity, value["op"])] if value["op"] != "r" else []
    assert len(places) == len(set(places)), f"seed {seed}: a change came twice"


def test_random_changes_with_kills(postgres: Database) -> None:
    """The full numbers are `python -m tests.connect.postgres_kills`, of make soak."""
    exact(postgres, changes=3000, seed=random.randrange(1 << 32))
