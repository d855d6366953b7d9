"""Classic groups: members, the leader, and the begin of generations. The cases follow Kafka's GroupMetadataManagerTest
and the documentation of ConsumerGroup; times are those of the test's clock."""

from __future__ import annotations

import time

import pytest

from kcli.group.classic.group import ClassicGroup, State
from kcli.group.classic.member import Member
from kcli.group.requests import JoinAnswer
from kcli.protocol.error_code import ErrorCode
from tests.group.group_log import GROUP, RANGE, REBALANCE_MS, SESSION_MS, Running

TWO = (("cooperative-sticky", b"\x00\x03a"), ("range", b"\x00\x01b"))


def test_first_member_is_told_its_id_then_leads() -> None:
    running = Running()
    refused = running.joined(running.join())
    assert refused == JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id="client-id1")
    assert (running.state().state, running.state().members) == ("Empty", ())
    token = running.join("client-id1")
    running.pass_time(2999)
    assert token not in running.answers
    assert running.state().state == "PreparingRebalance"
    running.pass_time(1)
    answer = running.joined(token)
    assert (answer.error, answer.generation, answer.leader) == (0, 1, "client-id1")
    assert (answer.protocol_type, answer.protocol) == ("consumer", "range")
    assert [(each.member_id, each.metadata) for each in answer.members] == [("client-id1", RANGE[0][1])]
    assert running.state().state == "CompletingRebalance"
    assert running.synced(running.sync("client-id1", 1, {"client-id1": b"all"})).assignment == b"all"
    described = running.state()
    assert (described.state, described.protocol) == ("Stable", "range")
    assert [(each.metadata, each.assignment) for each in described.members] == [(RANGE[0][1], b"all")]


def test_old_clients_need_no_second_join() -> None:
    running = Running()
    token = running.join(requires_known_member_id=False)
    running.pass_time(3000)
    assert running.joined(token).generation == 1


def test_initial_delay_grows_with_members_up_to_the_rebalance_time_out() -> None:
    running = Running()
    first = running.join(requires_known_member_id=False, rebalance_timeout_ms=8000)
    running.pass_time(2000)
    second = running.join(requires_known_member_id=False, rebalance_timeout_ms=8000)
    running.pass_time(3500)
    assert first not in running.answers
    third = running.join(requires_known_member_id=False, rebalance_timeout_ms=8000)
    running.pass_time(2400)
    assert first not in running.answers
    running.pass_time(100)
    assert {running.joined(token).generation for token in (first, second, third)} == {1}


def test_second_member_rebalances() -> None:
    running = Running()
    (leader,) = running.stable(1)
    second, waits = running.join_new()
    assert waits not in running.answers
    assert running.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = running.join(leader)
    assert running.joined(again).generation == running.joined(waits).generation == 2
    assert {each.member_id for each in running.joined(again).members} == {leader, second}
    assert running.joined(waits).members == ()
    running.assign(leader, [second], 2)
    assert running.heartbeat(leader, 2) == running.heartbeat(second, 2) == ErrorCode.NONE
    assert running.heartbeat(leader, 1) == ErrorCode.ILLEGAL_GENERATION


