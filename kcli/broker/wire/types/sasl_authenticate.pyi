"""SaslAuthenticate (36), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class SaslAuthenticateRequest:
    auth_bytes: bytes

@dataclass(frozen=True)
class SaslAuthenticateResponse:
    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: dt.timedelta  # versions 1 to 2

class SaslAuthenticateCall(Call):
    request: SaslAuthenticateRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Literal["SaslAuthenticateResponse"], field: Literal["session_lifetime"]) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        auth_bytes: bytes,
        session_lifetime: dt.timedelta = ...,
    ) -> SaslAuthenticateResponse: ...
