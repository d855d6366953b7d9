"""Elections and the end of epochs: a node's reactions to time and to answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from formats.control_record import ControlType
from formats.quorum_state import QuorumState, build, parse
from kcli.protocol.error_code import ErrorCode
from kcli.raft import controls
from kcli.raft.errors import NoEpochLeft, NotLeader, RaftFault
from kcli.raft.messages import Answer, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchAnswer, Request, Vote, VoteAnswer
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader
from kcli.raft.states.resigned import Resigned
from kcli.raft.voters import Endpoint, Endpoints
from tests.raft.driver import (
    EPOCH,
    NOW,
    Driven,
    batch,
    begin,
    config,
    directory,
    disk_with,
    end,
    endpoint,
    fetch,
    in_state,
    quorum_state,
    to_candidate,
    to_leader,
    vote,
    voters,
)
from tests.raft.memory import Disk, with_voters


def saved(driven: Driven) -> QuorumState:
    """What is in quorum-state."""
    assert driven.disk.state is not None
    return parse(driven.disk.state)


def test_a_sole_voter_leads_at_once() -> None:
    driven = Driven(config(static=(1,)), Disk())
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id, driven.now_ms) == ("Leader", 1, 1, NOW)
    assert driven.raft.committed_offset == driven.raft.high_watermark == 1
    assert driven.raft.deadline_ms() is None
    assert saved(driven) == QuorumState(0, 1, 1, -1, cluster_id="", applied_offset=0, current_voters=(1,))
    [(offset, record)] = driven.log.controls(0)
    assert (offset, record.type) == (0, ControlType.LEADER_CHANGE)
    assert record.value == {
        "version": 0,
        "leaderId": 1,
        "voters": [{"voterId": 1}],
        "grantingVoters": [{"voterId": 1}],
    }


def test_a_sole_dynamic_voter_writes_the_voters_once() -> None:
    disk = with_voters(1, voters(1))
    driven = Driven(config(static=()), disk)
    kinds = [each.type for _, each in driven.log.controls(0)]
    assert kinds == [ControlType.LEADER_CHANGE, ControlType.KRAFT_VERSION, ControlType.KRAFT_VOTERS]
    assert driven.raft.voters == voters(1)
    assert saved(driven) == QuorumState(1, 1, 1, -1, "A" * 22)
    again = Driven(config(static=()), disk)
    assert [each.type for _, each in again.log.controls(3)] == [ControlType.LEADER_CHANGE]
    assert (again.raft.epoch, again.raft.committed_offset) == (2, 4)


@pytest.mark.parametrize(
    ("state", "then", "epoch", "leader"),
    [
        (None, "Unattached", 4, None),
        (quorum_state(epoch=3, leader=2), "Unattached", 4, None),
        (quorum_state(), "Unattached", 5, None),
        (quorum_state(voted=2), "Unattached", 5, None),
        (quorum_state(voted=1), "Candidate", 5, None),
        (quorum_state(voted=1, leader=2), "Follower", 5, 2),
        (quorum_state(voted=1, epoch=4), "Unattached", 4, None),
        (quorum_state(leader=2), "Follower", 5, 2),
        (quorum_state(leader=2, voted=3), "Follower", 5, 2),
        (quorum_state(leader=1), "Resigned", 5, 1),
        (quorum_state(leader=9), "Unattached", 5, 9),
    ],
)
def test_what_a_start_takes_up(state: QuorumState | None, then: str, epoch: int, leader: int | None) -> None:
    driven = Driven(config(), disk_with(state=state))
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id) == (then, epoch, leader)
    assert saved(driven).leader_epoch == epoch


def test_an_election() -> None:
    driven = in_state("unattached")
    driven.wait(999)
    assert driven.state == "Unattached"
    driven.wait(1001)
    assert driven.state == "Prospective"
    votes = [each.request for each in driven.sent if isinstance(each.request, Vote)]
    assert [(each.pre_vote, each.epoch, each.last) for each in votes] == [(True, 5, (10, 4))] * 2
    assert saved(driven).voted_id == -1
    driven.reply(VoteAnswer(epoch=5, granted=True), kind=Vote, source=3)
    assert (driven.state, driven.raft.epoch) == ("Candidate", 6)
    assert (saved(driven).voted_id, saved(driven).leader_epoch) == (1, 6)
    votes = [each.request for each in driven.sent if isinstance(each.request, Vote)]
    assert [(each.pre_vote, each.epoch) for each in votes][-2:] == [(False, 6)] * 2
    driven.reply(VoteAnswer(epoch=6, granted=True), kind=Vote, source=2)
    assert (driven.state, driven.raft.epoch_start_offset) == ("Leader", 10)
    assert (saved(driven).leader_id, saved(driven).voted_id) == (1, -1)
    begun = [each.request for each in driven.sent if isinstance(each.request, BeginQuorumEpoch)]
    assert [(each.leader_id, each.epoch, each.voter) for each in begun] == [(1, 6, (2, None)), (1, 6, (3, None))]
    [(_, change)] = controls.in_records(driven.log.read(10, 1000))
    assert change.value["grantingVoters"] == [{"voterId": 1}, {"voterId": 2}]
    assert driven.raft.high_watermark is None


def test_late_votes_do_nothing() -> None:
    driven = in_state("unattached")
    driven.wait(2001)
    first = [each for each in driven.sent if isinstance(each.request, Vote)]
    driven.reply(VoteAnswer(epoch=5, granted=True), kind=Vote, source=2)
    assert driven.state == "Candidate"
    driven.take(driven.raft.answered(first[1], VoteAnswer(epoch=5, granted=True), driven.now_ms))
    assert driven.state == "Candidate"


def test_a_lost_election() -> None:
    driven = in_state("prospective")
    driven.reply(VoteAnswer(epoch=5), kind=Vote, source=2)
    assert driven.state == "Prospective"
    driven.reply(VoteAnswer(epoch=5), kind=Vote, source=3)
    assert driven.state == "Unattached"
    driven = in_state("prospective after 2")
    driven.reply(VoteAnswer(epoch=5, leader_id=2), kind=Vote, source=2)
    driven.reply(VoteAnswer(epoch=5, leader_id=2), kind=Vote, source=3)
    assert (driven.state, driven.raft.leader_id) == ("Follower", 2)
    driven = in_state("candidate")
    driven.reply(VoteAnswer(epoch=6), kind=Vote, source=2)
    driven.reply(VoteAnswer(epoch=6), kind=Vote, source=3)
    assert driven.state == "Candidate"
    driven.wait(2000)
    assert (driven.state, driven.raft.epoch) == ("Prospective", 6)


def test_a_voter_that_does_not_know_of_pre_vote() -> None:
    driven = in_state("prospective")
    driven.reply(VoteAnswer(top_error=ErrorCode.UNSUPPORTED_VERSION), kind=Vote, source=3)
    assert (driven.state, driven.raft.epoch) == ("Candidate", 6)


def test_nobody_answers() -> None:
    driven = in_state("prospective")
    driven.wait(2000)
    assert (driven.state, driven.raft.epoch) == ("Prospective", 5)
    driven = in_state("prospective after 2")
    driven.wait(1999)
    driven.wait(1)
    assert driven.raft.leader_id == 2


@pytest.mark.parametrize("state", ["prospective", "candidate"])
def test_an_election_goes_on_while_shutting_down(state: str) -> None:
    driven = in_state(state)
    driven.take(driven.raft.shutdown(driven.now_ms, 5000))
    driven.reply(None, kind=Vote, source=3)
    driven.wait(20)
    assert "Vote 3" in driven.kinds()
    driven.wait(4000)
    assert (driven.state.lower(), driven.raft.is_shut_down) == (state, False)
    driven.ask(begin(epoch=7))
    assert driven.raft.is_shut_down


@pytest.mark.parametrize("state", ["unattached", "follower of 2", "resigned", "candidate"])
def test_only_the_leader_appends(state: str) -> None:
    driven = in_state(state)
    with pytest.raises(NotLeader):
        driven.raft.append([batch()], driven.now_ms)
    assert driven.log.end_offset == 10


def test_votes_are_asked_for_again_after_a_while() -> None:
    driven = in_state("prospective")
    asked = len(driven.sent)
    driven.reply(None, kind=Vote, source=2)
    assert len(driven.sent) == asked - 1
    driven.wait(19)
    assert len(driven.sent) == asked - 1
    driven.wait(1)
    assert len(driven.sent) == asked


@pytest.mark.parametrize(
    ("answer", "then", "epoch", "leader"),
    [
        (VoteAnswer(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=7), "Unattached", 7, None),
        (VoteAnswer(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=7, leader_id=3), "Follower", 7, 3),
        (VoteAnswer(epoch=6, leader_id=3), "Follower", 6, 3),
        (VoteAnswer(epoch=5, granted=True), "Candidate", 6, None),
        (VoteAnswer(error=ErrorCode.INVALID_VOTER_KEY, epoch=6), "Candidate", 6, None),
        (VoteAnswer(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID), "Candidate", 6, None),
    ],
)
def test_what_an_answer_tells(answer: VoteAnswer, then: str, epoch: int, leader: int | None) -> None:
    driven = in_state("candidate")
    driven.reply(answer, kind=Vote, source=2)
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id) == (then, epoch, leader)


def test_faults() -> None:
    with pytest.raises(RaftFault, match="calls a request of this one invalid"):
        in_state("candidate").reply(VoteAnswer(error=ErrorCode.INVALID_REQUEST, epoch=6), kind=Vote)
    with pytest.raises(RaftFault, match="CLUSTER_AUTHORIZATION_FAILED"):
        in_state("candidate").reply(VoteAnswer(top_error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), kind=Vote)


@pytest.mark.parametrize(
    ("state", "request_", "leader", "doubt"),
    [
        ("fetched from 2", begin(source=3), 2, "node 3 is said to lead epoch 5, which node 2 leads"),
        ("leader", begin(epoch=6), 1, "node 2 is said to lead epoch 6, which node 1 leads"),
        ("leader", end(epoch=6), 1, "node 2 is said to lead epoch 6, which node 1 leads"),
        ("resigned", begin(), 1, "node 2 is said to lead epoch 5, which node 1 leads"),
        ("unattached", begin(source=1), None, "node 1, which this one is, is said to lead epoch 5"),
        ("candidate", end(source=1, epoch=6), None, "node 1, which this one is, is said to lead epoch 6"),
        ("follower of 2", vote(source=1, epoch=5), 2, "node 1, which this one is, asks for its vote"),
    ],
)
def test_a_contradiction_is_passed_over(state: str, request_: Request, leader: int | None, doubt: str) -> None:
    """Any client can send it: it stops no node and changes nothing."""
    driven = in_state(state)
    before = driven.state, saved(driven)
    driven.ask(request_)
    assert (driven.state, saved(driven)) == before
    assert driven.raft.leader_id == leader
    assert driven.doubts[-1].startswith(doubt)


def test_who_leads_is_open_until_a_fetch_is_answered() -> None:
    driven = in_state("follower of 2")
    driven.ask(begin(source=3))
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id) == ("Follower", EPOCH, 3)
    driven.ask(begin(source=3, endpoints=(Endpoint("CONTROLLER", "elsewhere", 1),)))
    driven.ask(begin(source=3))
    driven.reply(FetchAnswer(leader_id=3, epoch=EPOCH, high_watermark=10), kind=Fetch)
    driven.ask(begin(source=3, endpoints=(Endpoint("CONTROLLER", "elsewhere", 1), Endpoint("OTHER", "elsewhere", 2))))
    assert driven.raft.leader_endpoints == (endpoint(3),)


@pytest.mark.parametrize("told", [(), (endpoint(2),)])
def test_who_answers_a_fetch_leads(told: Endpoints) -> None:
    """BeginQuorumEpoch names a wrong leader. The node then sends Fetch to any node, and the leader answers."""
    driven = in_state("follower of 2")
    driven.sent.clear()
    driven.ask(begin(source=3))
    assert driven.raft.leader_id == 3
    while driven.raft.leader_id == 3:
        while not driven.sent:
            driven.wait(10)
        answer = FetchAnswer(leader_id=2, epoch=EPOCH, endpoints=told, high_watermark=10)
        driven.reply(answer if driven.sent[-1].to.host == "host2" else None, kind=Fetch)
    assert (driven.raft.leader_id, driven.raft.leader_endpoints) == (2, (endpoint(2),))
    assert saved(driven).leader_id == 2


def test_a_leader_that_is_elsewhere_tells_where_it_is() -> None:
    """BeginQuorumEpoch, to all who do not fetch."""
    driven = in_state("follower of 2")
    driven.ask(begin(endpoints=(Endpoint("CONTROLLER", "elsewhere", 1),)))
    assert driven.sent[-1].to.host == "elsewhere"
    driven.ask(begin())
    assert driven.sent[-1].to.host == "host2"


def test_words_alone_do_not_put_an_election_off() -> None:
    driven = in_state("follower of 2")
    for i in range(40):
        driven.ask(begin(source=2 + i % 2))
        driven.wait(50)
    assert driven.state == "Prospective"


def test_it_is_said_to_lead_an_epoch_of_which_it_knows_nothing() -> None:
    """The claim may be true, and the quorum-state lost: the node votes for no candidate in that epoch, and stands for
    election in the next one."""
    driven = in_state("leader")
    driven.ask(begin(source=1, epoch=8))
    assert (driven.state, driven.raft.epoch) == ("Unattached", 8)
    answer = driven.answer_to(vote(epoch=8, last=(30, 7)))
    assert isinstance(answer, VoteAnswer)
    assert not answer.granted
    assert saved(driven).leader_id == 1
    to_candidate(driven)
    assert driven.raft.epoch == 9


LAST = (1 << 31) - 1
REACH = LAST - EPOCH >> 10


@pytest.mark.parametrize("state", ["unattached", "prospective", "candidate", "follower of 2", "leader", "resigned"])
@pytest.mark.parametrize("epoch", [LAST, LAST - 1, 1 << 30, EPOCH + REACH + 2])
@pytest.mark.parametrize("kind", [vote, partial(vote, pre_vote=True), begin, end])
def test_an_epoch_out_of_reach_is_passed_over(state: str, epoch: int, kind: Callable[..., Request]) -> None:
    """Kafka's voters accept such an epoch, and end when the next one is negative."""
    driven = in_state(state)
    before = driven.state, driven.disk.state
    answer = driven.answer_to(kind(epoch=epoch, cluster_id=None))
    assert (answer.error, answer.epoch, answer.leader_id) == (ErrorCode.BROKER_NOT_AVAILABLE, epoch, -1)
    assert (driven.state, driven.disk.state) == before
    assert driven.doubts[-1].startswith(f"epoch {epoch:,} is passed over")


