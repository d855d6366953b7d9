"""DescribeUserScramCredentials (50), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class UserName:
    name: str

@dataclass(frozen=True)
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None

@dataclass(frozen=True)
class CredentialInfo:
    mechanism: int
    iterations: int

@dataclass(frozen=True)
class DescribeUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]

@dataclass(frozen=True)
class DescribeUserScramCredentialsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]

class DescribeUserScramCredentialsCall(Call):
    request: DescribeUserScramCredentialsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(self, _struct: Literal["CredentialInfo"], /, *, mechanism: int, iterations: int) -> CredentialInfo: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeUserScramCredentialsResult"],
        /,
        *,
        user: str,
        error_code: ErrorCode,
        error_message: str | None,
        credential_infos: tuple[CredentialInfo, ...],
    ) -> DescribeUserScramCredentialsResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
        results: tuple[DescribeUserScramCredentialsResult, ...],
    ) -> DescribeUserScramCredentialsResponse: ...
