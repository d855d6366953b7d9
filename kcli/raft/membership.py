"""Changes of voters: AddRaftVoter (80), RemoveRaftVoter (81), UpdateRaftVoter (82), and the upgrade to kraft.version 1.

    add      request the new voter's levels of kraft.version with ApiVersions; it must have caught up with the log as
             an observer; append a VotersRecord with it; answer when that record is committed, or, if
             ack_when_committed is false, as soon as it is appended
    remove   append a VotersRecord without the voter; answer when that is committed; a leader that was removed resigns
    update   append a VotersRecord with the voter's new endpoints or levels; while kraft.version is 0, keep them in
             memory until the upgrade

Only one change is in progress at a time, and none begins before the last VotersRecord and a record of this epoch are
committed. Source: AddVoterHandler, RemoveVoterHandler, UpdateVoterHandler, LeaderState; KIP-853, KIP-1186.
"""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.raft import controls
from kcli.raft.core import Core
from kcli.raft.errors import InvalidUpdateVersion, NotLeader
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    ApiVersions,
    ApiVersionsAnswer,
    Node,
    RemoveRaftVoter,
    Send,
    Token,
    UpdateRaftVoter,
    VoterAnswer,
)
from kcli.raft.outgoing import send
from kcli.raft.serving import refuse_follower
from kcli.raft.states.follower import Follower
from kcli.raft.states.leader import Leader, VoterChange
from kcli.raft.voters import ReplicaKey, VoterNode, VoterSet, address
from kcli.raft.votes import common_answer, has_other_cluster

_DONE_BY_ADD = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)
"""Errors in an answer to AddRaftVoter after which an observer that joins by itself waits a fetch timeout before its
next AddRaftVoter."""


