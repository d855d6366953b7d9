"""The Spark runner: the cases of tests/streams/cases in one query, and what it refuses.

A query has the programs of many cases, each with topics and stores of its own; half of the input comes after the query
was stopped and started again. What comes out is compared with TopologyTestDriver, that is, with Kafka Streams: for each
key the same records in the same order, and the same stores. Where a program has several topics, their records come in
the order of their timestamps, and those of global tables first: within a micro-batch the Spark runner has this order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, murmur2
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import PartitionReader
from kcli.export.session import cause
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams import LONG, STRING, StreamsBuilder, StreamsError, Topology, TopologyError, TopologyTestDriver
from kcli.streams.config import DEAD_LETTER_TOPIC, DESERIALIZATION, STANDBYS, streams_config
from kcli.streams.local.internal import partition_counts
from kcli.streams.local.plan import input_topics, sub_topologies
from kcli.streams.spark import SparkStreams
from kcli.streams.spark.spark_streams import refuse
from kcli.streams.spark.stages import feeds
from kcli.testing.kafka import Kafka
from tests.conftest import is_soak
from tests.export.conftest import spark
from tests.streams.applications import (
    PROGRAMS,
    START_MS,
    Row,
    by_key,
    consumed,
    new_builder,
    produce,
    running,
    wait_until,
)
from tests.streams.applications import inputs as application_inputs
from tests.streams.programs import CASES, Case, Interpreter, Json, cases, inputs, raw
from tests.streams.test_local import CONFIG, expected

__all__ = ["spark"]

pytestmark = pytest.mark.kafka_broker(config=CONFIG)

RECORDS = 14
WAIT_S = 900.0 if is_soak() else 240.0
BASE_MS = START_MS - START_MS % 3_600_000
WITH_CLOCK = ("process-wall-clock", "everything-with-one-clock")
WITHOUT_CHANGELOG = {
    "count-without-changelog": "KSTREAM-AGGREGATE-\\d+ keeps the store counts",
    "table-without-changelog": "KTABLE-SOURCE-\\d+ keeps the store rows",
    "versioned-table-without-changelog": "KTABLE-SOURCE-\\d+ keeps the store rows",
}
NUMBERED = ("split",)
"""It uses generated names."""
WITH_OFFSETS = ("process-place", "stream-join-with-grace-of-new-keys")
"""They tell offsets of a repartition topic, among which are those of transactions' markers."""
OVERTAKEN = ("foreign-key-join-of-one-table",)
"""An inner join by foreign key, in which a second update overtakes the removal that a first one causes."""
NOT_COMPARED = (*WITH_CLOCK, *WITHOUT_CHANGELOG, *NUMBERED, *WITH_OFFSETS, *OVERTAKEN)
SAMPLE = (
    "word-count",
    "count-of-new-keys",
    "stream-table-join",
    "stream-table-join-of-new-keys",
    "stream-left-join-with-grace",
    "versioned-count",
    "table-outer-join",
    "stream-join",
    "stream-outer-join",
    "stream-left-join-of-new-keys",
    "suppress-until-the-window-closes",
    "foreign-key-left-join",
    "global-left-join",
    "process-flush",
    "process-stream-time",
    "cogroup-of-two-streams",
    "repartition-with-a-number-of-partitions",
)
"""Of the other cases `make soak` runs all."""


def runnable() -> list[Case]:
    """The cases that run on Spark in one application, that is, without those that have a configuration."""
    found = [case for path in sorted(CASES.glob("*.txt")) for case in cases(path)]
    return [
        case for case in found if case.name not in NOT_COMPARED and all(step["call"] != "config" for step in case.steps)
    ]


def chosen() -> list[Case]:
    runs = runnable()
    windowed = [case for case in runs if any(step["call"] == "windowed_by" for step in case.steps)]
    return runs if is_soak() else [case for case in runs if case.name in SAMPLE or case in windowed[::6]]


