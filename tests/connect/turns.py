"""Turns of tasks without Spark, pickled as the engine sends them to a worker and back; and what they have written."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kcli.connect.builtin import built_in
from kcli.connect.engine import sink_turn, source_turn
from kcli.connect.engine.turn import Outcome, Turn, outcome_of
from kcli.connect.plugins import Limits, Plugin, Plugins, PluginType, TaskId, TaskStart
from kcli.pipelines.cluster import Cluster
from kcli.testing.kafka import Kafka

STRINGS = {f"{each}.converter": "org.apache.kafka.connect.storage.StringConverter" for each in ("key", "value")}
OFFSETS_TOPIC = "connect-offsets"


def task_start(
    bootstrap: str,
    config: Mapping[str, str],
    *,
    number: int = 0,
    count: int = 1,
    exactly_once: bool = False,
    plugins: Plugins | None = None,
    task: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> TaskStart:
    """A task of a connector, with the worker's clients. overrides: properties of all of them."""
    name = config["name"]
    (plugin,) = (plugins or built_in()).named(config["connector.class"], PluginType.SOURCE, PluginType.SINK)
    client = {"bootstrap.servers": bootstrap, **(overrides or {})}
    producer = client | ({"transactional.id": f"workers-{name}-{number}"} if exactly_once else {})
    consumer = client | {"group.id": f"connect-{name}"}
    return TaskStart(
        TaskId(name, number),
        count,
        plugin.type,
        {**STRINGS, **config},
        task or {},
        producer,
        consumer,
        client,
        limits or Limits(),
    )


def turn(kafka: Kafka, config: Mapping[str, str], **more: Any) -> Outcome:
    """Run a turn of task 0 in this process."""
    names = ("number", "count", "exactly_once", "task", "overrides", "limits")
    starting = {each: more.pop(each) for each in names if each in more}
    start = task_start(kafka.bootstrap_servers, config, **starting)
    plugin: Plugin = built_in().named(config["connector.class"], start.type)[0]
    made = Turn(start, plugin, built_in(), Cluster(kafka.bootstrap_servers), "/nonexistent/stop", **more)
    module = source_turn if start.type is PluginType.SOURCE else sink_turn
    outcome = outcome_of(pickle.loads(pickle.dumps(made)), partial(module.run, is_repeated=False))
    found: Outcome = pickle.loads(pickle.dumps(outcome))
    return found


def consumed(kafka: Kafka, topic: str, count: int, *, partitions: int = 1) -> list[Any]:
    """The committed records of a topic: at least `count`, and whatever is there with them."""
    config = {"group.id": "tests", "isolation.level": "read_committed", "enable.partition.eof": False}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, **config})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[Any] = []
    while len(found) < count and (messages := consumer.consume(count - len(found), 30.0)):
        found += messages
    found += consumer.consume(1000, 0.3)
    consumer.close()
    assert all(each.error() is None for each in found)
    return found
