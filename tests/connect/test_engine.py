"""The engine on Spark: states of tasks, turns that end for a pause, workers that are killed, offsets of the group."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kcli.connect.builtin import built_in
from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.engine.spark_engine import SparkEngine
from kcli.connect.engine.tasks import SourceTask
from kcli.connect.plugins import Plugin, PluginType, TaskId
from kcli.testing.kafka import Kafka
from tests.connect.engines import MemoryOffsets, States, TopicOffsets, wait_until
from tests.connect.turns import OFFSETS_TOPIC, consumed, task_start
from tests.pipelines.conftest import spark

__all__ = ["spark"]


class Dying:
    """A source whose task kills its worker once, in the middle of a turn, and whose second partition is broken."""

    class TASK(SourceTask):
        def start(self, config, context):  # type: ignore[no-untyped-def]
            self.config = config
            self.position = (context.offset({"of": "it"}) or {"at": 0})["at"]

        def poll(self):  # type: ignore[no-untyped-def]
            from kcli.connect.data.records import SourceRecord

            if self.config["part"] == "1":
                raise ValueError("part 1 is broken")
            if self.position >= 3000:
                return []
            if self.position == 1500 and not Path(self.config["mark"]).exists():
                Path(self.config["mark"]).touch()
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGKILL)
            found = []
            for _ in range(100):
                self.position += 1
                found.append(
                    SourceRecord(
                        topic="numbers",
                        value=str(self.position),
                        source_partition={"of": "it"},
                        source_offset={"at": self.position},
                    )
                )
            return found


PLUGINS = built_in([Plugin("Dying", PluginType.SOURCE, "1", f"{__name__}:Dying")])


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[SparkEngine]:
    engine = SparkEngine(PLUGINS, session=spark)
    yield engine
    engine.close()


@pytest.mark.parametrize("exactly_once", [True, False])
def test_a_file_becomes_a_topic_becomes_a_file(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, *, exactly_once: bool
) -> None:
    """A source and a sink; both are paused, resumed, stopped, and started again where they were."""
    kafka.seed({OFFSETS_TOPIC: 5, "lines": 2})
    states = States()
    offsets = TopicOffsets(kafka) if exactly_once else MemoryOffsets()
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(tmp_path / "in"), "topic": "lines"}
    sink = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(tmp_path / "out"), "topics": "lines"}
    bootstrap = kafka.bootstrap_servers
    of_source, of_sink = TaskId("in", 0), [TaskId("out", 0), TaskId("out", 1)]

    def lines() -> list[str]:
        path = tmp_path / "out"
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def start_both() -> None:
        engine.start([task_start(bootstrap, source, exactly_once=exactly_once)], offsets, states, paused=False)
        two = [task_start(bootstrap, sink, number=number, count=2) for number in (0, 1)]
        engine.start(two, offsets, states, paused=False)

    written: list[str] = []

    def write(count: int) -> None:
        with (tmp_path / "in").open("a") as file:
            for _ in range(count):
                written.append(f"line {len(written):06}")
                file.write(written[-1] + "\n")

    write(1000)
    start_both()
    assert states.of == dict.fromkeys([of_source, *of_sink], "RUNNING")
    wait_until(lambda: lines() == written)
    write(1000)
    wait_until(lambda: lines() == written)
    engine.pause([of_source])
    assert states.of[of_source] == "PAUSED"
    write(10)
    time.sleep(1.5)
    assert len(lines()) == 2000
    engine.resume([of_source])
    wait_until(lambda: lines() == written)
    assert states.of[of_source] == "RUNNING"
    began = time.monotonic()
    engine.stop([of_source])
    engine.stop(of_sink)
    assert time.monotonic() - began < 5
    write(5)
    start_both()
    wait_until(lambda: lines() == written)
    assert (of_source, "lines") in states.topics
    of_both = {(each, "lines") for each in of_sink}
    assert states.topics & of_both, "one partition may have all records"
    assert states.topics <= {(of_source, "lines"), *of_both}
    assert states.traces == {}
    offset_of_group = kafka.call("OffsetFetch", 8, groups=[{"group_id": "connect-out", "topics": None}])
    assert "2015" not in str(offset_of_group)  # two partitions share them


def test_a_worker_of_spark_is_killed(engine: SparkEngine, kafka: Kafka, tmp_path: Path) -> None:
    """Its turn is repeated from the offsets in the topic; the task beside it fails by itself, and is told so."""
    kafka.seed({OFFSETS_TOPIC: 5, "numbers": 1})
    states, offsets = States(), TopicOffsets(kafka)
    config = {"name": "dying", "connector.class": "Dying", "mark": str(tmp_path / "mark")}
    tasks = [
        task_start(
            kafka.bootstrap_servers,
            config,
            number=number,
            count=2,
            exactly_once=True,
            plugins=PLUGINS,
            task={"part": str(number)},
        )
        for number in (0, 1)
    ]
    engine.start(tasks, offsets, states, paused=False)
    found = consumed(kafka, "numbers", 3000)
    assert [int(each.value()) for each in found] == list(range(1, 3001))
    assert (tmp_path / "mark").exists()
    wait_until(lambda: states.of[TaskId("dying", 1)] == "FAILED")
    assert states.traces[TaskId("dying", 1)].startswith(
        "builtins.ValueError: part 1 is broken\n\tat poll(test_engine.py"
    )
    assert states.of[TaskId("dying", 0)] == "RUNNING"
    engine.stop([TaskId("dying", 1)])
    assert offsets.read("dying") == [({"of": "it"}, {"at": 3000})]


def test_what_cannot_start_is_told(engine: SparkEngine, kafka: Kafka) -> None:
    states = States()
    start = task_start(kafka.bootstrap_servers, {"name": "x", "connector.class": FileStreamSink.CLASS, "topics": "t"})
    unknown = start._replace(connector={**start.connector, "connector.class": "NoSuch"})
    engine.start([unknown], MemoryOffsets(), states, paused=False)
    assert states.traces[TaskId("x", 0)].startswith(
        "org.apache.kafka.connect.errors.ConnectException: Failed to find any class that implements Connector and "
    )
    engine.start([start], MemoryOffsets(), states, paused=False)
    kafka.seed({"t": 1})
    kafka.produce("t", {"value": "x"})
    wait_until(lambda: "is not configured" in states.traces[TaskId("x", 0)])


def test_what_a_task_logs_is_in_the_worker_s_log(
    engine: SparkEngine, kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's workers have no log that anybody reads."""
    kafka.seed({"lines": 1})
    (tmp_path / "in").write_text("1\n2\n")
    config = {
        "name": "in",
        "connector.class": FileStreamSource.CLASS,
        "file": str(tmp_path / "in"),
        "topic": "lines",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "transforms": "t",
        "transforms.t.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.t.field": "x",
    }
    engine.start([task_start(kafka.bootstrap_servers, config)], MemoryOffsets(), States(), paused=False)
    wait_until(lambda: len(caplog.messages) >= 2)
    assert [each[:97] for each in caplog.messages[:2]] == [
        "Error encountered in task in-0. Executing stage 'TRANSFORMATION' with class 'org.apache.kafka.con"
    ] * 2


def test_connectors_do_not_wait_for_each_other(engine: SparkEngine, kafka: Kafka, tmp_path: Path) -> None:
    """A task whose turn lasts holds no other connector up; stopping it takes no longer than its next poll."""
    kafka.seed({"a": 1, "b": 1})
    states, offsets = States(), MemoryOffsets()
    for topic in ("a", "b"):
        config = {
            "name": topic,
            "connector.class": FileStreamSource.CLASS,
            "file": str(tmp_path / topic),
            "topic": topic,
        }
        engine.start([task_start(kafka.bootstrap_servers, config)], offsets, states, paused=False)
    grows = threading.Event()

    def grow() -> None:
        while not grows.wait(0.05):
            with (tmp_path / "a").open("a") as file:
                file.write("x\n")

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        consumed(kafka, "a", 5)
        (tmp_path / "b").write_text("b\n")
        began = time.monotonic()
        consumed(kafka, "b", 1)
        assert time.monotonic() - began < 4
        began = time.monotonic()
        engine.stop([TaskId("a", 0)])
        assert time.monotonic() - began < 2
    finally:
        grows.set()
        thread.join()
