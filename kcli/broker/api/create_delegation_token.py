"""CreateDelegationToken (38): make a token with which others log in as its owner.

v1 as v0. v2 flexible. v3 for another owner (KIP-373). KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kcli.broker.broker import Broker
from kcli.broker.controller.token_admin import NO_TIME_MS, time_of
from kcli.broker.coordinators.groups import milliseconds
from kcli.broker.metadata.format import random_id
from kcli.metadata.result import Refused
from kcli.metadata.token_control import NewToken
from kcli.metadata.token_control import create_token as decide
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.principals import USER, parts_of

if TYPE_CHECKING:
    from kcli.broker.wire.types import create_delegation_token as types

RENEWERS_MAX: Final = 1000
"""The largest number of renewers that a token may have. It is limited because each renewer is in the memory of every
node, and in each response about the token."""


async def create_delegation_token(
    broker: Broker, call: types.CreateDelegationTokenCall
) -> types.CreateDelegationTokenResponse:
    """Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_AUTH_DISABLED, INVALID_PRINCIPAL_TYPE, UNSUPPORTED_VERSION; RECORD_LIST_TOO_LARGE for more than
    RENEWERS_MAX renewers (in Kafka, for a token whose record is larger than a batch of the metadata log)."""
    name = call.get("owner_principal_name", None)
    owner = f"{call.get('owner_principal_type', None)}:{name}" if name else call.principal
    admin = broker.token_admin
    if not admin.may_ask(call):
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if owner != call.principal and not broker.access.allows(call, Operation.CREATE_TOKENS, ResourceType.USER, owner):
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    tokens = admin.tokens
    if tokens is None:
        return _refused(call, owner, ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if len(call.request.renewers) > RENEWERS_MAX:
        return _refused(call, owner, ErrorCode.RECORD_LIST_TOO_LARGE)
    renewers = [(each.principal_type, each.principal_name) for each in call.request.renewers]
    if any(kind != USER for kind, _ in renewers):
        return _refused(call, owner, ErrorCode.INVALID_PRINCIPAL_TYPE)
    if admin.is_elsewhere(call):
        return cast("types.CreateDelegationTokenResponse", await admin.forward(call))
    new = NewToken(
        token_id=random_id(),
        owner=owner,
        requester=call.principal,
        renewers=[f"{kind}:{name}" for kind, name in renewers],
        lifetime_ms=milliseconds(call.request.max_lifetime),
    )
    try:
        result = decide(broker.metadata.draft, new, admin.times, call.now_ms)
    except Refused as refused:
        return _refused(call, owner, refused.error.code)
    await broker.metadata.append(result.records)
    record = result.response
    return _answer(
        call,
        owner,
        ErrorCode.NONE,
        (record["issueTimestamp"], record["expirationTimestamp"], record["maxTimestamp"]),
        new.token_id,
        tokens.hmac(new.token_id),
    )


def _refused(call: types.CreateDelegationTokenCall, owner: str, code: ErrorCode) -> types.CreateDelegationTokenResponse:
    return _answer(call, owner, code, (NO_TIME_MS, NO_TIME_MS, NO_TIME_MS), "", b"")


def _answer(
    call: types.CreateDelegationTokenCall,
    owner: str,
    code: ErrorCode,
    times_ms: tuple[int, int, int],
    token_id: str,
    hmac: bytes,
) -> types.CreateDelegationTokenResponse:
    """Return the response. times_ms: when the token was made, when it expires, and the latest time to which it can be
    renewed, in ms since 1970."""
    (kind, name), (requester_kind, requester_name) = parts_of(owner), parts_of(call.principal)
    issued_ms, expires_ms, max_ms = times_ms
    return call.respond(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=time_of(issued_ms),
        expiry_timestamp=time_of(expires_ms),
        max_timestamp=time_of(max_ms),
        token_id=token_id,
        hmac=hmac,
    )
