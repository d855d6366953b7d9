"""What the engine makes of records that cannot be converted: tolerated ones go to the log and the dead letter queue."""

from __future__ import annotations

import logging
import time
from itertools import pairwise
from pathlib import Path

import pytest

from kcli.connect.connectors.file import FileStreamSink, FileStreamSource
from kcli.connect.connectors.mirror.heartbeat import MirrorHeartbeat
from kcli.connect.converters.jackson import BadJson, read_tree
from kcli.connect.engine.dead_letters import DeadLetters
from kcli.connect.engine.sending import creation_settings
from kcli.connect.engine.sink_turn import Topics
from kcli.connect.plugins import Limits
from kcli.connect.processing.failures import ErrorHandling, Message
from kcli.connect.processing.processor import Processor
from kcli.protocol.topic_partition import TopicPartition
from kcli.testing.kafka import Kafka
from tests.connect.turns import OFFSETS_TOPIC, consumed, task_start, turn

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
QUEUE = {
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def sink_of(path: Path, **more: str) -> dict[str, str]:
    return {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(path), "topics": "t", **JSON, **more}


def test_dead_letters(tmp_path: Path, kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.seed({"t": 1})
    kafka.produce("t", {"value": '{"a":1}'}, {"key": "k", "value": "no json", "headers": {"h": "x"}}, {"value": "2"})
    path = tmp_path / "out"
    with caplog.at_level(logging.ERROR, "kcli.connect"):
        outcome = turn(kafka, sink_of(path, **QUEUE))
    assert (outcome.trace, [*outcome.positions.values()]) == (None, [3])
    assert path.read_text() == "{a=1}\n2\n"
    (dead,) = consumed(kafka, "dead", 1)
    headers = dict(dead.headers())
    assert (dead.key(), dead.value(), headers["h"]) == (b"k", b"no json", b"x")
    assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert headers["__connect.errors.offset"] == b"1"
    assert [each.getMessage() for each in caplog.records] == [
        (
            "Error encountered in task out-0. Executing stage 'VALUE_CONVERTER' with class "
            "'org.apache.kafka.connect.json.JsonConverter'."
        )
    ]


def test_dead_letters_are_the_producer_s(tmp_path: Path, kafka: Kafka) -> None:
    """By the overrides of the sink's producer and admin client, not of its consumer."""
    with Kafka.started() as other:
        client = {"bootstrap.servers": other.bootstrap_servers}
        start = task_start(kafka.bootstrap_servers, sink_of(tmp_path / "out"))
        start = start._replace(producer=client | {"compression.type": "GZIP"}, admin=client)
        letters = DeadLetters(start, ErrorHandling.of(QUEUE))
        letters.send([Message("dead", None, b"x")])
        letters.close()
        assert [each.value() for each in consumed(other, "dead", 1)] == [b"x"]


def test_without_tolerance_the_task_fails(tmp_path: Path, kafka: Kafka) -> None:
    """The dead letter is written nevertheless; the offset stays before the record's batch."""
    kafka.seed({"t": 1})
    kafka.produce("t", {"value": "no json"})
    outcome = turn(kafka, sink_of(tmp_path / "out", **(QUEUE | {"errors.tolerance": "none"})))
    assert outcome.trace is not None
    first, _, *rest = outcome.trace.splitlines()
    assert first == "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler"
    assert any(line.startswith("Caused by: org.apache.kafka.connect.errors.DataException: ") for line in rest)
    assert outcome.positions == {}
    assert len(consumed(kafka, "dead", 1)) == 1


def test_transforms_of_a_source(tmp_path: Path, kafka: Kafka) -> None:
    """Lines become structs with a field, in another topic; the topic is created."""
    path = tmp_path / "in"
    path.write_text("one\ntwo\n")
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines", **JSON}
    transforms = {
        "transforms": "hoist,route",
        "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
    }
    outcome = turn(kafka, source | transforms, offsets={})
    assert (outcome.trace, outcome.topics) == (None, {"lines-routed"})
    assert [each.value() for each in consumed(kafka, "lines-routed", 2)] == [b'{"line":"one"}', b'{"line":"two"}']


ROOM = "org.apache.kafka.connect.transforms"
ROUTED = {
    "transforms": "header,route",
    "transforms.header.type": f"{ROOM}.InsertHeader",
    "transforms.header.header": "h",
    "transforms.header.value.literal": "7",
    "transforms.route.type": f"{ROOM}.RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "$1-routed",
    "transforms.route.predicate": "lines",
    "predicates": "lines",
    "predicates.lines.type": f"{ROOM}.predicates.TopicNameMatches",
    "predicates.lines.pattern": "li.*",
}


def no_record(*_: object) -> None:
    raise AssertionError("there is a record")


def test_transforms_of_columns(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the converters change nothing, there is a record in no place from the file to the topic and back."""
    monkeypatch.setattr(Processor, "from_source", no_record)
    monkeypatch.setattr(Processor, "to_sink", no_record)
    path = tmp_path / "in"
    path.write_text("one\ntwo\n")
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    outcome = turn(kafka, source | ROUTED, offsets={})
    assert (outcome.trace, outcome.topics) == (None, {"lines-routed"})
    found = consumed(kafka, "lines-routed", 2)
    assert [(each.value(), each.headers()) for each in found] == [(b"one", [("h", b"7")]), (b"two", [("h", b"7")])]
    sink = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(tmp_path / "out")}
    left_out = {
        "transforms": "drop",
        "transforms.drop.type": f"{ROOM}.Filter",
        "transforms.drop.predicate": "none",
        "predicates": "none",
        "predicates.none.type": f"{ROOM}.predicates.RecordIsTombstone",
    }
    kafka.produce("lines-routed", {"key": "k", "value": None}, {"value": "three"})
    outcome = turn(kafka, sink | left_out | {"topics": "lines-routed"})
    assert (outcome.trace, outcome.records, [*outcome.positions.values()]) == (None, 4, [4])
    assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_transform_that_fails_for_columns_fails_for_a_record(tmp_path: Path, kafka: Kafka, tolerance: str) -> None:
    path = tmp_path / "in"
    path.write_text("one\ntwo\n")
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    broken = {"transforms.route.replacement": "$7", "errors.tolerance": tolerance}
    outcome = turn(kafka, source | ROUTED | broken, offsets={})
    if tolerance == "all":
        assert (outcome.trace, outcome.records, outcome.topics) == (None, 2, set())
    else:
        assert outcome.trace is not None
        assert "ConnectException: Tolerance exceeded in error handler" in outcome.trace
        assert outcome.offsets == {}


def transactions(kafka: Kafka, topic: str, count: int) -> list[int]:
    """Return how many records each transaction of a topic has: a marker is between them."""
    offsets = [each.offset() for each in consumed(kafka, topic, count)]
    sizes = [0]
    for before, after in pairwise([-1, *offsets]):
        if after - before > 1:
            sizes.append(0)
        sizes[-1] += 1
    return sizes


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [2, 2, 1]),
        ({"transaction.boundary": "POLL"}, [2, 2, 1]),
        ({"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}, [5]),
        ({"transaction.boundary": "interval"}, [5]),
    ],
)
def test_a_transaction_ends_where_the_source_s_configuration_says(
    tmp_path: Path, kafka: Kafka, options: dict[str, str], sizes: list[int]
) -> None:
    """An interval lasts although the source has no more; by default it is the worker's."""
    path = tmp_path / "in"
    path.write_text("1\n2\n3\n4\n5\n")
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines", **JSON}
    kafka.seed({OFFSETS_TOPIC: 1})
    began = time.monotonic()
    more = {"offsets_topic": OFFSETS_TOPIC, "exactly_once": True, "limits": Limits(flush_s=1.0)}
    outcome = turn(kafka, source | options | {"batch.size": "2"}, **more)
    took = time.monotonic() - began
    assert (outcome.trace, outcome.records) == (None, 5)
    assert transactions(kafka, "lines", 5) == sizes
    assert took >= 1.0 or options.get("transaction.boundary") != "interval"


def test_a_turn_ends_when_offsets_are_to_be_committed(kafka: Kafka) -> None:
    config = {"name": "beat", "connector.class": MirrorHeartbeat.CLASS, "source.cluster.alias": "a"}
    kafka.create_topic("heartbeats")
    outcome = turn(kafka, config, offsets={}, limits=Limits(flush_s=0.5))
    assert (outcome.trace, outcome.records) == (None, 2)


def test_a_worker_that_creates_no_topics(tmp_path: Path, kafka: Kafka) -> None:
    path = tmp_path / "in"
    path.write_text("one\n")
    source = {"name": "in", "connector.class": FileStreamSource.CLASS, "file": str(path), "topic": "lines"}
    outcome = turn(kafka, source, offsets={}, limits=Limits(creates_topics=False))
    assert outcome.trace is not None
    assert "there is no topic 'lines' to write to" in outcome.trace
    kafka.create_topic("lines")
    assert turn(kafka, source, offsets={}, limits=Limits(creates_topics=False)).records == 1


def test_a_sink_s_consumer(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives max.poll.records at once, and has no offset to begin with auto.offset.reset=none."""
    sizes: list[int] = []
    monkeypatch.setattr(FileStreamSink.TASK, "put_columns", lambda _, rows: sizes.append(rows.num_rows))
    kafka.seed({"t": 1})
    kafka.produce("t", *({"value": str(number)} for number in range(10)))
    sink = {"name": "out", "connector.class": FileStreamSink.CLASS, "file": str(tmp_path / "out"), "topics": "t"}
    outcome = turn(kafka, sink, overrides={"auto.offset.reset": "none"})
    assert outcome.trace is not None
    assert "no offset in the log, and auto.offset.reset=none: t-0" in outcome.trace
    outcome = turn(kafka, sink, overrides={"max.poll.records": "4"})
    assert (outcome.trace, outcome.records) == (None, 10)
    assert sum(sizes) == 10
    assert max(sizes) <= 4
    more = {"positions": {TopicPartition("t", 0): 9}, "overrides": {"auto.offset.reset": "none"}}
    assert turn(kafka, sink, **more).records == 1


def test_a_pattern_chooses_no_topic_of_kafka_s_own() -> None:
    places = [TopicPartition(each, 0) for each in ("__consumer_offsets", "__mine", "__transaction_state", "a")]
    assert [each.topic for each in Topics.of({"topics.regex": ".*"}).partitions(places)] == ["__mine", "a"]


def test_groups_of_created_topics_inherit_their_sizes() -> None:
    """Partitions and replicas of the group `default`, and nothing else of it (KIP-158)."""
    config = {
        "topic.creation.groups": "logs, more",
        "topic.creation.default.partitions": "6",
        "topic.creation.default.replication.factor": "3",
        "topic.creation.default.retention.ms": "1",
        "topic.creation.logs.include": "log-.*",
        "topic.creation.logs.exclude": "log-x",
        "topic.creation.logs.partitions": "1",
        "topic.creation.logs.cleanup.policy": "compact",
    }
    of_default = {"partitions": "6", "replication.factor": "3", "retention.ms": "1"}
    assert creation_settings(config, "log-a") == {
        "partitions": "1",
        "replication.factor": "3",
        "cleanup.policy": "compact",
    }
    assert creation_settings(config, "log-x") == of_default
    assert creation_settings(config, "other") == of_default


def test_a_text_without_an_end_costs_no_more_than_its_length() -> None:
    began = time.process_time()
    with pytest.raises(BadJson):
        read_tree(b'"' + b'\\"' * 20_000)
    assert time.process_time() - began < 1
    assert read_tree(b'{"a":"01\\"02","b":007}') == {"a": '01"02', "b": 7}
