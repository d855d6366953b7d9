"""Groups of real clients, unmodified: kafka-python, aiokafka and confluent-kafka.

Each plays the same scenes: members come and go and share the partitions; commits are where the next member goes on; a
static member restarts without a rebalance; who finds no commit begins where its reset policy says.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import pytest

with warnings.catch_warnings():  # it reads its own version in an old way
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.errors

from tests.broker.running import RunningNode, running_node
from tests.broker.test_groups import coordinator, create_topic

TOPIC, PARTITIONS, RECORDS = "shared", 4, 40
ENOUGH_S = 30.0
HEARTBEAT_MS, SESSION_MS = 200, 6000


class Member(Protocol):
    """A consumer in a group, whatever its library calls things."""

    def poll(self) -> list[bytes]:
        """Values that have come within a short while. Raises NoOffset."""

    def assignment(self) -> set[int]:
        """The partitions that it has now."""

    def commit(self) -> None:
        """Commit what was polled."""

    def close(self) -> None:
        """Leave the group, unless static."""


class NoOffset(Exception):
    """There is no commit, and the reset policy is none."""


class KafkaPython:
    """kafka-python; a static member keeps its place when it is closed."""

    def __init__(self, bootstrap: str, group: str, reset: str, instance: str | None) -> None:
        self.consumer = kafka.KafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset=reset,
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
        )
        self.consumer.partitions_for_topic(TOPIC)  # a leader that does not know them yet assigns nothing

    def poll(self) -> list[bytes]:
        try:
            polled = self.consumer.poll(timeout_ms=100)
        except kafka.errors.NoOffsetForPartitionError as error:
            raise NoOffset from error
        return [record.value for records in polled.values() for record in records]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit()

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class Aiokafka:
    """aiokafka, on a loop of its own that runs while it is asked something."""

    def __init__(self, bootstrap: str, group: str, reset: str, instance: str | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._start(bootstrap, group, reset, instance))

    async def _start(self, bootstrap: str, group: str, reset: str, instance: str | None) -> None:
        self.consumer = aiokafka.AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset=reset,
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
        )
        starting = asyncio.ensure_future(self.consumer.start())
        await asyncio.wait([starting], timeout=0.5)
        self.starting = starting

    def poll(self) -> list[bytes]:
        return self.loop.run_until_complete(self._poll())

    async def _poll(self) -> list[bytes]:
        if not self.starting.done():
            await asyncio.sleep(0.1)
            return []
        await self.starting
        try:
            polled = await self.consumer.getmany(timeout_ms=100)
        except aiokafka.errors.NoOffsetForPartitionError as error:
            raise NoOffset from error
        return [record.value for records in polled.values() for record in records]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.loop.run_until_complete(self.consumer.commit())

    def close(self) -> None:
        self.loop.run_until_complete(self.consumer.stop())
        self.loop.close()


class Confluent:
    """confluent-kafka, with cooperative rebalances."""

    def __init__(self, bootstrap: str, group: str, reset: str, instance: str | None) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "error" if reset == "none" else reset,
            "enable.auto.commit": False,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "session.timeout.ms": SESSION_MS,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        if instance is not None:
            config["group.instance.id"] = instance
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([TOPIC])

    def poll(self) -> list[bytes]:
        values = []
        for message in self.consumer.consume(100, timeout=0.1):
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                values.append(value)
            elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                raise NoOffset
        return values

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


Library = Callable[[str, str, str, str | None], Member]
LIBRARIES: list[Library] = [KafkaPython, Aiokafka, Confluent]
library = pytest.mark.parametrize("library", LIBRARIES)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    quick = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "5"}
    with running_node(tmp_path_factory.mktemp("clients") / "d", None, **quick) as running:
        create_topic(running, TOPIC, PARTITIONS)
        producer = kafka.KafkaProducer(bootstrap_servers=running.bootstrap)
        for i in range(RECORDS):
            producer.send(TOPIC, str(i).encode(), partition=i % PARTITIONS)
        producer.close()
        with running.client() as client:
            coordinator(client)
        yield running


def until(members: list[Member], is_so: Callable[[], bool]) -> list[bytes]:
    """Have all members poll until it is so: what they got."""
    values: list[bytes] = []
    end = time.monotonic() + ENOUGH_S
    while not is_so():
        assert time.monotonic() < end, [each.assignment() for each in members]
        for member in members:
            values += member.poll()
    return values


def are_shared(members: list[Member]) -> bool:
    """Has each partition one member, and each member as many as the others?"""
    assigned = [each.assignment() for each in members]
    size = PARTITIONS // len(members)
    return set().union(*assigned) == set(range(PARTITIONS)) and all(len(each) == size for each in assigned)


def read_all(member: Member) -> set[int]:
    values: set[int] = set()
    end = time.monotonic() + ENOUGH_S
    while len(values) < RECORDS:
        assert time.monotonic() < end
        values.update(map(int, member.poll()))
    return values


@library
def test_members_share_and_go_on(node: RunningNode, library: Library) -> None:
    group = f"shared-{library.__name__}"
    with ExitStack() as stack:

        def new() -> Member:
            member = library(node.bootstrap, group, "earliest", None)
            stack.callback(member.close)
            return member

        first = new()
        assert read_all(first) == set(range(RECORDS))
        first.commit()
        second = new()
        members = [first, second]
        assert until(members, lambda: are_shared(members)) == []
        with node.client() as client:
            described = client.call("describe_groups", 6, groups=(group,))["groups"][0]
        assert (described["group_state"], len(described["members"])) == ("Stable", 2)
        second.close()
        stack.pop_all()
        stack.callback(first.close)
        assert until([first], lambda: are_shared([first])) == []
        first.close()
        stack.pop_all()
    with node.client() as client:
        assert client.call("describe_groups", 6, groups=(group,))["groups"][0]["group_state"] == "Empty"
    again = library(node.bootstrap, group, "earliest", None)
    assert until([again], lambda: are_shared([again])) == []
    again.close()


@library
def test_static_member_restarts(node: RunningNode, library: Library) -> None:
    group = f"static-{library.__name__}"
    first = library(node.bootstrap, group, "latest", "one")
    second = library(node.bootstrap, group, "latest", "two")
    members = [first, second]
    until(members, lambda: are_shared(members))
    assigned = second.assignment()
    generation = generation_of(node, group)
    second.close()
    second = library(node.bootstrap, group, "latest", "two")
    until([first, second], lambda: bool(second.assignment()))
    assert second.assignment() == assigned
    assert generation_of(node, group) == generation
    first.close()
    second.close()


def generation_of(node: RunningNode, group: str) -> int:
    """Of a stable group, asked as nobody may who is no member."""
    groups = node.node.broker.groups
    machine: Any = groups._shards[groups.partition_of(group)].machine
    generation: int = machine._shard.groups[group].generation
    return generation


@library
def test_reset_policies(node: RunningNode, library: Library) -> None:
    group = f"reset-{library.__name__}"
    latest = library(node.bootstrap, group, "latest", None)
    assert until([latest], lambda: are_shared([latest])) == []
    assert [latest.poll() for _ in range(5)] == [[]] * 5
    latest.close()
    earliest = library(node.bootstrap, group, "earliest", None)
    assert read_all(earliest) == set(range(RECORDS))
    earliest.close()
    none = library(node.bootstrap, group, "none", None)
    with pytest.raises(NoOffset):
        until([none], lambda: False)
    none.close()


def test_a_member_that_dies(node: RunningNode) -> None:
    """Its partitions go to the other one when its session ends."""
    dying = Aiokafka(node.bootstrap, "dies", "earliest", None)
    living = KafkaPython(node.bootstrap, "dies", "earliest", None)
    members: list[Member] = [dying, living]
    until(members, lambda: are_shared(members))
    begin = time.monotonic()
    until([living], lambda: are_shared([living]))
    assert time.monotonic() - begin < SESSION_MS / 1000 + 3
    living.close()
    dying.close()
