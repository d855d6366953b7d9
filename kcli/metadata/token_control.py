"""Delegation tokens: the records that create, renew, expire and remove them.

    create    the token expires after delegation.token.expiry.time.ms unless it is renewed, and at its max timestamp in
              any case: after the requested lifetime or delegation.token.max.lifetime.ms, whichever is less
    renew     the owner or a renewer postpones the expiry of a token that has not expired, at most to its max timestamp
    expire    the owner or a renewer removes the token at once, or sets when it expires
    sweep     removes the tokens that have expired

All times are ms since 1970. Source: DelegationTokenControlManager; KIP-48, KIP-373, KIP-900.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kcli.log.config import LONG_MAX
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.metadata_version import DELEGATION_TOKENS
from kcli.metadata.result import Refused, Result
from kcli.protocol.error_code import ErrorCode
from kcli.security.delegation_tokens import has_expired, may_renew

SWEPT_MAX: Final = 1000
"""The largest number of tokens that one sweep removes."""


class TokenTimes(NamedTuple):
    """delegation.token.max.lifetime.ms, and delegation.token.expiry.time.ms."""

    lifetime_ms_max: int
    expiry_ms: int


class NewToken(NamedTuple):
    """A token to create. owner, requester, renewers: principals. lifetime_ms: the requested lifetime; zero or negative
    for delegation.token.max.lifetime.ms."""

    token_id: str
    owner: str
    requester: str
    renewers: Sequence[str]
    lifetime_ms: int


def create_token(image: MetadataImage, new: NewToken, times: TokenTimes, now_ms: int) -> Result[dict[str, Any]]:
    """Create a token; return the fields of its record. times: the limits in the controller's configuration. Raises
    Refused(UNSUPPORTED_VERSION)."""
    _check_version(image)
    lifetime_ms = times.lifetime_ms_max if new.lifetime_ms <= 0 else min(times.lifetime_ms_max, new.lifetime_ms)
    max_ms = _later(now_ms, lifetime_ms)
    record = {
        "owner": new.owner,
        "requester": new.requester,
        "renewers": list(new.renewers),
        "issueTimestamp": now_ms,
        "maxTimestamp": max_ms,
        "expirationTimestamp": min(max_ms, _later(now_ms, times.expiry_ms)),
        "tokenId": new.token_id,
    }
    return Result([("DelegationTokenRecord", 0, record)], record)


def renew_token(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, times: TokenTimes, now_ms: int
) -> Result[int]:
    """Renew a token; return its new expiry time, in ms since 1970. principal: that of the client. token_id: None if no
    token has the request's HMAC. period_ms: the requested period from now on; the token gets
    delegation.token.expiry.time.ms at most, and exactly that for zero or a negative number.

    Raises Refused: UNSUPPORTED_VERSION, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_OWNER_MISMATCH.
    """
    record = _find(image, token_id)
    if has_expired(record, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    _check_principal(record, principal)
    period_ms = times.expiry_ms if period_ms <= 0 else min(times.expiry_ms, period_ms)
    return _expiring(record, min(record["maxTimestamp"], _later(now_ms, period_ms)))


def expire_token(
    image: MetadataImage, token_id: str | None, principal: str, period_ms: int, now_ms: int
) -> Result[int]:
    """Let a token expire `period_ms` from now on, but not after its max timestamp, or remove it at once if `period_ms`
    is negative; return the time, in ms since 1970, when it expires. token_id, principal: as in `renew_token`. Raises
    Refused as `renew_token` does."""
    record = _find(image, token_id)
    _check_principal(record, principal)
    if period_ms < 0:
        return Result([_removal(record["tokenId"])], now_ms)
    if has_expired(record, now_ms):
        raise Refused(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _expiring(record, min(record["maxTimestamp"], _later(now_ms, period_ms)))


def sweep_tokens(image: MetadataImage, now_ms: int) -> list[Record]:
    """Return the records that remove tokens which have expired, SWEPT_MAX at most."""
    expired = [token_id for token_id, record in image.delegation_tokens.items() if has_expired(record, now_ms)]
    return [_removal(token_id) for token_id in expired[:SWEPT_MAX]]


def _check_version(image: MetadataImage) -> None:
    if image.metadata_version < DELEGATION_TOKENS:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def _find(image: MetadataImage, token_id: str | None) -> dict[str, Any]:
    _check_version(image)
    record = None if token_id is None else image.delegation_tokens.get(token_id)
    if record is None:
        raise Refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return record


def _check_principal(record: dict[str, Any], principal: str) -> None:
    if not may_renew(record, principal):
        raise Refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _expiring(record: dict[str, Any], expires_ms: int) -> Result[int]:
    return Result([("DelegationTokenRecord", 0, {**record, "expirationTimestamp": expires_ms})], expires_ms)


def _removal(token_id: str) -> Record:
    return "RemoveDelegationTokenRecord", 0, {"tokenId": token_id}


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, LONG_MAX)
