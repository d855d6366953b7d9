"""ListGroups (16): the groups that this broker coordinates. v3 flexible. v4 filter of states (KIP-518). v5 filter of
types (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.process.turns import LONG_BYTES, apart
from kcli.group.requests import ListedGroup, ListGroups
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import list_groups as types


async def list_groups(broker: Broker, call: types.ListGroupsCall) -> types.ListGroupsResponse:
    """Errors: COORDINATOR_LOAD_IN_PROGRESS."""
    request = ListGroups(states=call.get("states_filter", ()), types=call.get("types_filter", ()))
    if call.size_bytes > LONG_BYTES:
        await apart(request.fold)
    groups = broker.groups
    listed: list[ListedGroup] = []
    for number in groups.led():
        try:
            listed += await groups.handle_in(number, request)
        except CoordinatorError as error:
            if error.code != ErrorCode.NOT_COORDINATOR:
                return call.respond(error_code=error.code, groups=())
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.GROUP, log_denied=False)
    if broker.access.allows(call, Operation.DESCRIBE, ResourceType.CLUSTER, log_denied=False):
        describable = EVERYTHING
    return call.respond(
        error_code=ErrorCode.NONE,
        groups=tuple(
            [
                call.new(
                    "ListedGroup",
                    group_id=each.group_id,
                    protocol_type=each.protocol_type,
                    group_state=each.state,
                    group_type=each.type,
                )
                async for each in broker.turns.over(listed)
                if each.group_id in describable
            ]
        ),
    )
