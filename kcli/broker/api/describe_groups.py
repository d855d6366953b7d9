"""DescribeGroups (15): classic groups with their members.

v3 authorized operations (KIP-430). v4 static members (KIP-345). v5 flexible. v6 GROUP_ID_NOT_FOUND, with a message
(KIP-1043); before, such a group is Dead.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.broker.coordinators.groups import GROUP_OPERATIONS
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import NOT_ASKED
from kcli.group.errors import ErrorCode as GroupCode
from kcli.group.requests import DescribedGroup, DescribeGroup

NOT_FOUND_SINCE = 6


async def describe_groups(call: Call) -> Entity:
    """Errors: GROUP_ID_NOT_FOUND, and the coordinator's."""
    return call.respond(groups=tuple([await _describe(call, group_id) for group_id in call.request.groups]))


async def _describe(call: Call, group_id: str) -> Entity:
    try:
        group: DescribedGroup = await call.broker.groups.ask(group_id, DescribeGroup(group_id=group_id))
    except CoordinatorError as error:
        return _answer(call, error.code, DescribedGroup(group_id=group_id, state=""))
    if call.version < NOT_FOUND_SINCE:
        group = replace(group, error=GroupCode.NONE)
    return _answer(call, ErrorCode(group.error), group)


def _answer(call: Call, code: ErrorCode, group: DescribedGroup) -> Entity:
    is_asked = call.get("include_authorized_operations", False) and code is ErrorCode.none
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
        authorized_operations=GROUP_OPERATIONS if is_asked else NOT_ASKED,
    )
