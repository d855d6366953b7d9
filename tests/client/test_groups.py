"""kcli consume --group: members join and leave; every record that was shown is committed."""

import os
import signal
import time
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.views.groups import Group
from tests.cli.run import kcli
from tests.client.clusters import KAFKA, Cluster
from tests.client.groups import WAIT_S, member, until

_numbers = count()
WITH_CONSUMER_PROTOCOL = [KAFKA]
SHORT_SESSION = ("-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=500")


@pytest.fixture
def group() -> str:
    """A name that no other test has."""
    return f"g{next(_numbers)}"


def filled(cluster: Cluster, records: int = 12, partitions: int = 4) -> str:
    """Create a topic whose partitions have as many records each."""
    topic = f"groups-{os.getpid()}-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result()
    producer = Producer({"bootstrap.servers": cluster.address})
    for i in range(records):
        producer.produce(topic, str(i), partition=i % partitions)
    assert producer.flush(WAIT_S) == 0
    return topic


def described(cluster: Cluster, group: str) -> Group:
    """What is said of a group."""
    return Groups(Connection(cluster.address)).group(group)


def committed(cluster: Cluster, group: str, topic: str) -> dict[int, int]:
    """Committed offsets by partition."""
    groups = Groups(Connection(cluster.address))
    groups.group(group)
    return {place[1]: each.offset for place, each in groups.committed(group).items() if place[0] == topic}


def test_a_group_goes_on_where_it_was(cluster: Cluster, group: str) -> None:
    topic = filled(cluster)
    first = cluster.run("consume", topic, "--group", group, "-c", "5", "-f", "%p %o\n")
    assert len(first.stdout.splitlines()) == 5
    assert first.stderr.splitlines() == [f"kcli: assigned {topic}:0,1,2,3", f"kcli: revoked {topic}:0,1,2,3"]
    second = cluster.run("consume", topic, "--group", group, "-e", "-f", "%p %o\n")
    assert sorted([*first.stdout.splitlines(), *second.stdout.splitlines()]) == sorted(
        f"{partition} {offset}" for partition in range(4) for offset in range(3)
    )
    assert committed(cluster, group, topic) == dict.fromkeys(range(4), 3)


def test_several_topics(cluster: Cluster, group: str) -> None:
    topics = [filled(cluster), filled(cluster, 3, 1)]
    ended = cluster.run("consume", *topics, "--group", group, "-e", "-f", "%t\n")
    assert sorted(ended.stdout.split()) == sorted([topics[0]] * 12 + [topics[1]] * 3)
    assert [committed(cluster, group, topic) for topic in topics] == [dict.fromkeys(range(4), 3), {0: 3}]


@pytest.mark.parametrize(("commit", "offsets"), [("auto", {0: 7}), ("sync", {0: 7}), ("none", {})])
def test_commits(cluster: Cluster, group: str, commit: str, offsets: dict[int, int]) -> None:
    topic = filled(cluster, 10, 1)
    ended = cluster.run("consume", topic, "--group", group, "-c", "7", "--commit", commit)
    assert ended.status == 0
    assert committed(cluster, group, topic) == offsets


@pytest.mark.parametrize(("reset", "status", "values"), [("earliest", 0, "0 1 2"), ("latest", 0, ""), ("none", 1, "")])
def test_where_a_group_without_offsets_begins(
    cluster: Cluster, group: str, reset: str, status: int, values: str
) -> None:
    topic = filled(cluster, 3, 1)
    ended = cluster.run("consume", topic, "--group", group, "--auto-offset-reset", reset, "-e", "-f", "%s ")
    assert (ended.stdout.strip(), ended.status) == (values, status)
    if status:
        assert "no previously committed offset" in ended.stderr.lower() or "NO_OFFSET" in ended.stderr


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_partitions(cluster: Cluster, group: str, tmp_path: Path, assignor: str) -> None:
    topic = filled(cluster)
    everything = {f"{topic}:{partition}" for partition in range(4)}
    arguments = (topic, "--group", group, "--assignor", assignor)
    with member(cluster, tmp_path, *arguments) as first:
        until(lambda: first.assigned == everything and len(first.shown) == 12)
        with member(cluster, tmp_path, *arguments) as second:
            until(lambda: len(first.assigned) == len(second.assigned) == 2)
            assert first.assigned | second.assigned == everything
            gone = next(line for line in first.told if line.startswith("revoked "))
            assert gone.count(",") == (1 if assignor == "cooperative-sticky" else 3)  # all that it had, but there
            assert described(cluster, group).assignor == assignor
            assert second.interrupt() == 130
            assert second.told[-1].startswith("revoked ")
        until(lambda: first.assigned == everything)
        assert first.interrupt() == 130
    assert committed(cluster, group, topic) == dict.fromkeys(range(4), 3)
    assert described(cluster, group).state == "Empty"