def test_an_answer_with_an_epoch_out_of_reach_is_passed_over() -> None:
    """The answer is that of a Kafka voter that accepted the epoch."""
    driven = in_state("candidate")
    driven.reply(VoteAnswer(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=LAST, leader_id=3), kind=Vote, source=3)
    assert (driven.state, driven.raft.epoch) == ("Candidate", EPOCH + 1)
    to_leader(driven)


def test_no_number_of_requests_uses_all_epochs_up() -> None:
    """Each request raises the epoch as far as it can: there is still room for an election."""
    driven = in_state("unattached")
    for _ in range(20_000):
        epoch = driven.raft.epoch
        driven.ask(vote(epoch=min(epoch + max(1, LAST - epoch >> 10), LAST)))
    assert driven.raft.epoch == LAST - 1
    to_leader(driven)
    assert (driven.raft.epoch, saved(driven).leader_epoch) == (LAST, LAST)


@pytest.mark.parametrize("leader", [-1, 1, 2])
def test_the_last_epoch_cannot_be_followed_by_another(leader: int) -> None:
    """The leader of the last epoch stays; a node that would stand for election logs that there is no further epoch."""
    driven = Driven(config(), disk_with(state=quorum_state(epoch=LAST, leader=leader)))
    with pytest.raises(NoEpochLeft, match="2,147,483,647 is the largest there is"):
        to_candidate(driven)
    assert saved(driven).leader_epoch == LAST