def test_who_does_not_rejoin_is_out() -> None:
    running = Running()
    leader, follower = running.stable(2, session_timeout_ms=100_000)
    third, waits = running.join_new(session_timeout_ms=100_000)
    again = running.join(follower, session_timeout_ms=100_000)
    running.pass_time(REBALANCE_MS - 1)
    assert waits not in running.answers
    running.pass_time(1)
    assert running.joined(waits).generation == running.joined(again).generation == 2
    assert running.joined(again).leader == running.joined(waits).leader != leader
    assert running.heartbeat(leader, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert third in {each.member_id for each in running.state().members}


def test_session_ends_without_heartbeats() -> None:
    running = Running()
    leader, follower = running.stable(2)
    for _ in range(3):
        running.pass_time(SESSION_MS - 4000)
        assert running.heartbeat(leader, 1) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert running.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert running.joined(running.join(leader)).generation == 2


def test_all_die() -> None:
    running = Running()
    running.stable(2)
    running.pass_time(SESSION_MS + REBALANCE_MS + 1)
    assert running.state().state == "Empty"
    record = running.records()[-1]
    assert record.value is not None
    assert (record.value["generation"], record.value["members"], record.value["leader"]) == (2, [], None)
    assert (record.value["protocolType"], record.value["protocol"]) == ("consumer", None)


def test_pending_member_is_waited_for_as_long_as_its_session() -> None:
    running = Running()
    (leader,) = running.stable(1, session_timeout_ms=50_000)
    _, waits = running.join_new(session_timeout_ms=50_000)
    running.join()
    running.join(leader, session_timeout_ms=50_000)
    assert waits not in running.answers
    running.pass_time(SESSION_MS)
    assert running.joined(waits).generation == 2


def test_leave() -> None:
    running = Running()
    leader, follower = running.stable(2)
    assert running.leave(("nobody", None), (follower, None)) == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert running.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert running.joined(running.join(leader)).generation == 2
    running.assign(leader, [], 2)
    assert running.leave((leader, None)) == [ErrorCode.NONE]
    assert running.state().state == "Empty"
    assert running.leave((leader, None)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_pending_member_leaves() -> None:
    running = Running()
    member_id = running.joined(running.join()).member_id
    assert running.leave((member_id, None)) == [ErrorCode.NONE]
    assert running.joined(running.join(member_id)).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_does_not_assign_is_out() -> None:
    running = Running()
    leader, follower = running.stable(2)
    running.join(follower, protocols=(("range", b"new"),))
    running.join(leader)
    waits = running.sync(follower, 2)
    for _ in range(8):
        running.pass_time(REBALANCE_MS // 8)
        if leader in {each.member_id for each in running.state().members}:
            running.heartbeat(leader, 2)
    assert running.synced(waits).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert running.joined(running.join(follower)).leader == follower


def test_sync_errors() -> None:
    running = Running()
    assert running.synced(running.sync("nobody", 1)).error == ErrorCode.UNKNOWN_MEMBER_ID
    leader, follower = running.stable(2)
    assert running.synced(running.sync("nobody", 1)).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert running.synced(running.sync(leader, 2)).error == ErrorCode.ILLEGAL_GENERATION
    wrong = running.sync(leader, 1, protocol="roundrobin")
    assert running.synced(wrong).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert running.synced(running.sync(follower, 1)).assignment == follower.encode()
    running.join(leader)
    assert running.synced(running.sync(follower, 1)).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_assignments_too_large_are_refused() -> None:
    running = Running(batch_bytes_max=1000)
    member_id, waits = running.join_new()
    running.pass_time(3000)
    assert running.joined(waits).generation == 1
    assert running.synced(running.sync(member_id, 1, {member_id: bytes(1000)})).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert running.state().state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("votes", "chosen"),
    [
        ([("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin", "range")], "roundrobin"),
        ([("cooperative-sticky", "range"), ("range",)], "range"),
        ([("range", "roundrobin"), ("roundrobin", "range")], "range"),  # of equal votes Java's hash map has range first
    ],
)
def test_protocol_that_most_like_of_those_that_all_have(votes: list[tuple[str, ...]], chosen: str) -> None:
    running = Running()
    waiting = [running.join_new(protocols=tuple((name, b"\0\0") for name in each))[1] for each in votes]
    running.pass_time(6000)
    assert {running.joined(token).protocol for token in waiting} == {chosen}


def test_strangers_are_refused() -> None:
    running = Running()
    running.stable(1)
    for values in ({"protocols": (("other", b""),)}, {"protocol_type": "connect"}, {"protocols": ()}):
        assert running.joined(running.join(**values)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert running.joined(running.join("nobody")).error == ErrorCode.UNKNOWN_MEMBER_ID
    other = running.join("nobody", group_id="other")
    assert running.joined(other).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert running.state("other").error == ErrorCode.GROUP_ID_NOT_FOUND
    pending = running.joined(running.join()).member_id
    assert running.joined(running.join(pending, instance_id="i")).error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_empty_protocols_make_no_group_of_members() -> None:
    running = Running()
    assert running.joined(running.join(protocols=())).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert running.state().state == "Empty"
    assert [record.value and record.value["members"] for record in running.records()] == [[]]


def test_group_max_size() -> None:
    running = Running(classic_group_max_size=2)
    running.stable(2)
    assert running.joined(running.join()).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    running.config = Running(classic_group_max_size=1).config
    running.restart()
    assert running.state().state == "PreparingRebalance"
    members = [each.member_id for each in running.state().members]
    kept = running.join(members[1])
    assert running.joined(running.join(members[0])).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    running.pass_time(REBALANCE_MS)
    assert [each.member_id for each in running.joined(kept).members] == [members[1]]


# what cooperative clients do


def test_leader_rejoins_a_stable_group() -> None:
    running = Running()
    leader, follower = running.stable(2, protocols=TWO)
    again = running.join(leader, protocols=TWO)
    assert again not in running.answers
    assert running.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    running.join(follower, protocols=TWO)
    assert running.joined(again).generation == 2


def test_follower_that_says_the_same_is_told_the_generation() -> None:
    running = Running()
    leader, follower = running.stable(2)
    same = running.joined(running.join(follower))
    assert (same.generation, same.leader, same.members) == (1, leader, ())
    changed = running.join(follower, protocols=(("range", b"\0\1other"),))
    assert changed not in running.answers
    running.join(leader)
    assert running.joined(changed).generation == 2


def test_join_again_before_the_assignment() -> None:
    running = Running()
    leader, follower = running.stable(2)
    running.join(leader)
    running.join(follower)
    answer = running.joined(running.join(leader))
    assert (answer.generation, len(answer.members)) == (2, 2)
    assert running.joined(running.join(follower)).members == ()
    waits = running.sync(follower, 2)
    changed = running.join(leader, protocols=(("range", b"\0\1other"),))
    assert running.synced(waits).error == ErrorCode.REBALANCE_IN_PROGRESS
    running.join(follower)
    assert running.joined(changed).generation == 3


# static members


def static(running: Running) -> tuple[str, str]:
    """Make a stable group of two static members, a and b; return their ids."""
    tokens = [running.join(instance_id=name, requires_known_member_id=True) for name in "ab"]
    running.pass_time(6000)
    first, second = (running.joined(token).member_id for token in tokens)
    leader = running.joined(tokens[0]).leader
    other = second if leader == first else first
    waits = running.sync(other, 1)
    running.sync(leader, 1, {first: b"A", second: b"B"})
    assert running.synced(waits).error == ErrorCode.NONE
    return first, second


def test_static_member_restarts_without_a_rebalance() -> None:
    running = Running()
    first, second = static(running)
    assert first.startswith("a-")
    answer = running.joined(running.join(instance_id="b"))
    assert (answer.generation, answer.skip_assignment, answer.leader) == (1, False, first)
    assert answer.member_id not in (first, second)
    assert running.state().state == "Stable"
    assert running.synced(running.sync(answer.member_id, 1, instance_id="b")).assignment == b"B"
    assert running.heartbeat(second, 1, "b") == ErrorCode.FENCED_INSTANCE_ID
    assert running.heartbeat(second, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert running.heartbeat(first, 1, "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    running.restart()
    assert {each.member_id for each in running.state().members} == {first, answer.member_id}


@pytest.mark.parametrize("can_skip", [True, False])
def test_static_leader_restarts(can_skip: bool) -> None:
    running = Running()
    first, _ = static(running)
    answer = running.joined(running.join(instance_id="a", can_skip_assignment=can_skip))
    if can_skip:
        assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 2)
    else:  # a leader that would assign again is not told that it leads
        assert (answer.skip_assignment, answer.leader, answer.members) == (False, first, ())


def test_static_member_restarts_with_other_protocols() -> None:
    running = Running()
    static(running)
    both = (("range", b"\0\0"), ("sticky", b"\0\0"))
    assert running.joined(running.join(instance_id="a", protocols=both)).generation == 1
    waits = running.join(instance_id="b", protocols=(("sticky", b"\0\0"),))
    assert running.joined(waits).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_static_member_fences_one_that_waits() -> None:
    running = Running()
    first = running.join(instance_id="a")
    second = running.join(instance_id="a")
    old = running.joined(first)
    assert (old.error, old.member_id) == (ErrorCode.FENCED_INSTANCE_ID, "a-id1")
    running.pass_time(3000)
    assert running.joined(second).member_id == "a-id2"


def test_static_members_stay_until_their_session_ends() -> None:
    running = Running()
    first, second = static(running)
    running.pass_time(SESSION_MS - 1)
    running.heartbeat(first, 1, "a")
    assert len(running.state().members) == 2
    running.pass_time(1)
    assert [each.member_id for each in running.state().members] == [first]
    assert running.heartbeat(second, 1, "b") == ErrorCode.UNKNOWN_MEMBER_ID


def test_tools_remove_static_members_by_instance() -> None:
    running = Running()
    first, second = static(running)
    assert running.leave(("", "b"), ("", "nobody"), (first, "b")) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [each.member_id for each in running.state().members] == [first]
    assert second != first


# restarts


def test_members_go_on_after_a_restart() -> None:
    running = Running()
    leader, follower = running.stable(2)
    before = running.state()
    running.restart()
    assert running.state() == before
    assert running.heartbeat(leader, 1) == running.heartbeat(follower, 1) == ErrorCode.NONE
    assert running.synced(running.sync(follower, 1)).assignment == follower.encode()
    running.pass_time(SESSION_MS)
    assert running.state().state == "Empty"


def test_half_a_rebalance_is_forgotten() -> None:
    running = Running()
    leader, follower = running.stable(2)
    running.join(leader)
    running.join(follower)
    running.restart()
    assert running.state().state == "Stable"
    assert running.heartbeat(leader, 2) == ErrorCode.ILLEGAL_GENERATION
    assert running.state(GROUP).members != ()


def test_members_of_many_protocols_leave_at_once() -> None:
    """Their protocols are not counted one by one: twenty members of 80,000 protocols held the event loop for 0.5 s."""
    protocols = tuple((f"p{i}", b"") for i in range(20_000))
    group, times_s = ClassicGroup("g", 0), []
    members = [
        Member(
            id=f"m{i}",
            instance_id=None,
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocol_type="consumer",
            protocols=protocols[i:],
        )
        for i in range(20)
    ]
    group.move(State.PREPARING_REBALANCE, 0)
    for each in members:
        began_s = time.thread_time()
        group.add(each)
        times_s.append(time.thread_time() - began_s)
    assert group.candidates() == dict(protocols[19:]).keys()
    began_s = time.thread_time()
    for each in members[1:]:
        group.remove(each.id)
    assert time.thread_time() - began_s < max(times_s)
    assert group.candidates() == dict(protocols).keys()
    assert group.supports("consumer", ["other", "p0"])
    assert not group.supports("consumer", ["other"])
