"""Groups so large that a change of them is too much for one batch: it is refused, and they stay as they are.

As Kafka has it: records of one request go together (CoordinatorResult is atomic), MESSAGE_TOO_LARGE is told to clients
as UNKNOWN_SERVER_ERROR, and time-outs are tried again after 500 ms (CoordinatorTimerImpl).
"""

from __future__ import annotations

from kcli.group.requests import LeaveAnswer, LeaveGroup, Leaver
from kcli.protocol.error_code import ErrorCode
from tests.group.consumer.fixture import Cluster
from tests.group.consumer.test_protocols import Mixed
from tests.group.group_log import GROUP, RANGE, SESSION_MS, Running

ENOUGH, LITTLE = 1_048_588, 700


def limit(running: Running, batch_bytes_max: int) -> None:
    """Limit the size of a batch from now on."""
    running.machine._shard.config = type(running.config)(batch_bytes_max=batch_bytes_max)


def grow(cluster: Mixed, members: int) -> list[str]:
    """Add that many classic members, all of them stable."""
    more = [cluster.join_new()[0] for _ in range(members)]
    cluster.pass_time(0)
    return more


def test_all_leave_at_once() -> None:
    """Three tombstones for each member do not fit: no member leaves. A part of the members can leave."""
    cluster = Cluster()
    cluster.create("t", 4)
    members = [f"member-{number:032}" for number in range(150)]
    for each in members:
        assert not cluster.enter(each, "t").error
    written = len(cluster.log)

    def leave(leaving: list[str]) -> LeaveAnswer:
        leavers = tuple(Leaver(member_id=each, instance_id=None) for each in leaving)
        answer: LeaveAnswer = cluster.ask(LeaveGroup(group_id=GROUP, members=leavers))
        return answer

    limit(cluster, 20_000)
    assert leave(members) == LeaveAnswer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert (len(cluster.group.members), len(cluster.log)) == (150, written)
    assert [each.error for each in leave(members[:50]).members] == [ErrorCode.NONE] * 50
    assert len(cluster.group.members) == 100
    # whoever is too late goes alone
    cluster.pass_time(cluster.topics.group.session_timeout_ms)
    assert cluster.phase == "Empty"


def test_a_downgrade_waits_until_it_fits() -> None:
    """The last member of the consumer protocol leaves or expires; it stays until the records of the downgrade fit."""
    cluster = Mixed()
    member = cluster.client("new", "t")
    grow(cluster, 5)
    written = len(cluster.log)
    limit(cluster, LITTLE)
    assert member.leave().error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (len(cluster.log), set(cluster.group.members) > {"new", cluster.classic}) == (written, True)
    assert member.beat().epoch == cluster.group.members["new"].epoch, "as if it had not asked"
    limit(cluster, ENOUGH)
    assert not member.leave().error
    assert cluster.state().state == "PreparingRebalance"


def test_a_session_that_ends_is_tried_again() -> None:
    cluster = Mixed()
    cluster.client("new", "t")
    written = len(cluster.log)
    limit(cluster, 300)
    session_ms = cluster.topics.group.session_timeout_ms
    for _ in range(session_ms // 3_000):
        cluster.pass_time(3_000)
        cluster.heartbeat(cluster.classic, 1)
    cluster.pass_time(session_ms % 3_000)
    assert (len(cluster.log), set(cluster.group.members)) == (written, {"new", cluster.classic})
    limit(cluster, ENOUGH)
    cluster.pass_time(500)
    assert [each.member_id for each in cluster.state().members] == [cluster.classic]


def test_a_static_member_is_not_replaced_by_the_last_classic_one() -> None:
    cluster = Mixed()
    member = cluster.client("new", "t", instance_id="i")
    written, epoch = len(cluster.log), member.epoch
    limit(cluster, 300)
    answer = cluster.joined(cluster.join(instance_id="i"))
    assert (answer.error, len(cluster.log)) == (ErrorCode.UNKNOWN_SERVER_ERROR, written)
    assert cluster.group.members["new"].epoch == epoch
    limit(cluster, ENOUGH)
    assert not cluster.joined(cluster.join(instance_id="i")).error
    assert cluster.state().state in ("Stable", "PreparingRebalance")


def test_an_upgrade_that_does_not_fit_changes_nothing() -> None:
    """The group stays classic: a JoinGroup that waits for the rebalance is still answered, and sessions of members
    still expire."""
    cluster = Mixed()
    other, token = cluster.join_new()
    limit(cluster, 300)
    assert cluster.enter("new", "t").error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (cluster.state().state, token in cluster.answers) == ("PreparingRebalance", False)
    limit(cluster, ENOUGH)
    again = cluster.join(cluster.classic)
    assert {cluster.joined(each).generation for each in (token, again)} == {2}
    cluster.pass_time(SESSION_MS)
    assert not {other, cluster.classic} & {each.member_id for each in cluster.state().members}


def test_a_static_member_of_a_classic_group_stays_what_it_was() -> None:
    """A JoinGroup whose subscription makes the group's record too large leaves the static member as it was."""
    running = Running()
    token = running.join(instance_id="i")
    running.pass_time(3_000)
    first = running.joined(token)
    assert running.synced(running.sync(first.member_id, 1, {first.member_id: b"all"}, instance_id="i")).assignment
    limit(running, 400)
    large = (("range", RANGE[0][1] + bytes(1_000)),)
    refused = running.joined(running.join(instance_id="i", protocols=large))
    assert (refused.error, refused.member_id, refused.generation) == (ErrorCode.UNKNOWN_SERVER_ERROR, "", 1)
    assert running.heartbeat(first.member_id, 1, "i") == ErrorCode.NONE
    assert [each.member_id for each in running.state().members] == [first.member_id]
    taken = running.joined(running.join(instance_id="i"))
    assert (taken.error, taken.generation) == (ErrorCode.NONE, 1)
    assert running.heartbeat(first.member_id, 1, "i") == ErrorCode.FENCED_INSTANCE_ID
    running.restart()
    assert [each.member_id for each in running.state().members] == [taken.member_id]
