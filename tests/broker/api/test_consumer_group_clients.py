"""Consumer groups of KIP-848 with an unmodified confluent-kafka (group.protocol=consumer): members join, leave and die;
static members; regular expressions; commits and resets; members of both protocols in one group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest

from tests.broker.api.test_groups import coordinator, create_topic
from tests.broker.running import RunningNode, running_node

TOPIC, PARTITIONS, RECORDS = "shared", 4, 40
ENOUGH_S = 30.0
SESSION_MS = 3000
CONFIG = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "5",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "100",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": str(SESSION_MS),
    "group_consumer_assignment_interval_ms": "0",
}


class NoOffset(Exception):
    """There is no committed offset, and auto.offset.reset is `none`."""


class Member:
    """A consumer in a group."""

    def __init__(
        self,
        node: RunningNode,
        group: str,
        *,
        topic: str = TOPIC,
        reset: str = "earliest",
        instance: str | None = None,
        assignor: str | None = None,
        protocol: str = "consumer",
    ) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": node.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
        }
        if protocol == "classic":
            config |= {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}
            config["partition.assignment.strategy"] = "cooperative-sticky"
        if instance is not None:
            config["group.instance.id"] = instance
        if assignor is not None:
            config["group.remote.assignor"] = assignor
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([topic])

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

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("clients") / "d", None, **CONFIG) as running:
        create_topic(running, TOPIC, PARTITIONS)
        producer = confluent_kafka.Producer({"bootstrap.servers": running.bootstrap})
        for i in range(RECORDS):
            producer.produce(TOPIC, str(i).encode(), partition=i % PARTITIONS)
        assert not producer.flush(10)
        with running.client() as client:
            coordinator(client)
        yield running


def described(node: RunningNode, group: str) -> dict[str, Any]:
    with node.client() as client:
        found: dict[str, Any] = client.call(
            "consumer_group_describe", 1, group_ids=(group,), include_authorized_operations=False
        )["groups"][0]
    return found


def until(members: list[Member], is_so: Callable[[], bool]) -> list[bytes]:
    """Poll all members until the condition holds, and return their records."""
    values: list[bytes] = []
    end = time.monotonic() + ENOUGH_S
    while not is_so():
        assert time.monotonic() < end, [each.partitions for each in members]
        for member in members:
            values += member.poll()
    return values


def are_shared(members: list[Member], topics: dict[str, int] | None = None) -> bool:
    """Return whether each partition has one owner, and each member an equal share."""
    assigned = [each.partitions for each in members]
    everything = {(name, n) for name, count in (topics or {TOPIC: PARTITIONS}).items() for n in range(count)}
    share = len(everything) // len(members)
    return set().union(*assigned) == everything and all(len(each) == share for each in assigned)


def read_all(member: Member) -> set[int]:
    values: set[int] = set()
    end = time.monotonic() + ENOUGH_S
    while len(values) < RECORDS:
        assert time.monotonic() < end
        values.update(map(int, member.poll()))
    return values


@pytest.fixture
def new(node: RunningNode) -> Iterator[Callable[..., Member]]:
    with ExitStack() as stack:

        def make(group: str, **values: Any) -> Member:
            member = Member(node, group, **values)
            stack.callback(member.close)
            return member

        yield make


@pytest.mark.parametrize("assignor", [None, "range"])
def test_members_share_and_go_on(node: RunningNode, new: Callable[..., Member], assignor: str | None) -> None:
    group = f"shared-{assignor}"
    first = new(group, assignor=assignor)
    assert read_all(first) == set(range(RECORDS))
    first.consumer.commit(asynchronous=False)
    second = new(group, assignor=assignor)
    members = [first, second]
    assert until(members, lambda: are_shared(members)) == []
    until(members, lambda: described(node, group)["group_state"] == "Stable")
    found = described(node, group)
    assert (len(found["members"]), found["assignor_name"]) == (2, assignor or "uniform")
    assert {each["member_epoch"] for each in found["members"]} == {found["group_epoch"]} == {3}
    second.close()
    assert until([first], lambda: are_shared([first])) == []
    first.consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 3)], asynchronous=False)
    first.close()
    assert described(node, group)["group_state"] == "Empty"
    again, values = new(group), set[int]()
    expected = {i for i in range(RECORDS) if i % PARTITIONS == 0 and i // PARTITIONS >= 3}
    while not values >= expected:
        values.update(map(int, again.poll()))
    assert values == expected


def test_static_member_restarts(node: RunningNode, new: Callable[..., Member]) -> None:
    group = "static"
    members = [new(group, instance=name, reset="latest") for name in ("one", "two")]
    until(members, lambda: are_shared(members) and described(node, group)["group_state"] == "Stable")
    second = members[1]
    assigned, epoch = second.partitions, described(node, group)["group_epoch"]
    second.close()
    members[1] = second = new(group, instance="two", reset="latest")
    until(members, lambda: bool(second.partitions))
    assert second.partitions == assigned
    assert described(node, group)["group_epoch"] == epoch


def test_regular_expression(node: RunningNode, new: Callable[..., Member]) -> None:
    create_topic(node, "logs-a", 2)
    create_topic(node, "logs-b", 3)
    member = new("regex", topic="^logs-.*")
    until([member], lambda: are_shared([member], {"logs-a": 2, "logs-b": 3}))


def test_topics_change(node: RunningNode, new: Callable[..., Member]) -> None:
    member = new("grows", topic="grows")
    until([member], lambda: described(node, "grows")["group_state"] == "Stable")
    create_topic(node, "grows", 1)
    until([member], lambda: are_shared([member], {"grows": 1}))
    with node.client() as client:
        topic = {"name": "grows", "count": 3, "assignments": None}
        client.call("create_partitions", 3, topics=(topic,), timeout=1000, validate_only=False)
    until([member], lambda: are_shared([member], {"grows": 3}))
    with node.client() as client:
        client.call("delete_topics", 6, topics=({"name": "grows", "topic_id": "A" * 22},), timeout=1000)
    until([member], lambda: not member.partitions)


def test_reset_policies(node: RunningNode, new: Callable[..., Member]) -> None:
    latest = new("reset", reset="latest")
    assert until([latest], lambda: are_shared([latest])) == []
    assert [latest.poll() for _ in range(5)] == [[]] * 5
    latest.close()
    earliest = new("reset")
    assert read_all(earliest) == set(range(RECORDS))
    earliest.close()
    none = new("reset", reset="error")
    with pytest.raises(NoOffset):
        until([none], lambda: False)


def test_a_member_that_dies(node: RunningNode, new: Callable[..., Member]) -> None:
    """The partitions of a dead member go to the other one when its session expires."""
    with node.client() as dying:
        values: dict[str, Any] = {
            "group_id": "dies",
            "member_id": "m",
            "instance_id": None,
            "rack_id": None,
            "server_assignor": None,
        }
        values |= {"rebalance_timeout": 60_000, "subscribed_topic_names": (TOPIC,), "subscribed_topic_regex": None}
        answer = dying.call("consumer_group_heartbeat", 1, member_epoch=0, topic_partitions=(), **values)
    assert len(answer["assignment"]["topic_partitions"][0]["partitions"]) == PARTITIONS
    living = new("dies")
    begin = time.monotonic()
    until([living], lambda: are_shared([living]))
    assert SESSION_MS / 1000 - 2 < time.monotonic() - begin < SESSION_MS / 1000 + 3


def test_members_of_both_protocols(node: RunningNode, new: Callable[..., Member]) -> None:
    """A classic group becomes a consumer group with the same members, and a classic group again."""
    group = "both"
    classic = new(group, protocol="classic")
    until([classic], lambda: are_shared([classic]))
    assert described(node, group)["error_message"] == "Group both is not a consumer group."
    consumer = new(group)
    members = [classic, consumer]
    until(members, lambda: are_shared(members))
    until(members, lambda: described(node, group)["group_state"] == "Stable")
    assert sorted(each["member_type"] for each in described(node, group)["members"]) == [0, 1]
    consumer.close()
    until([classic], lambda: are_shared([classic]))
    with node.client() as client:
        found = client.call("describe_groups", 6, groups=(group,))["groups"][0]
    assert found["protocol_type"] == "consumer"
    assert len(found["members"]) == 1
