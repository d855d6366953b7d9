"""DescribeDelegationToken (41), versions 1 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeDelegationTokenOwner:
    principal_type: str
    principal_name: str

@dataclass(frozen=True)
class DescribeDelegationTokenRequest:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None

@dataclass(frozen=True)
class DescribedDelegationTokenRenewer:
    principal_type: str
    principal_name: str

@dataclass(frozen=True)
class DescribedDelegationToken:
    principal_type: str
    principal_name: str
    token_requester_principal_type: str  # version 3
    token_requester_principal_name: str  # version 3
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int
    token_id: str
    hmac: bytes
    renewers: tuple[DescribedDelegationTokenRenewer, ...]

@dataclass(frozen=True)
class DescribeDelegationTokenResponse:
    error_code: ErrorCode
    tokens: tuple[DescribedDelegationToken, ...]
    throttle_time: dt.timedelta

class DescribeDelegationTokenCall(Call):
    request: DescribeDelegationTokenRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribedDelegationTokenRenewer"],
        /,
        *,
        principal_type: str,
        principal_name: str,
    ) -> DescribedDelegationTokenRenewer: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribedDelegationToken"],
        /,
        *,
        principal_type: str,
        principal_name: str,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp: int,
        expiry_timestamp: int,
        max_timestamp: int,
        token_id: str,
        hmac: bytes,
        renewers: tuple[DescribedDelegationTokenRenewer, ...],
    ) -> DescribedDelegationToken: ...
    def has(
        self,
        name: Literal["DescribedDelegationToken"],
        field: Literal["token_requester_principal_type", "token_requester_principal_name"],
    ) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        tokens: tuple[DescribedDelegationToken, ...],
        throttle_time: dt.timedelta = ...,
    ) -> DescribeDelegationTokenResponse: ...