def test_a_leader_of_whom_it_is_not_known_where_it_is() -> None:
    driven = Driven(config(4, static=()), Disk())
    driven.ask(end(epoch=7))
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id) == ("Unattached", 7, 2)
    driven.ask(end(epoch=7))
    driven.ask(begin(epoch=7, voter=None))
    assert (driven.state, driven.raft.epoch, driven.raft.leader_id) == ("Follower", 7, 2)


def test_a_leader_that_is_not_fetched_from_resigns() -> None:
    driven = in_state("leader")
    driven.wait(2999)
    assert driven.state == "Leader"
    driven.wait(1)
    assert driven.state == "Resigned"
    ends = [each for each in driven.sent if isinstance(each.request, EndQuorumEpoch)]
    assert sorted(each.to.id for each in ends) == [2, 3]
    driven.wait(2000)
    assert (driven.state, driven.raft.epoch) == ("Prospective", 7)


@pytest.mark.parametrize(("source", "then"), [(2, "Leader"), (4, "Resigned")])
def test_a_fetch_of_a_voter_lets_it_go_on(source: int, then: str) -> None:
    driven = in_state("leader")
    driven.wait(2000)
    driven.ask(fetch(source=source))
    driven.wait(2000)
    assert driven.state == then


def test_who_does_not_fetch_is_told_of_the_epoch_again() -> None:
    driven = in_state("leader")
    while any(isinstance(each.request, BeginQuorumEpoch) for each in driven.sent):
        driven.reply(Answer(epoch=6, leader_id=1), kind=BeginQuorumEpoch)
    driven.ask(fetch(source=2))
    driven.sent.clear()
    driven.wait(999)
    assert not driven.sent
    driven.ask(fetch(source=2))
    driven.wait(1)
    assert driven.kinds() == ["BeginQuorumEpoch 3"]


