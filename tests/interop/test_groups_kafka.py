"""Groups with members, as Kafka's tools show them; and directories with groups, from Kafka to kcli and back.

Groups without members are in tools/groups.txt.
"""

from __future__ import annotations

import itertools
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import confluent_kafka
import pytest

from tests.interop import test_tools_kafka as tools
from tests.interop.test_tools_kafka import Broker, Command

with warnings.catch_warnings():  # kafka-python reads its own version in a deprecated way
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

both = tools.both
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<!\S)[A-Za-z0-9_+/-]{22}(?!\S)")
PARTITIONS = 3
ENOUGH_S = 60.0
PREFIX = "with-members-"
NUMBERS = itertools.count()


@dataclass(frozen=True)
class Names:
    """The names of one attempt, on both brokers: a repeated test finds nothing of its first run."""

    number: int = field(default_factory=lambda: next(NUMBERS))

    @property
    def group(self) -> str:
        return f"{PREFIX}{self.number:02}"

    @property
    def topic(self) -> str:
        return f"members-{self.number:02}-a"

    @property
    def other(self) -> str:
        return f"members-{self.number:02}-b"

    @property
    def commands(self) -> list[str]:
        return [each.format(group=self.group, topic=self.topic, other=self.other) for each in COMMANDS]


LIST = "groups --list --state"
COMMANDS = [
    "groups --describe --group {group}",
    "groups --describe --group {group} --offsets --verbose",
    "groups --describe --group {group} --members",
    "groups --describe --group {group} --members --verbose",
    "groups --describe --group {group} --state",
    "groups --describe --group {group} --state --verbose",
    LIST,
    "groups --reset-offsets --group {group} --topic {topic} --to-earliest --execute",
    "groups --delete-offsets --group {group} --topic {topic}",
    "groups --delete-offsets --group {group} --topic {other}",
    "groups --delete --group {group}",
]


def in_no_order(report: str) -> list[str]:
    """Sort members, which are listed by their random ids."""
    return sorted(UUID.sub("UUID", report).splitlines())


@contextmanager
def member(broker: Broker, names: Names, client_id: str, **config: Any) -> Iterator[Callable[[], set[tuple[str, int]]]]:
    """A consumer that polls on a thread of its own, and its assignment."""
    consumer = KafkaConsumer(
        names.topic,
        bootstrap_servers=broker.address,
        group_id=names.group,
        client_id=client_id,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
        heartbeat_interval_ms=200,
        session_timeout_ms=6000,
        metadata_max_age_ms=500,  # the group's leader may not know the topic yet
        **config,
    )
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            consumer.poll(timeout_ms=100)
        consumer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: {(each.topic, each.partition) for each in consumer.assignment()}
    finally:
        stop.set()
        thread.join(ENOUGH_S)


@contextmanager
def modern_member(
    broker: Broker, names: Names, client_id: str, **config: Any
) -> Iterator[Callable[[], set[tuple[str, int]]]]:
    """The same of the protocol of KIP-848."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": names.group,
            "group.protocol": "consumer",
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
        }
        | {name.replace("_", "."): value for name, value in config.items()}
    )
    consumer.subscribe([names.topic])
    stop = threading.Event()
    assigned: set[tuple[str, int]] = set()

    def run() -> None:
        while not stop.is_set():
            consumer.poll(0.1)
            now = {(each.topic, each.partition) for each in consumer.assignment()}
            assigned.intersection_update(now)
            assigned.update(now)
        consumer.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield lambda: assigned
    finally:
        stop.set()
        thread.join(ENOUGH_S)


MemberOf = Callable[..., AbstractContextManager[Callable[[], set[tuple[str, int]]]]]


@pytest.mark.parametrize(
    ("config", "member_of"),
    [({}, member), ({"group_instance_id": "one"}, member), ({}, modern_member)],
    ids=["dynamic", "static", "consumer"],
)
def test_a_group_with_members(both: tuple[Broker, Broker], config: dict[str, Any], member_of: MemberOf) -> None:
    names = Names()
    expected, found = (reports(broker, names, config, member_of) for broker in both)
    for line in names.commands:
        assert found[line] == expected[line], line


def reports(broker: Broker, names: Names, config: dict[str, Any], member_of: MemberOf) -> dict[str, list[str]]:
    """Return what the commands print of two members that have read and committed everything."""

    def run(line: str) -> str:
        return broker.run(Command(line, ""))

    run(f"topics --create --if-not-exists --topic {names.topic} --partitions {PARTITIONS}")
    run(f"topics --create --if-not-exists --topic {names.other}")
    broker.settle()
    producer = KafkaProducer(bootstrap_servers=broker.address)
    for partition in range(PARTITIONS):
        producer.send(names.topic, b"value", partition=partition)
    producer.close()
    topics = f"--topic {names.topic} --topic {names.other}"
    run(f"groups --reset-offsets --group {names.group} {topics} --to-earliest --execute")
    with member_of(broker, names, "client-1", **config) as first:
        # random ids decide which of two simultaneous members gets which partitions
        wait_for(lambda: len(first()) == PARTITIONS)
        with member_of(broker, names, "client-2") as second:
            wait_for(lambda: len(first() | second()) == len(first()) + len(second()) == PARTITIONS and bool(second()))
            wait_for(lambda: not re.search(rf"{names.topic} +\d+ +\d+ +\d+ +[1-9]", run(names.commands[0])))
            found = {line: in_no_order(run(line)) for line in names.commands}
            found[LIST] = [line for line in found[LIST] if names.group in line or PREFIX not in line]
    wait_for(lambda: "Empty" in run(f"groups --describe --group {names.group} --state"))
    run(f"groups --delete --group {names.group}")
    return found


def wait_for(is_so: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(int(ENOUGH_S * 5)):
        if is_so():
            return
        done.wait(0.2)
    raise AssertionError("not in time")
