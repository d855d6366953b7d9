"""LeaveGroup (13): members of a classic group go. v3 several of them, static ones by instance (KIP-345). v4 flexible.
v5 reason (KIP-800)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kcli.broker.coordinators.groups import send_group, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.requests import LeaveAnswer, LeaveGroup, Leaver

MEMBERS_SINCE = 3


def leave_group(call: Call) -> Entity | Awaitable[Entity]:
    """Errors: INVALID_GROUP_ID, and the coordinator's; of each member: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    request = call.request
    if call.version >= MEMBERS_SINCE:
        members = tuple(
            Leaver(member_id=each.member_id, instance_id=each.group_instance_id) for each in request.members
        )
    else:
        members = (Leaver(member_id=request.member_id, instance_id=None),)
    try:
        answer = send_group(call, request.group_id, LeaveGroup(group_id=request.group_id, members=members))
    except CoordinatorError as error:
        return call.respond(error_code=error.code, members=())
    return when_answered(answer, lambda answer: _finished(call, answer))


def _finished(call: Call, left: asyncio.Future[LeaveAnswer]) -> Entity:
    try:
        answer = left.result()
    except CoordinatorError as error:
        return call.respond(error_code=error.code, members=())
    code = answer.error if answer.error or call.version >= MEMBERS_SINCE else answer.members[0].error
    return call.respond(
        error_code=ErrorCode(code),
        members=tuple(
            call.new(
                "MemberResponse",
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=ErrorCode(each.error),
            )
            for each in answer.members
        ),
    )
