"""LeaveGroup (13): members leave a classic group. v3 several members, static ones by instance id (KIP-345). v4
flexible. v5 reason (KIP-800)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import send_group, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import LeaveAnswer, LeaveGroup, Leaver
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import leave_group as types

MEMBERS_SINCE = 3


def leave_group(
    broker: Broker, call: types.LeaveGroupCall
) -> types.LeaveGroupResponse | Awaitable[types.LeaveGroupResponse]:
    """Errors: INVALID_GROUP_ID, and any code of CoordinatorError; of each member: UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID."""
    request = call.request
    broker.access.require(call, Operation.READ, ResourceType.GROUP, request.group_id)
    if call.version >= MEMBERS_SINCE:
        members = tuple(
            Leaver(member_id=each.member_id, instance_id=each.group_instance_id) for each in request.members
        )
    else:
        members = (Leaver(member_id=request.member_id, instance_id=None),)
    try:
        answer = send_group(broker.groups, request.group_id, LeaveGroup(group_id=request.group_id, members=members))
    except CoordinatorError as error:
        return call.respond(error_code=error.code, members=())
    return when_answered(answer, lambda answer: _finished(call, answer))


def _finished(call: types.LeaveGroupCall, left: asyncio.Future[LeaveAnswer]) -> types.LeaveGroupResponse:
    try:
        answer = left.result()
    except CoordinatorError as error:
        return call.respond(error_code=error.code, members=())
    code = answer.error if answer.error or call.version >= MEMBERS_SINCE else answer.members[0].error
    return call.respond(
        error_code=code,
        members=tuple(
            call.new(
                "MemberResponse",
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                error_code=each.error,
            )
            for each in answer.members
        ),
    )
