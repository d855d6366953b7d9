"""The Iceberg sink: rows of tables in catalogs of each type, their partitions and columns, and commits with offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from kcli.connect.builtin import built_in
from kcli.connect.connectors.iceberg.sink import IcebergSink
from kcli.connect.data.builder import array_schema, map_schema, struct_schema
from kcli.connect.data.errors import ConnectError, DataError, RetriableError
from kcli.connect.data.logical import DATE, TIME, TIMESTAMP, decimal_schema
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import (
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    OPTIONAL_INT32,
    OPTIONAL_STRING,
    STRING,
    Schema,
)
from kcli.connect.data.struct import Struct
from kcli.connect.data.values import Date
from kcli.connect.engine.tasks import SinkContext
from kcli.connect.worker.validation import Defaults, validate
from kcli.pipelines.tables.directory import DirectoryCatalog
from kcli.pipelines.tables.iceberg import Once
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.turns import turn
from tests.pipelines.tables.rest_catalog import rest_catalog
from tests.tier.s3 import new_bucket, s3_server

PLACE = TopicPartition("orders", 0)
ORDER = struct_schema([("id", INT64), ("what", OPTIONAL_STRING)], name="order")
CREATES = {"iceberg.tables.auto-create-enabled": "true"}
EVOLVES = {"iceberg.tables.evolve-schema-enabled": "true"}


def order(number: int, what: str | None = None) -> Struct:
    return Struct(ORDER).put("id", number).put("what", what)


class Catalog:
    """A SQL catalog, and the configuration of a sink to it."""

    def __init__(self, directory: Path) -> None:
        self.uri, self._warehouse = f"sqlite:///{directory}/catalog.db", f"file://{directory}/warehouse"
        self.config = {
            "iceberg.tables": "db.orders",
            "iceberg.catalog.type": "jdbc",
            "iceberg.catalog.uri": f"jdbc:sqlite:{directory}/catalog.db",
            "iceberg.catalog.warehouse": self._warehouse,
        }

    def table(self, name: str = "db.orders") -> Table:
        return load_catalog("iceberg", type="sql", uri=self.uri, warehouse=self._warehouse).load_table(name)

    def rows(self, name: str = "db.orders", by: str = "id") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table(name).scan().to_arrow().sort_by(by).to_pylist()
        return found


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


class Task:
    """A task that is given records as the engine gives them, at offsets from `first` on."""

    def __init__(
        self,
        config: Mapping[str, str],
        first: int = 0,
        *,
        partition: int = 0,
        topic_id: str = "A",
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self.task, self.offset, self.place = IcebergSink.TASK(), first, TopicPartition("orders", partition)
        self.context = SinkContext("out", "connect-out", {"orders": topic_id}, state)
        self.task.start(config, self.context)
        self.task.open([self.place])

    def put(self, *values: Any) -> None:
        first, records = self.offset, []
        for value in values:
            schema = value.schema if isinstance(value, Struct) else None
            records.append(
                SinkRecord(
                    topic="orders",
                    partition=self.place.partition,
                    value_schema=schema,
                    value=value,
                    offset=self.offset,
                )
            )
            self.offset += 1
        try:
            self.task.put(records)
        except RetriableError:
            self.offset = first
            raise

    def flush(self, *, is_ending: bool = True) -> int | None:
        self.context.is_ending = is_ending
        return self.task.flush({self.place: self.offset}).get(self.place)


def offsets(table: Table) -> Any:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    return json.loads(str(snapshot.summary["kcli.offsets.connect-out"]))


def test_rows_and_offsets_in_one_commit(catalog: Catalog) -> None:
    task = Task({**catalog.config, **CREATES})
    task.put(order(1), order(2, "x"), None)
    assert task.flush() == 3
    assert catalog.rows() == [{"id": 1, "what": None}, {"id": 2, "what": "x"}]
    assert offsets(catalog.table()) == {"offsets": {"orders": {"0": 3}}, "ids": {"orders": "A"}}
    assert [(each.name, each.required) for each in catalog.table().schema().fields] == [("id", True), ("what", False)]


def test_records_that_come_again(catalog: Catalog) -> None:
    """After a kill, or an alteration of the group's offsets, rows that the table has are not written again."""
    config = {**catalog.config, **CREATES}
    first = Task(config)
    first.put(order(0), order(1))
    first.flush()
    lost = Task(config)
    lost.put(order(0), order(1), order(2))
    again = Task(config)
    again.put(*map(order, range(5)))
    assert again.flush() == 5
    assert [each["id"] for each in catalog.rows()] == list(range(5))
    nothing_new = Task(config)
    nothing_new.put(*map(order, range(5)))
    assert nothing_new.flush() == 5
    assert len(catalog.table().history()) == 2


