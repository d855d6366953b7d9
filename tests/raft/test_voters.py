"""Changes of voters: the leader's answers, the records in the log, and the set that counts for elections."""

from __future__ import annotations

import pytest

from formats.control_record import ControlType
from kcli.protocol.error_code import ErrorCode
from kcli.raft.errors import InvalidUpdateVersion, NotLeader
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    ApiVersions,
    ApiVersionsAnswer,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    OffsetAndEpoch,
    RemoveRaftVoter,
    UpdateRaftVoter,
    VoterAnswer,
)
from kcli.raft.states.leader import Leader
from kcli.raft.voters import Endpoint, ReplicaKey, VoterSet
from tests.raft.driver import (
    CLUSTER,
    VOTERS,
    Driven,
    batch,
    begin,
    config,
    directory,
    endpoint,
    fetch,
    in_state,
    key,
    to_leader,
    voters,
)
from tests.raft.memory import with_voters

OTHER = Endpoint("EXTERNAL", "elsewhere", 1)


def java(node_id: int, of: int | None = None) -> str:
    """A replica as Kafka prints it."""
    return f"ReplicaKey(id={node_id}, directoryId={directory(node_id if of is None else of)})"


NO_RANGE = f"Aborted add voter operation for {java(4)} since the kraft.version range "
BOTH = f"[{java(1)}, {java(2)}]"
NAME = "ListenerName(CONTROLLER)"
PRINTED = "Endpoints(endpoints={ListenerName(EXTERNAL)=elsewhere/<unresolved>:1})"
NO_ENDPOINT = f"Add voter request didn't include the endpoint ({PRINTED}) for the default listener {NAME}"
NO_ADDITION = "Add voter request didn't include a valid voter"
NO_REMOVAL = "Remove voter request didn't include a valid voter"
OTHER_CLUSTER = f'The given id "x" doesn\'t match the cluster id "{CLUSTER}"'


def dynamic(*ids: int) -> Driven:
    """Return node 1 as leader of epoch 1 of dynamic voters, with all records before offset 3 committed (before 4:
    voters are in the log)."""
    driven = Driven(config(static=()), with_voters(1, voters(*ids)))
    if ids != (1,):
        to_leader(driven)
        follow(driven)
    return driven


def follow(driven: Driven, *ids: int) -> None:
    """Let the other nodes fetch from the end of the log."""
    for each in ids or driven.raft.voters.ids:
        if each != 1:
            driven.ask(fetch(source=each, epoch=driven.raft.epoch, at=(driven.log.end_offset, driven.raft.epoch)))


def add(node_id: int = 4, **changes: object) -> AddRaftVoter:
    """Make that node a voter."""
    fields = {"voter": key(node_id), "endpoints": (endpoint(node_id),)}
    return AddRaftVoter(**{**fields, **changes})  # type: ignore[arg-type]


def said(driven: Driven, token: int) -> tuple[ErrorCode, str | None]:
    """The answer."""
    answer = driven.answers[token]
    assert isinstance(answer, VoterAnswer)
    return answer.top_error, answer.message


def last_control(driven: Driven) -> tuple[int, ControlType, VoterSet | None]:
    """Return the last control record in the log, and the present voters."""
    offset, record = list(driven.log.controls(0))[-1]
    return offset, record.type, driven.raft.voters


def test_a_voter_is_added() -> None:
    driven = dynamic(1, 2, 3)
    follow(driven, 4)
    token = driven.ask(add())
    assert driven.raft.voters == voters(1, 2, 3)
    sent = driven.reply(ApiVersionsAnswer(kraft_versions=(0, 1)), kind=ApiVersions)
    assert sent.to == (4, "host4", 9093)
    assert last_control(driven) == (3, ControlType.KRAFT_VOTERS, voters(1, 2, 3, 4))
    assert token not in driven.answers
    follow(driven, 2)
    assert (token in driven.answers, driven.raft.committed_offset) == (False, 3)
    follow(driven, 4)
    assert said(driven, token) == (ErrorCode.NONE, None)
    assert driven.raft.committed_offset == 4


