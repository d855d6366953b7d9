"""Heartbeat (12): a member of a classic group lives, and learns of a rebalance. v3 static members (KIP-345). v4
flexible."""

from __future__ import annotations

from kcli.broker.coordinators import CoordinatorError
from kcli.broker.groups import ask_group
from kcli.broker.messages import Call, Entity, ErrorCode
from kcli.group.requests import Heartbeat


async def heartbeat(call: Call) -> Entity:
    """Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, and
    the coordinator's; none while it loads, so that members stay."""
    request = call.request
    try:
        code = await ask_group(
            call,
            request.group_id,
            Heartbeat(
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=call.get("group_instance_id", None),
                generation=request.generation_id,
            ),
        )
    except CoordinatorError as error:
        code = ErrorCode.none if error.code is ErrorCode.coordinator_load_in_progress else error.code
    return call.respond(error_code=ErrorCode(code))
