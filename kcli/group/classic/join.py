"""JoinGroup: a member joins a classic group.

    new dynamic member    gets MEMBER_ID_REQUIRED and a member id, with which it joins again; a client before version 4
                          of JoinGroup becomes a member at once
    new static member     becomes a member at once; if its instance id is in the group, it replaces that member under
                          a new member id, and the old id is fenced; the group does not rebalance if it is Stable and
                          its protocol does not change
    known member          in state PreparingRebalance: waits for the end of the rebalance; if its protocols have
                          changed, or it is the leader of a Stable group: begins a rebalance; else gets the current
                          generation again

Source: GroupMetadataManager.classicGroupJoin; KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from kcli.coordinator.machine import Token
from kcli.group.classic.group import ClassicGroup, State
from kcli.group.classic.member import Member
from kcli.group.classic.rebalance import (
    answer_join,
    answer_sync,
    await_pending,
    complete_if_joined,
    extend_session,
    joined,
    prepare,
    rebalance,
    session_key,
)
from kcli.group.errors import GroupError
from kcli.group.records import classic_group_record, new_classic_group_record
from kcli.group.requests import JoinAnswer, JoinGroup, SyncAnswer
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode

UNKNOWN_MEMBER = ""


def join(turn: Turn, token: Token, request: JoinGroup) -> None:
    """Let a member join the group, or join it again; the JoinGroup is answered at once or at the end of the rebalance.

    Errors: UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED, FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL,
    GROUP_MAX_SIZE_REACHED, UNKNOWN_SERVER_ERROR.
    """
    shard = turn.shard
    is_new_group = request.group_id not in shard.groups
    if is_new_group and request.member_id != UNKNOWN_MEMBER:
        _refuse(turn, token, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return
    group = shard.classic_or_new(request.group_id, turn.now_ms)
    if not isinstance(group, ClassicGroup):
        _refuse(turn, token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return
    if not _has_room(turn, group, request.member_id):
        group.remove(request.member_id)
        _refuse(turn, token, ErrorCode.GROUP_MAX_SIZE_REACHED)
    elif not group.supports(request.protocol_type, (name for name, _ in request.protocols)):
        _refuse(turn, token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id == UNKNOWN_MEMBER:
        _join_new(turn, token, request, group)
    else:
        _join_known(turn, token, request, group)
    if is_new_group:
        turn.outcome.append(new_classic_group_record(group))


def _refuse(turn: Turn, token: Token, error: ErrorCode, member_id: str = UNKNOWN_MEMBER) -> None:
    turn.answer(token, JoinAnswer(error=error, member_id=member_id))


def _has_room(turn: Turn, group: ClassicGroup, member_id: str) -> bool:
    """Return whether the group has room for the member under group.max.size. In PreparingRebalance there is room for
    the first group.max.size members that join, whether or not they were members of the generation before."""
    size_max = turn.shard.config.classic_group_max_size
    member = group.members.get(member_id)
    if group.is_empty:
        return True
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or group.joining < size_max
    return member is not None or len(group.members) < size_max


def _join_new(turn: Turn, token: Token, request: JoinGroup, group: ClassicGroup) -> None:
    instance_id = request.instance_id
    prefix = request.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{turn.shard.new_id()}"
    if instance_id is not None and instance_id in group.static:
        _replace(turn, token, request, group, member_id)
    elif instance_id is None and request.requires_known_member_id:
        await_pending(turn, group, member_id, request.session_timeout_ms)
        _refuse(turn, token, ErrorCode.MEMBER_ID_REQUIRED, member_id)
    else:
        _add(turn, token, request, group, member_id)


def _join_known(turn: Turn, token: Token, request: JoinGroup, group: ClassicGroup) -> None:
    member_id = request.member_id
    if member_id in group.pending:
        if request.instance_id is None:
            _add(turn, token, request, group, member_id)
        else:
            _refuse(turn, token, ErrorCode.UNKNOWN_SERVER_ERROR)
        return
    try:
        group.check_member(member_id, request.instance_id)
    except GroupError as refused:
        _refuse(turn, token, refused.code, member_id)
        return
    member = group.members[member_id]
    has_new_protocols = member.protocols != request.protocols
    if group.state is State.STABLE:
        begins = has_new_protocols or group.leader == member_id
    else:
        begins = has_new_protocols or group.state is State.PREPARING_REBALANCE
    if begins:
        _update(token, request, group, member)
        rebalance(turn, group)
    else:
        lists_members = group.state is State.COMPLETING_REBALANCE and group.leader == member_id
        turn.answer(token, joined(group, member_id, lists_members=lists_members))


def _update(token: Token, request: JoinGroup, group: ClassicGroup, member: Member) -> None:
    group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
    group.await_join(member, token)


def _add(turn: Turn, token: Token, request: JoinGroup, group: ClassicGroup, member_id: str) -> None:
    member = Member(
        id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        join_token=token,
        is_new=True,
    )
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    group.add(member)
    extend_session(turn, group, member, turn.shard.config.classic_new_member_join_timeout_ms)
    rebalance(turn, group)


def _replace(turn: Turn, token: Token, request: JoinGroup, group: ClassicGroup, member_id: str) -> None:
    """Give a static member that has restarted the new id `member_id`, and fence its old id. Then begin a rebalance, or
    answer the JoinGroup at once if the generation can continue."""
    assert request.instance_id is not None, "static"
    old_id, old_leader = group.static[request.instance_id], group.leader
    member = group.members[old_id]
    before = member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms
    fenced = ErrorCode.FENCED_INSTANCE_ID
    answer_join(turn, group, member, JoinAnswer(error=fenced, member_id=old_id))
    answer_sync(turn, member, SyncAnswer(error=fenced))
    turn.cancel(session_key(group.id, old_id))
    group.rename(member, member_id)
    extend_session(turn, group, member)
    _update(token, request, group, member)
    if group.state is State.PREPARING_REBALANCE:
        complete_if_joined(turn, group)
    elif group.state is State.COMPLETING_REBALANCE or group.choose_protocol() != group.protocol:
        prepare(turn, group)
    else:
        assignments = {each.id: each.assignment for each in group.members.values()}
        record = classic_group_record(group, assignments)
        if turn.fits([record]):
            turn.outcome.append(record)
            answer_join(turn, group, member, _unchanged(request, group, member_id, old_leader))
        else:
            answer_join(turn, group, member, _not_written(group, old_leader))
            turn.cancel(session_key(group.id, member_id))
            group.update(member, *before)
            group.rename(member, old_id)
            extend_session(turn, group, member)


def _not_written(group: ClassicGroup, leader: str | None) -> JoinAnswer:
    """Return the answer to a static member that keeps its old id, because the group's record with the new id does not
    fit into one batch: UNKNOWN_SERVER_ERROR. leader: the member id of the leader in the answer, None if the group has
    no leader."""
    return JoinAnswer(
        error=ErrorCode.UNKNOWN_SERVER_ERROR,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=leader or "",
    )


def _unchanged(request: JoinGroup, group: ClassicGroup, member_id: str, old_leader: str | None) -> JoinAnswer:
    """Return the answer to a static member that has rejoined without a rebalance: the generation continues.

    If this member is the leader, it must not compute an assignment: the answer says so by `skip_assignment` (KIP-814).
    A client that does not know this field gets `old_leader` as the leader's id, and so takes itself for a follower.
    old_leader: the leader's member id before this member got its new id; None if the group has no leader.
    """
    answer = joined(group, member_id, lists_members=request.can_skip_assignment and group.leader == member_id)
    if request.can_skip_assignment:
        return answer._replace(skip_assignment=group.leader == member_id)
    return answer._replace(leader=old_leader or "")