def test_the_preferred_successors_are_those_with_most_of_the_log() -> None:
    driven = in_state("leader")
    driven.ask(fetch(source=3))
    driven.ask(fetch(source=2, at=(10, 4)))
    driven.take(driven.raft.resign(6, driven.now_ms))
    assert isinstance(driven.raft.state, Resigned)
    assert [each.id for each in driven.raft.state.preferred_successors] == [3, 2]
    driven.take(driven.raft.resign(6, driven.now_ms))


@pytest.mark.parametrize(
    ("successors", "wait_ms"), [((1, 2, 3), 0), ((2, 1), 500), ((2, 3, 1), 500), ((2, 1, 3), 250), ((2, 3), 1000)]
)
def test_successors_begin_one_after_another(successors: tuple[int, ...], wait_ms: int) -> None:
    driven = in_state("follower of 2")
    driven.ask(end(successors=successors))
    if wait_ms:
        driven.wait(wait_ms - 1)
        assert driven.state == "Follower"
    driven.wait(1)
    assert driven.state == "Prospective"


def test_shutting_down() -> None:
    driven = in_state("leader")
    driven.ask(fetch(max_wait_ms=500, high_watermark=11))
    driven.take(driven.raft.shutdown(driven.now_ms, 5000))
    assert (driven.state, driven.raft.is_shut_down) == ("Resigned", False)
    driven.reply(Answer(epoch=6, leader_id=1), kind=EndQuorumEpoch, source=2)
    assert not driven.raft.is_shut_down
    driven.ask(vote(epoch=7, last=(11, 6)))
    driven.ask(begin(epoch=7))
    assert driven.raft.is_shut_down


