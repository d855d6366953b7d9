"""Members of the consumer protocol: they join, share, revoke, leave, and miss deadlines; and their errors."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from formats.message import uuid_text
from kcli.group.config import GroupConfig
from kcli.group.consumer.member import MemberState
from kcli.group.requests import ZERO_ID, DeleteGroup, DeleteOffsets, FetchAnswer, FetchOffsets, ListGroups
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from tests.group.consumer.fixture import TIMEOUT_MS, Client, Cluster
from tests.group.group_log import GROUP

SESSION_MS = 45_000


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def topic(cluster: Cluster) -> UUID:
    return cluster.create("t", 4)


def state(cluster: Cluster, member_id: str) -> tuple[MemberState, int, int]:
    member = cluster.group.members[member_id]
    return member.state, member.previous_epoch, member.epoch


def test_a_partition_moves_when_it_was_given_away(cluster: Cluster, topic: UUID) -> None:
    one = cluster.client("1", "t")
    assert (one.epoch, one.owned) == (2, {topic: (0, 1, 2, 3)})
    assert cluster.phase == "Stable"
    two = cluster.client("2", "t")
    assert (two.epoch, two.owned) == (3, {})
    assert state(cluster, "2") == (MemberState.UNRELEASED_PARTITIONS, 0, 3)
    assert cluster.phase == "Reconciling"
    assert one.beat().epoch == 2
    assert one.owned == {topic: (0, 1)}
    assert state(cluster, "1") == (MemberState.UNREVOKED_PARTITIONS, 2, 2)
    assert two.beat().assignment is None, "nothing new"
    told = cluster.beat("2", 3, topics=frozenset("t"), rebalance_timeout_ms=TIMEOUT_MS, owned={})
    assert told.assignment == {}, "it says all, and is told all"
    assert not two.owned
    assert one.beat().epoch == 3
    two.beat()
    assert two.owned == {topic: (2, 3)}
    assert cluster.phase == "Stable"


def test_what_is_written(cluster: Cluster, topic: UUID) -> None:
    """Records have Kafka's order, and a heartbeat without a change writes none."""
    cluster.client("1", "t")
    assert [record.type for record in cluster.records()] == [5, 3, 7, 6, 8]
    written = len(cluster.log)
    answer = cluster.beat("1", 2)
    assert (answer.assignment, answer.heartbeat_interval_ms, len(cluster.log)) == (None, 5000, written)
    cluster.beat("1", -1)
    kinds = [(record.type, record.value is None) for record in cluster.records()[written:]]
    assert kinds == [(8, True), (7, True), (5, True), (3, False)]
    assert cluster.phase == "Empty"
    assert cluster.group.epoch == 3
    assert cluster.ask(DeleteGroup(group_id=GROUP)) == ErrorCode.NONE
    assert [record.type for record in cluster.records()[-3:]] == [6, 4, 3]
    assert cluster.ask(ListGroups()) == []


def test_topics_come_grow_and_go(cluster: Cluster) -> None:
    member = cluster.client("1", "t", "u")
    assert (member.epoch, member.owned) == (2, {})
    topic = cluster.create("t", 1)
    assert member.beat().epoch == 3
    cluster.create("other", 1)
    assert member.beat().epoch == 3
    cluster.grow("t", 3)
    assert member.beat().epoch == 4
    assert member.owned == {topic: (0, 1, 2)}
    cluster.delete("t")
    member.beat()
    cluster.settle(member)
    assert (member.owned, cluster.group.metadata_hash) == ({}, 0)
    before = cluster.group.epoch
    cluster.restart()
    member.beat()
    assert cluster.group.epoch == before, "the same metadata: nothing begins"


def test_subscription_changes(cluster: Cluster, topic: UUID) -> None:
    """Partitions of a topic that the member no longer subscribes to are revoked at once."""
    other = cluster.create("u", 1)
    member = cluster.client("1", "t", "u")
    answer = cluster.beat("1", 2, topics=frozenset(("u",)))
    assert answer.assignment == {other: (0,)}
    assert state(cluster, "1")[0] is MemberState.UNREVOKED_PARTITIONS
    member.owned = {other: (0,)}
    assert member.beat().epoch == 3
    assert topic not in cluster.group.members["1"].assigned