def test_another_writer_of_the_same_partitions(catalog: Catalog) -> None:
    """A task that was believed dead, and one that has taken over: the later commit is given up."""
    config = {**catalog.config, **CREATES}
    Task(config).put(order(0))
    old, new = Task(config), Task(config)
    old.put(order(0), order(1))
    new.put(order(0), order(1), order(2))
    assert new.flush() == 3
    assert old.flush() is None
    old.put(order(2))
    assert old.flush() is None
    assert old.task.rest({PLACE: 3}).until_s is not None
    assert [each["id"] for each in catalog.rows()] == [0, 1, 2]


def test_other_tasks_and_programs_commit_meanwhile(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**catalog.config, **CREATES}
    first = Task(config)
    first.put(order(0))
    first.flush()
    task = Task(config, 1)
    task.put(order(1))
    table = catalog.table()
    table.append(table.scan().to_arrow())
    commit, fails = Once.commit_transaction, iter([True, True])

    def failing(self: Once) -> Table:
        if next(fails, False):
            raise CommitFailedException("branch main has changed")
        return commit(self)

    monkeypatch.setattr(Once, "commit_transaction", failing)
    assert task.flush() == 2
    assert [each["id"] for each in catalog.rows()] == [0, 0, 1]
    assert offsets(catalog.table())["offsets"] == {"orders": {"0": 2}}


