"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: which kind of group the member is in decides who answers.

A consumer group without members gives way to a classic one. Source: GroupMetadataManager (classicGroupJoin,
classicGroupSync, classicGroupHeartbeat, classicGroupLeave).
"""

from __future__ import annotations

from kcli.coordinator import Token
from kcli.group.classic import join as classic_join
from kcli.group.classic import leave as classic_leave
from kcli.group.classic import sync as classic_sync
from kcli.group.consumer import classic_members
from kcli.group.consumer.records import group_tombstones
from kcli.group.errors import ErrorCode
from kcli.group.requests import Heartbeat, JoinAnswer, JoinGroup, LeaveGroup, SyncGroup
from kcli.group.turn import Turn


def join(turn: Turn, token: Token, request: JoinGroup) -> None:
    """A member comes."""
    group = turn.shard.consumer(request.group_id)
    if group is not None and not group.is_empty:
        classic_members.join(turn, token, request, group)
        return
    if group is not None and request.member_id:
        turn.answer(token, JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id=request.member_id))
        return
    if group is not None:
        turn.outcome.append(*group_tombstones(group))
        del turn.shard.groups[group.id]
    classic_join.join(turn, token, request)


def sync(turn: Turn, token: Token, request: SyncGroup) -> None:
    """A member asks for its assignment."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_sync.sync(turn, token, request)
    else:
        classic_members.sync(turn, token, request, group)


def heartbeat(turn: Turn, token: Token, request: Heartbeat) -> None:
    """A member is alive."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_sync.heartbeat(turn, token, request)
    else:
        classic_members.heartbeat(turn, token, request, group)


def leave(turn: Turn, token: Token, request: LeaveGroup) -> None:
    """Members go."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_leave.leave(turn, token, request)
    else:
        classic_members.leave(turn, token, request, group)
