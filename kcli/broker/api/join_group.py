"""JoinGroup (11): a member joins a classic group; the response waits until all members have joined,
or the rebalance timeout is over.

v1 rebalance time-out (KIP-62). v4 MEMBER_ID_REQUIRED (KIP-394). v5 static members (KIP-345). v6 flexible. v7 protocol
type (KIP-559). v8 reason (KIP-800). v9 a leader that need not compute the assignment (KIP-814).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING

from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.coordinators.groups import milliseconds, send_group, when_answered
from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.process.turns import STEPS_AT_ONCE, apart
from kcli.broker.wire import member_layout
from kcli.broker.wire.answers import Laid
from kcli.group.requests import JoinAnswer, JoinGroup, Protocols
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import join_group as types

KNOWN_MEMBER_SINCE = 4
SKIP_ASSIGNMENT_SINCE = 9


def join_group(broker: Broker, call: types.JoinGroupCall) -> Laid | Awaitable[Laid]:
    """Errors: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
    INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, and any code of CoordinatorError."""
    if len(call.request.protocols) <= STEPS_AT_ONCE:
        return _join(broker, call, _protocols(call))
    return _join_in_turn(broker, call)


async def _join_in_turn(broker: Broker, call: types.JoinGroupCall) -> Laid:
    protocols = await apart(_protocols, call)
    call.request = replace(call.request, protocols=())  # free the protocols, as the response may take minutes
    await broker.turns.next()
    answer = _join(broker, call, protocols)
    return await answer if isawaitable(answer) else answer


def _protocols(call: types.JoinGroupCall) -> Protocols:
    """Return the protocols of the request; of several with the same name, the first."""
    found: dict[str, bytes] = {}
    for each in call.request.protocols:
        found.setdefault(each.name, each.metadata)
    return tuple(found.items())


def _join(broker: Broker, call: types.JoinGroupCall, protocols: Protocols) -> Laid | Awaitable[Laid]:
    request, config = call.request, broker.config
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC)
    if not broker.access.allows(call, Operation.READ, ResourceType.GROUP, request.group_id):
        return _answer(call, ErrorCode.GROUP_AUTHORIZATION_FAILED, JoinAnswer(member_id=""))
    session_timeout_ms = milliseconds(request.session_timeout)
    rebalance_timeout = call.get("rebalance_timeout", request.session_timeout)
    least, most = config.number("group.min.session.timeout.ms"), config.number("group.max.session.timeout.ms")
    if request.group_id and not least <= session_timeout_ms <= most:
        return _answer(call, ErrorCode.INVALID_SESSION_TIMEOUT, JoinAnswer(member_id=request.member_id))
    try:
        answer = send_group(
            broker.groups,
            request.group_id,
            JoinGroup(
                group_id=request.group_id,
                member_id=request.member_id,
                instance_id=call.get("group_instance_id", None),
                protocol_type=request.protocol_type,
                protocols=protocols,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=milliseconds(rebalance_timeout),
                client_id=call.client_id,
                client_host=f"/{call.client_host}",
                requires_known_member_id=call.version >= KNOWN_MEMBER_SINCE,
                can_skip_assignment=call.version >= SKIP_ASSIGNMENT_SINCE,
                describable=None if describable is EVERYTHING else describable,
            ),
        )
    except CoordinatorError as error:
        member_id = request.member_id if error.code == ErrorCode.INVALID_GROUP_ID else ""
        return _answer(call, error.code, JoinAnswer(member_id=member_id))
    return when_answered(answer, lambda answer: _finished(call, answer))


def _finished(call: types.JoinGroupCall, answer: asyncio.Future[JoinAnswer]) -> Laid:
    try:
        result = answer.result()
    except CoordinatorError as error:
        return _answer(call, error.code, JoinAnswer(member_id=""))
    return _answer(call, int(result.error), result)


def _answer(call: types.JoinGroupCall, code: int, answer: JoinAnswer) -> Laid:
    return member_layout.join_group(call.messages, call.header.correlation_id, code, answer)
