"""ListGroups and DescribeGroups.

Source: GroupMetadataManager (listGroups, describeGroups); KIP-518 and KIP-848 (filters), KIP-1043 (groups not found).
"""

from __future__ import annotations

from kcli.coordinator.machine import Token
from kcli.group.classic.group import ClassicGroup, State
from kcli.group.requests import DescribedGroup, DescribeGroup, ListedGroup, ListGroups
from kcli.group.turn import Turn
from kcli.protocol.error_code import ErrorCode


def list_groups(turn: Turn, token: Token, request: ListGroups) -> None:
    """Answer with the groups whose state and type pass the request's filters, which ignore case.

    An empty filter passes all groups; an unknown type passes none.
    """
    states, types = request.folded_states, request.folded_types
    listed = [
        ListedGroup(
            group_id=group.id, protocol_type=group.listed_protocol_type, state=group.state_name, type=group.type_name
        )
        for group in turn.shard.groups.values()
        if (not states or group.state_name.lower() in states) and (not types or group.type_name in types)
    ]
    turn.answer(token, listed)


def describe_group(turn: Turn, token: Token, request: DescribeGroup) -> None:
    """Answer with a classic group and its members. Error: GROUP_ID_NOT_FOUND if there is no group of that id, or
    the group is not classic."""
    group = turn.shard.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        answer = _described(group)
    else:
        reason = "not found" if group is None else "is not a classic group"
        message = f"Group {request.group_id} {reason}."
        answer = DescribedGroup(group_id=request.group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)
    turn.answer(token, answer)


def _described(group: ClassicGroup) -> DescribedGroup:
    """Return the description of a group. It has the group's protocol and the members' metadata only in state Stable."""
    protocol = group.protocol if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group.id,
        state=group.state_name,
        protocol_type=group.listed_protocol_type,
        protocol=protocol or "",
        members=tuple(member.describe(protocol) for member in group.members.values()),
    )
