"""Both protocols in one group: it becomes a consumer group, has members of both, and becomes a classic group again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from formats.message import parse
from kcli.group.requests import JoinAnswer
from kcli.protocol.error_code import ErrorCode
from tests.group.consumer.fixture import Cluster
from tests.group.group_log import GROUP, RANGE, REBALANCE_MS, SESSION_MS

ASSIGNED = b"\0\1\0\0\0\1\0\1t\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\0"
"""The assignment of all partitions of t, as a leader writes it."""
CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before"
    " re-attempting the upgrade"
)
WITH_USER_DATA = ASSIGNED[:-4] + b"\0\0\0\1x"


def numbers(assignment: bytes) -> list[int]:
    value = parse("ConsumerProtocolAssignment", int.from_bytes(assignment[:2]), assignment[2:])
    return [number for topic in value["assignedPartitions"] for number in topic["partitions"]]


class Mixed(Cluster):
    """A group of one classic member that has all partitions."""

    def __init__(self, assignment: bytes = ASSIGNED, **config: Any) -> None:
        super().__init__(**config)
        self.topic: UUID = self.create("t", 4)
        self.classic, token = self.join_new()
        self.pass_time(3000)
        assert self.joined(token).generation == 1
        assert self.synced(self.sync(self.classic, 1, {self.classic: assignment})).assignment == assignment

    def rejoin(self) -> JoinAnswer:
        return self.joined(self.join(self.classic))


def test_there_and_back() -> None:
    cluster = Mixed()
    member = cluster.client("new", "t")
    assert (member.epoch, member.owned) == (2, {})
    described = cluster.describe()
    assert {each.member_id: each.is_classic for each in described.members} == {cluster.classic: True, "new": False}
    assert cluster.phase == "Reconciling"
    written = [(record.type, record.value is None) for record in cluster.records()]
    begin = written.index((2, True))
    assert written[begin:] == [
        *[(2, True), (5, False), (3, False), (7, False), (6, False), (8, False)],
        *[(5, False), (3, False), (7, False), (7, False), (6, False), (8, False)],
    ]
    # the classic member is told to rebalance, revokes, and continues with its other partitions
    assert cluster.heartbeat(cluster.classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = cluster.rejoin()
    assert (joined.error, joined.generation, joined.protocol, joined.leader) == (ErrorCode.NONE, 2, "range", "")
    synced = cluster.synced(cluster.sync(cluster.classic, 2, protocol_type="consumer", protocol="range"))
    assert (synced.protocol_type, synced.protocol, numbers(synced.assignment)) == ("consumer", "range", [0, 1])
    assert cluster.heartbeat(cluster.classic, 2) == ErrorCode.NONE
    cluster.settle(member)
    assert member.owned == {cluster.topic: (2, 3)}
    # the last member of the new protocol leaves
    member.leave()
    state = cluster.state()
    assert (state.state, state.protocol_type) == ("PreparingRebalance", "consumer")
    assert cluster.heartbeat(cluster.classic, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert [(record.type, record.value is None) for record in cluster.records()[-10:]] == [
        *[(8, True), (8, True), (7, True), (7, True), (6, True), (5, True), (5, True)],
        *[(4, True), (3, True), (2, False)],
    ]
    token = cluster.join(cluster.classic)
    assert cluster.joined(token).generation == 3
    cluster.restart()
    assert cluster.state().state == "Stable"


@pytest.mark.parametrize(
    ("policy", "protocol_type", "assignment", "reason"),
    [
        ("disabled", "consumer", ASSIGNED, "online upgrade is disabled"),
        ("downgrade", "consumer", ASSIGNED, "online upgrade is disabled"),
        ("bidirectional", "connect", ASSIGNED, "the group does not use the consumer embedded protocol"),
        ("upgrade", "consumer", b"\0\1\0\0", "the embedded consumer protocol is malformed"),
        (
            "upgrade",
            "consumer",
            WITH_USER_DATA,
            CUSTOM_ASSIGNOR,
        ),
    ],
)
def test_no_upgrade(policy: str, protocol_type: str, assignment: bytes, reason: str) -> None:
    cluster = Cluster(consumer_migration_policy=policy)
    cluster.create("t", 4)
    classic, _ = cluster.join_new(protocol_type=protocol_type)
    cluster.pass_time(3000)
    cluster.sync(classic, 1, {classic: assignment})
    before = len(cluster.log)
    refused = cluster.enter("new", "t")
    message = f"Cannot upgrade classic group g to consumer group because {reason}."
    assert (refused.error, refused.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, message)
    assert len(cluster.log) == before
    assert cluster.state().state == "Stable"


def test_no_upgrade_where_a_partition_was_assigned_twice() -> None:
    cluster = Cluster()
    cluster.create("t", 4)
    one, two = (cluster.join_new() for _ in range(2))
    cluster.pass_time(6000)
    leader = cluster.joined(one[1]).leader
    for member_id, token in sorted((one, two), key=lambda member: member[0] == leader):
        assert not cluster.joined(token).error
        cluster.sync(member_id, 1, {each: ASSIGNED for each, _ in (one, two)} if member_id == leader else None)
    assert cluster.enter("new", "t").error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.state().state == "Stable"


def test_no_upgrade_beyond_the_maximum() -> None:
    cluster = Mixed(consumer_group_max_size=0)
    assert "exceeds the consumer group maximum size" in str(cluster.enter("new", "t").error_message)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_no_downgrade(policy: str) -> None:
    cluster = Mixed()
    member = cluster.client("new", "t")
    cluster.config = type(cluster.config)(consumer_migration_policy=policy)
    cluster.restart()
    member.leave()
    assert cluster.describe().state == "Assigning"


def test_waiting_members_join_again() -> None:
    """Members in a classic rebalance are answered when the group changes its protocol."""
    cluster = Mixed()
    other, token = cluster.join_new()
    assert token not in cluster.answers
    assert not cluster.enter("new", "t").error
    assert cluster.joined(token).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(cluster.group.members) == {cluster.classic, other, "new"}


class TestClassicMembers:
    """Errors of classic members in a consumer group."""

    @pytest.fixture
    def cluster(self) -> Mixed:
        cluster = Mixed()
        cluster.client("new", "t")
        return cluster

    def test_join(self, cluster: Mixed) -> None:
        assert cluster.joined(cluster.join()).error == ErrorCode.MEMBER_ID_REQUIRED
        assert cluster.joined(cluster.join(protocol_type="connect")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        other = (("roundrobin", RANGE[0][1]),)
        assert cluster.joined(cluster.join(protocols=other)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        bad = (("range", b"\0\1\0\0"),)
        assert cluster.joined(cluster.join("x", protocols=bad)).error == ErrorCode.UNKNOWN_SERVER_ERROR

    def test_sync(self, cluster: Mixed) -> None:
        def error(member_id: str, generation: int, **values: Any) -> ErrorCode:
            return cluster.synced(cluster.sync(member_id, generation, **values)).error

        assert error("?", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert error("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert error(cluster.classic, 7) == ErrorCode.ILLEGAL_GENERATION
        assert error(cluster.classic, 1, protocol="x") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert error(cluster.classic, 1, protocol_type="x") == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert error(cluster.classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS

    def test_heartbeat(self, cluster: Mixed) -> None:
        assert cluster.heartbeat("?", 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert cluster.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
        assert cluster.heartbeat(cluster.classic, 2) == ErrorCode.ILLEGAL_GENERATION

    def test_leave(self, cluster: Mixed) -> None:
        unknown, none = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE
        assert cluster.leave(("?", None), ("new", None), ("x", "y")) == [unknown, none, unknown]
        assert GROUP in cluster.machine._shard.groups
        assert cluster.state().state == "PreparingRebalance"

    def test_too_late_to_join(self, cluster: Mixed) -> None:
        """The rebalance timeout begins with the first heartbeat that asks the member to rebalance."""
        for _ in range(REBALANCE_MS // 5000):
            assert cluster.heartbeat(cluster.classic, 1) == ErrorCode.REBALANCE_IN_PROGRESS
            cluster.pass_time(5000)
            cluster.beat("new", 2)
        assert set(cluster.group.members) == {"new"}

    def test_too_late_to_sync(self, cluster: Mixed) -> None:
        cluster.rejoin()
        for _ in range(REBALANCE_MS // 5000):
            cluster.pass_time(5000)
            cluster.beat("new", 2)
            cluster.heartbeat(cluster.classic, 2)
        assert set(cluster.group.members) == {"new"}

    def test_session_ends(self, cluster: Mixed) -> None:
        cluster.pass_time(SESSION_MS)
        assert set(cluster.group.members) == {"new"}


def test_static_member_changes_protocol() -> None:
    """A classic member replaces the last one of the consumer protocol: the group is classic again, without a
    rebalance."""
    cluster = Cluster()
    cluster.create("t", 4)
    member = cluster.client("1", "t", instance_id="i")
    token = cluster.join(instance_id="i")
    joined = cluster.joined(token)
    assert (joined.error, joined.generation) == (ErrorCode.NONE, member.epoch)
    state = cluster.state()
    assert (state.state, [each.instance_id for each in state.members]) == ("Stable", ["i"])
    synced = cluster.synced(cluster.sync(joined.member_id, joined.generation, instance_id="i"))
    assert numbers(synced.assignment) == [0, 1, 2, 3]
    cluster.restart()
    assert cluster.state() == state
    again = cluster.client("1b", "t", instance_id="i")
    assert (again.epoch, len(again.partitions)) == (member.epoch, 4)
    assert set(cluster.group.members) == {"1b"}


def test_empty_groups_change_freely() -> None:
    cluster = Cluster(consumer_migration_policy="disabled")
    cluster.create("t", 4)
    cluster.client("1", "t").leave()
    member_id, token = cluster.join_new()
    cluster.pass_time(3000)
    assert cluster.joined(token).generation == 1
    assert cluster.leave((member_id, None)) == [ErrorCode.NONE]
    assert cluster.client("1", "t").epoch == 2
    cluster.restart()
    assert cluster.phase == "Stable"


def test_a_classic_member_finds_its_group_empty() -> None:
    """The member got its id from a consumer group whose members have gone since: it must join as a new one."""
    cluster = Cluster()
    cluster.create("t", 4)
    member = cluster.client("1", "t")
    joined = cluster.joined(cluster.join())
    assert joined.error == ErrorCode.MEMBER_ID_REQUIRED
    member.leave()
    again = cluster.joined(cluster.join(joined.member_id))
    assert (again.error, again.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, joined.member_id)
    assert cluster.phase == "Empty"


def test_a_static_member_upgrades_its_own_group_in_a_rebalance() -> None:
    """The member replaces itself, so its assignment is unchanged; but the leader has not assigned anything yet."""
    cluster = Cluster()
    topic = cluster.create("t", 4)
    token = cluster.join(instance_id="i")
    cluster.pass_time(3000)
    assert cluster.joined(token).generation == 1
    member = cluster.client("1", "t", instance_id="i")
    assert (member.epoch, member.owned) == (2, {topic: (0, 1, 2, 3)})
    assert cluster.phase == "Stable"