def test_an_addition_is_answered_before_it_is_committed() -> None:
    driven = dynamic(1, 2, 3)
    follow(driven, 4)
    token = driven.ask(add(ack_when_committed=False))
    driven.reply(ApiVersionsAnswer(kraft_versions=(0, 1)), kind=ApiVersions)
    assert said(driven, token) == (ErrorCode.NONE, None)
    again = driven.ask(add(5))
    wait = "Request timed out waiting for leader to handle previous voter change request"
    assert said(driven, again) == (ErrorCode.REQUEST_TIMED_OUT, wait)
    driven.answers.clear()
    follow(driven, 2, 4)
    assert token not in driven.answers


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            ApiVersionsAnswer(kraft_versions=(0, 0)),
            ErrorCode.INVALID_REQUEST,
            NO_RANGE + "(min: 0, max: 0 doesn't support the finalized version 1",
        ),
        (
            ApiVersionsAnswer(),
            ErrorCode.INVALID_REQUEST,
            NO_RANGE + "(min: 0, max: 0) doesn't support the finalized version 1",
        ),
        (
            ApiVersionsAnswer(top_error=ErrorCode.UNSUPPORTED_VERSION),
            ErrorCode.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error UNSUPPORTED_VERSION",
        ),
        (
            None,
            ErrorCode.REQUEST_TIMED_OUT,
            "Aborted add voter operation for since API_VERSIONS returned an error BROKER_NOT_AVAILABLE",
        ),
        (
            ApiVersionsAnswer(kraft_versions=(0, 1)),
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {java(4)} since it is lagging behind",
        ),
    ],
)
def test_a_voter_that_cannot_be_added(answer: ApiVersionsAnswer | None, error: ErrorCode, message: str) -> None:
    driven = dynamic(1, 2, 3)
    token = driven.ask(add())
    driven.reply(answer, kind=ApiVersions)
    assert said(driven, token) == (error, message)
    assert driven.raft.voters == voters(1, 2, 3)


def test_nobody_says_what_the_new_voter_can_do() -> None:
    driven = dynamic(1, 2, 3)
    token = driven.ask(add())
    driven.wait(1000)
    follow(driven)
    driven.wait(999)
    assert token not in driven.answers
    driven.wait(1)
    assert said(driven, token) == (ErrorCode.REQUEST_TIMED_OUT, None)


@pytest.mark.parametrize(
    ("request_", "error", "message"),
    [
        (add(4, cluster_id="x"), ErrorCode.INCONSISTENT_CLUSTER_ID, OTHER_CLUSTER),
        (add(voter=ReplicaKey(4)), ErrorCode.INVALID_REQUEST, NO_ADDITION),
        (add(-1), ErrorCode.INVALID_REQUEST, NO_ADDITION),
        (add(endpoints=(OTHER,)), ErrorCode.INVALID_REQUEST, NO_ENDPOINT),
        (
            add(voter=ReplicaKey(2, directory(9))),
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {java(2, of=9)} is already part of the set of voters {BOTH}.",
        ),
        (RemoveRaftVoter(voter=ReplicaKey(2)), ErrorCode.INVALID_REQUEST, NO_REMOVAL),
        (
            RemoveRaftVoter(voter=key(3)),
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {java(3)} from the set of voters {BOTH}",
        ),
    ],
)
def test_a_change_that_is_refused(request_: AddRaftVoter | RemoveRaftVoter, error: ErrorCode, message: str) -> None:
    driven = dynamic(1, 2)
    token = driven.ask(request_)
    assert said(driven, token) == (error, message)
    assert not any(isinstance(each.request, ApiVersions) for each in driven.sent)


