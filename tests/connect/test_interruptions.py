"""What ends a turn of a task, and not the task: brokers that are away, records that are refused, attempts that are
lost. The turns run in this process, without Spark."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kcli.client.connection import Connection, Unreachable
from kcli.client.groups import Groups
from kcli.client.log_reading import LogReader
from kcli.client.processing import PartitionReader
from kcli.client.wire import ErrorAnswer, LoginFailed, NoAnswer, NobodyAnswers
from kcli.connect.builtin import built_in
from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.connectors.jdbc.sink import JdbcSink
from kcli.connect.connectors.jdbc.source import JdbcSource
from kcli.connect.connectors.postgres.source import PostgresSource
from kcli.connect.converters.json import JsonConverter
from kcli.connect.data.errors import RetriableError
from kcli.connect.engine import clients, source_turn, spark_engine
from kcli.connect.engine.offsets import read_topic
from kcli.connect.engine.passing import is_passing
from kcli.connect.engine.spark_engine import START_ATTEMPTS, SparkEngine, _Interruption
from kcli.connect.engine.tasks import SinkTask
from kcli.connect.engine.turn import Turn, outcome_of
from kcli.connect.plugins import Plugin, PluginType
from kcli.export.session import SparkFailed
from kcli.pipelines.cluster import Cluster
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.engines import Here, MemoryOffsets, States, TopicOffsets, wait_until
from tests.connect.turns import OFFSETS_TOPIC, consumed, task_start, turn

JSON = "org.apache.kafka.connect.json.JsonConverter"


class Refusing:
    """A sink that refuses the records of partition 0, as long as a file is there."""

    class TASK(SinkTask):
        def start(self, config, context):  # type: ignore[no-untyped-def]
            self.config = config
            context.retry_s = 0.05

        def put(self, records):  # type: ignore[no-untyped-def]
            if any(each.partition == 0 for each in records) and Path(self.config["file"]).exists():
                raise RetriableError("not now")


PLUGINS = built_in([Plugin("Refusing", PluginType.SINK, "1", f"{__name__}:Refusing")])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


@pytest.fixture
def engine(here: Here, kafka: Kafka) -> Iterator[SparkEngine]:
    del here, kafka  # they outlive the engine
    engine = SparkEngine(PLUGINS)
    yield engine
    engine.close()


def source_of(path: Path) -> dict[str, str]:
    return {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}


def sink_of(path: Path) -> dict[str, str]:
    return {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(path), "topics": "lines"}


def committed(kafka: Kafka, group: str) -> Mapping[TopicPartition, int]:
    found = Groups(Connection(kafka.bootstrap_servers)).committed(group)
    return {place: each.offset for place, each in found.items()}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_broker_that_is_away_fails_no_task(engine: SparkEngine, kafka: Kafka, tmp_path: Path) -> None:
    """A source and a sink go on once it is back, without a loss."""
    kafka.seed({"lines": 1, OFFSETS_TOPIC: 1})
    states, offsets = States(), TopicOffsets(kafka)
    short = {"request.timeout.ms": "500"}
    source = task_start(kafka.bootstrap_servers, source_of(tmp_path / "in"), exactly_once=True)
    source = source._replace(producer={**source.producer, **short})
    sink = task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out"))
    sink = sink._replace(consumer={**sink.consumer, **short})
    (tmp_path / "in").write_text("a\n")
    engine.start([source], offsets, states, paused=False)
    engine.start([sink], offsets, states, paused=False)
    wait_until(lambda: lines(tmp_path / "out") == ["a"])
    kafka.stop()
    with (tmp_path / "in").open("a") as file:
        file.write("b\n")
    time.sleep(4)
    kafka.start()
    wait_until(lambda: lines(tmp_path / "out") == ["a", "b"])
    assert not states.traces
    assert [each.value() for each in consumed(kafka, "lines", 2)] == [b"a", b"b"]


def test_what_was_not_stored_is_stored_later(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets of a source and of a sink's group, while what takes them is away; nothing comes twice."""
    kafka.seed({"lines": 1})
    (tmp_path / "in").write_text("a\n")
    states, offsets, is_away = States(), MemoryOffsets(), threading.Event()
    is_away.set()
    write, commit = MemoryOffsets.write, Groups.commit

    def breaking(method: Callable[..., Any], *given: Any) -> Any:
        if is_away.is_set():
            raise RetriableError("away")
        return method(*given)

    monkeypatch.setattr(MemoryOffsets, "write", lambda *given: breaking(write, *given))
    monkeypatch.setattr(Groups, "commit", lambda *given: breaking(commit, *given))
    engine.start([task_start(kafka.bootstrap_servers, source_of(tmp_path / "in"))], offsets, states, paused=False)
    engine.start([task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out"))], offsets, states, paused=False)
    wait_until(lambda: lines(tmp_path / "out") == ["a"])
    time.sleep(1.5)
    is_away.clear()
    wait_until(lambda: offsets.all and committed(kafka, "connect-out"))
    with (tmp_path / "in").open("a") as file:
        file.write("b\n")
    wait_until(lambda: lines(tmp_path / "out") == ["a", "b"])
    assert len(consumed(kafka, "lines", 2)) == 2
    assert not states.traces


def test_a_task_that_is_to_run_elsewhere_sends_nothing(engine: SparkEngine, kafka: Kafka, tmp_path: Path) -> None:
    """It has become the only producer of its id, and looks then; it does not do so again."""
    kafka.seed({"lines": 1, OFFSETS_TOPIC: 1})
    (tmp_path / "in").write_text("a\n")
    start = task_start(kafka.bootstrap_servers, source_of(tmp_path / "in"), exactly_once=True)
    states = States(has_others=True)
    engine.start([start], TopicOffsets(kafka), states, paused=False)
    wait_until(lambda: states.asked)
    time.sleep(2.5)
    assert states.asked == 1
    engine.stop([start.id])
    assert not kafka.records("lines")
    engine.start([start], TopicOffsets(kafka), States(), paused=False)
    assert len(consumed(kafka, "lines", 1)) == 1


def test_an_attempt_of_spark_that_follows_another_sends_nothing(kafka: Kafka, tmp_path: Path) -> None:
    """The engine fences the one before, and looks whether the task is still to run."""
    kafka.seed({"lines": 1, OFFSETS_TOPIC: 1})
    (tmp_path / "in").write_text("a\n")
    start = task_start(kafka.bootstrap_servers, source_of(tmp_path / "in"), exactly_once=True)
    (plugin,) = built_in().named(FileStreamSource.CLASS, PluginType.SOURCE)
    made = Turn(start, plugin, built_in(), Cluster(kafka.bootstrap_servers), "/nonexistent/stop", offsets={})
    outcome = outcome_of(made, partial(source_turn.run, is_repeated=True))
    assert (outcome.interruption, outcome.trace, outcome.records) == ("an earlier attempt was lost", None, 0)


def test_a_transactional_id_that_was_forgotten_is_taken_anew(kafka: Kafka, tmp_path: Path) -> None:
    """The coordinator has forgotten the producer of a task that has rested for transactional.id.expiration.ms."""
    kafka.seed({"lines": 1, OFFSETS_TOPIC: 1})
    (tmp_path / "in").write_text("a\n")
    found = turn(kafka, source_of(tmp_path / "in"), exactly_once=True, offsets_topic=OFFSETS_TOPIC, producer=(77, 3))
    assert (found.trace, found.interruption, found.records) == (None, None, 1)
    assert found.producer != (77, 4)


def test_a_task_whose_records_are_refused_holds_no_other_up(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.5)
    kafka.seed({"lines": 2})
    kafka.produce("lines", {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    states, mark = States(), tmp_path / "refuses"
    mark.touch()
    config = {"name": "out", "connector.class": "Refusing", "topics": "lines", "file": str(mark)}
    tasks = [task_start(kafka.bootstrap_servers, config, number=number, count=2, plugins=PLUGINS) for number in (0, 1)]
    engine.start(tasks, MemoryOffsets(), states, paused=False)
    wait_until(lambda: committed(kafka, "connect-out") == {TopicPartition("lines", 1): 1})
    mark.unlink()
    wait_until(lambda: committed(kafka, "connect-out") == {TopicPartition("lines", n): 1 for n in (0, 1)})
    assert not states.traces


def test_a_record_that_is_converted_again_and_again_holds_no_other_task_up(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With errors.retry.timeout=-1 it is the next turn's, too."""
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.5)
    kafka.seed({"lines": 2})
    kafka.produce("lines", {"value": "1", "partition": 0}, {"value": "2", "partition": 1})
    states, is_away, convert = States(), threading.Event(), JsonConverter.to_connect
    is_away.set()

    def to_connect(self: JsonConverter, topic: str, data: bytes | None, *more: Any) -> Any:
        if data == b"1" and is_away.is_set():
            raise RetriableError("away")
        return convert(self, topic, data, *more)

    monkeypatch.setattr(JsonConverter, "to_connect", to_connect)
    config = {**sink_of(tmp_path / "out"), "errors.retry.timeout": "-1", "value.converter": JSON}
    config["value.converter.schemas.enable"] = "false"
    tasks = [task_start(kafka.bootstrap_servers, config, number=number, count=2) for number in (0, 1)]
    engine.start(tasks, MemoryOffsets(), states, paused=False)
    wait_until(lambda: lines(tmp_path / "out") == ["2"], 20)
    is_away.clear()
    wait_until(lambda: lines(tmp_path / "out") == ["2", "1"], 20)
    assert not states.traces


def test_tries_are_counted_over_turns(
    engine: SparkEngine, here: Here, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JDBC sink gives a busy database up after max.retries, however many turns they take."""
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.3)
    monkeypatch.setattr("kcli.connect.connectors.jdbc.sqlite.BUSY_S", 0.05)
    path = tmp_path / "db"
    config = {"name": "out", "connector.class": JdbcSink.CLASS, "topics": "t", "connection.url": f"jdbc:sqlite:{path}"}
    config |= {"retry.backoff.ms": "100", "max.retries": "6", "auto.create": "true"}
    config["value.converter"] = JSON
    schema = '{"schema": {"type": "struct", "fields": [{"type": "string", "field": "line"}]}, "payload": {"line": "x"}}'
    kafka.seed({"t": 1})
    kafka.produce("t", {"value": schema})
    states = States()
    start = task_start(kafka.bootstrap_servers, config)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        engine.start([start], MemoryOffsets(), states, paused=False)
        wait_until(lambda: states.of[start.id] == "FAILED")
    assert here.turns >= 2
    assert "locked" in states.traces[start.id]


@pytest.mark.parametrize("connector", ["jdbc-file", "jdbc-server", "debezium"])
def test_a_source_that_is_away_has_its_reason_in_the_log_once(
    engine: SparkEngine, here: Here, kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture, connector: str
) -> None:
    """However many turns it is away; once more if it was there in between."""
    with closing(socket.create_server(("127.0.0.1", 0))) as closed:
        port = closed.getsockname()[1]
    query = {"connector.class": JdbcSource.CLASS, "mode": "bulk", "query": "SELECT 1 AS n", "poll.interval.ms": "100"}
    server = {"database.hostname": "127.0.0.1", "database.port": str(port), "database.dbname": "d"}
    config = {
        "jdbc-file": {**query, "connection.url": f"jdbc:sqlite:{tmp_path / 'db'}"},
        "jdbc-server": {**query, "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/d"},
        "debezium": {"connector.class": PostgresSource.CLASS, "database.user": "u", **server},
    }[connector]
    start = task_start(kafka.bootstrap_servers, {"name": "in", "topic.prefix": "rows", **config})
    states = States()
    kafka.seed({"rows": 1})

    def told() -> int:
        return sum(each.startswith("in-0 is interrupted: ") for each in caplog.messages)

    engine.start([start], MemoryOffsets(), states, paused=False)
    wait_until(lambda: here.turns >= 3)
    assert (told(), states.of[start.id]) == (1, "RUNNING")
    if connector == "jdbc-file":
        (tmp_path / "db").touch()
        assert consumed(kafka, "rows", 1)
        (tmp_path / "db").unlink()
        wait_until(lambda: told() == 2)
    assert not states.traces


def test_a_partition_without_a_leader_holds_no_other_up(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.seed({"lines": 2})
    kafka.produce("lines", {"value": "a", "partition": 0}, {"value": "b", "partition": 1})
    describe, is_away = LogReader.describe, threading.Event()
    is_away.set()

    def without(self: LogReader) -> object:
        found = describe(self)
        if is_away.is_set():
            self._described = found._replace(leaders={**found.leaders, TopicPartition("lines", 0): None})
        return self._described

    monkeypatch.setattr(LogReader, "describe", without)
    states = States()
    engine.start(
        [task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out"))], MemoryOffsets(), states, paused=False
    )
    wait_until(lambda: lines(tmp_path / "out") == ["b"], 10)
    is_away.clear()
    wait_until(lambda: sorted(lines(tmp_path / "out")) == ["a", "b"], 10)
    assert not states.traces


def test_an_interruption_holds_until_the_last_has_left(tmp_path: Path) -> None:
    between = _Interruption(threading.Lock(), tmp_path / "stop", threading.Event(), lambda: None)
    seen: list[bool] = []

    def second() -> None:
        with between:
            seen.append((tmp_path / "stop").exists())

    with between:
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: between._count == 2)
    thread.join()
    assert seen == [True]
    assert not (tmp_path / "stop").exists()


def test_a_topic_that_gives_no_more(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that reads its offsets ends its turn when it is stopped, or when the rest does not come."""
    kafka.seed({OFFSETS_TOPIC: 1})
    kafka.produce(OFFSETS_TOPIC, {"key": "x", "value": "y"})
    connection = Connection(kafka.bootstrap_servers)

    def stopped() -> None:
        raise RetriableError("stopped")

    with pytest.raises(RetriableError, match="stopped"):
        read_topic(connection, OFFSETS_TOPIC, "in", stopped)
    monkeypatch.setattr(PartitionReader, "is_done", lambda *_: False)
    monkeypatch.setattr(clients, "READ_S", 0.3)
    with pytest.raises(Unreachable, match="is not read to its end"):
        read_topic(connection, OFFSETS_TOPIC, "in")


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (NobodyAnswers("a:1", NoAnswer("x")), True),
        (NobodyAnswers("a:1", LoginFailed("x")), False),
        (Unreachable("x"), True),
        (Unreachable("x", is_of_login=True), False),
        (ErrorAnswer("x", ErrorCode.NOT_LEADER_OR_FOLLOWER, None), True),
        (ErrorAnswer("x", ErrorCode.PRODUCER_FENCED, None), False),
        (ErrorAnswer("x", ErrorCode.TOPIC_AUTHORIZATION_FAILED, None), False),
        (RetriableError("x"), True),
        (ValueError("x"), False),
    ],
)
def test_which_errors_pass(error: Exception, passes: bool) -> None:
    assert is_passing(error) is passes


def test_a_session_whose_jvm_has_ended_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, however many connectors see it end; a session of the caller's stays."""
    made: list[object] = []

    class Session:
        def __enter__(self) -> object:
            made.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            made.append("closed")

    monkeypatch.setattr(spark_engine, "spark_session", lambda _: Session())
    with closing(SparkEngine(PLUGINS)) as engine:
        first = engine.spark()
        assert not engine.has_left(first)
        engine.forget(first)
        assert engine.has_left(first)
        second = engine.spark()
        engine.forget(first)
        assert engine.spark() is second
    assert made == [first, "closed", second, "closed"]
    with closing(SparkEngine(PLUGINS, session=second)) as engine:
        engine.forget(second)
        assert engine.spark() is second
        assert not engine.has_left(second)


def test_a_jvm_that_does_not_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been killed while it started: its tasks wait. One that does not start for the first time, however
    often it is tried, fails them."""
    starts = iter([False, False, False, True, False, True])

    def started(_: object) -> nullcontext[object]:
        if next(starts):
            return nullcontext(object())
        raise SparkFailed("Spark does not start")

    monkeypatch.setattr(spark_engine, "spark_session", started)
    with closing(SparkEngine(PLUGINS)) as engine:
        for _ in range(START_ATTEMPTS - 1):
            with pytest.raises(RetriableError, match="Spark does not start"):
                engine.spark()
        with pytest.raises(SparkFailed) as failed:
            engine.spark()
        assert not is_passing(failed.value)
        engine.forget(engine.spark())
        with pytest.raises(RetriableError, match="Spark does not start"):
            engine.spark()
        engine.spark()


def test_a_turn_in_a_session_that_another_connector_has_left(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever PySpark raises there, the task goes on in the next session."""
    here, states = Here(monkeypatch), States()
    start_query = here.start
    session: object | None = object()

    def found(started: SparkEngine) -> Any:
        started._session = session  # type: ignore[assignment]
        return session

    def stopped(*given: Any) -> Any:
        nonlocal session
        if session is not None:
            session = one._session = None
            raise AttributeError("'NoneType' object has no attribute 'setCallSite'")
        return start_query(*given)

    monkeypatch.setattr(SparkEngine, "spark", found)
    monkeypatch.setattr(spark_engine, "start_query", stopped)
    kafka.seed({"lines": 1})
    (tmp_path / "in").write_text("a\n")
    with closing(SparkEngine(PLUGINS)) as one:
        source = task_start(kafka.bootstrap_servers, source_of(tmp_path / "in"))
        one.start([source], MemoryOffsets(), states, paused=False)
        wait_until(lambda: here.turns)
    assert not states.traces
