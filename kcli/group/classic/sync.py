"""SyncGroup, which brings the leader's assignment to the members of a classic group, and Heartbeat.

Source: GroupMetadataManager (classicGroupSync, classicGroupHeartbeat); KIP-559 (protocol type and name).
"""

from __future__ import annotations

from kcli.coordinator.machine import Token
from kcli.group.classic.group import ClassicGroup, State
from kcli.group.classic.rebalance import answer_syncs, extend_session, rebalance, sync_key
from kcli.group.errors import GroupError
from kcli.group.records import classic_group_record
from kcli.group.requests import Heartbeat, SyncAnswer, SyncGroup
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def sync(turn: Turn, token: Token, request: SyncGroup) -> None:
    """Answer a SyncGroup with the member's assignment, or keep it pending until the leader's SyncGroup has brought the
    assignments.

    Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS, UNKNOWN_SERVER_ERROR.
    """
    try:
        group = _checked(turn, request)
    except GroupError as refused:
        turn.answer(token, SyncAnswer(error=refused.code))
        return
    member = group.members[request.member_id]
    if group.state is State.PREPARING_REBALANCE:
        turn.answer(token, SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS))
        return
    group.pending_sync.discard(member.id)
    if not group.pending_sync:
        turn.cancel(sync_key(group.id))
    if group.state is State.STABLE:
        answer = SyncAnswer(protocol_type=group.protocol_type, protocol=group.protocol, assignment=member.assignment)
        turn.answer(token, answer)
        return
    member.sync_token = token
    if group.leader == member.id:
        _assign(turn, group, request)


def _checked(turn: Turn, request: SyncGroup) -> ClassicGroup:
    group = turn.shard.classic(request.group_id)
    if group is None or group.is_empty:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.instance_id)
    group.check_generation(request.generation)
    if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol, group.protocol):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return group


def _differ(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def _assign(turn: Turn, group: ClassicGroup, request: SyncGroup) -> None:
    """Append the group's record with the leader's assignments, answer the pending SyncGroups, and make the group
    Stable.

    A member that the leader's request does not name gets an empty assignment. If the record does not fit into one
    batch, the SyncGroups are answered with UNKNOWN_SERVER_ERROR and the group rebalances.
    """
    assignments = {member_id: request.assignments.get(member_id, b"") for member_id in group.members}
    record = classic_group_record(group, assignments)
    if not turn.fits([record]):
        answer_syncs(turn, group, ErrorCode.UNKNOWN_SERVER_ERROR)
        rebalance(turn, group)
        return
    turn.outcome.append(record)
    for member in group.members.values():
        member.assignment = assignments[member.id]
    answer_syncs(turn, group)
    group.move(State.STABLE, turn.now_ms)


def heartbeat(turn: Turn, token: Token, request: Heartbeat) -> None:
    """Extend the member's session, and answer its Heartbeat. Errors: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS, after which the client joins again."""
    turn.answer(token, beat(turn, request))


def beat(turn: Turn, request: Heartbeat) -> ErrorCode:
    """Extend the member's session; return the error code of the Heartbeat's answer, NONE for success. An error other
    than REBALANCE_IN_PROGRESS leaves the session as it is."""
    group = turn.shard.classic(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    try:
        group.check_member(request.member_id, request.instance_id)
        group.check_generation(request.generation)
    except GroupError as refused:
        return refused.code
    extend_session(turn, group, group.members[request.member_id])
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is State.PREPARING_REBALANCE else ErrorCode.NONE
