"""CreateDelegationToken (38), versions 1 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class CreatableRenewers:
    principal_type: str
    principal_name: str

@dataclass(frozen=True)
class CreateDelegationTokenRequest:
    owner_principal_type: str | None  # version 3
    owner_principal_name: str | None  # version 3
    renewers: tuple[CreatableRenewers, ...]
    max_lifetime: dt.timedelta

@dataclass(frozen=True)
class CreateDelegationTokenResponse:
    error_code: ErrorCode
    principal_type: str
    principal_name: str
    token_requester_principal_type: str  # version 3
    token_requester_principal_name: str  # version 3
    issue_timestamp: dt.datetime
    expiry_timestamp: dt.datetime
    max_timestamp: dt.datetime
    token_id: str
    hmac: bytes
    throttle_time: dt.timedelta

class CreateDelegationTokenCall(Call):
    request: CreateDelegationTokenRequest
    @overload
    def get(self, name: Literal["owner_principal_type"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["owner_principal_name"], default: str | None) -> str | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(
        self,
        name: Literal["CreateDelegationTokenResponse"],
        field: Literal["token_requester_principal_type", "token_requester_principal_name"],
    ) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        principal_type: str,
        principal_name: str,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp: dt.datetime,
        expiry_timestamp: dt.datetime,
        max_timestamp: dt.datetime,
        token_id: str,
        hmac: bytes,
        throttle_time: dt.timedelta = ...,
    ) -> CreateDelegationTokenResponse: ...
