"""DeleteGroups (42): delete groups without members, with their committed offsets. v2 flexible. KIP-229."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import DeleteGroup
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import delete_groups as types


async def delete_groups(broker: Broker, call: types.DeleteGroupsCall) -> types.DeleteGroupsResponse:
    """Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and any code of CoordinatorError."""
    return call.respond(
        results=tuple([await _delete(broker, call, group_id) for group_id in dict.fromkeys(call.request.groups_names)])
    )


async def _delete(broker: Broker, call: types.DeleteGroupsCall, group_id: str) -> types.DeletableGroupResult:
    if not broker.access.allows(call, Operation.DELETE, ResourceType.GROUP, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        return call.new("DeletableGroupResult", group_id=group_id, error_code=code)
    try:
        code = await broker.groups.handle(group_id, DeleteGroup(group_id=group_id))
    except CoordinatorError as error:
        code = error.code
    return call.new("DeletableGroupResult", group_id=group_id, error_code=code)