def test_changes_with_static_voters_and_without_leading() -> None:
    leader = in_state("leader")
    leader.ask(fetch())
    message = "Cluster doesn't support adding voter because the kraft.version feature is 0"
    assert said(leader, leader.ask(add())) == (ErrorCode.UNSUPPORTED_VERSION, message)
    message = "Cluster doesn't support removing voter because the kraft.version feature is 0"
    assert said(leader, leader.ask(RemoveRaftVoter(voter=key(2)))) == (ErrorCode.UNSUPPORTED_VERSION, message)
    follower = in_state("follower of 2")
    assert said(follower, follower.ask(add())) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_changes_wait_for_what_was_before() -> None:
    driven = Driven(config(static=()), with_voters(1, voters(1, 2, 3)))
    to_leader(driven)
    message = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
    assert said(driven, driven.ask(add())) == (ErrorCode.REQUEST_TIMED_OUT, message)
    follow(driven)
    token = driven.ask(RemoveRaftVoter(voter=key(3)))
    driven.wait(2000)
    assert said(driven, token) == (ErrorCode.REQUEST_TIMED_OUT, None)
    message = "Request timed out waiting for voters to commit the latest voter change at Optional[3] with HWM 3"
    assert said(driven, driven.ask(add())) == (ErrorCode.REQUEST_TIMED_OUT, message)
    follow(driven)
    assert driven.raft.voters == voters(1, 2)


def test_a_leader_that_is_removed_resigns_when_that_is_committed() -> None:
    driven = dynamic(1, 2, 3)
    token = driven.ask(RemoveRaftVoter(voter=key(1)))
    assert (driven.state, driven.raft.is_voter) == ("Leader", False)
    follow(driven, 2)
    assert (driven.state, token in driven.answers) == ("Leader", False)
    follow(driven, 3)
    assert (driven.state, said(driven, token)) == ("Resigned", (ErrorCode.NONE, None))
    assert sorted(each.to.id for each in driven.sent if isinstance(each.request, EndQuorumEpoch)) == [2, 3]
    driven.wait(2000)
    assert driven.state == "Unattached"
    driven.wait(60_000)
    assert driven.state == "Unattached"


def test_a_change_is_answered_by_who_does_not_lead_any_more() -> None:
    driven = dynamic(1, 2, 3)
    token = driven.ask(RemoveRaftVoter(voter=key(3)))
    driven.ask(begin(epoch=9))
    assert said(driven, token) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def test_voters_that_were_not_committed_are_truncated_with_the_log() -> None:
    driven = dynamic(1, 2, 3)
    driven.ask(RemoveRaftVoter(voter=key(3)))
    assert driven.raft.voters == voters(1, 2)
    driven.ask(begin(epoch=9))
    driven.reply(FetchAnswer(leader_id=2, epoch=9, diverging=OffsetAndEpoch(3, 1)), kind=Fetch)
    assert (driven.raft.voters, driven.log.end_offset) == (voters(1, 2, 3), 3)


