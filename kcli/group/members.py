"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, for classic groups and for classic members of consumer groups.

The type of the group decides which module answers. A consumer group without members becomes a classic group when a
member joins it with JoinGroup. Source: GroupMetadataManager (classicGroupJoin,
classicGroupSync, classicGroupHeartbeat, classicGroupLeave).
"""

from __future__ import annotations

from kcli.coordinator.machine import Token
from kcli.group.classic import join as classic_join
from kcli.group.classic import leave as classic_leave
from kcli.group.classic import sync as classic_sync
from kcli.group.consumer import classic_members
from kcli.group.consumer.records import group_tombstones
from kcli.group.requests import Heartbeat, JoinAnswer, JoinGroup, LeaveGroup, SyncGroup
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def join(turn: Turn, token: Token, request: JoinGroup) -> None:
    """Let a member join the group by the rules of the group's type, and answer its JoinGroup. An empty consumer group
    is first replaced by a classic one. Error: UNKNOWN_MEMBER_ID if the request has a member id but the consumer group
    is empty; other errors: `classic.join.join`, `consumer.classic_members.join`."""
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
    """Answer a SyncGroup with the member's assignment, by the rules of the group's type."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_sync.sync(turn, token, request)
    else:
        classic_members.sync(turn, token, request, group)


def heartbeat(turn: Turn, token: Token, request: Heartbeat) -> None:
    """Extend the member's session, and answer its Heartbeat by the rules of the group's type."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_sync.heartbeat(turn, token, request)
    else:
        classic_members.heartbeat(turn, token, request, group)


def heartbeat_at_once(turn: Turn, request: Heartbeat) -> bool:
    """Extend the session of a classic group's member and return True. Return False if the Heartbeat must be passed
    to `heartbeat`, because it fails or the group is a consumer group."""
    return turn.shard.consumer(request.group_id) is None and classic_sync.beat(turn, request) == ErrorCode.NONE


def leave(turn: Turn, token: Token, request: LeaveGroup) -> None:
    """Remove the members that leave, and answer the LeaveGroup, by the rules of the group's type."""
    group = turn.shard.consumer(request.group_id)
    if group is None:
        classic_leave.leave(turn, token, request)
    else:
        classic_members.leave(turn, token, request, group)