def test_strategies_that_all_members_know(cluster: Cluster, group: str, tmp_path: Path) -> None:
    topic = filled(cluster)
    with (
        member(cluster, tmp_path, topic, "--group", group, "--assignor", "range", "--assignor", "roundrobin") as first,
        member(cluster, tmp_path, topic, "--group", group, "--assignor", "roundrobin") as second,
    ):
        until(lambda: len(first.assigned) == len(second.assigned) == 2)
        assert described(cluster, group).assignor == "roundrobin"
        strange = cluster.run("consume", topic, "--group", group, "--assignor", "cooperative-sticky")
        assert strange.status == 1
        assert "INCONSISTENT_GROUP_PROTOCOL" in strange.complaint


def test_a_static_member_comes_back_unnoticed(cluster: Cluster, group: str, tmp_path: Path) -> None:
    topic = filled(cluster)
    arguments = (topic, "--group", group, "--group-instance-id")
    with member(cluster, tmp_path, *arguments, "a") as first, member(cluster, tmp_path, *arguments, "b") as second:
        until(lambda: len(first.assigned) == len(second.assigned) == 2)
        before, told = second.assigned, first.told
        assert second.interrupt() == 130
        assert {each.instance_id for each in described(cluster, group).members} == {"a", "b"}
        with member(cluster, tmp_path, *arguments, "b") as again:
            until(lambda: again.assigned == before)
            assert first.told == told


def test_a_static_member_whose_place_is_taken(cluster: Cluster, group: str, tmp_path: Path) -> None:
    topic = filled(cluster)
    arguments = (topic, "--group", group, "--group-instance-id", "a", "-X", "heartbeat.interval.ms=500")
    with member(cluster, tmp_path, *arguments) as first:
        until(lambda: first.assigned)
        with member(cluster, tmp_path, *arguments) as second:
            until(lambda: second.assigned)
            assert first.process.wait(30) == 1
            assert first.told[-1] == f"{group}: Static consumer fenced by other consumer with same group.instance.id"


def test_a_member_that_slept_too_long_loses_its_partitions(cluster: Cluster, group: str, tmp_path: Path) -> None:
    topic = filled(cluster)
    with member(cluster, tmp_path, topic, "--group", group, "--commit", "sync", *SHORT_SESSION) as sleeper:
        until(lambda: committed(cluster, group, topic) == dict.fromkeys(range(4), 3))  # before it leaves
        assert len(sleeper.shown) == 12
        sleeper.process.send_signal(signal.SIGSTOP)
        until(lambda: described(cluster, group).state == "Empty")
        sleeper.process.send_signal(signal.SIGCONT)
        until(lambda: f"lost {topic}:0,1,2,3" in sleeper.told)
        until(lambda: sleeper.told[-1] == f"assigned {topic}:0,1,2,3")


@pytest.mark.parametrize("cluster", WITH_CONSUMER_PROTOCOL, indirect=True)
def test_the_coordinator_assigns(cluster: Cluster, group: str, tmp_path: Path) -> None:
    topic = filled(cluster)
    arguments = (topic, "--group", group, "--group-protocol", "consumer")
    with member(cluster, tmp_path, *arguments) as first, member(cluster, tmp_path, *arguments) as second:
        until(lambda: len(first.assigned) == len(second.assigned) == 2)
        assert described(cluster, group).type == "Consumer"
        assert [first.interrupt(), second.interrupt()] == [130, 130]
    assert committed(cluster, group, topic) == dict.fromkeys(range(4), 3)


def test_failures_are_one_line(cluster: Cluster, group: str) -> None:
    ended = cluster.run("consume", "no-such-topic", "--group", group)
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint.startswith("kcli: no-such-topic: UNKNOWN_TOPIC_OR_PARTITION: ")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["t", "u"], "several topics need a --group"),
        (["t", "-g", "g", "-p", "1"], "--group excludes"),
        (["t", "-g", "g", "-o", "end"], "--group excludes"),
        (["t", "-g", "g", "--time", "-1h:"], "--group excludes"),
        (["t", "-g", "g", "--group-protocol", "consumer", "--assignor", "range"], "the coordinator assigns"),
        (["t", "--commit", "sync"], "need a --group"),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("consume", *arguments)
    assert ended.status == 2
    assert reason in ended.complaint


def test_nobody_answers() -> None:
    began = time.monotonic()
    ended = kcli("consume", "t", "-g", "g", "-b", "127.0.0.1:1")
    assert ended.status == 1
    assert "no broker answers" in ended.complaint
    assert time.monotonic() - began < 10