def test_lost_answer(cluster: Cluster, topic: UUID) -> None:
    """The previous epoch is accepted while the member owns only partitions of its assignment."""
    one = cluster.client("1", "t")
    cluster.client("2", "t")
    one.beat()
    one.beat()
    assert cluster.group.members["1"].epoch == 3
    assert cluster.beat("1", 2, owned={topic: (0, 1)}).epoch == 3
    for owned in (None, {topic: (0, 1, 2)}, {UUID(int=1): (0,)}):
        answer = cluster.beat("1", 2, owned=owned)
        assert answer.error == ErrorCode.FENCED_MEMBER_EPOCH
        assert answer.error_message == (
            "The consumer group member has a smaller member epoch (2) than the one known by the group coordinator (3). "
            "The member must abandon all its partitions and rejoin."
        )
    assert "a greater member epoch (4)" in str(cluster.beat("1", 4).error_message)
    again = cluster.enter("1", "t")
    assert (again.error, again.epoch, again.assignment) == (ErrorCode.NONE, 3, {topic: (0, 1)})


def test_session_ends(cluster: Cluster, topic: UUID) -> None:
    one, two = cluster.client("1", "t"), cluster.client("2", "t")
    cluster.settle(one, two)
    cluster.pass_time(SESSION_MS - 1)
    two.beat()
    cluster.pass_time(1)
    assert list(cluster.group.members) == ["2"]
    two.beat()
    assert two.owned == {topic: (0, 1, 2, 3)}
    gone = cluster.beat("1", one.epoch)
    assert (gone.error, gone.error_message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Member 1 is not a member of group g.")


@pytest.mark.parametrize("restarts", [False, True])
def test_rebalance_timeout(cluster: Cluster, topic: UUID, restarts: bool) -> None:
    """A member that does not revoke in time is fenced, even if it sends heartbeats."""
    one, two = cluster.client("1", "t"), cluster.client("2", "t")
    cluster.beat("1", one.epoch)
    if restarts:
        cluster.restart()
    for _ in range(3):
        cluster.pass_time(TIMEOUT_MS // 3)
        if "1" in cluster.group.members:
            assert cluster.beat("1", one.epoch, owned=one.owned).epoch == 2
        two.beat()
    assert list(cluster.group.members) == ["2"]
    cluster.settle(two)
    assert two.owned == {topic: (0, 1, 2, 3)}


def test_assignment_interval() -> None:
    """Between two assignments more members may join."""
    cluster = Cluster(assignment_interval_ms=1000)
    topic = cluster.create("t", 2)
    one, two = cluster.client("1", "t"), cluster.client("2", "t")
    assert (two.epoch, cluster.phase) == (2, "Assigning")
    assert cluster.group.epoch == 3
    cluster.pass_time(1000)
    cluster.settle(one, two)
    assert (one.epoch, one.owned, two.owned) == (3, {topic: (0,)}, {topic: (1,)})


def test_assignor_is_voted_for(cluster: Cluster, topic: UUID) -> None:
    assert cluster.client("1", "t", assignor="range").epoch == 2
    assert cluster.describe().assignor == "range"
    cluster.client("2", "t", assignor="uniform")
    cluster.client("3", "t", assignor="uniform")
    cluster.client("4", "t")
    assert cluster.describe().assignor == "uniform"


def test_group_is_full() -> None:
    cluster = Cluster(consumer_group_max_size=1)
    member = cluster.client("1", "t")
    refused = cluster.enter("2", "t")
    message = "The consumer group has reached its maximum capacity of 1 members."
    assert (refused.error, refused.error_message) == (ErrorCode.GROUP_MAX_SIZE_REACHED, message)
    assert not member.beat().error


def test_no_such_group(cluster: Cluster) -> None:
    for epoch, message in ((1, "Consumer group g not found."), (-1, "Group g not found.")):
        answer = cluster.beat("1", epoch)
        assert (answer.error, answer.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)
    described = cluster.describe()
    assert (described.error, described.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    joined = cluster.joined(cluster.join())
    assert joined.error == ErrorCode.MEMBER_ID_REQUIRED
    assert cluster.describe().error_message == "Group g is not a consumer group."
    assert not cluster.enter("1", "t").error, "an empty classic group gives way"


def test_too_much_for_a_batch() -> None:
    cluster = Cluster(batch_bytes_max=2000)
    answer = cluster.enter("1", *(f"topic-{number}" for number in range(200)))
    assert (answer.error, cluster.log) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


def commit(
    cluster: Cluster, epoch: int, member_id: str = "1", topic_id: UUID | None = None, **values: Any
) -> ErrorCode:
    values.setdefault("version", 10)
    named = ZERO_ID if topic_id is None else uuid_text(topic_id.bytes)
    return cluster.commit(5, member_id, epoch, topic_id=named, **values).error


def fetch(cluster: Cluster, member_id: str | None = None, epoch: int = -1) -> ErrorCode:
    request = FetchOffsets(group_id=GROUP, topics=None, require_stable=False, member_id=member_id, epoch=epoch)
    answer: FetchAnswer = cluster.ask(request)
    return answer.error


class TestCommits:
    """A commit is accepted at the member's epoch, or at an epoch since it was assigned the partition."""

    @pytest.fixture(autouse=True)
    def member(self, cluster: Cluster, topic: UUID) -> Client:  # noqa: ARG002 (the topic is to be there)
        member = cluster.client("1", "t")
        second = cluster.client("2", "t")
        cluster.settle(member, second)
        return member

    def test_epochs(self, cluster: Cluster, topic: UUID) -> None:
        assert commit(cluster, 3, topic_id=topic) == ErrorCode.NONE
        assert commit(cluster, 2, topic_id=topic) == ErrorCode.NONE, "it had it then"
        stale = ErrorCode.STALE_MEMBER_EPOCH
        assert commit(cluster, 1, topic_id=topic) == stale
        assert commit(cluster, 4, topic_id=topic) == stale
        assert commit(cluster, 2, topic_id=topic, partition=2) == stale, "it is another's by now"
        assert commit(cluster, 2, member_id="2", topic_id=topic, partition=2) == stale
        assert commit(cluster, 3, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert commit(cluster, 3, member_id="?") == ErrorCode.UNKNOWN_MEMBER_ID
        assert commit(cluster, -1, member_id="") == ErrorCode.UNKNOWN_MEMBER_ID
        transaction: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
        assert commit(cluster, -1, member_id="", **transaction) == ErrorCode.NONE
        assert commit(cluster, 1, topic_id=topic, **transaction) == ErrorCode.ILLEGAL_GENERATION

    def test_anyone_without_members(self, cluster: Cluster, member: Client) -> None:
        member.leave()
        cluster.beat("2", -1)
        assert commit(cluster, -1, member_id="") == ErrorCode.NONE
        assert cluster.committed() == {("t", 0): 5}
        assert fetch(cluster, "1", 3) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_fetch(self, cluster: Cluster) -> None:
        assert fetch(cluster) == ErrorCode.NONE
        assert fetch(cluster, "1", 3) == ErrorCode.NONE
        assert fetch(cluster, "1", 2) == ErrorCode.STALE_MEMBER_EPOCH
        assert fetch(cluster, "?", 3) == ErrorCode.UNKNOWN_MEMBER_ID

    def test_delete(self, cluster: Cluster) -> None:
        delete = DeleteOffsets(group_id=GROUP, partitions=(TopicPartition("t", 0), TopicPartition("u", 0)))
        answer = cluster.ask(delete)
        assert (answer.error, answer.errors) == (ErrorCode.NONE, {("t", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
        assert cluster.ask(DeleteGroup(group_id=GROUP)) == ErrorCode.NON_EMPTY_GROUP

    def test_expiry(self, cluster: Cluster, topic: UUID) -> None:
        commit(cluster, 3, topic_id=topic)
        retention_ms = GroupConfig().offsets_retention_ms
        assert cluster.committed() == {("t", 0): 5}
        for member_id in ("1", "2"):
            cluster.beat(member_id, -1)
        cluster.pass_time(retention_ms + GroupConfig().offsets_retention_check_interval_ms)
        assert cluster.committed() == {}
        assert cluster.ask(ListGroups()) == []


def test_listed(cluster: Cluster) -> None:
    cluster.client("1", "t")
    (listed,) = cluster.ask(ListGroups(types=("Consumer",), states=("stable",)))
    assert (listed.type, listed.protocol_type, listed.state) == ("consumer", "consumer", "Stable")
    assert cluster.ask(ListGroups(types=("classic",))) == []
