"""Heartbeat (12): a member of a classic group reports that it is alive, and learns of a rebalance. v3 static members
(KIP-345). v4 flexible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from formats.kernels.group_requests import read_heartbeat
from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.wire import member_layout
from kcli.broker.wire.answers import Encoded, Laid
from kcli.broker.wire.call import Client
from kcli.group.requests import Heartbeat
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import heartbeat as types


def heartbeat(broker: Broker, call: types.HeartbeatCall) -> Laid | Awaitable[Laid]:
    """Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, and
    any code of CoordinatorError; none while the coordinator loads, so that members do not rejoin."""
    request = call.request
    broker.access.require(call, Operation.READ, ResourceType.GROUP, request.group_id)
    if not request.group_id:
        return _answer(call, ErrorCode.INVALID_GROUP_ID)
    beat = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=call.get("group_instance_id", None),
        generation=request.generation_id,
    )
    try:
        answer = broker.groups.send(request.group_id, beat)
    except CoordinatorError as error:
        return _failed(call, error)
    return when_answered(answer, lambda answer: _finished(call, answer))


def answer_plain(broker: Broker, frame: memoryview, client: Client, _now_ms: int) -> Laid | None:
    """Return the response to a plain Heartbeat: one that succeeds, and needs no line in the audit log. It is handled
    from its bytes, without being decoded into kio's objects. Return None for any other Heartbeat, which the caller then
    decodes and handles."""
    read = read_heartbeat(frame)
    if read is None:
        return None
    group_id, generation, member_id, instance_id, answer = read
    if not broker.access.allows_unaudited(client, Operation.READ, ResourceType.GROUP, group_id):
        return None
    if not group_id or not broker.groups.at_once(group_id, Heartbeat(group_id, member_id, instance_id, generation)):
        return None
    return Encoded([answer])


def _finished(call: types.HeartbeatCall, answer: asyncio.Future[int]) -> Laid:
    try:
        return _answer(call, int(answer.result()))
    except CoordinatorError as error:
        return _failed(call, error)


def _failed(call: types.HeartbeatCall, error: CoordinatorError) -> Laid:
    loads = error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return _answer(call, ErrorCode.NONE if loads else error.code)


def _answer(call: types.HeartbeatCall, code: int) -> Laid:
    return member_layout.heartbeat(call.messages, call.header.correlation_id, code)
