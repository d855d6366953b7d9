"""Heartbeat (12): a member of a classic group lives, and learns of a rebalance. v3 static members (KIP-345). v4
flexible."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kcli.broker.coordinators.groups import when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network import member_layout
from kcli.broker.network.connection import Laid
from kcli.broker.network.messages import Call, ErrorCode
from kcli.group.requests import Heartbeat


def heartbeat(call: Call) -> Laid | Awaitable[Laid]:
    """Errors: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, and
    the coordinator's; none while it loads, so that members stay."""
    request = call.request
    if not request.group_id:
        return _answer(call, ErrorCode.invalid_group_id)
    asked = Heartbeat(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=call.get("group_instance_id", None),
        generation=request.generation_id,
    )
    try:
        answer = call.broker.groups.send(request.group_id, asked)
    except CoordinatorError as error:
        return _failed(call, error)
    return when_answered(answer, lambda answer: _finished(call, answer))


def _finished(call: Call, answer: asyncio.Future[int]) -> Laid:
    try:
        return _answer(call, int(answer.result()))
    except CoordinatorError as error:
        return _failed(call, error)


def _failed(call: Call, error: CoordinatorError) -> Laid:
    loads = error.code is ErrorCode.coordinator_load_in_progress
    return _answer(call, ErrorCode.none if loads else error.code)


def _answer(call: Call, code: int) -> Laid:
    return member_layout.heartbeat(call.messages, call.header.correlation_id, code)
