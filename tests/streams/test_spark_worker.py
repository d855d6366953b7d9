"""Tasks in workers of Spark, without Spark: they move between workers, and a micro-batch runs again."""

from __future__ import annotations

import pytest

from kcli.client.connection import Connection
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.planning import FetchRange
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.config import streams_config
from kcli.streams.local.internal import set_up
from kcli.streams.local.plan import TaskId
from kcli.streams.spark.inputs import InputsReader, input_options, ranges_in
from kcli.streams.spark.stages import feeds
from kcli.streams.spark.worker import Application, Committed, KeptTask, Worker
from kcli.testing.kafka import Kafka
from tests.conftest import is_soak
from tests.streams.applications import PROGRAMS, Input, by_key, consumed, inputs, produce
from tests.streams.test_local import CONFIG, expected
from tests.streams.test_spark import Programs, runnable

pytestmark = pytest.mark.kafka_broker(config=CONFIG)

TASK = TaskId(0, 0)
PLACE = TopicPartition("a", 0)


PARTS = 8


@pytest.mark.parametrize("part", range(PARTS if is_soak() else 1))
def test_cases_without_spark(kafka: Kafka, part: int) -> None:
    """The query's micro-batches on two workers in turns; `make soak` has all cases."""
    programs = Programs(kafka, runnable()[part::PARTS])
    topology, cluster = programs.topology, Cluster(kafka.bootstrap_servers)
    plan = set_up(Connection(kafka.bootstrap_servers), topology, "app", streams_config(None))
    workers = [Worker(Application(topology, "app", "run", cluster, plan, 0)) for _ in range(2)]
    topics = feeds(plan.sub_topologies)
    reader = InputsReader(input_options(topics, {}, None), cluster, topics)
    start, turn = reader.initialOffset(), 0
    for half in range(2):
        programs.pipe(half)
        while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
            for number, each in enumerate(reader.partitions(start, end)):
                ranges = [found for rows in reader.read(each) for found in ranges_in(rows)]
                task_id = workers[0].application.task_of(ranges[0].partition)
                workers[(turn + number) % 2].run(task_id, ranges)
            start, turn = end, turn + 1
    reader.stop()
    programs.compare()


class Workers:
    """Workers of an application that reads the topic a."""

    def __init__(self, kafka: Kafka, name: str, count: int) -> None:
        topology = PROGRAMS[name]()
        self.cluster = Cluster(kafka.bootstrap_servers)
        plan = set_up(Connection(kafka.bootstrap_servers), topology, "app", streams_config(None))
        self.workers = [Worker(Application(topology, "app", "run", self.cluster, plan, 0)) for _ in range(count)]

    def run(self, number: int, start: int, end: int) -> KeptTask:
        """Give offsets of the topic to a worker; return the task."""
        with self.cluster.reader({"a"}) as reader:
            topic_id = reader.describe().topic_ids["a"]
        self.workers[number].run(TASK, [FetchRange(PLACE, topic_id, start, end)])
        return self.workers[number]._kept[TASK]


def test_a_task_moves_between_workers(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka.seed({"a": 1, "out": 1})
    records = [each for each in inputs(120, seed=7) if each.topic == "a"][:60]
    produce(kafka.bootstrap_servers, records)
    workers = Workers(kafka, "windowed_count", 2)
    restored: list[KeptTask] = []
    go_to = KeptTask._go_to

    def noted(task: KeptTask, committed: Committed) -> None:
        restored.append(task)
        go_to(task, committed)

    monkeypatch.setattr(KeptTask, "_go_to", noted)
    first = workers.run(0, 0, 10)
    assert workers.run(0, 10, 20) is first
    assert restored == [first]
    other = workers.run(1, 20, 40)
    assert workers.run(0, 40, 60) is first
    assert restored == [first, other, first]
    assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(
        expected(PROGRAMS["windowed_count"](), records)
    )


def test_a_micro_batch_that_runs_again_takes_effect_once(kafka: Kafka) -> None:
    """As after a kill behind the commit; with more records than before, too, as with a new checkpoint."""
    kafka.seed({"a": 1, "out": 1})
    records = [each for each in inputs(60, seed=7) if each.topic == "a"][:30]
    produce(kafka.bootstrap_servers, records)
    workers = Workers(kafka, "windowed_count", 2)
    for number, start, end in ((0, 0, 10), (1, 0, 10), (0, 0, 10), (0, 0, 30)):
        workers.run(number, start, end)
    assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(
        expected(PROGRAMS["windowed_count"](), records)
    )


def check(kafka: Kafka, records: list[Input]) -> None:
    """Compare the output with that of TopologyTestDriver."""
    wanted = expected(PROGRAMS["windowed_count"](), records)
    assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(wanted)
