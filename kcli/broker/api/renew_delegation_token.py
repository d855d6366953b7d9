"""RenewDelegationToken (39): let a token expire later. Only the token's owner and renewers may send this request.

v1 as v0. v2 flexible. KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kcli.broker.broker import Broker
from kcli.broker.controller.token_admin import (
    NO_TIME_MS,
    time_of,
)
from kcli.broker.coordinators.groups import milliseconds
from kcli.metadata.result import Refused
from kcli.metadata.token_control import renew_token as decide
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types import renew_delegation_token as types


async def renew_delegation_token(
    broker: Broker, call: types.RenewDelegationTokenCall
) -> types.RenewDelegationTokenResponse:
    """Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH, UNSUPPORTED_VERSION."""
    admin = broker.token_admin
    if not admin.may_ask(call):
        return _answer(call, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME_MS)
    if admin.is_elsewhere(call):
        return cast("types.RenewDelegationTokenResponse", await admin.forward(call))
    tokens = admin.tokens
    if tokens is None:
        return _answer(call, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
    token_id, period_ms = tokens.id_of(call.request.hmac), milliseconds(call.request.renew_period)
    try:
        result = decide(broker.metadata.draft, token_id, call.principal, period_ms, admin.times, call.now_ms)
    except Refused as refused:
        return _answer(call, refused.error.code, 0)
    await broker.metadata.append(result.records)
    return _answer(call, ErrorCode.NONE, result.response)


def _answer(
    call: types.RenewDelegationTokenCall, code: ErrorCode, expires_ms: int
) -> types.RenewDelegationTokenResponse:
    return call.respond(error_code=code, expiry_timestamp=time_of(expires_ms))
