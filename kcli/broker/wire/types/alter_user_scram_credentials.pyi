"""AlterUserScramCredentials (51), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ScramCredentialDeletion:
    name: str
    mechanism: int

@dataclass(frozen=True)
class ScramCredentialUpsertion:
    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

@dataclass(frozen=True)
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]

@dataclass(frozen=True)
class AlterUserScramCredentialsResult:
    user: str
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class AlterUserScramCredentialsResponse:
    throttle_time: dt.timedelta
    results: tuple[AlterUserScramCredentialsResult, ...]

class AlterUserScramCredentialsCall(Call):
    request: AlterUserScramCredentialsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["AlterUserScramCredentialsResult"],
        /,
        *,
        user: str,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> AlterUserScramCredentialsResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[AlterUserScramCredentialsResult, ...],
    ) -> AlterUserScramCredentialsResponse: ...
