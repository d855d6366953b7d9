"""ExpireDelegationToken (40), versions 1 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ExpireDelegationTokenRequest:
    hmac: bytes
    expiry_time_period: dt.timedelta

@dataclass(frozen=True)
class ExpireDelegationTokenResponse:
    error_code: ErrorCode
    expiry_timestamp: dt.datetime
    throttle_time: dt.timedelta

class ExpireDelegationTokenCall(Call):
    request: ExpireDelegationTokenRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        expiry_timestamp: dt.datetime,
        throttle_time: dt.timedelta = ...,
    ) -> ExpireDelegationTokenResponse: ...
