"""Static members: they come back with a new member id and keep their partitions; no other member can use their instance
id."""

from __future__ import annotations

import pytest

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition
from tests.group.consumer.fixture import Client, Cluster
from tests.group.group_log import GROUP

SESSION_MS = 45_000


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create("t", 4)
    return cluster


@pytest.fixture
def two(cluster: Cluster) -> tuple[Client, Client]:
    one, other = cluster.client("1", "t", instance_id="i"), cluster.client("2", "t")
    cluster.settle(one, other)
    return one, other


def test_comes_back(cluster: Cluster, two: tuple[Client, Client]) -> None:
    one, other = two
    epoch, had = cluster.group.epoch, one.owned
    assert one.leave(-2).epoch == -2
    assert other.beat().epoch == epoch, "its place is kept"
    again = cluster.client("1b", "t", instance_id="i")
    assert (again.epoch, again.owned, cluster.group.epoch) == (epoch, had, epoch)
    assert set(cluster.group.members) == {"1b", "2"}
    assert set(cluster.group.target) == {"1b", "2"}
    fenced = cluster.beat("1", epoch, instance_id="i")
    message = "Static member 1 with instance id i was fenced by member 1b."
    assert (fenced.error, fenced.error_message) == (ErrorCode.FENCED_INSTANCE_ID, message)
    assert cluster.beat("1", epoch).error == ErrorCode.UNKNOWN_MEMBER_ID
    cluster.pass_time(SESSION_MS - 1)
    other.beat()
    again.beat()
    cluster.pass_time(1)
    assert set(cluster.group.members) == {"1b", "2"}, "the old one's session is not counted"


def test_comes_back_with_another_subscription(cluster: Cluster, two: tuple[Client, Client]) -> None:
    topic = cluster.create("u", 2)
    one, other = two
    one.leave(-2)
    again = cluster.client("1b", "u", instance_id="i")
    cluster.settle(again, other)
    assert again.owned == {topic: (0, 1)}
    assert len(other.partitions) == 4


def test_does_not_come_back(cluster: Cluster, two: tuple[Client, Client]) -> None:
    one, other = two
    one.leave(-2)
    cluster.pass_time(SESSION_MS - 1)
    other.beat()
    cluster.pass_time(1)
    other.beat()
    assert set(cluster.group.members) == {"2"}
    assert len(other.partitions) == 4
    unknown = cluster.beat("1", 3, instance_id="i")
    assert (unknown.error, unknown.error_message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id i is unknown.")


def test_leaves_for_good(cluster: Cluster, two: tuple[Client, Client]) -> None:
    one, other = two
    assert one.leave().epoch == -1
    other.beat()
    assert len(other.partitions) == 4
    assert GROUP in cluster.machine._shard.groups
    assert cluster.group.static == {}


def test_its_place_is_taken(cluster: Cluster, two: tuple[Client, Client]) -> None:
    refused = cluster.enter("3", "t", instance_id="i")
    message = "Static member 3 with instance id i cannot join the group because the instance id is owned by 1 member."
    assert (refused.error, refused.error_message) == (ErrorCode.UNRELEASED_INSTANCE_ID, message)
    assert not two[0].beat().error
    assert cluster.beat("1", -2).error == ErrorCode.NONE, "without its instance it leaves for good"
    assert set(cluster.group.members) == {"2"}


def test_owned_by_nobody_else_meanwhile(cluster: Cluster, two: tuple[Client, Client]) -> None:
    one, other = two
    one.leave(-2)
    cluster.restart()
    third = cluster.client("3", "t")
    for _ in range(3):
        other.beat()
        third.beat()
    held: set[TopicIdPartition] = {
        (topic_id, number) for topic_id, numbers in cluster.group.members["1"].assigned.items() for number in numbers
    }
    assert held
    assert not held & (other.partitions | third.partitions)
