"""What the engine keeps between two turns of a task; the turns run in this process, without Spark."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.connect.builtin import built_in
from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.connectors.jdbc.sink import JdbcSink
from kcli.connect.connectors.jdbc.source import JdbcSource
from kcli.connect.converters.json import JsonConverter
from kcli.connect.data.errors import RetriableError
from kcli.connect.engine.spark_engine import SparkEngine
from kcli.connect.engine.watching import Watch
from kcli.connect.plugins import Limits
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.engines import Here, MemoryOffsets, States, wait_until
from tests.connect.turns import consumed, task_start


def sink_of(path: Path, topic: str) -> dict[str, str]:
    return {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(path), "topics": topic}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def committed(kafka: Kafka) -> dict[TopicPartition, int]:
    found = Groups(Connection(kafka.bootstrap_servers)).committed("connect-out")
    return {place: each.offset for place, each in found.items()}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


@pytest.fixture
def engine(here: Here, kafka: Kafka) -> Iterator[SparkEngine]:
    del here, kafka  # they outlive the engine
    engine = SparkEngine(built_in())
    yield engine
    engine.close()


def test_a_source_begins_where_its_first_turn_began(
    engine: SparkEngine, here: Here, kafka: Kafka, tmp_path: Path
) -> None:
    """A row that came between two turns is later than the task's beginning, not than the turn's."""
    path = tmp_path / "db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript("CREATE TABLE t (at INTEGER NOT NULL); INSERT INTO t VALUES (5)")
        config = {"name": "in", "connector.class": JdbcSource.CLASS, "mode": "timestamp", "topic.prefix": ""}
        config |= {"connection.url": f"jdbc:sqlite:{path}", "timestamp.column.name": "at", "timestamp.initial": "-1"}
        config |= {"poll.interval.ms": "3000"}
        states = States()
        (task,) = JdbcSource(config).task_configs(1)
        kafka.seed({"t": 1})
        engine.start([task_start(kafka.bootstrap_servers, config, task=task)], MemoryOffsets(), states, paused=False)
        wait_until(lambda: here.turns)
        database.execute("INSERT INTO t VALUES (?)", (time.time_ns() // 1_000_000,))
        database.commit()
        assert len(consumed(kafka, "t", 1)) == 1
    assert not states.traces


def test_a_sink_of_what_comes_begins_once(engine: SparkEngine, here: Here, kafka: Kafka, tmp_path: Path) -> None:
    """auto.offset.reset=latest is the end at the first turn; a later task begins there, too."""
    kafka.seed({"lines": 1})
    kafka.produce("lines", {"value": "before"})
    start = task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out", "lines"))
    start = start._replace(consumer={**start.consumer, "auto.offset.reset": "latest"})
    states = States()
    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: here.turns)
    kafka.produce("lines", {"value": "after"})
    wait_until(lambda: lines(tmp_path / "out") == ["after"])
    engine.stop([start.id])
    assert committed(kafka) == {TopicPartition("lines", 0): 2}
    kafka.seed({"more": 1})
    start = start._replace(connector={**start.connector, "topics": "more"})
    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: TopicPartition("more", 0) in committed(kafka))
    engine.stop([start.id])
    kafka.produce("more", {"value": "while it was stopped"})
    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: lines(tmp_path / "out") == ["after", "while it was stopped"])
    assert not states.traces


def test_a_partition_that_another_task_has_read_goes_on_there(
    here: Here, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partition 1 of four is task 0's, where it was task 1's of two: the group's offset of now counts, not that of the
    time when task 0 began."""
    del here
    monkeypatch.setattr("kcli.connect.engine.watching.DESCRIBE_S", 0.2)
    kafka.seed({"lines": 2})
    tasks = [
        task_start(kafka.bootstrap_servers, sink_of(tmp_path / str(n), "lines"), number=n, count=2) for n in (0, 1)
    ]
    kafka.produce("lines", {"value": "a", "partition": 1})
    Groups(Connection(kafka.bootstrap_servers)).commit("connect-out", {TopicPartition("lines", 1): 0})
    with closing(SparkEngine(built_in())) as first, closing(SparkEngine(built_in())) as second:
        states = States()
        for engine, start in zip((first, second), tasks, strict=True):
            engine.start([start], MemoryOffsets(), states, paused=False)
        wait_until(lambda: committed(kafka).get(TopicPartition("lines", 1)) == 1)
        kafka.produce("lines", {"value": "b", "partition": 0})
        wait_until(lambda: lines(tmp_path / "0") == ["b"])
        second.stop([tasks[1].id])
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_partitions([NewPartitions("lines", 4)])["lines"].result()
        time.sleep(1)
        kafka.produce("lines", {"value": "c", "partition": 1})
        wait_until(lambda: "c" in lines(tmp_path / "0"))
        assert lines(tmp_path / "0") == ["b", "c"]
    assert lines(tmp_path / "1") == ["a"]
    assert not states.traces