class Program:
    """A case whose topics and stores have names of its own, and its input."""

    def __init__(self, case: Case, number: int) -> None:
        self.case, self.number, self.prefix = case, number, f"c{number}-"
        self.steps = [self._named(step) for step in case.steps]
        self.is_foreign = any("foreign_key" in step["kw"] for step in self.steps)
        topics = {each for step in self.steps if step["call"] in ("stream", "table") for each in step["args"]}
        given = [each for each in inputs(self.steps, seed=3, count=RECORDS) if "topic" in each]
        if len(topics) > 1 or any(step["call"] == "global_table" for step in self.steps):
            given.sort(key=lambda each: (each["topic"] in topics, each["timestamp"]))
            for i, each in enumerate(given):
                each["timestamp"] += i
        self.inputs: list[Json] = [{**each, "timestamp": each["timestamp"] + BASE_MS} for each in given]

    def _named(self, step: Json) -> Json:
        args, about = list(step["args"]), dict(step["kw"])
        if step["call"] in ("stream", "table", "global_table", "process", "process_values"):
            first = 1 if step["call"].startswith("process") else 0
            args[first:] = [self.prefix + each for each in args[first:]]
        elif step["call"] in ("to", "item", "key_value_store", "versioned_store", "window_store", "session_store"):
            args[0] = self.prefix + args[0]
        for name in ("name", "store_name"):
            if name in about and not step["call"].endswith("branch"):
                about[name] = self.prefix + about[name]
        return {**step, "args": args, "kw": about}

    def declare(self, builder: StreamsBuilder) -> None:
        """Declare the program. The numbers in generated names go on from a thousand of its own."""
        builder._declaring.graph._index = 1000 * self.number
        interpreter = Interpreter()
        interpreter.builder = builder
        interpreter.run(self.steps)

    def expected(self) -> dict[str, list[Row]]:
        """What TopologyTestDriver sends to each topic."""
        builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
        self.declare(builder)
        with TopologyTestDriver(builder.build(), application_id="app") as driver:
            for each in self.inputs:
                headers = tuple((name, raw(value)) for name, value in each["headers"])
                driver.pipe(each["topic"], raw(each["key"]), raw(each["value"]), each["timestamp"], headers)
            return {
                topic: [(one.key, one.value, one.timestamp) for one in driver.outputs(topic)]
                for topic in driver.produced_topic_names()
            }


class Programs:
    """Cases as one topology, whose input comes in two halves."""

    def __init__(self, kafka: Kafka, chosen: list[Case]) -> None:
        self._kafka = kafka
        self._programs = [Program(case, number) for number, case in enumerate(chosen)]
        builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
        for each in self._programs:
            each.declare(builder)
        self.topology = builder.build()
        self._wanted = [(program, *found) for program in self._programs for found in program.expected().items()]
        outputs = {topic for _, topic, _ in self._wanted if not topic.startswith("app-")}
        kafka.seed(dict.fromkeys((*input_topics(self.topology), *outputs), 1))

    def pipe(self, half: int) -> None:
        """Produce the first or second half of the input."""
        for each in self._programs:
            middle = len(each.inputs) // 2
            early = [one for one in each.inputs if one["topic"] in global_topics(self.topology)]
            rest = [one for one in each.inputs if one not in early]
            pipe(self._kafka, rest[middle:] if half else [*early, *rest[:middle]])

    def compare(self) -> None:
        """Compare what is in the topics with what should be there. Raises AssertionError."""
        found = committed_rows(self._kafka, sorted({topic for _, topic, _ in self._wanted}))
        differing = [
            f"{program.case.name}: {topic}\n  wanted {rows}\n  found  {found[topic]}"
            for program, topic, rows in self._wanted
            if not is_equal(program, topic, rows, found[topic])
        ]
        assert not differing, "\n".join(differing[:8])


def pipe(kafka: Kafka, records: list[Json]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5})
    for each in records:
        headers: Any = [(name, raw(value)) for name, value in each["headers"]]
        producer.produce(
            each["topic"], raw(each["value"]), raw(each["key"]), timestamp=each["timestamp"], headers=headers
        )
    assert producer.flush(60) == 0


def run(spark: SparkSession, app: SparkStreams, is_done: Callable[[], bool]) -> None:
    """Run an application until something is true."""
    failures: list[BaseException] = []

    def watch() -> None:
        try:
            wait_until(is_done, WAIT_S)
        except BaseException as failure:  # noqa: BLE001 (raised again by the test's thread)
            failures.append(failure)
        app.close()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        app.run(spark)
    finally:
        thread.join()
    assert not failures, failures


