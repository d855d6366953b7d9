"""A task that moves: behind each record a new one goes on, with the stores that changelogs have and the times that its
predecessor knew (Task.times). It sends what one that stays sends, in all cases but those with a store without a
changelog or with punctuations by the clock, which count from the start of a task."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kcli.streams import STRING, StreamsBuilder, TimeWindows, TopologyTestDriver
from kcli.streams.config import streams_config
from kcli.streams.records import ProducerRecord
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import Topology, changelog_topic
from tests.streams.programs import APPLICATION, CASES, Case, Interpreter, Json, cases, inputs, raw

RECORDS = 40
STAYING = ("count-without-changelog", "process-wall-clock", "everything-with-one-clock")
FILES = sorted(CASES.glob("*.txt"))


class Moving(TopologyTestDriver):
    """A test driver whose task moves."""

    def __init__(self, topology: Topology, config: Mapping[str, Any]) -> None:
        super().__init__(topology, application_id=APPLICATION, config=config)
        self._topology, self._handlers = topology, streams_config(config).handlers
        self._of_global: list[RawRecord] = []

    def move(self) -> None:
        """Go on with a new task."""
        old, topology = self._task, self._topology
        task = Task(topology, APPLICATION, old.now_ms, 0, handlers=self._handlers)
        for name, store in task.stores.items():
            for record in self.outputs(changelog_topic(APPLICATION, name)):
                assert record.key is not None
                store.restore(record.key, record.value, record.timestamp)
        for topic, queue in old.queues.by_topic.items():
            task.queues.set_partition_time(topic, queue.partition_time)
        task.metadata_of_processors |= old.metadata_of_processors | old.times()
        task.start()
        for each in self._of_global:
            task.add(each)
        self._task = task

    def pipe_one(self, each: Json) -> None:
        headers = tuple((name, raw(value)) for name, value in each["headers"])
        record = RawRecord(each["topic"], 0, 0, each["timestamp"], raw(each["key"]), raw(each["value"]), headers)
        if record.topic not in self._task.queues:
            self._of_global.append(record)
        self.pipe(record.topic, record.key, record.value, record.timestamp, headers)


def outputs(case: Case, *, moves: bool) -> dict[str, list[ProducerRecord]]:
    """The records of each topic. Those of changelogs are sorted by key, as suppress writes them in the order of a hash
    table that has grown."""
    interpreter = Interpreter()
    interpreter.run(case.steps)
    with Moving(interpreter.builder.build(), interpreter.config) as driver:
        for each in inputs(case.steps, seed=5, count=RECORDS):
            if "topic" in each:
                driver.pipe_one(each)
                if moves:
                    driver.move()
        sent = {topic: list(driver.outputs(topic)) for topic in sorted(driver.produced_topic_names())}
    for topic, records in sent.items():
        if topic.endswith("-changelog"):
            records.sort(key=lambda record: record.key or b"")
    return sent


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_task_that_moves_sends_what_one_that_stays_sends(path: Path) -> None:
    for case in cases(path):
        if case.name not in STAYING:
            assert outputs(case, moves=True) == outputs(case, moves=False), case.name


def test_times_are_taken_over_once() -> None:
    """A runner that does not commit them would otherwise hand on old ones."""
    builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
    windows = TimeWindows(size_ms=10)
    builder.stream("in").group_by_key().windowed_by(windows).count(store_name="counts")
    topology = builder.build()
    old = Task(topology, APPLICATION, 0)
    old.start()
    old.add(RawRecord("in", 0, 0, 42, b"k", b"v"))
    assert old.process()
    assert 42 in old.times().values()
    new = Task(topology, APPLICATION, 0)
    new.metadata_of_processors |= {**old.times(), "other": 7}
    new.start()
    assert (new.times(), new.metadata_of_processors) == (old.times(), {"other": 7})
