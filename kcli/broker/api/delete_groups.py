"""DeleteGroups (42): groups without members go, with their offsets. v2 flexible. KIP-229."""

from __future__ import annotations

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.group.requests import DeleteGroup


async def delete_groups(call: Call) -> Entity:
    """Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, and the coordinator's."""
    return call.respond(
        results=tuple([await _delete(call, group_id) for group_id in dict.fromkeys(call.request.groups_names)])
    )


async def _delete(call: Call, group_id: str) -> Entity:
    try:
        code = ErrorCode(await call.broker.groups.ask(group_id, DeleteGroup(group_id=group_id)))
    except CoordinatorError as error:
        code = error.code
    return call.new("DeletableGroupResult", group_id=group_id, error_code=code)