def test_shutting_down_with_nobody_left() -> None:
    driven = in_state("leader")
    driven.take(driven.raft.shutdown(driven.now_ms, 5000))
    driven.reply(None, kind=EndQuorumEpoch, source=2)
    assert not driven.raft.is_shut_down
    driven.reply(None, kind=EndQuorumEpoch, source=3)
    assert driven.raft.is_shut_down
    driven = in_state("leader")
    driven.take(driven.raft.shutdown(driven.now_ms, 5000))
    driven.wait(4999)
    assert not driven.raft.is_shut_down
    driven.wait(1)
    assert driven.raft.is_shut_down


@pytest.mark.parametrize("state", ["follower of 2", "fetched from 2", "observer", "resigned", "unattached"])
def test_shutting_down_without_leading(state: str) -> None:
    driven = in_state(state)
    driven.take(driven.raft.shutdown(driven.now_ms, 5000))
    assert driven.raft.is_shut_down == (state not in ("resigned", "unattached"))
    driven.wait(5000)
    assert driven.raft.is_shut_down


def test_the_leaders_process_is_gone() -> None:
    driven = in_state("fetched from 2")
    driven.take(driven.raft.peer_died(3, driven.now_ms))
    driven.wait(200)
    assert driven.state == "Follower"
    driven.take(driven.raft.peer_died(2, driven.now_ms))
    answer = driven.answer_to(vote(source=3, pre_vote=True))
    assert isinstance(answer, VoteAnswer)
    assert answer.granted
    driven.wait(20)
    assert driven.state == "Prospective"


