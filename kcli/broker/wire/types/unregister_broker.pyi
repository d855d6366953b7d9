"""UnregisterBroker (64), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class UnregisterBrokerRequest:
    broker_id: int

@dataclass(frozen=True)
class UnregisterBrokerResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None

class UnregisterBrokerCall(Call):
    request: UnregisterBrokerRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> UnregisterBrokerResponse: ...
