"""The delegation tokens of a cluster: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and
DescribeDelegationToken, sent to any broker. Source: KIP-48, KIP-373.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from kcli.client.token_answers import (
    CreateDelegationTokenResponse,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenResponse,
)
from kcli.client.wire import AnyBroker, ErrorAnswer, call
from kcli.protocol.error_code import ErrorCode
from kcli.security.principals import parts_of

# isort: split
from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.describe_delegation_token.v3.response import DescribeDelegationTokenResponse
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.static.primitive import i64Timedelta

_PERIOD_MAX = timedelta.max - timedelta(days=1)
"""The longest period that kio can encode."""
_ONE_MS = timedelta(milliseconds=1)


class Token(NamedTuple):
    """A delegation token. owner, requester, renewers: principals. Times are in ms since 1970: when it was made, when it
    expires, and until when it can be renewed. hmac: the secret with which a client logs in by the token."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes


class Tokens:
    """The delegation tokens of a cluster. Principals are texts such as User:alice. Periods are in ms. A period of -1
    means the broker's configured maximum lifetime in `create`, the broker's configured expiry time in `renew`, and "at
    once" in `expire`."""

    def __init__(self, brokers: AnyBroker) -> None:
        self._brokers = brokers

    def create(self, owner: str | None, renewers: Sequence[str], lifetime_ms: int) -> Token:
        """Make a token. owner: the principal that owns the token; None for this client's own. lifetime_ms: how long the
        token can be renewed.

        Raises NobodyAnswers, ErrorAnswer.
        """
        kind, name = (None, None) if owner is None else parts_of(owner)
        given = tuple(map(parts_of, renewers))
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=tuple(CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in given),
            max_lifetime=_period(lifetime_ms),
        )
        answer = self._brokers.ask(lambda server: call(server, request, CreateDelegationTokenResponse))
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer("", answer.error_code, None)
        return Token(
            token_id=answer.token_id,
            owner=f"{answer.principal_type}:{answer.principal_name}",
            requester=f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            renewers=tuple(renewers),
            issued_ms=answer.issue_timestamp,
            expires_ms=answer.expiry_timestamp,
            max_ms=answer.max_timestamp,
            hmac=answer.hmac,
        )

    def described(self, owners: Sequence[str]) -> list[Token]:
        """Return the tokens that the principals in `owners` own, have created or may renew, sorted by owner; if
        `owners` is empty, those of all principals. Only tokens that this client may describe are returned.

        Raises NobodyAnswers, ErrorAnswer.
        """
        asked = tuple(
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(parts_of, owners)
        )
        request = DescribeDelegationTokenRequest(owners=asked or None)
        answer = self._brokers.ask(lambda server: call(server, request, DescribeDelegationTokenResponse))
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer("", answer.error_code, None)
        found = [
            Token(
                token_id=each.token_id,
                owner=f"{each.principal_type}:{each.principal_name}",
                requester=f"{each.token_requester_principal_type}:{each.token_requester_principal_name}",
                renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
                issued_ms=each.issue_timestamp,
                expires_ms=each.expiry_timestamp,
                max_ms=each.max_timestamp,
                hmac=each.hmac,
            )
            for each in answer.tokens
        ]
        return sorted(found, key=lambda token: (token.owner, token.issued_ms, token.token_id))

    def renew(self, hmac: bytes, period_ms: int) -> int:
        """Let the token with this HMAC expire a period from now, but not after the end of its lifetime. Return the new
        expiry time, in ms since 1970. Raises NobodyAnswers, ErrorAnswer."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period=_period(period_ms))
        return _expiry_ms(self._brokers.ask(lambda server: call(server, request, RenewDelegationTokenResponse)))

    def expire(self, hmac: bytes, period_ms: int) -> int:
        """Let the token with this HMAC expire a period from now (at once for -1), also if it would expire later by
        itself. Return the new expiry time, in ms since 1970. Raises NobodyAnswers, ErrorAnswer."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=_period(period_ms))
        return _expiry_ms(self._brokers.ask(lambda server: call(server, request, ExpireDelegationTokenResponse)))


def _expiry_ms(answer: Any) -> int:
    """Return a token's expiry time, in ms since 1970, from the response to Renew- or ExpireDelegationToken. Raises
    ErrorAnswer."""
    if answer.error_code != ErrorCode.NONE:
        raise ErrorAnswer("", answer.error_code, None)
    expires_ms: int = answer.expiry_timestamp
    return expires_ms


def _period(ms: int) -> i64Timedelta:
    """Return a period of `ms` ms as kio's type; a period that a timedelta cannot hold (2.7 million years) becomes the
    longest."""
    return i64Timedelta.parse(min(ms, _PERIOD_MAX // _ONE_MS) * _ONE_MS)
