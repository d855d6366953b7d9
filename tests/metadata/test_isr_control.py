"""AlterPartition: which changes of a partition its leader may request, and their results."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kcli.metadata.isr_control import ANY_EPOCH, IsrAnswer, IsrChange, alter_partitions
from kcli.metadata.partition import RECOVERED, RECOVERING
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from tests.metadata.cluster import A, Cluster


def alter(
    cluster: Cluster, isr: list[int] | list[tuple[int, int]], by: int = 1, topic_id: UUID = A, **fields: Any
) -> IsrAnswer:
    """Commit one change and return its result; epochs are the current ones unless given."""
    known = cluster.partition()
    epochs = {"leader_epoch": known.leader_epoch, "partition_epoch": known.partition_epoch}
    wanted = {
        "partition": 0,
        "isr": [each if isinstance(each, tuple) else (each, ANY_EPOCH) for each in isr],
        **epochs,
        **fields,
    }
    broker = cluster.image.brokers[by]
    result = alter_partitions(cluster.image, by, broker.epoch, [(topic_id, [IsrChange(**wanted)])], {})
    cluster.commit(result.records)
    ((_, (answer,)),) = result.response
    return answer


def test_the_isr_shrinks_and_grows() -> None:
    cluster = Cluster()
    answer = alter(cluster, [1])
    assert answer.code == ErrorCode.NONE
    assert answer.state == cluster.partition()
    assert (cluster.partition().isr, cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (
        (1,),
        0,
        1,
    )
    alter(cluster, [1, 3])
    assert cluster.partition().isr == (1, 3)
    before = cluster.offset
    assert alter(cluster, [1, 3]).state == cluster.partition()
    assert cluster.offset == before


def test_below_min_isr_those_that_left_stay_eligible() -> None:
    cluster = Cluster(min_isr=2)
    alter(cluster, [1])
    assert (cluster.partition().isr, cluster.partition().elr) == ((1,), (2, 3))
    alter(cluster, [1, 2])
    assert (cluster.partition().isr, cluster.partition().elr) == ((1, 2), ())


CASES: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "no such topic": ({"topic_id": UUID(int=5)}, ErrorCode.UNKNOWN_TOPIC_ID),
    "no such partition": ({"partition": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "a leader epoch to come": ({"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
    "a partition epoch to come": ({"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
    "an old leader epoch": ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    "an old partition epoch": ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
    "not the leader": ({"by": 2}, ErrorCode.INVALID_REQUEST),
    "no replica": ({"isr": [1, 4]}, ErrorCode.INVALID_REQUEST),
    "twice": ({"isr": [1, 2, 2]}, ErrorCode.INVALID_REQUEST),
    "without itself": ({"isr": [2, 3]}, ErrorCode.INVALID_REQUEST),
    "recovering with others": ({"isr": [1, 2], "recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    "recovering again": ({"isr": [1], "recovery_state": RECOVERING}, ErrorCode.INVALID_REQUEST),
    "in a state that there is not": ({"recovery_state": 77}, ErrorCode.INVALID_REQUEST),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name: str) -> None:
    fields, code = CASES[name]
    cluster = Cluster(4)
    before = cluster.partition()
    assert alter(cluster, **{"isr": [1, 2], **fields}) == IsrAnswer(fields.get("partition", 0), code)
    assert cluster.partition() == before


def test_brokers_that_may_not_be_in_sync() -> None:
    for fields in ({"fenced": True}, {"in_controlled_shutdown": True}):
        cluster = Cluster(isr=[1, 2])
        cluster.add_broker(3, **fields)
        assert alter(cluster, [1, 2, 3]).code == ErrorCode.INELIGIBLE_REPLICA
    cluster = Cluster(isr=[1, 2])
    epochs = [(each, cluster.image.brokers[each].epoch) for each in (1, 2, 3)]
    stale = [*epochs[:2], (3, 7)]
    assert alter(cluster, stale).code == ErrorCode.INELIGIBLE_REPLICA
    assert alter(cluster, epochs).code == ErrorCode.NONE
    del cluster.image.brokers[3]
    assert alter(cluster, [1, 2, 3]).code == ErrorCode.INELIGIBLE_REPLICA


def test_an_unclean_leader_recovers() -> None:
    cluster = Cluster(isr=[1], leaderRecoveryState=RECOVERING)
    assert alter(cluster, [1], recovery_state=RECOVERED).code == ErrorCode.NONE
    assert cluster.partition().leader_recovery_state == RECOVERED


def test_a_stale_broker_is_refused_as_a_whole() -> None:
    with pytest.raises(Refused) as refused:
        alter_partitions(Cluster().image, 1, 7, [], {})
    assert refused.value.error.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_reassignment_ends_and_with_it_the_leader() -> None:
    cluster = Cluster(4, replicas=[4, 2, 3, 1], isr=[1, 2, 3], leader=1, addingReplicas=[4], removingReplicas=[1])
    assert alter(cluster, [1, 2]).code == ErrorCode.NONE
    assert cluster.partition().removing_replicas == (1,)
    assert alter(cluster, [1, 2, 4]).code == ErrorCode.NEW_LEADER_ELECTED
    found = cluster.partition()
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((4, 2, 3), (2, 4), 4, 1)
    assert (found.adding_replicas, found.removing_replicas) == ((), ())