@pytest.mark.parametrize(
    ("source", "epoch", "then"),
    [(3, 9, "Unattached"), (3, 1, "Leader"), (2, 9, "Leader"), (4, 9, "Leader"), (3, 2**31 - 1, "Leader")],
    ids=["observer", "observer of this epoch", "voter", "unknown node", "epoch out of reach"],
)
def test_a_leader_resigns_so_that_an_observer_of_a_higher_epoch_can_follow(source: int, epoch: int, then: str) -> None:
    """A removed voter in a higher epoch, because of a Vote, would fetch from this leader in vain. The leader gives it
    the time of a fetch timeout, as Kafka's leader goes on."""
    driven = dynamic(1, 2, 3)
    driven.ask(RemoveRaftVoter(voter=key(3)))
    for waited_ms, state in ((0, "Leader"), (1000, "Leader"), (1000, then)):
        driven.wait(waited_ms)
        driven.ask(fetch(source=2, epoch=1, at=(driven.log.end_offset, 1)))  # else the leader has no majority
        answer = driven.answer_to(fetch(source=source, epoch=epoch, at=(driven.log.end_offset, 1)))
        expected = ErrorCode.NONE if epoch == 1 else ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (answer.error, answer.leader_id, answer.epoch, driven.state) == (expected, 1, 1, state)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({}, ErrorCode.NONE),
        ({"epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"voter": ReplicaKey(2)}, ErrorCode.INVALID_REQUEST),
        ({"voter": key(4)}, ErrorCode.VOTER_NOT_FOUND),
        ({"voter": ReplicaKey(2, directory(9))}, ErrorCode.VOTER_NOT_FOUND),
        ({"endpoints": (OTHER,)}, ErrorCode.INVALID_REQUEST),
        ({"min_version": -1}, ErrorCode.INVALID_REQUEST),
        ({"min_version": 2}, ErrorCode.INVALID_REQUEST),
        ({"max_version": 0}, ErrorCode.INVALID_REQUEST),
        ({"cluster_id": "x"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ],
)
def test_update(request_: dict[str, object], error: ErrorCode) -> None:
    driven = dynamic(1, 2, 3)
    fields = {"epoch": 1, "voter": key(2), "endpoints": (endpoint(2), OTHER), "min_version": 0, "max_version": 1}
    answer = driven.answer_to(UpdateRaftVoter(**{**fields, **request_}))  # type: ignore[arg-type]
    assert (answer.error, answer.leader_id, answer.epoch) == (error, 1, 1)
    assert (driven.raft.voters.endpoints(2) == (endpoint(2), OTHER)) == (error is ErrorCode.NONE)


def test_a_voter_tells_what_is_new_of_it() -> None:
    """A voter compares its endpoints with the leader's set at every fetch timeout; with kraft.version 0, once with each
    leader."""
    moved = config(2, static=(), endpoints=(endpoint(9),))
    driven = Driven(moved, with_voters(1, voters(1, 2, 3)))
    driven.ask(begin(source=1, epoch=1, voter=None))
    driven.wait(1990)
    driven.reply(FetchAnswer(leader_id=1, epoch=1), kind=Fetch)
    driven.wait(10)
    driven.reply(FetchAnswer(leader_id=1, epoch=1), kind=Fetch)
    assert driven.kinds()[-1] == "UpdateRaftVoter 1"
    static = in_state("fetched from 2")
    static.wait(1990)
    static.reply(FetchAnswer(leader_id=2, epoch=5), kind=Fetch)
    static.wait(10)
    static.reply(FetchAnswer(leader_id=2, epoch=5), kind=Fetch)
    sent = static.reply(Answer(leader_id=2, epoch=5), kind=UpdateRaftVoter)
    assert isinstance(sent.request, UpdateRaftVoter)
    assert (sent.request.voter, sent.request.min_version, sent.request.max_version) == (key(1), 0, 1)
    static.wait(1900)
    assert static.kinds() == ["Fetch 2"]


def test_joining_by_itself() -> None:
    driven = Driven(config(4, static=(), auto_join_enable=True), with_voters(1, voters(1, 2, 3)))
    driven.ask(begin(source=1, epoch=1, voter=None))
    driven.wait(2000)
    driven.reply(FetchAnswer(leader_id=1, epoch=1), kind=Fetch)
    sent = driven.reply(VoterAnswer(top_error=ErrorCode.REQUEST_TIMED_OUT), kind=AddRaftVoter)
    assert isinstance(sent.request, AddRaftVoter)
    assert (sent.request.voter, sent.request.ack_when_committed) == (key(4), False)
    assert driven.kinds()[-1] == "Fetch 1"


def test_the_own_voter_of_another_directory_is_removed_first() -> None:
    driven = Driven(
        config(3, static=(), auto_join_enable=True, directory_id=directory(9)), with_voters(1, voters(*VOTERS))
    )
    driven.ask(begin(source=1, epoch=1, voter=None))
    driven.wait(2000)
    driven.reply(FetchAnswer(leader_id=1, epoch=1), kind=Fetch)
    sent = driven.reply(VoterAnswer(), kind=RemoveRaftVoter)
    assert isinstance(sent.request, RemoveRaftVoter)
    assert sent.request.voter == key(3)


def test_the_upgrade_to_kraft_version_1() -> None:
    driven = in_state("leader")
    with pytest.raises(InvalidUpdateVersion, match="because not all of the voters support it"):
        driven.raft.upgrade_kraft_version(6, 1, driven.now_ms)
    follow(driven, 2, 3)
    for each in (2, 3):
        request = UpdateRaftVoter(epoch=6, voter=key(each), endpoints=(endpoint(each),), min_version=0, max_version=1)
        assert driven.answer_to(request).error is ErrorCode.NONE
    assert driven.raft.kraft_version == 0
    driven.take(driven.raft.upgrade_kraft_version(6, 1, driven.now_ms, validate_only=True))
    assert driven.raft.kraft_version == 0
    driven.take(driven.raft.upgrade_kraft_version(6, 1, driven.now_ms))
    kinds = [each.type for _, each in driven.log.controls(11)]
    assert kinds == [ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    assert (driven.raft.kraft_version, driven.raft.voters) == (1, voters(1, 2, 3))
    driven.take(driven.raft.upgrade_kraft_version(6, 1, driven.now_ms))
    with pytest.raises(InvalidUpdateVersion, match="concurrent"):
        driven.raft.upgrade_kraft_version(6, 0, driven.now_ms)
    with pytest.raises(NotLeader):
        driven.raft.upgrade_kraft_version(5, 1, driven.now_ms)


def test_no_downgrade_and_no_update_while_another_change_is_under_way() -> None:
    driven = dynamic(1, 2, 3)
    with pytest.raises(InvalidUpdateVersion, match="downgrade"):
        driven.raft.upgrade_kraft_version(1, 0, driven.now_ms)
    with pytest.raises(InvalidUpdateVersion, match="from version 1 to 2"):
        driven.raft.upgrade_kraft_version(1, 2, driven.now_ms)
    driven.ask(RemoveRaftVoter(voter=key(3)))
    request = UpdateRaftVoter(epoch=1, voter=key(2), endpoints=(endpoint(2),), min_version=0, max_version=1)
    assert driven.answer_to(request).error is ErrorCode.REQUEST_TIMED_OUT


def test_a_late_answer_of_the_new_voter_does_nothing() -> None:
    driven = dynamic(1, 2, 3)
    follow(driven, 4)
    token = driven.ask(add())
    driven.ask(begin(epoch=9))
    driven.reply(ApiVersionsAnswer(kraft_versions=(0, 1)), kind=ApiVersions)
    assert said(driven, token)[0] is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert driven.raft.voters == voters(1, 2, 3)


def test_old_voters_are_forgotten_with_a_snapshot() -> None:
    driven = dynamic(1, 2, 3)
    driven.ask(RemoveRaftVoter(voter=key(3)))
    follow(driven)
    assert len(driven.raft.controls.voter_history.entries) == 3
    driven.raft.snapshot_written(OffsetAndEpoch(4, 1))
    assert driven.raft.controls.voter_history.entries == [(3, voters(1, 2))]
    assert driven.raft.controls.version_history.entries == [(1, 1)]


def test_an_observer_is_forgotten() -> None:
    driven = dynamic(1)
    follow(driven, 4)
    assert isinstance(driven.raft.state, Leader)
    driven.wait(299_999)
    driven.raft.state.forget_observers(driven.now_ms)
    assert key(4) in driven.raft.state.observers
    driven.raft.state.forget_observers(driven.now_ms + 1)
    assert key(4) not in driven.raft.state.observers


def test_a_snapshot_tells_of_the_voters_then() -> None:
    driven = dynamic(1)
    driven.take(driven.raft.append([batch(2)], driven.now_ms))
    assert [each[0] for each in driven.raft.controls.snapshot_header(driven.log.end_offset)] == [
        b"\x00\x00\x00\x05",
        b"\x00\x00\x00\x06",
    ]
    assert Driven(config(static=(1,)), with_voters(0, voters())).raft.controls.snapshot_header(1) == []
