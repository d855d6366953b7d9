"""An engine as a worker has it, a listener that keeps what it is told, and offsets in a topic or in memory; the engine
also without Spark."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.client.connection import Connection
from kcli.connect.engine import spark_engine
from kcli.connect.engine.offsets import partition_key, read_topic
from kcli.connect.engine.query import run_turns
from kcli.connect.engine.spark_engine import SparkEngine
from kcli.connect.engine.turn import Outcome, Turn
from kcli.connect.plugins import Line, Offset, Partition, TaskId
from kcli.testing.kafka import Kafka
from tests.connect.turns import OFFSETS_TOPIC


class States:
    """A listener. of: each task's last state. traces: of tasks that have failed. has_others: whether the tasks are to
    run elsewhere by now; asked: how often an engine has asked."""

    def __init__(self, *, has_others: bool = False) -> None:
        self._has_others, self.asked = has_others, 0
        self.of: dict[TaskId, str] = {}
        self.traces: dict[TaskId, str] = {}
        self.topics: set[tuple[TaskId, str]] = set()

    def running(self, task: TaskId) -> None:
        self.of[task] = "RUNNING"

    def paused(self, task: TaskId) -> None:
        self.of[task] = "PAUSED"

    def failed(self, task: TaskId, trace: str) -> None:
        self.of[task], self.traces[task] = "FAILED", trace

    def used_topic(self, task: TaskId, topic: str) -> None:
        self.topics.add((task, topic))

    def logged(self, task: TaskId, line: Line) -> None:  # noqa: ARG002
        logging.getLogger(line.logger).log(line.level, "%s", line.text)

    def is_current(self, task: TaskId) -> bool:  # noqa: ARG002
        self.asked += 1
        return not self._has_others


class MemoryOffsets:
    """Offsets of a worker without a topic."""

    topic: str | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: dict[tuple[str, str], tuple[Partition, Offset]] = {}

    def read(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        with self._lock:
            return [each for (name, _), each in self.all.items() if name == connector]

    def write(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        with self._lock:
            for partition, offset in offsets:
                if offset is None:
                    self.all.pop((connector, partition_key(partition)), None)
                else:
                    self.all[connector, partition_key(partition)] = partition, offset


class TopicOffsets(MemoryOffsets):
    """Offsets in a topic."""

    def __init__(self, kafka: Kafka, topic: str = OFFSETS_TOPIC) -> None:
        super().__init__()
        self.topic = topic
        self._connection = Connection(kafka.bootstrap_servers)

    def read(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        assert self.topic is not None
        found = read_topic(self._connection, self.topic, connector)
        return [(json.loads(key), offset) for key, offset in found.items()]


def wait_until(is_true: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


class Here:
    """Runs the queries of a SparkEngine in this process, one turn after the other. turns: how many have ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = 0
        monkeypatch.setattr(spark_engine, "start_query", self.start)
        monkeypatch.setattr(SparkEngine, "spark", lambda _: None)

    def start(
        self, _spark: None, _name: str, turns: Sequence[Turn], found: Callable[[list[Outcome]], None]
    ) -> SimpleNamespace:
        """Run a query."""
        rows: Any = (SimpleNamespace(value=number) for number in range(len(turns)))
        found([pickle.loads(each) for each in run_turns(pickle.dumps(list(turns)), rows)])
        self.turns += len(turns)
        return SimpleNamespace(awaitTermination=lambda: None, stop=lambda: None)
