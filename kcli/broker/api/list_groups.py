"""ListGroups (16): the groups that this broker coordinates. v3 flexible. v4 filter of states (KIP-518). v5 filter of
types (KIP-848)."""

from __future__ import annotations

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.requests import ListedGroup, ListGroups


async def list_groups(call: Call) -> Entity:
    """Errors: COORDINATOR_LOAD_IN_PROGRESS."""
    request = ListGroups(states=call.get("states_filter", ()), types=call.get("types_filter", ()))
    groups = call.broker.groups
    listed: list[ListedGroup] = []
    for number in groups.led():
        try:
            listed += await groups.ask_shard(number, request)
        except CoordinatorError as error:
            if error.code is not ErrorCode.not_coordinator:
                return call.respond(error_code=error.code, groups=())
    return call.respond(
        error_code=ErrorCode.none,
        groups=tuple(
            call.new(
                "ListedGroup",
                group_id=each.group_id,
                protocol_type=each.protocol_type,
                group_state=each.state,
                group_type=each.type,
            )
            for each in listed
        ),
    )
