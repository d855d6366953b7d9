"""LeaveGroup: members leave, or an admin client removes them and names static members by their instance ids.

Source: GroupMetadataManager.classicGroupLeave; KIP-345 (batches).
"""

from __future__ import annotations

from dataclasses import replace

from kcli.coordinator.machine import Token
from kcli.group.classic.group import ClassicGroup
from kcli.group.classic.rebalance import answer_join, answer_sync, rebalance, session_key
from kcli.group.errors import GroupError
from kcli.group.requests import JoinAnswer, LeaveAnswer, LeaveGroup, Leaver, SyncAnswer
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def leave(turn: Turn, token: Token, request: LeaveGroup) -> None:
    """Remove the members that leave, and begin a rebalance if other members are left. Errors, by member:
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    group = turn.shard.classic(request.group_id)
    if group is None:
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        turn.answer(token, LeaveAnswer(members=tuple(replace(each, error=unknown) for each in request.members)))
        return
    answers = []
    for each in request.members:
        error = ErrorCode.NONE
        try:
            _remove(turn, group, each)
        except GroupError as refused:
            error = refused.code
        answers.append(replace(each, error=error))
    if not group.is_empty and any(not each.error for each in answers):
        rebalance(turn, group)
    turn.answer(token, LeaveAnswer(members=tuple(answers)))


def _remove(turn: Turn, group: ClassicGroup, leaver: Leaver) -> None:
    member_id = leaver.member_id
    if not member_id:
        if leaver.instance_id is None or leaver.instance_id not in group.static:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = group.static[leaver.instance_id]
    elif member_id not in group.pending:
        group.check_member(member_id, leaver.instance_id)
    member = group.members.get(member_id)
    if member is not None:
        answer_join(turn, group, member, JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID))
        answer_sync(turn, member, SyncAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID))
    turn.cancel(session_key(group.id, member_id))
    group.remove(member_id)
