"""Elections of the leader of a partition with three replicas."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.metadata.election import (
    ElectionType,
    broker_is_unfenced,
    broker_leaves_isrs,
    broker_was_killed,
    elect_leaders,
)
from kcli.metadata.image import TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import RECOVERED, RECOVERING, Partition, from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.metadata.node import registration
from tests.metadata.test_image import ID_A, A, partition, topic

UNCLEAN = {"unclean.leader.election.enable": "true"}


def cluster(*, elr: bool = True, down: tuple[int, ...] = (), **state: Any) -> MetadataImage:
    """Return a cluster with topic a on brokers 1, 2 and 3."""
    image = MetadataImage()
    image.features = {"metadata.version": 30, **({"eligible.leader.replicas.version": 1} if elr else {})}
    for node_id in (1, 2, 3):
        image.brokers[node_id] = registration(1, node_id, fenced=node_id in down)
    image.apply(*topic("a", ID_A), 0)
    directories = [from_uuid(image.brokers[each].directories[0]) for each in (1, 2, 3)]
    usual = {"replicas": [1, 2, 3], "isr": [1, 2, 3], "directories": directories}
    image.apply(*partition(ID_A, 0, **{**usual, **state}), 1)
    return image


def commit(image: MetadataImage, records: list[Record]) -> Partition:
    for name, _, value in records:
        image.apply(name, value, 9)
    found = image.partition(A, 0)
    assert found is not None
    return found


def min_isr(image: MetadataImage, value: int) -> MetadataImage:
    config = {"resourceType": TOPIC_RESOURCE, "resourceName": "a", "name": "min.insync.replicas", "value": str(value)}
    image.apply("ConfigRecord", config, 2)
    return image


def test_the_next_in_sync_replica_leads() -> None:
    found = commit(image := cluster(), broker_leaves_isrs(image, 1, {}))
    assert (found.leader, found.leader_epoch, found.isr, found.elr) == (2, 1, (2, 3), ())


def test_a_follower_that_goes_leaves_the_leader() -> None:
    found = commit(image := cluster(), broker_leaves_isrs(image, 3, {}))
    assert (found.leader, found.leader_epoch, found.isr) == (1, 0, (1, 2))


def test_below_min_isr_replicas_stay_eligible() -> None:
    image = min_isr(cluster(), 2)
    commit(image, broker_leaves_isrs(image, 1, {}))
    image.brokers[1] = registration(1, 1, fenced=True)
    found = commit(image, broker_leaves_isrs(image, 2, {}))
    assert (found.leader, found.isr, found.elr) == (3, (3,), (2,))
    image.brokers[2] = registration(1, 2, fenced=True)
    found = commit(image, broker_leaves_isrs(image, 3, {}))
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (-1, (), (2, 3), (3,))
    image.brokers[3] = registration(1, 3, fenced=True)
    assert broker_is_unfenced(image, 1, {}) == []
    found = commit(image, broker_is_unfenced(image, 2, {}))
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (2, (2,), (3,), ())
    assert found.leader_recovery_state == RECOVERED


def test_who_was_killed_is_not_eligible() -> None:
    image = cluster(isr=[], leader=-1, eligibleLeaderReplicas=[1, 2], lastKnownElr=[1])
    found = commit(image, broker_was_killed(image, 1, {}))
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (2, (2,), (), ())
    image = cluster(isr=[], leader=-1, eligibleLeaderReplicas=[1, 2], lastKnownElr=[1], down=(2,))
    found = commit(image, broker_was_killed(image, 1, {}))
    assert (found.leader, found.isr, found.elr) == (-1, (), (2,))


def test_the_last_leader_leads_again_where_nobody_is_eligible() -> None:
    image = cluster(isr=[], leader=-1, lastKnownElr=[1], down=(1, 2, 3))
    assert broker_is_unfenced(image, 2, {}) == []
    found = commit(image, broker_is_unfenced(image, 1, {}))
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, (1,), RECOVERING)


def test_without_elr_the_last_in_sync_replica_stays() -> None:
    image = cluster(elr=False, isr=[1], down=(2, 3))
    found = commit(image, broker_leaves_isrs(image, 1, {}))
    assert (found.leader, found.isr, found.elr) == (-1, (1,), ())
    found = commit(image, broker_is_unfenced(image, 1, {}))
    assert (found.leader, found.isr) == (1, (1,))


def test_an_unclean_election_only_where_it_is_allowed() -> None:
    image = cluster(elr=False, isr=[1], down=(3,))
    assert commit(image, broker_leaves_isrs(image, 1, {})).leader == -1
    image = cluster(elr=False, isr=[1], down=(3,))
    found = commit(image, broker_leaves_isrs(image, 1, UNCLEAN))
    assert (found.leader, found.isr, found.leader_recovery_state) == (2, (2,), RECOVERING)


PREFERRED, ANY = ElectionType.PREFERRED, ElectionType.UNCLEAN
CASES: list[tuple[ElectionType, dict[str, Any], ErrorCode, int]] = [
    (PREFERRED, {}, ErrorCode.ELECTION_NOT_NEEDED, 1),
    (PREFERRED, {"leader": 2}, ErrorCode.NONE, 1),
    (PREFERRED, {"leader": 2, "isr": [2, 3]}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2),
    (PREFERRED, {"leader": 2, "down": (1,)}, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 2),
    (ANY, {"leader": 2}, ErrorCode.ELECTION_NOT_NEEDED, 2),
    (ANY, {"leader": -1, "isr": [], "elr": False, "down": (1,)}, ErrorCode.NONE, 2),
    (ANY, {"leader": -1, "isr": [1], "down": (1, 2, 3)}, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, -1),
]


@pytest.mark.parametrize(("kind", "state", "code", "leader"), CASES)
def test_elections_on_demand(kind: ElectionType, state: dict[str, Any], code: ErrorCode, leader: int) -> None:
    image = cluster(**state)
    result = elect_leaders(image, kind, [("a", [0])], {})
    assert [(name, each.error.code) for name, answers in result.response for each in answers] == [("a", code)]
    assert commit(image, result.records).leader == leader


def test_shrinking_starts_a_leader_epoch_before_metadata_version_12() -> None:
    image = cluster(elr=False)
    image.features["metadata.version"] = 11
    found = commit(image, broker_leaves_isrs(image, 3, {}))
    assert (found.leader, found.leader_epoch) == (1, 1)
