"""Vote (52), BeginQuorumEpoch (53) and EndQuorumEpoch (54): handling the requests, and the answers to them.

An answer with a lower epoch than this node's is stale, and changes nothing. From an answer with a higher epoch, or with
FENCED_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER, this node first learns the leader. After an answer that is not usable,
its sender gets no request for controller.quorum.retry.backoff.ms (Kafka sends another request at once). Source:
KafkaRaftClient, handleVoteRequest to handleEndQuorumEpochResponse, maybeHandleCommonResponse.
"""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.raft.core import Core
from kcli.raft.election import NOBODY
from kcli.raft.errors import RaftFault
from kcli.raft.messages import (
    Answer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Node,
    Token,
    Vote,
    VoteAnswer,
)
from kcli.raft.states.candidate import Candidate
from kcli.raft.states.follower import Follower
from kcli.raft.states.prospective import Prospective
from kcli.raft.states.resigned import Resigned
from kcli.raft.voters import ReplicaKey


def has_other_cluster(core: Core, cluster_id: str | None) -> bool:
    """Return whether a request comes from a node of another cluster; false for a request without a cluster id."""
    return cluster_id is not None and cluster_id != core.config.cluster_id


def handle_vote(core: Core, token: Token, request: Vote, now_ms: int) -> None:
    """Answer a Vote: grant it or not.

    Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, BROKER_NOT_AVAILABLE for an epoch that is too far
    above this node's (kcli.raft.election); for the whole response INCONSISTENT_CLUSTER_ID.
    """
    if has_other_cluster(core, request.cluster_id):
        core.answer(token, VoteAnswer(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if not core.is_in_reach(request.epoch):
        core.answer(token, VoteAnswer(error=ErrorCode.BROKER_NOT_AVAILABLE, epoch=request.epoch))
        return
    error, granted = _vote(core, request, now_ms)
    state = core.state
    core.answer(
        token,
        VoteAnswer(
            error=error,
            leader_id=state.leader_id,
            epoch=state.epoch,
            endpoints=state.leader_endpoints,
            granted=granted,
        ),
    )


def _vote(core: Core, request: Vote, now_ms: int) -> tuple[ErrorCode, bool]:
    last, pre_vote = request.last, request.pre_vote
    is_illegal = last.epoch > request.epoch if pre_vote else last.epoch >= request.epoch
    if last.offset < 0 or last.epoch < 0 or is_illegal:
        return ErrorCode.INVALID_REQUEST, False
    error = refuse_voter(core, request.replica.id, request.epoch)
    if error is not ErrorCode.NONE:
        return error, False
    if request.epoch > core.state.epoch:
        core.to_unattached(request.epoch, now_ms)
    if not _is_for_me(core, request.voter):
        return ErrorCode.INVALID_VOTER_KEY, False
    if request.replica.id == core.key.id:
        core.doubt(f"node {core.key.id}, which this one is, asks for its vote: another node has the same node.id")
        return ErrorCode.NONE, False
    up_to_date = last.order >= core.log_end.order
    granted = core.state.may_vote(request.replica, up_to_date=up_to_date, pre_vote=pre_vote)
    if granted and not pre_vote:
        core.add_vote(request.replica, now_ms)
    return ErrorCode.NONE, granted


def refuse_voter(core: Core, remote_id: int, epoch: int) -> ErrorCode:
    """Return the error for a request of the voter `remote_id` in `epoch`: FENCED_LEADER_EPOCH if the epoch is lower
    than this node's, INVALID_REQUEST for a negative id, otherwise NONE."""
    if epoch < core.state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if remote_id < 0 else ErrorCode.NONE


def _is_for_me(core: Core, voter: ReplicaKey | None) -> bool:
    return voter is None or voter.admits(core.key)


def vote_answered(core: Core, source: Node, answer: VoteAnswer, now_ms: int) -> bool:
    """Count the vote, or pre-vote, in an answer, and change the state if this decides the election. A prospective
    becomes a candidate also if the voter does not support pre-votes. Returns whether the answer was usable."""
    state = core.state
    if answer.top_error is ErrorCode.UNSUPPORTED_VERSION and isinstance(state, Prospective):
        core.to_candidate(now_ms)
        return True
    handled = common_answer(core, answer, now_ms)
    if handled is not None:
        return handled
    if answer.error is not ErrorCode.NONE:
        return False
    state = core.state
    if isinstance(state, Prospective | Candidate):
        state.votes.record(source.id, granted=answer.granted)
        if isinstance(state, Candidate):
            if state.votes.is_won:
                core.to_leader(state, now_ms)
        elif state.votes.is_won:
            core.to_candidate(now_ms)
        elif state.votes.is_lost:
            core.give_up_prospect(state, now_ms)
    return True


def handle_begin(core: Core, token: Token, request: BeginQuorumEpoch, now_ms: int) -> None:
    """Answer a BeginQuorumEpoch: follow the leader that sent it. Errors: those of Vote."""
    if _learn_from(core, token, request, now_ms):
        _answer(core, token, ErrorCode.NONE if _is_for_me(core, request.voter) else ErrorCode.INVALID_VOTER_KEY)


def _learn_from(core: Core, token: Token, request: BeginQuorumEpoch | EndQuorumEpoch, now_ms: int) -> bool:
    """Follow the leader from which a request comes, and return True. If the request is refused, answer it with an error
    and return False."""
    epoch = request.epoch
    if has_other_cluster(core, request.cluster_id):
        core.answer(token, Answer(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return False
    if not core.is_in_reach(epoch):
        core.answer(token, Answer(error=ErrorCode.BROKER_NOT_AVAILABLE, epoch=epoch))
        return False
    error = refuse_voter(core, request.leader_id, epoch)
    if error is not ErrorCode.NONE:
        _answer(core, token, error)
        return False
    core.learn_leader(request.leader_id, epoch, core.endpoints_of(request.leader_id, request.endpoints), now_ms)
    return True


def begin_answered(core: Core, answer: Answer, now_ms: int) -> bool:
    """Read the answer to a BeginQuorumEpoch by `common_answer`. Returns whether the answer was usable."""
    handled = common_answer(core, answer, now_ms)
    return answer.error is ErrorCode.NONE if handled is None else handled


def handle_end(core: Core, token: Token, request: EndQuorumEpoch, now_ms: int) -> None:
    """Answer an EndQuorumEpoch: the leader has resigned.

    The first of the leader's preferred successors begins an election at once, the others later, in their order. Errors:
    FENCED_LEADER_EPOCH, INVALID_REQUEST, BROKER_NOT_AVAILABLE; for the whole response INCONSISTENT_CLUSTER_ID.
    """
    if not _learn_from(core, token, request, now_ms):
        return
    state = core.state
    if isinstance(state, Follower) and state.leader_id == request.leader_id:
        candidates = request.preferred_successors
        position = next((i for i, each in enumerate(candidates) if each.admits(core.key)), len(candidates))
        backoff_max_ms = core.config.election_backoff_max_ms
        state.fetch_deadline_ms = now_ms + _backoff_ms(position, len(candidates), backoff_max_ms)
    _answer(core, token, ErrorCode.NONE)


def _backoff_ms(position: int, count: int, backoff_max_ms: int) -> int:
    """Return the time in ms that the successor at `position` of `count` waits before its election. The first one waits
    0. The last one waits half of controller.quorum.election.backoff.max.ms, the one before it half as long, and so on.
    A node that is not among the successors (position = count) waits controller.quorum.election.backoff.max.ms."""
    if position == 0:
        return 0
    if position >= count:
        return backoff_max_ms
    return min(backoff_max_ms, (backoff_max_ms >> count - 1) << position - 1)


def end_answered(core: Core, source: Node, answer: Answer, now_ms: int) -> bool:
    """Note that a voter has acknowledged this node's EndQuorumEpoch. Returns whether the answer was usable."""
    handled = common_answer(core, answer, now_ms)
    if handled is not None:
        return handled
    if answer.error is ErrorCode.NONE and isinstance(core.state, Resigned):
        core.state.unacknowledged.discard(source.id)
        return True
    return False


def _answer(core: Core, token: Token, error: ErrorCode) -> None:
    state = core.state
    core.answer(
        token, Answer(error=error, leader_id=state.leader_id, epoch=state.epoch, endpoints=state.leader_endpoints)
    )


def common_answer(core: Core, answer: Answer, now_ms: int) -> bool | None:
    """Read the fields that every answer has (error, epoch, leader), and learn the leader from them if this node does
    not know it or has an older epoch.

    Returns whether the answer was usable; None if this is not decided by these fields, and the caller must handle the
    other fields of the answer. Raises RaftFault.
    """
    if answer.top_error is not ErrorCode.NONE:
        if answer.top_error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise RaftFault("this node may not talk to the quorum: CLUSTER_AUTHORIZATION_FAILED")
        return False
    state, error = core.state, answer.error
    leader_id = answer.leader_id if answer.leader_id >= 0 else NOBODY
    endpoints = () if leader_id == NOBODY else core.endpoints_of(leader_id, answer.endpoints)
    if answer.epoch < state.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return error is ErrorCode.NONE
    if answer.epoch > state.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        core.learn_leader(leader_id, answer.epoch, endpoints, now_ms)
        return core.state is not state
    if leader_id != NOBODY and state.leader_id == NOBODY:
        core.learn_leader(leader_id, answer.epoch, endpoints, now_ms)
        return None if error is ErrorCode.NONE else core.state is not state
    if error is ErrorCode.BROKER_NOT_AVAILABLE:
        return False
    if error is ErrorCode.INVALID_VOTER_KEY:
        return True
    if error is ErrorCode.INVALID_REQUEST:
        raise RaftFault("another node calls a request of this one invalid")
    return None