def test_tasks_that_commit_at_the_same_time(catalog: Catalog) -> None:
    """Each has its own partition; their commits come one after another, and each knows the offsets of all."""
    config = {**catalog.config, **CREATES}
    failures: list[BaseException] = []

    def put(task: Task, values: list[Struct]) -> bool:
        try:
            task.put(*values)
        except RetriableError:  # the catalog's database is locked, or is being made
            return False
        return True

    def work(partition: int) -> None:
        try:
            for first in range(0, 50, 10):
                task = Task(config, partition=partition)
                values = [order(1000 * partition + number) for number in range(first + 10)]
                while not put(task, values) or task.flush() is None:
                    pass
        except BaseException as error:  # noqa: BLE001 (it fails the test)
            failures.append(error)

    threads = [Thread(target=work, args=(partition,)) for partition in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert [each["id"] for each in catalog.rows()] == [
        1000 * part + number for part in range(3) for number in range(50)
    ]
    assert offsets(catalog.table())["offsets"] == {"orders": {"0": 50, "1": 50, "2": 50}}


def test_a_topic_that_was_made_anew(catalog: Catalog) -> None:
    config = {**catalog.config, **CREATES}
    for topic_id in "AB":
        task = Task(config, topic_id=topic_id)
        task.put(order(0), order(1))
        task.flush()
    assert [each["id"] for each in catalog.rows()] == [0, 0, 1, 1]
    assert offsets(catalog.table()) == {"offsets": {"orders": {"0": 2}}, "ids": {"orders": "B"}}


WIDE = struct_schema(
    [
        ("id", INT32),
        ("price", decimal_schema(2)),
        ("day", DATE),
        ("time", TIME),
        ("at", TIMESTAMP),
        ("tags", array_schema(STRING)),
        ("by", map_schema(STRING, INT32, optional=True)),
        ("order", ORDER),
        ("text", Schema(STRING.type, default="d")),
    ],
    name="wide",
)


def wide(day: int = 1) -> Struct:
    value = Struct(WIDE).put("id", 1).put("price", Decimal("1.50")).put("day", Date(day * 86_400_000))
    value.put("time", Date(1000)).put("at", Date(day * 86_400_000 + 5)).put("tags", ["a", "b"]).put("by", {"k": 2})
    return value.put("order", order(3, "y"))


def test_types_and_partitions(catalog: Catalog) -> None:
    layout = "day(at), bucket(id, 4),text , truncate(order.what,1), month(day)"
    more = {"iceberg.table.db.orders.partition-by": layout, "iceberg.table.db.orders.id-columns": "id,text"}
    task = Task({**catalog.config, **CREATES, **more, "iceberg.tables.auto-create-props.write.metadata.x": "y"})
    task.put(wide(), wide(2), wide())
    assert task.flush() == 3
    table = catalog.table()
    types = {each.name: str(each.field_type) for each in table.schema().fields}
    assert [types[name] for name in ("id", "price", "day", "time", "at", "tags", "by")] == [
        *("int", "decimal(38, 2)", "date", "time", "timestamptz", "list<string>", "map<string, int>")
    ]
    assert table.schema().identifier_field_names() == {"id", "text"}
    assert [each.name for each in table.spec().fields] == [
        "at_day",
        "id_bucket",
        "text",
        "order.what_trunc",
        "day_month",
    ]
    assert table.properties["write.metadata.x"] == "y"
    files = table.inspect.files().to_pylist()
    assert sorted(each["record_count"] for each in files) == [1, 2]
    row = catalog.rows()[0]
    assert (str(row["price"]), row["day"].isoformat(), row["time"].isoformat()) == ("1.50", "1970-01-02", "00:00:01")
    assert (row["at"].isoformat(), row["tags"]) == ("1970-01-02T00:00:00.005000+00:00", ["a", "b"])
    assert (dict(row["by"]), row["order"], row["text"]) == ({"k": 2}, {"id": 3, "what": "y"}, "d")
    assert len(table.scan(row_filter="day = '1970-01-03'").to_arrow()) == 1


def test_columns_come_and_widen(catalog: Catalog) -> None:
    old = struct_schema([("id", INT32), ("real", FLOAT32), ("in", struct_schema([("a", INT32)]))])
    new = struct_schema(
        [("id", INT64), ("real", FLOAT64), ("in", struct_schema([("a", INT64), ("b", STRING)])), ("more", STRING)]
    )
    less = struct_schema([("id", OPTIONAL_INT32), ("real", FLOAT32)])
    task = Task({**catalog.config, **CREATES, **EVOLVES})
    nested = old.fields[2].schema, new.fields[2].schema
    task.put(Struct(old).put("id", 1).put("real", 0.5).put("in", Struct(nested[0]).put("a", 1)))
    inner = Struct(nested[1]).put("a", 1 << 40).put("b", "b")
    task.put(Struct(new).put("id", 1 << 40).put("real", 1e300).put("in", inner).put("more", "m"))
    with pytest.raises(DataError, match=r"orders-0, offset 2: db\.orders: column in of the table takes no null"):
        task.put(Struct(less).put("id", None).put("real", 0.5))
    task.context.is_ending = True
    assert task.task.flush({PLACE: 2}) == {PLACE: 2}
    assert [str(each.field_type) for each in catalog.table().schema().fields][:2] == ["long", "double"]
    assert catalog.rows() == [
        {"id": 1, "real": 0.5, "in": {"a": 1, "b": None}, "more": None},
        {"id": 1 << 40, "real": 1e300, "in": {"a": 1 << 40, "b": "b"}, "more": "m"},
    ]


def test_columns_of_an_id_take_no_null(catalog: Catalog) -> None:
    optional = struct_schema([("id", OPTIONAL_INT32), ("what", OPTIONAL_STRING)])
    task = Task({**catalog.config, **CREATES, **EVOLVES, "iceberg.tables.default-id-columns": "id"})
    for number in range(2):
        task.put(Struct(optional).put("id", number))
    with pytest.raises(DataError, match=r"orders-0, offset 2: db\.orders: column id of the table takes no null"):
        task.put(Struct(optional))
    task.offset = 2
    assert task.flush() == 2
    assert catalog.rows() == [{"id": 0, "what": None}, {"id": 1, "what": None}]
    assert catalog.table().schema().identifier_field_names() == {"id"}


def test_without_evolution_other_columns_are_left_out(catalog: Catalog) -> None:
    Task({**catalog.config, **CREATES}).put(order(0))
    task = Task(catalog.config)
    task.put({"id": 1, "other": 2}, {"id": 2})
    assert task.flush() == 2
    assert catalog.rows() == [{"id": 1, "what": None}, {"id": 2, "what": None}]
    with pytest.raises(DataError, match=r"orders-0, offset 3: db\.orders: .*'x'"):
        task.put({"id": 3}, {"id": "x"})
    wrongs: tuple[Any, ...] = ("text", {})
    for wrong in wrongs:
        with pytest.raises(DataError, match=r"orders-0, offset [0-9]: the value is (no struct|a map without)"):
            Task(catalog.config, 5).put({"id": 3}, wrong)


def test_maps_without_a_schema(catalog: Catalog) -> None:
    task = Task({**catalog.config, **CREATES, **EVOLVES})
    task.put({"id": 1, "in": {"a": 1.5}, "none": None})
    task.put({"id": 2, "in": {"b": [True]}, "none": "now"})
    assert task.flush() == 2
    assert catalog.rows() == [
        {"id": 1, "in": {"a": 1.5, "b": None}, "none": None},
        {"id": 2, "in": {"a": None, "b": [True]}, "none": "now"},
    ]


def test_routes(catalog: Catalog) -> None:
    more = {
        "iceberg.tables": "db.a,db.b",
        "iceberg.tables.route-field": "in.what",
        "iceberg.table.db.a.route-regex": "a|both",
        "iceberg.table.db.b.route-regex": "b.*",
    }
    task = Task({**catalog.config, **CREATES, **more})
    values = [{"id": number, "in": {"what": what}} for number, what in enumerate(("a", "both", "b", "c", None))]
    task.put(*values, {"id": 9})
    assert task.flush() == 6
    assert [each["id"] for each in catalog.rows("db.a")] == [0, 1]
    assert [each["id"] for each in catalog.rows("db.b")] == [1, 2]


def test_tables_that_records_name(catalog: Catalog) -> None:
    more = {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "to"}
    config = {**catalog.config, **more, "iceberg.tables": ""}
    task = Task(config)
    task.put({"id": 1, "to": "db.new"})
    assert task.flush() == 1
    task = Task({**config, **CREATES}, 1)
    task.put({"id": 2, "to": "DB.New"}, {"id": 3})
    assert task.flush() == 3
    assert [each["id"] for each in catalog.rows("db.new")] == [2]
    with pytest.raises(DataError, match="orders-0, offset 3: 'x' is no table"):
        task.put({"id": 4, "to": "x"})


def test_a_table_or_a_catalog_that_is_not_there(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"there is no table db\.orders, and iceberg.tables.auto-create-enabled"):
        Task(catalog.config).put(order(1))
    away = {**catalog.config, "iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://127.0.0.1:1"}
    task = Task(away)
    with pytest.raises(RetriableError, match=r"catalog iceberg: no answer: \[Errno 111\]"):
        task.put(order(1))
    assert task.flush() == 0


def test_a_rest_catalog_whose_answers_are_lost(catalog: Catalog, tmp_path: Path) -> None:
    """The commit was made: it is found, and not made again."""
    with rest_catalog(tmp_path) as (url, lost):
        more = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": url}
        task = Task({**catalog.config, **CREATES, **more})
        task.put(order(1))
        lost.append(1)
        assert task.flush() == 1
        table = load_catalog("rest", uri=url).load_table("db.orders")
        assert len(table.history()) == 1
        assert table.scan().to_arrow().num_rows == 1


def test_a_warehouse_without_a_catalog(catalog: Catalog, tmp_path: Path) -> None:
    more = {"iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": f"file://{tmp_path}/tables"}
    task = Task({**catalog.config, **CREATES, **more, "iceberg.tables.default-partition-by": "what"})
    task.put(order(1, "a"), order(2, "b"))
    assert task.flush() == 2
    table = DirectoryCatalog(tmp_path / "tables" / "db" / "orders").load_table("db.orders")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "what": "a"}, {"id": 2, "what": "b"}]


