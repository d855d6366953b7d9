"""Reassignments of partitions: how they begin, end and are cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kcli.metadata.partition import RECOVERING
from kcli.metadata.partition_change import completed
from kcli.metadata.reassignment import Reassignment, alter_partition_reassignments
from kcli.metadata.result import Error
from kcli.protocol.error_code import ErrorCode
from tests.metadata.cluster import DIRECTORIES, Cluster


def move(
    cluster: Cluster,
    replicas: Sequence[int] | None,
    topic: str = "a",
    number: int = 0,
    *,
    may_change_factor: bool = True,
) -> Error:
    result = alter_partition_reassignments(
        cluster.image, [(topic, [Reassignment(number, replicas)])], {}, may_change_factor=may_change_factor
    )
    cluster.commit(result.records)
    ((_, (answer,)),) = result.response
    return answer.error


def test_a_move_begins() -> None:
    cluster = Cluster(5)
    assert move(cluster, [4, 5, 1]).code == ErrorCode.NONE
    found = cluster.partition()
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert found.directories == tuple(DIRECTORIES[each] for each in found.replicas)
    assert (found.leader, found.leader_epoch, found.isr) == (1, 0, (1, 2, 3))


def test_a_new_order_is_no_move() -> None:
    cluster = Cluster()
    assert move(cluster, [3, 1, 2]).code == ErrorCode.NONE
    found = cluster.partition()
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((3, 1, 2), (), ())
    assert (found.leader, found.leader_epoch) == (1, 0)
    before = cluster.offset
    assert move(cluster, [3, 1, 2]).code == ErrorCode.NONE
    assert cluster.offset == before


def test_less_replicas_go_at_once_where_the_others_are_in_sync() -> None:
    cluster = Cluster()
    move(cluster, [2, 3])
    found = cluster.partition()
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((2, 3), (2, 3), 2, 1)
    cluster = Cluster(isr=[1, 2])
    move(cluster, [2, 3])
    assert (cluster.partition().replicas, cluster.partition().removing_replicas) == ((2, 3, 1), (1,))


def test_a_move_is_taken_back() -> None:
    cluster = Cluster(4)
    move(cluster, [4, 1, 2])
    assert cluster.partition().replicas == (4, 1, 2, 3)
    assert move(cluster, None).code == ErrorCode.NONE
    found = cluster.partition()
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((1, 2, 3), (), ())
    assert (found.leader, found.leader_epoch) == (1, 1)
    assert move(cluster, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)


def test_a_move_is_not_taken_back_where_only_new_replicas_are_in_sync() -> None:
    state: dict[str, Any] = {"replicas": [4, 1], "isr": [4], "leader": 4, "addingReplicas": [4]}
    cluster = Cluster(4, **state)
    assert move(cluster, None) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Unable to revert partition assignment for a:0 because it would require an unclean leader election.",
    )
    cluster.config("unclean.leader.election.enable", "true")
    assert move(cluster, None).code == ErrorCode.NONE
    assert (cluster.partition().replicas, cluster.partition().isr, cluster.partition().leader) == ((1,), (1,), 1)
    assert cluster.partition().leader_recovery_state != RECOVERING


def test_another_move_takes_the_place_of_one() -> None:
    cluster = Cluster(5)
    move(cluster, [4, 1, 2])
    move(cluster, [5, 1, 2])
    found = cluster.partition()
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ((5, 1, 2, 3, 4), (5,), (3, 4))


REFUSALS = [
    (("b", 0, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named b."),
    (("a", 3, [1]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition a:3."),
    (
        ("a", 0, []),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        ("a", 0, [1, 9]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (
        ("a", 0, [2, 2]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 2 more than once.",
    ),
    (
        ("a", 0, [2, 1]),
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 3 to 2",
    ),
]


@pytest.mark.parametrize(("wanted", "code", "message"), REFUSALS)
def test_what_is_refused(wanted: tuple[str, int, list[int]], code: ErrorCode, message: str) -> None:
    cluster = Cluster()
    topic, number, replicas = wanted
    assert move(cluster, replicas, topic, number, may_change_factor=False) == (code, message)


CASES = [
    (((1, 2), (1, 2), (), ()), None),
    (((4, 2, 3, 1), (1, 2, 3), (4,), (1,)), None),
    (((4, 2, 3, 1), (1, 2, 4), (4,), (1,)), ((4, 2, 3), (2, 4))),
    (((2, 3, 1), (1, 2), (), (1,)), None),
    (((2, 3, 1), (1, 2, 3), (), (1,)), ((2, 3), (2, 3))),
    (((3, 1, 2), (1, 2), (3,), (1, 2)), None),
    (((3, 1, 2), (1, 2, 3), (3,), (1, 2)), ((3,), (3,))),
    (((1, 2), (1,), (), (1, 2)), None),
]


@pytest.mark.parametrize(("state", "end"), CASES)
def test_when_a_move_ends(
    state: tuple[tuple[int, ...], ...], end: tuple[tuple[int, ...], tuple[int, ...]] | None
) -> None:
    assert completed(*state) == end