def handle_add(core: Core, token: Token, request: AddRaftVoter, now_ms: int) -> None:
    """Begin to add a voter: send it ApiVersions.

    Errors: those of Fetch, UNSUPPORTED_VERSION with kraft.version 0, REQUEST_TIMED_OUT while another change is in
    progress or the high watermark is not known, DUPLICATE_VOTER, INVALID_REQUEST.
    """
    leader = _leader(core, token, request.cluster_id)
    if leader is None:
        return
    voter, listener = request.voter, core.config.listener
    if voter.id < 0 or voter.directory_id is None:
        _refuse(core, token, ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter")
        return
    where = address(request.endpoints, listener)
    if where is None:
        without = f"the endpoint ({_endpoints(request)}) for the default listener ListenerName({listener})"
        _refuse(core, token, ErrorCode.INVALID_REQUEST, f"Add voter request didn't include {without}")
        return
    voters = _committed_voters(core, token, leader, "adding", now_ms)
    if voters is None:
        return
    if voter.id in voters.nodes:
        reason = f"The voter id for {_key(voter)} is already part of the set of voters {_keys(voters)}."
        _refuse(core, token, ErrorCode.DUPLICATE_VOTER, reason)
        return
    sent, wait_ms = send(core, Node(voter.id, where.host, where.port), ApiVersions(), now_ms)
    if not sent:
        reason = f"New voter {_key(voter)} is not ready to receive requests"
        _refuse(core, token, ErrorCode.REQUEST_TIMED_OUT, reason)
        return
    leader.change = VoterChange(
        token,
        VoterNode(voter, request.endpoints),
        now_ms + wait_ms,
        is_addition=True,
        ack_when_committed=request.ack_when_committed,
    )


def versions_answered(core: Core, send: Send, answer: ApiVersionsAnswer, now_ms: int) -> bool:
    """Continue to add a voter, which has answered ApiVersions: append the VotersRecord. If the voter's log lags behind,
    or if the voter does not support the level of kraft.version, end the change with an error instead. Returns whether
    the answer was usable."""
    leader = core.state
    if not isinstance(leader, Leader):
        return True
    change = leader.change
    if change is None or not change.is_addition or change.last_offset is not None or change.voter.key.id != send.to.id:
        return True
    error = answer.top_error if answer.top_error is not ErrorCode.NONE else answer.error
    if error is not ErrorCode.NONE:
        _abort(core, leader, error)
        return False
    key, level, versions = change.voter.key, core.controls.kraft_version, answer.kraft_versions
    if versions is None or not versions[0] <= level <= versions[1]:
        least, most = versions or (0, 0)
        # as in Kafka's message, the closing parenthesis is missing if the node has a range of levels
        found = f"(min: {least}, max: {most}" + (")" if versions is None else "")
        reason = (
            f"Aborted add voter operation for {_key(key)} since the kraft.version range {found} "
            f"doesn't support the finalized version {level}"
        )
        core.change_ended(leader, ErrorCode.INVALID_REQUEST, reason)
        return True
    if not leader.is_caught_up(key, now_ms):
        reason = f"Aborted add voter operation for {_key(key)} since it is lagging behind"
        core.change_ended(leader, ErrorCode.REQUEST_TIMED_OUT, reason)
        return True
    voters = core.controls.voters.added(VoterNode(key, change.voter.endpoints, *versions))
    assert voters is not None, "no other change since it was looked at"
    change.last_offset = _append(core, leader, voters, now_ms)
    if not change.ack_when_committed and change.token is not None:
        core.answer(change.token, VoterAnswer())
        change.token = None
    return True


def add_unanswered(core: Core, send: Send) -> bool:
    """Give up adding a voter if `send` is the ApiVersions request to that voter, which was not answered. Does nothing
    for any other request. Returns False, as there was no usable answer."""
    leader = core.state
    if isinstance(send.request, ApiVersions) and isinstance(leader, Leader):
        change = leader.change
        if change is not None and change.last_offset is None and change.voter.key.id == send.to.id:
            _abort(core, leader, ErrorCode.BROKER_NOT_AVAILABLE)
    return False


def _abort(core: Core, leader: Leader, error: ErrorCode) -> None:
    reason = f"Aborted add voter operation for since API_VERSIONS returned an error {error.name}"
    core.change_ended(leader, ErrorCode.REQUEST_TIMED_OUT, reason)


def handle_remove(core: Core, token: Token, request: RemoveRaftVoter, now_ms: int) -> None:
    """Remove a voter. Errors: those of AddRaftVoter, and VOTER_NOT_FOUND, also for the only voter left."""
    leader = _leader(core, token, request.cluster_id)
    if leader is None:
        return
    voter = request.voter
    if voter.id < 0 or voter.directory_id is None:
        _refuse(core, token, ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter")
        return
    voters = _committed_voters(core, token, leader, "removing", now_ms)
    if voters is None:
        return
    left = voters.removed(voter)
    if left is None:
        reason = f"Cannot remove voter {_key(voter)} from the set of voters {_keys(voters)}"
        _refuse(core, token, ErrorCode.VOTER_NOT_FOUND, reason)
        return
    change = VoterChange(token, voters.nodes[voter.id], now_ms + core.config.request_timeout_ms, is_addition=False)
    leader.change = change
    change.last_offset = _append(core, leader, left, now_ms)


def handle_update(core: Core, token: Token, request: UpdateRaftVoter, now_ms: int) -> None:
    """Update a voter's endpoints and levels of kraft.version.

    Errors: those of Fetch, REQUEST_TIMED_OUT while another change is in progress or the high watermark is not known,
    INVALID_REQUEST, VOTER_NOT_FOUND.
    """
    core.answer(token, _updated(core, request, now_ms))


def _updated(core: Core, request: UpdateRaftVoter, now_ms: int) -> Answer:
    if has_other_cluster(core, request.cluster_id):
        error = ErrorCode.INCONSISTENT_CLUSTER_ID
    else:
        error = _update(core, request, now_ms)
    state = core.state
    return Answer(error=error, leader_id=state.leader_id, epoch=state.epoch, endpoints=state.leader_endpoints)


def _update(core: Core, request: UpdateRaftVoter, now_ms: int) -> ErrorCode:
    error, leader = refuse_follower(core, request.epoch), core.state
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        return error
    least, most = request.min_version, request.max_version
    is_known = request.voter.id >= 0 and request.voter.directory_id is not None
    if not is_known or address(request.endpoints, core.config.listener) is None or not 0 <= least <= most:
        return ErrorCode.INVALID_REQUEST
    if _is_pending(core, leader, now_ms) or leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    level = core.controls.kraft_version
    if level:
        last = core.controls.voter_history.last
        voters = None if last is None or last[0] >= leader.high_watermark else last[1]
    else:
        voters = leader.volatile_voters
    if voters is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if not least <= level <= most:
        return ErrorCode.INVALID_REQUEST
    node = VoterNode(request.voter, request.endpoints, least, most)
    updated = voters.updated(node, whatever_directory=not level)
    if updated is None:
        return ErrorCode.VOTER_NOT_FOUND
    if level:
        _append(core, leader, updated, now_ms)
    else:
        leader.volatile_voters = updated
    if request.voter.id != core.key.id:
        leader.note_following(request.voter, now_ms)
    return ErrorCode.NONE


def upgrade_kraft_version(core: Core, epoch: int, level: int, now_ms: int, *, validate_only: bool) -> bool:
    """Raise kraft.version to `level`: append a KRaftVersionRecord and, if the voters' endpoints or levels in memory
    differ from those in the log, a VotersRecord. Returns False if kraft.version is at `level` already, or is being
    raised to it; otherwise True.

    epoch: the one that this node must lead. validate_only: append nothing. Raises NotLeader, InvalidUpdateVersion.
    """
    leader = core.state
    if not isinstance(leader, Leader) or leader.epoch != epoch:
        raise NotLeader(f"node {core.key.id} does not lead epoch {epoch}")
    now_at, name = core.controls.kraft_version, "kraft.version"
    if leader.requested_kraft_version is not None:
        if leader.requested_kraft_version == level:
            return False
        reason = f"Invalid concurrent upgrade of {name} from version {leader.requested_kraft_version} to {level}"
        raise InvalidUpdateVersion(reason)
    if level == now_at:
        return False
    change = f"Invalid upgrade of {name} from version {now_at} to {level}"
    if level < now_at:
        raise InvalidUpdateVersion(f"{change} because the new version is a downgrade")
    voters = leader.volatile_voters
    if voters is None:
        raise InvalidUpdateVersion(change)
    if any(not each.min_version <= level <= each.max_version for each in voters.nodes.values()):
        reason = f"Invalid upgrade of {name} to {level} because not all of the voters support it"
        raise InvalidUpdateVersion(reason)
    if not validate_only:
        leader.requested_kraft_version, leader.volatile_voters = level, None
        records = [controls.kraft_version(level)]
        if voters != core.controls.voters:
            records.append(controls.kraft_voters(voters))
        core.append_controls(leader, controls.batch(records, now_ms), now_ms)
    return True


def join_answered(core: Core, answer: VoterAnswer, now_ms: int) -> bool:
    """Put off this observer's next AddRaftVoter or RemoveRaftVoter by a fetch timeout, as the leader has answered the
    last one. Returns whether the answer was usable."""
    if answer.top_error not in _DONE_BY_ADD:
        return False
    if isinstance(core.state, Follower):
        core.state.put_off_update(now_ms)
    return True


def update_answered(core: Core, answer: Answer, now_ms: int) -> bool:
    """Note that the leader has acknowledged this voter's UpdateRaftVoter. Returns whether the answer was usable."""
    handled = common_answer(core, answer, now_ms)
    if handled is not None:
        return handled
    if answer.error not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        return False
    if isinstance(core.state, Follower):
        core.state.has_updated_leader = True
        core.state.fetched(now_ms)
    return True


def _leader(core: Core, token: Token, cluster_id: str | None) -> Leader | None:
    """Return the leader's state. If this node does not lead, or the request has the id of another cluster, answer the
    request with an error and return None."""
    if has_other_cluster(core, cluster_id):
        reason = f'The given id "{cluster_id}" doesn\'t match the cluster id "{core.config.cluster_id}"'
        _refuse(core, token, ErrorCode.INCONSISTENT_CLUSTER_ID, reason)
        return None
    error, state = refuse_follower(core, core.state.epoch), core.state
    if error is ErrorCode.NONE and isinstance(state, Leader):
        return state
    _refuse(core, token, error, None)
    return None


def _committed_voters(core: Core, token: Token, leader: Leader, doing: str, now_ms: int) -> VoterSet | None:
    """Return the voters, if a change of voters may begin now; otherwise answer the request with an error and return
    None. doing: the change, for the error message."""
    last, committed = core.controls.voter_history.last, leader.high_watermark
    if _is_pending(core, leader, now_ms):
        error, reason = ErrorCode.REQUEST_TIMED_OUT, "for leader to handle previous voter change request"
    elif committed is None:
        error, reason = ErrorCode.REQUEST_TIMED_OUT, "for leader to establish HWM and fence previous voter changes"
    elif not core.controls.kraft_version:
        reason = f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
        _refuse(core, token, ErrorCode.UNSUPPORTED_VERSION, reason)
        return None
    elif last is None or last[0] >= committed:
        where = "Optional.empty" if last is None else f"Optional[{last[0]}]"
        reason = f"for voters to commit the latest voter change at {where} with HWM {committed}"
        error = ErrorCode.REQUEST_TIMED_OUT
    else:
        return last[1]
    _refuse(core, token, error, f"Request timed out waiting {reason}")
    return None


def _is_pending(core: Core, leader: Leader, now_ms: int) -> bool:
    if leader.change is not None and now_ms >= leader.change.deadline_ms:
        core.finish_change(leader, timed_out=True)
    return leader.change is not None


def _append(core: Core, leader: Leader, voters: VoterSet, now_ms: int) -> int:
    return core.append_controls(leader, controls.batch([controls.kraft_voters(voters)], now_ms), now_ms)


def _refuse(core: Core, token: Token, error: ErrorCode, message: str | None) -> None:
    core.answer(token, VoterAnswer(top_error=error, message=message))


def _key(key: ReplicaKey) -> str:
    """A ReplicaKey as Java prints it."""
    return f"ReplicaKey(id={key.id}, directoryId={key.directory_id or '<undefined>'})"


def _keys(voters: VoterSet) -> str:
    return f"[{', '.join(map(_key, voters.keys))}]"


def _endpoints(request: AddRaftVoter) -> str:
    """Endpoints as Java prints them."""
    each = ", ".join(f"ListenerName({name})={host}/<unresolved>:{port}" for name, host, port in request.endpoints)
    return f"Endpoints(endpoints={{{each}}})"
