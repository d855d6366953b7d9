"""SyncGroup (14): a member of a classic group fetches its assignment. The group's leader sends the assignments of all
members; the other responses wait for the leader's SyncGroup.

v3 static members (KIP-345). v4 flexible. v5 protocol type and name, both required (KIP-559).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import send_group, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.wire import member_layout
from kcli.broker.wire.answers import Laid
from kcli.group.requests import SyncAnswer, SyncGroup
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import sync_group as types

PROTOCOL_SINCE = 5


def sync_group(broker: Broker, call: types.SyncGroupCall) -> Laid | Awaitable[Laid]:
    """Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
    REBALANCE_IN_PROGRESS, and any code of CoordinatorError."""
    request = call.request
    protocol_type, protocol = call.get("protocol_type", None), call.get("protocol_name", None)
    if call.version >= PROTOCOL_SINCE and (protocol_type is None or protocol is None):
        return _answer(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, SyncAnswer())
    if not broker.access.allows(call, Operation.READ, ResourceType.GROUP, request.group_id):
        return _answer(call, ErrorCode.GROUP_AUTHORIZATION_FAILED, SyncAnswer())
    try:
        answer = send_group(
            broker.groups,
            request.group_id,
            SyncGroup(
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=call.get("group_instance_id", None),
                generation=request.generation_id,
                protocol_type=protocol_type,
                protocol=protocol,
                assignments={each.member_id: each.assignment for each in request.assignments},
            ),
        )
    except CoordinatorError as error:
        return _answer(call, error.code, SyncAnswer())
    return when_answered(answer, lambda answer: _finished(call, answer))


def _finished(call: types.SyncGroupCall, answer: asyncio.Future[SyncAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, error.code, SyncAnswer())
    return _answer(call, int(result.error), result)


def _answer(call: types.SyncGroupCall, code: int, answer: SyncAnswer) -> Laid:
    return member_layout.sync_group(call.messages, call.header.correlation_id, code, answer)