class Failing:
    """A method that raises RetriableError from its third call on, until it is mended. tries: how often it has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.is_mended, self.calls, self.tries = False, 0, 0
        self._method = getattr(JsonConverter, name)
        monkeypatch.setattr(JsonConverter, name, lambda *given, **named: self._call(*given, **named))  # noqa: PLW0108

    def _call(self, *given: Any, **named: Any) -> Any:
        self.calls += 1
        if not self.is_mended and self.calls > 2:
            self.tries += 1
            raise RetriableError("not now")
        return self._method(*given, **named)


AGAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "errors.retry.timeout": "-1",
    "errors.retry.delay.max.ms": "50",
}


def test_a_pause_passes_over_no_record_that_is_tried_again(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.seed({"lines": 1})
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(tmp_path / "in"), "topic": "lines"}
    states, offsets = States(), MemoryOffsets()
    (tmp_path / "in").write_text("1\n2\n3\n4\n")
    for config, name in ((source, "from_connect"), (sink_of(tmp_path / "out", "lines"), "to_connect")):
        failing = Failing(monkeypatch, name)
        start = task_start(kafka.bootstrap_servers, {**config, **AGAIN})
        engine.start([start], offsets, states, paused=False)
        wait_until(lambda failing=failing: failing.tries)  # type: ignore[misc]
        engine.pause([start.id])
        failing.is_mended = True
        engine.resume([start.id])
        if name == "from_connect":
            assert [each.value() for each in consumed(kafka, "lines", 4)] == [b'"1"', b'"2"', b'"3"', b'"4"']
    wait_until(lambda: lines(tmp_path / "out")[-4:] == ["1", "2", "3", "4"])
    assert states.of == dict.fromkeys(states.of, "RUNNING")


def test_a_pause_fails_no_task_whose_put_is_tried_again(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records before are flushed; those that were refused are the next turn's."""
    monkeypatch.setattr("kcli.connect.connectors.jdbc.sqlite.BUSY_S", 0.05)
    path = tmp_path / "db"
    kafka.seed({"t": 1})
    schema = {"type": "struct", "fields": [{"type": "string", "field": "line"}]}
    kafka.produce("t", {"value": json.dumps({"schema": schema, "payload": {"line": "x"}})})
    config = {"name": "out", "connector.class": JdbcSink.CLASS, "topics": "t", "connection.url": f"jdbc:sqlite:{path}"}
    config |= {"value.converter": AGAIN["value.converter"], "retry.backoff.ms": "20", "max.retries": "1000"}
    config |= {"auto.create": "true"}
    states = States()
    start = task_start(kafka.bootstrap_servers, config)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        engine.start([start], MemoryOffsets(), states, paused=False)
        time.sleep(1)
        engine.pause([start.id])
        assert states.of[start.id] == "PAUSED", states.traces
        database.execute("COMMIT")
        engine.resume([start.id])
        wait_until(lambda: TopicPartition("t", 0) in committed(kafka))
        assert database.execute("SELECT line FROM t").fetchall() == [("x",)]
    assert states.of[start.id] == "RUNNING"


class Hanging:
    """A query that ends when it is stopped."""

    def __init__(self) -> None:
        self.runs, self._stopped = threading.Event(), threading.Event()

    def start(self, *_: object) -> Hanging:
        self.runs.set()
        return self

    def awaitTermination(self) -> None:  # noqa: N802 (Spark's name)
        self._stopped.wait(60)

    def stop(self) -> None:
        self._stopped.set()


def test_a_task_has_the_worker_s_time_to_stop(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Hanging()
    monkeypatch.setattr("kcli.connect.engine.spark_engine.start_query", query.start)
    kafka.seed({"lines": 1})
    start = task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out", "lines"), limits=Limits(stop_s=0.3))
    engine.start([start], MemoryOffsets(), States(), paused=False)
    assert query.runs.wait(30)
    began = time.monotonic()
    engine.stop([start.id])
    assert 0.3 <= time.monotonic() - began < 3


def test_an_error_in_the_connector_s_thread_fails_its_tasks(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread goes on: tasks that are started again run."""
    states, looks = States(), iter([True])
    has_work = Watch.has_work

    def broken(self: Watch, *given: Any, **named: Any) -> bool:
        if next(looks, False):
            raise ValueError("broken")
        return has_work(self, *given, **named)

    monkeypatch.setattr(Watch, "has_work", broken)
    kafka.seed({"lines": 1})
    kafka.produce("lines", {"value": "a"})
    start = task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out", "lines"))
    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: states.of[start.id] == "FAILED")
    assert states.traces[start.id].startswith("builtins.ValueError: broken")
    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: lines(tmp_path / "out") == ["a"])
