"""Subscriptions by regular expression: the coordinator resolves them, writes them down, and resolves them again."""

from __future__ import annotations

import pytest

from kcli.protocol.error_code import ErrorCode
from tests.group.consumer.fixture import Cluster

WAIT_MS, REFRESH_MS = 10_000, 600_000


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_topics_are_found_a_moment_later(cluster: Cluster) -> None:
    one, other = cluster.create("log-1", 1), cluster.create("other", 1)
    member = cluster.client("1", regex="log-.*")
    assert (member.epoch, member.owned, cluster.group.resolved) == (1, {}, {})
    cluster.pass_time(0)
    assert cluster.group.resolved["log-.*"].topics == {"log-1"}
    cluster.settle(member)
    assert (member.owned, member.epoch) == ({one: (0,)}, 2)
    two = cluster.create("log-2", 1)
    cluster.pass_time(WAIT_MS)
    member.beat()
    cluster.pass_time(0)
    assert cluster.group.resolved["log-.*"].topics == {"log-1"}, "not twice within ten seconds"
    cluster.pass_time(1)
    member.beat()
    cluster.pass_time(0)
    cluster.settle(member)
    assert member.owned == {one: (0,), two: (0,)}
    assert other not in member.owned


def test_looked_for_again_without_new_topics(cluster: Cluster) -> None:
    cluster.create("a", 1)
    member = cluster.client("1", regex="a")
    cluster.pass_time(0)
    cluster.settle(member)
    found, epoch = cluster.group.resolved["a"].timestamp_ms, cluster.group.epoch
    for _ in range(REFRESH_MS // 30_000):
        cluster.pass_time(30_000)
        member.beat()
    cluster.pass_time(1)
    assert cluster.group.resolved["a"].timestamp_ms == found
    member.beat()
    cluster.pass_time(0)
    assert cluster.group.resolved["a"].timestamp_ms > found
    assert cluster.group.epoch == epoch


def test_shared_expression_goes_with_its_last_member(cluster: Cluster) -> None:
    topic = cluster.create("a", 2)
    one = cluster.client("1", regex="a|b")
    cluster.pass_time(0)
    two = cluster.client("2", regex="a|b")
    assert two.epoch == 3, "known already"
    cluster.settle(one, two)
    assert (one.owned, two.owned) == ({topic: (0,)}, {topic: (1,)})
    one.leave()
    assert list(cluster.group.resolved) == ["a|b"]
    answer = cluster.beat("2", two.epoch, regex="b|a", owned=two.owned)
    two._take(answer)
    assert list(cluster.group.resolved) == []
    two.beat()
    cluster.pass_time(0)
    assert list(cluster.group.resolved) == ["b|a"]
    cluster.settle(two)
    assert two.owned == {topic: (0, 1)}
    two._take(cluster.beat("2", two.epoch, regex="", topics=frozenset(), owned=two.owned))
    assert cluster.group.subscriptions.topics() == set()
    cluster.settle(two)
    assert two.owned == {}
    records = [record for record in cluster.records() if record.type == 16]
    assert [(record.key["regularExpression"], record.value is None) for record in records] == [
        ("a|b", False),
        ("a|b", True),
        ("b|a", False),
        ("b|a", True),
    ]


def test_names_and_expression_together(cluster: Cluster) -> None:
    named, matched = cluster.create("n", 1), cluster.create("m", 1)
    member = cluster.client("1", "n", regex="m+")
    cluster.pass_time(0)
    cluster.settle(member)
    assert member.owned == {named: (0,), matched: (0,)}
    assert not cluster.group.subscriptions.is_homogeneous(1)


def test_after_a_restart(cluster: Cluster) -> None:
    cluster.create("a", 1)
    member = cluster.client("1", regex="a")
    cluster.pass_time(0)
    cluster.settle(member)
    epoch, resolved = cluster.group.epoch, cluster.group.resolved
    cluster.restart()
    assert cluster.group.resolved == resolved
    member.beat()
    assert cluster.group.epoch == epoch


def test_invalid(cluster: Cluster) -> None:
    refused = cluster.enter("1", regex="a(")
    assert refused.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert str(refused.error_message).startswith("SubscribedTopicRegex `a(` is not a valid regular expression: ")
    assert cluster.log == []
