"""DescribeDelegationToken (41): the delegation tokens of some owners, or all tokens, without those that the client may
not describe.

v1 as v0. v2 flexible. v3 requesters (KIP-373). KIP-48.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.security.delegation_tokens import may_describe
from kcli.security.principals import parts_of

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_delegation_token as types
    from kcli.security.delegation_tokens import DelegationTokens


async def describe_delegation_token(
    broker: Broker, call: types.DescribeDelegationTokenCall
) -> types.DescribeDelegationTokenResponse:
    """Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED."""
    admin = broker.token_admin
    if not admin.may_ask(call):
        return call.respond(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, tokens=())
    tokens = admin.tokens
    if tokens is None:
        return call.respond(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, tokens=())
    asked = call.request.owners
    owners = None
    if asked is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" async for each in broker.turns.over(asked)}
    records = [] if owners is not None and not owners else list(broker.image.delegation_tokens.values())
    found, count = [], 0
    async for each in broker.turns.over(records):
        if may_know(broker, call, owners, each):
            found.append(_token(call, tokens, each))
            count += len(each["renewers"])
            if count > STEPS_AT_ONCE:
                await broker.turns.next()
                count = 0
    return call.respond(error_code=ErrorCode.NONE, tokens=tuple(found))


def may_know(
    broker: Broker, call: types.DescribeDelegationTokenCall, owners: set[str] | None, record: dict[str, Any]
) -> bool:
    """Return whether the response includes the token: one of `owners` must be its owner, requester or renewer, and the
    client must be allowed to describe the token. owners: the requested principals, None for all. record: the token's
    record in the metadata log."""
    if owners is not None and owners.isdisjoint((record["owner"], record["requester"], *record["renewers"])):
        return False
    access = broker.access
    return (
        may_describe(record, call.principal)
        or access.allows(call, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, record["tokenId"])
        or access.allows(call, Operation.DESCRIBE_TOKENS, ResourceType.USER, record["owner"])
    )


def _token(
    call: types.DescribeDelegationTokenCall, tokens: DelegationTokens, record: dict[str, Any]
) -> types.DescribedDelegationToken:
    kind, name = parts_of(record["owner"])
    requester_kind, requester_name = parts_of(record["requester"])
    return call.new(
        "DescribedDelegationToken",
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester_name,
        issue_timestamp=record["issueTimestamp"],
        expiry_timestamp=record["expirationTimestamp"],
        max_timestamp=record["maxTimestamp"],
        token_id=record["tokenId"],
        hmac=tokens.hmac(record["tokenId"]),
        renewers=tuple(
            call.new("DescribedDelegationTokenRenewer", principal_type=of[0], principal_name=of[1])
            for of in map(parts_of, record["renewers"])
        ),
    )
