"""Heartbeat (12), versions 0 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class HeartbeatRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None  # versions 3 to 4

@dataclass(frozen=True)
class HeartbeatResponse:
    throttle_time: dt.timedelta  # versions 1 to 4
    error_code: ErrorCode

class HeartbeatCall(Call):
    request: HeartbeatRequest
    def get(self, name: Literal["group_instance_id"], default: str | None) -> str | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Literal["HeartbeatResponse"], field: Literal["throttle_time"]) -> bool: ...
    def respond(self, *, throttle_time: dt.timedelta = ..., error_code: ErrorCode) -> HeartbeatResponse: ...