def has_settled(kafka: Kafka, topics: set[str]) -> bool:
    """Whether the application has read all that is there."""
    connection = Connection(kafka.bootstrap_servers)
    if not topics <= partition_counts(connection).keys():
        return False
    groups = Groups(connection)
    groups.group("app")
    ends = groups.ends([place for topic in topics for place in groups.partitions(topic)])
    committed = groups.committed("app")
    return all(not end or (place in committed and committed[place].offset == end) for place, end in ends.items())


def read_topics(topology: Topology) -> set[str]:
    """The topics that tasks read, without those of global stores."""
    sources = [node for node in topology.nodes.values() if hasattr(node, "topics") and not topology.is_global(node)]
    names = {topic for node in sources for topic in node.topics}
    return {f"app-{topic}" if topic in topology.internal_topics else topic for topic in names}


def committed_rows(kafka: Kafka, topics: list[str]) -> dict[str, list[Row]]:
    """The records of topics."""
    connection = Connection(kafka.bootstrap_servers)
    counts = partition_counts(connection)
    reader = PartitionReader(connection, committed_only=True)
    places = [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]
    reader.add(places)
    found: dict[str, list[Row]] = {topic: [] for topic in topics}
    while not all(map(reader.is_done, places)):
        for topic, _, _, timestamp, key, value, _ in reader.poll(0.1):
            found[topic].append((key, value, timestamp))
    reader.close()
    return found


def last(rows: list[Row]) -> dict[bytes | None, bytes | None]:
    found = {key: value for key, value, _ in rows}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.timeout(2 * WAIT_S)