@pytest.mark.parametrize(
    ("state", "then", "epoch"),
    [
        ("unattached", "Prospective", 5),
        ("follower of 2", "Prospective", 5),
        ("fetched from 2", "Follower", 5),
        ("resigned", "Prospective", 6),
        ("leader", "Leader", 6),
        ("observer", "Unattached", 5),
    ],
)
def test_standing_for_election(state: str, then: str, epoch: int) -> None:
    driven = in_state(state)
    driven.take(driven.raft.stand_for_election(driven.now_ms))
    assert (driven.state, driven.raft.epoch) == (then, epoch)


def test_a_follower_whose_leader_is_silent() -> None:
    driven = in_state("fetched from 2")
    driven.wait(1999)
    assert driven.state == "Follower"
    driven.wait(1)
    assert (driven.state, driven.raft.leader_id) == ("Prospective", 2)


def test_an_observer_is_never_elected() -> None:
    driven = in_state("observer")
    driven.wait(60_000)
    assert driven.state == "Unattached"
    driven.ask(begin())
    driven.wait(60_000)
    assert isinstance(driven.raft.state, Follower)


def test_an_observer_whose_leader_is_silent_would_vote() -> None:
    """The observer may be a voter without knowing it."""
    driven = in_state("observer")
    driven.ask(begin(voter=None))
    driven.reply(FetchAnswer(leader_id=2, epoch=5), kind=Fetch, source=2)
    for granted in (False, True):
        answer = driven.answer_to(vote(source=3, voter=None, pre_vote=True))
        assert isinstance(answer, VoteAnswer)
        assert answer.granted is granted
        driven.wait(2020)


def test_whom_the_leader_is_asked_of() -> None:
    """The node sends Fetch to one bootstrap server at a time; to one that failed again only after
    controller.quorum.retry.backoff.ms."""
    driven = in_state("unattached")
    seen = [driven.reply(None, kind=Fetch).to.id for _ in range(2)]
    assert sorted(seen) == [2, 3]
    assert not driven.sent
    driven.wait(20)
    driven.reply(FetchAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=5, leader_id=3), kind=Fetch)
    assert (driven.state, driven.raft.leader_id) == ("Follower", 3)
    assert driven.kinds() == ["Fetch 3"]


def test_no_vote_is_forgotten_by_a_restart() -> None:
    driven = in_state("unattached")
    driven.ask(vote(source=3))
    assert driven.disk.state == build(quorum_state(voted=3))
    again = Driven(config(), driven.disk)
    answer = again.answer_to(vote(source=2))
    assert isinstance(answer, VoteAnswer)
    assert not answer.granted


def test_the_directory_that_got_the_vote_is_kept_with_dynamic_voters() -> None:
    driven = Driven(config(static=()), with_voters(1, voters(1, 2, 3)))
    answer = driven.answer_to(vote(source=3, epoch=1, last=(0, 0)))
    assert isinstance(answer, VoteAnswer)
    assert answer.granted
    assert saved(driven) == QuorumState(1, -1, 1, 3, directory(3))


def test_a_leader_of_a_new_epoch() -> None:
    driven = in_state("fetched from 2")
    to_leader(driven)
    assert isinstance(driven.raft.state, Leader)
    assert driven.raft.epoch == EPOCH + 1
    assert driven.raft.committed_offset == 10
