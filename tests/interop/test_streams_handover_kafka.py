"""An application goes from Java's Kafka Streams to kcli's local runner and back, with its stores and offsets: each
stops before the other starts. The results are those of one TopologyTestDriver that has had all records."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcli.client.admin import Admin, Topic
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.local.plan import plan
from kcli.streams.topology.offset_metadata import OffsetMetadata, decode
from kcli.testing.kafka import Kafka
from tests.interop import kit
from tests.streams import applications
from tests.streams.applications import PROGRAMS, Row, by_key, consumed, inputs, produce, running, wait_until
from tests.streams.test_local import expected

SOURCE = Path(applications.__file__).with_name("Applications.java")
JAR = "kafka-streams-4.3.0.jar"

pytestmark = [pytest.mark.kafka, pytest.mark.kafka_broker(config={"group.initial.rebalance.delay.ms": "0"})]


@pytest.fixture(scope="module")
def command(kafka_jars: Path) -> list[str]:
    """The command of Applications.java."""
    jars = kit.kit_dir() / "extra"
    if not (jars / JAR).exists():
        pytest.skip(f"{JAR} is not in {jars}")
    return kit.java(kafka_jars, SOURCE, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", more_jars=jars)


@contextmanager
def java(command: list[str], kafka: Kafka, name: str, state_dir: Path, guarantee: str) -> Iterator[None]:
    """Run a program with Kafka Streams, and have it leave the group at the end."""
    arguments = [name, kafka.bootstrap_servers, str(state_dir), guarantee]
    with subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            status = process.wait(60)
    assert status == 0


def values(rows: list[Row]) -> dict[bytes | None, list[bytes | None]]:
    return {key: [value for value, _ in found] for key, found in by_key(rows).items()}


def configs(kafka: Kafka) -> dict[str, tuple[int, dict[str, str | None]]]:
    """Return size and configurations of each internal topic."""
    admin = Admin(Connection(kafka.bootstrap_servers))
    names = [name for name in admin.names() if name.startswith("app-")]
    topics = [each for each in admin.describe(names) if isinstance(each, Topic)]
    return {each.name: (len(each.partitions), dict(each.configs or {})) for each in admin.with_configs(topics)}


def committed(kafka: Kafka) -> dict[TopicPartition, OffsetMetadata]:
    groups = Groups(Connection(kafka.bootstrap_servers))
    groups.group("app")
    return {place: decode(found.metadata) for place, found in groups.committed("app").items()}


@pytest.mark.parametrize(
    ("name", "begins", "guarantee"),
    [
        ("count", "java", "exactly_once_v2"),
        ("windowed_count", "java", "exactly_once_v2"),
        ("table_join", "java", "exactly_once_v2"),
        ("table_join", "kcli", "exactly_once_v2"),
        ("count", "kcli", "at_least_once"),
    ],
)
def test_handover(kafka: Kafka, command: list[str], name: str, begins: str, guarantee: str, tmp_path: Path) -> None:
    partitions = 2 if name == "count" else 1
    kafka.seed({"a": partitions, "b": partitions, "out": 1})
    records = inputs(150, seed=5)
    done, seen = 0, {}
    order = ("java", "kcli", "java") if begins == "java" else ("kcli", "java", "kcli")
    for turn, who in enumerate(order):
        produce(kafka.bootstrap_servers, records[done : done + 50])
        done += 50
        wanted = values(expected(PROGRAMS[name](), records[:done]))
        runner = (
            java(command, kafka, name, tmp_path / f"state-{turn}", guarantee)
            if who == "java"
            else running(kafka, PROGRAMS[name](), processing_guarantee=guarantee, commit_interval_ms=100)
        )
        with runner:
            wait_until(
                lambda wanted=wanted: (
                    sum(map(len, values(consumed(kafka.bootstrap_servers, "out", 1)).values()))  # type: ignore[misc]
                    >= sum(map(len, wanted.values()))
                )
            )
        assert values(consumed(kafka.bootstrap_servers, "out", 1)) == wanted
        seen[who] = committed(kafka)
        if who == "kcli" or name == "windowed_count":  # Java may commit once more after it has forgotten the times
            times = [each.partition_time for place, each in seen[who].items() if place.topic == "a"]
            assert max(times) == max(each.timestamp for each in records[:done] if each.topic == "a")
        if turn == 0:
            made = configs(kafka)
    assert configs(kafka) == made
    for topic in plan(PROGRAMS[name](), "app", dict.fromkeys("ab", partitions)).internal_topics:
        size, set_here = made[topic.name]
        assert size == topic.partitions
        assert {each: value for each, value in set_here.items() if each != "min.insync.replicas"} == topic.configs
    assert seen["java"].keys() == seen["kcli"].keys()
