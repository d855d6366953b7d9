"""SyncGroup (14): a member asks for its assignment, the leader brings all of them; the answer waits for the leader.

v3 static members (KIP-345). v4 flexible. v5 protocol type and name, which must be there (KIP-559).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kcli.broker.coordinators.groups import send_group, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network import member_layout
from kcli.broker.network.connection import Laid
from kcli.broker.network.messages import Call, ErrorCode
from kcli.group.requests import SyncAnswer, SyncGroup

PROTOCOL_SINCE = 5


def sync_group(call: Call) -> Laid | Awaitable[Laid]:
    """Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS, and the coordinator's."""
    request = call.request
    protocol_type, protocol = call.get("protocol_type", None), call.get("protocol_name", None)
    if call.version >= PROTOCOL_SINCE and (protocol_type is None or protocol is None):
        return _answer(call, ErrorCode.inconsistent_group_protocol, SyncAnswer())
    try:
        answer = send_group(
            call,
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


def _finished(call: Call, answer: asyncio.Future[SyncAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, error.code, SyncAnswer())
    return _answer(call, int(result.error), result)


def _answer(call: Call, code: int, answer: SyncAnswer) -> Laid:
    return member_layout.sync_group(call.messages, call.header.correlation_id, code, answer)