def test_cases(spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.streams.spark.spark_streams.PURGE_INTERVAL_S", 2 * WAIT_S)  # repartition topics are read
    programs = Programs(kafka, chosen())
    topology = programs.topology
    for half in range(2):
        programs.pipe(half)
        app = SparkStreams(
            topology,
            application_id="app",
            bootstrap_servers=kafka.bootstrap_servers,
            checkpoint=tmp_path / "checkpoint",
            emit_interval_ms=0,
        )
        run(spark, app, lambda: has_settled(kafka, read_topics(topology)))
    programs.compare()


def global_topics(topology: Topology) -> set[str]:
    return {
        topic
        for node in topology.nodes.values()
        if hasattr(node, "topics") and topology.is_global(node)
        for topic in node.topics
    }


def is_equal(program: Program, topic: str, wanted: list[Row], found: list[Row]) -> bool:
    """Whether a topic has what it should have: the same records of each key. Of changelogs, which are compacted, and of
    the results of foreign-key joins, whose two sides wait for each other, the last values are compared."""
    if program.is_foreign and topic.startswith("app-") and not topic.endswith("-changelog"):
        return True
    if program.is_foreign or topic.endswith("-changelog"):
        return last(wanted) == last(found)
    return by_key(wanted) == by_key(found)


def spark_app(kafka: Kafka, topology: Topology, checkpoint: Path, **config: Any) -> SparkStreams:
    return SparkStreams(
        topology, application_id="app", bootstrap_servers=kafka.bootstrap_servers, checkpoint=checkpoint, **config
    )


def test_the_runners_take_over_from_each_other(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """Spark begins, the local runner goes on, then Spark with the checkpoint that knows nothing of that."""
    kafka.seed({"a": 2, "out": 2})
    topology = PROGRAMS["windowed_count"]()
    records = [each for each in application_inputs(300, seed=4) if each.topic == "a"]
    thirds = [records[i * len(records) // 3 : (i + 1) * len(records) // 3] for i in range(3)]
    checkpoint = tmp_path / "checkpoint"
    produce(kafka.bootstrap_servers, thirds[0])
    run(spark, spark_app(kafka, topology, checkpoint, records_max=30), lambda: has_settled(kafka, {"a"}))
    produce(kafka.bootstrap_servers, thirds[1])
    with running(kafka, topology):
        wait_until(lambda: has_settled(kafka, {"a"}))
        with pytest.raises(StreamsError, match="app runs elsewhere: its group is Stable"):
            spark_app(kafka, topology, checkpoint).check()
    produce(kafka.bootstrap_servers, thirds[2])
    run(spark, spark_app(kafka, topology, checkpoint), lambda: has_settled(kafka, {"a"}))
    wanted: list[Row] = []
    for number in range(2):
        own = [each for each in records if murmur2(each.key.encode(), 2) == number]
        wanted += expected(topology, own)
    assert by_key(consumed(kafka.bootstrap_servers, "out", 2)) == by_key(wanted)


def test_a_bad_record_ends_the_query(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    kafka.seed({"a": 1})
    builder = StreamsBuilder(key_serde=STRING, value_serde=LONG)
    builder.stream("a").to("out")
    kafka.produce("a", {"key": "k", "value": "no number"})
    reason = "a, partition 0, offset 0: the record's value cannot be read: 9 bytes are no LONG"
    with pytest.raises(PySparkException) as caught:
        spark_app(kafka, builder.build(), tmp_path / "checkpoint").run(spark)
    assert (cause(caught.value) or "").startswith(reason)
    kafka.create_topic("dead", 1)
    config = {DESERIALIZATION: "LogAndContinueExceptionHandler", DEAD_LETTER_TOPIC: "dead"}
    app = spark_app(kafka, builder.build(), tmp_path / "checkpoint", config=config)
    run(spark, app, lambda: has_settled(kafka, {"a"}))
    assert [row[:2] for row in committed_rows(kafka, ["dead"])["dead"]] == [(b"k", b"no number")]


def test_a_checkpoint_that_does_not_fit_the_group(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """After a reset, and after the group was set back, records would be left out."""
    kafka.seed({"a": 1, "out": 1})
    kafka.produce("a", "x", "y")
    builder = new_builder()
    builder.stream("a").to("out")
    app = spark_app(kafka, builder.build(), tmp_path)
    run(spark, app, lambda: has_settled(kafka, {"a"}))
    place = TopicPartition("a", 0)
    groups = Groups(Connection(kafka.bootstrap_servers))
    groups.group("app")
    assert not [each for each in groups.commit("app", {place: 1}) if isinstance(each, Exception)]
    kafka.produce("a", "z")
    with pytest.raises(PySparkException, match="a-0: the checkpoint has come to offset 2, and the group app has comm"):
        spark_app(kafka, builder.build(), tmp_path).run(spark)
    assert list(groups.delete_offsets("app", [place])) == [place]
    with pytest.raises(StreamsError, match="the checkpoint of an application that has been reset"):
        spark_app(kafka, builder.build(), tmp_path).check()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "KSTREAM-PROCESSOR-\\d+ schedules punctuations by the clock") for name in WITH_CLOCK),
        *((name, f"{keeps} without a changelog") for name, keeps in WITHOUT_CHANGELOG.items()),
    ],
)
def test_what_spark_does_not_run(name: str, reason: str) -> None:
    (case,) = (case for path in CASES.glob("*.txt") for case in cases(path) if case.name == name)
    interpreter = Interpreter()
    interpreter.run(case.steps)
    with pytest.raises(TopologyError, match=reason):
        refuse(interpreter.builder.build(), "app", streams_config(None))


def test_programs_that_workers_do_not_get() -> None:
    builder = new_builder()
    lock = threading.Lock()
    builder.stream("a").map_values(lambda value: f"{value}{lock}").to("out")
    with pytest.raises(StreamsError, match=r"cannot be sent to Spark's workers: cannot pickle '_thread\.lock' object"):
        refuse(builder.build(), "app", streams_config(None))
    with pytest.raises(TopologyError, match=r"num\.standby\.replicas: Spark's workers have no standbys"):
        refuse(new_builder().build(), "app", streams_config({STANDBYS: 1}))


def test_topics_joined_with_a_repartition_topic_are_read_later() -> None:
    builder = new_builder()
    twice = builder.stream("a").select_key(lambda _, value: value).repartition(name="one")
    joined = twice.select_key(lambda _, value: value).join(builder.table("b"), lambda one, other: one + other)
    joined.group_by(lambda _, value: value, name="last").count()
    found = {topic: feed.delay for topic, feed in feeds(sub_topologies(builder.build(), "app")).items()}
    assert found.pop("b") == 2
    assert set(found.values()) == {0}
