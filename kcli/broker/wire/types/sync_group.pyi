"""SyncGroup (14), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class SyncGroupRequestAssignment:
    member_id: str
    assignment: bytes

@dataclass(frozen=True)
class SyncGroupRequest:
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None  # versions 3 to 5
    protocol_type: str | None  # version 5
    protocol_name: str | None  # version 5
    assignments: tuple[SyncGroupRequestAssignment, ...]

@dataclass(frozen=True)
class SyncGroupResponse:
    throttle_time: dt.timedelta  # versions 1 to 5
    error_code: ErrorCode
    protocol_type: str | None  # version 5
    protocol_name: str | None  # version 5
    assignment: bytes

class SyncGroupCall(Call):
    request: SyncGroupRequest
    @overload
    def get(self, name: Literal["group_instance_id"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["protocol_type"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["protocol_name"], default: str | None) -> str | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(
        self,
        name: Literal["SyncGroupResponse"],
        field: Literal["throttle_time", "protocol_type", "protocol_name"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignment: bytes,
    ) -> SyncGroupResponse: ...