def test_a_warehouse_in_a_bucket(catalog: Catalog) -> None:
    with s3_server() as url:
        access = {
            "s3.endpoint": url,
            "s3.access-key-id": "test",
            "s3.secret-access-key": "test",
            "s3.region": "us-east-1",
        }
        own = {**access, "warehouse": f"s3://{new_bucket(url)}/tables"}
        task = Task({**catalog.config, **CREATES, **{f"iceberg.catalog.{name}": text for name, text in own.items()}})
        task.put(order(1))
        assert task.flush() == 1
        table = load_catalog("iceberg", type="sql", uri=catalog.uri, **own).load_table("db.orders")
        assert table.location().startswith("s3://")
        assert table.scan().to_arrow().to_pylist() == [{"id": 1, "what": None}]


def test_a_branch(catalog: Catalog) -> None:
    config = {**catalog.config, **CREATES, "iceberg.table.db.orders.commit-branch": "audit"}
    for end in (1, 2):
        task = Task(config)
        task.put(*map(order, range(end)))
        task.flush()
    table = catalog.table()
    assert table.scan().to_arrow().num_rows == 0
    snapshot = table.metadata.snapshot_by_name("audit")
    assert snapshot is not None
    assert table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows == 2


def test_commits_have_their_time(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """While there are records a commit is made each interval; the end of a turn makes one, and the next turn waits."""
    now_s = 1000.0
    monkeypatch.setattr("kcli.connect.connectors.iceberg.sink.time.time", lambda: now_s)
    task = Task({**catalog.config, **CREATES, "iceberg.control.commit.interval-ms": "10000"})
    task.put(order(0))
    assert task.task.is_midway()
    assert task.flush(is_ending=False) == 1
    assert not task.task.is_midway()
    assert task.task.rest({PLACE: 1}).not_before_s == 0
    task.put(order(1))
    now_s = 1009.0
    assert task.flush(is_ending=False) is None
    assert task.flush() == 2
    rest = task.task.rest({PLACE: 2})
    assert (rest.ends, rest.not_before_s) == ({PLACE: 2}, 1019.0)
    later = Task({**catalog.config, "iceberg.control.commit.interval-ms": "10000"}, 2, state=task.context.state)
    later.put(order(2))
    assert later.flush(is_ending=False) is None
    now_s = 1019.0
    assert later.flush(is_ending=False) == 3


def test_many_rows_are_in_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.connect.connectors.iceberg.sink.HELD_BYTES", 100)
    task = Task({**catalog.config, **CREATES})
    for first in range(0, 100, 10):
        task.put(*map(order, range(first, first + 10)))
    assert task.flush() == 100
    assert len(catalog.rows()) == 100
    assert len(catalog.table().inspect.files()) > 2


def errors(more: Mapping[str, str]) -> dict[str, list[str]]:
    base = {"name": "out", "connector.class": IcebergSink.CLASS, "topics": "orders", "iceberg.tables": "db.orders"}
    base |= {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://127.0.0.1:1"}
    found = validate(built_in(), {**base, **more}, Defaults()).configs
    return {value.name: list(value.errors) for _, value in found if value is not None and value.errors}


@pytest.mark.parametrize(
    ("more", "option", "reason"),
    [
        ({"iceberg.tables": ""}, "iceberg.tables", "Must specify static table names or use dynamic table names"),
        ({"iceberg.tables": "orders"}, "iceberg.tables", "'orders' is no table: NAMESPACE.NAME"),
        ({"iceberg.tables.dynamic-enabled": "true"}, "iceberg.tables", "Cannot specify both static and dynamic"),
        ({"iceberg.tables.dynamic-enabled": "true"}, "iceberg.tables.route-field", "Must specify a route field"),
        ({"iceberg.catalog.type": "hive"}, "iceberg.catalog", "there are catalogs of the types rest, jdbc"),
        ({"iceberg.catalog.uri": ""}, "iceberg.catalog", "a catalog of the type rest needs its uri"),
        ({"iceberg.catalog.type": "hadoop"}, "iceberg.catalog", "needs its warehouse"),
        ({"iceberg.catalog.catalog-impl": "com.example.Own"}, "iceberg.catalog", r"not com.example.Own"),
        ({"iceberg.tables.default-partition-by": "a b"}, "iceberg.tables.default-partition-by", "'a b' is no column"),
        ({"iceberg.table.db.orders.partition-by": "bucket(a)"}, "iceberg.tables", "there are a column, year"),
        ({"iceberg.table.db.orders.route-regex": "("}, "iceberg.tables", "route-regex: "),
        ({"iceberg.control.commit.interval-ms": "-1"}, "iceberg.control.commit.interval-ms", "at least 0"),
        ({"iceberg.tables.cdc-field": "op"}, "iceberg.tables.cdc-field", "kcli has no other value than the default"),
    ],
)
def test_what_is_refused(more: dict[str, str], option: str, reason: str) -> None:
    assert errors({}) == {}
    assert any(reason in each for each in errors(more)[option])


def test_turns(catalog: Catalog, kafka: Kafka) -> None:
    """A turn whose outcome is lost has committed to the table: the next one reads all again, and adds the new."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def produce(first: int, end: int) -> None:
        for number in range(first, end):
            producer.produce("orders", json.dumps({"id": number}))
        producer.flush()

    config = {"name": "out", "connector.class": IcebergSink.CLASS, "topics": "orders", **catalog.config, **CREATES}
    config["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    config["value.converter.schemas.enable"] = "false"
    produce(0, 100)
    lost = turn(kafka, config)
    assert (lost.trace, lost.positions) == (None, {PLACE: 100})
    produce(100, 150)
    found = turn(kafka, config)
    assert (found.trace, found.records, found.positions) == (None, 150, {PLACE: 150})
    assert found.rest.ends == {PLACE: 150}
    assert [each["id"] for each in catalog.rows()] == list(range(150))
    producer.produce("orders", "no JSON")
    producer.flush()
    poisoned = turn(kafka, config, positions=found.positions, state=found.state)
    assert poisoned.trace is not None
    assert "Converting byte[] to Kafka Connect data failed" in poisoned.trace
