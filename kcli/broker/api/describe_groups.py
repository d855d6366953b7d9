"""DescribeGroups (15): classic groups with their members.

v3 authorized operations (KIP-430). v4 static members (KIP-345). v5 flexible. v6 GROUP_ID_NOT_FOUND, with a message
(KIP-1043); in earlier versions an unknown group has state Dead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import OPERATIONS_OMITTED
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.group.requests import DescribedGroup, DescribeGroup
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_groups as types

NOT_FOUND_SINCE = 6


async def describe_groups(broker: Broker, call: types.DescribeGroupsCall) -> types.DescribeGroupsResponse:
    """Errors: GROUP_ID_NOT_FOUND, and any code of CoordinatorError."""
    return call.respond(groups=tuple([await _describe(broker, call, group_id) for group_id in call.request.groups]))


async def _describe(broker: Broker, call: types.DescribeGroupsCall, group_id: str) -> types.DescribedGroup:
    if not broker.access.allows(call, Operation.DESCRIBE, ResourceType.GROUP, group_id):
        return _answer(broker, call, ErrorCode.GROUP_AUTHORIZATION_FAILED, DescribedGroup(group_id=group_id, state=""))
    try:
        group: DescribedGroup = await broker.groups.handle(group_id, DescribeGroup(group_id=group_id))
    except CoordinatorError as error:
        return _answer(broker, call, error.code, DescribedGroup(group_id=group_id, state=""))
    if call.version < NOT_FOUND_SINCE:
        group = replace(group, error=ErrorCode.NONE)
    return _answer(broker, call, group.error, group)


def _answer(
    broker: Broker, call: types.DescribeGroupsCall, code: ErrorCode, group: DescribedGroup
) -> types.DescribedGroup:
    includes_operations = call.get("include_authorized_operations", False) and code == ErrorCode.NONE
    operations = (
        broker.access.operations(call, ResourceType.GROUP, group.group_id)
        if includes_operations
        else OPERATIONS_OMITTED
    )
    return call.new(
        "DescribedGroup",
        error_code=code,
        error_message=group.error_message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(
            call.new(
                "DescribedGroupMember",
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ),
        authorized_operations=operations,
    )
