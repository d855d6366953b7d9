"""LeaveGroup (13), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class MemberIdentity:
    member_id: str
    group_instance_id: str | None
    reason: str | None  # version 5

@dataclass(frozen=True)
class LeaveGroupRequest:
    group_id: str
    members: tuple[MemberIdentity, ...]  # versions 3 to 5
    member_id: str  # versions 0 to 2

@dataclass(frozen=True)
class MemberResponse:
    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode

@dataclass(frozen=True)
class LeaveGroupResponse:
    throttle_time: dt.timedelta  # versions 1 to 5
    error_code: ErrorCode
    members: tuple[MemberResponse, ...]  # versions 3 to 5

class LeaveGroupCall(Call):
    request: LeaveGroupRequest
    @overload
    def get(self, name: Literal["members"], default: tuple[MemberIdentity, ...]) -> tuple[MemberIdentity, ...]: ...
    @overload
    def get(self, name: Literal["members"], default: None) -> tuple[MemberIdentity, ...] | None: ...
    @overload
    def get(self, name: Literal["member_id"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["member_id"], default: None) -> str | None: ...
    def new(
        self,
        _struct: Literal["MemberResponse"],
        /,
        *,
        member_id: str,
        group_instance_id: str | None,
        error_code: ErrorCode,
    ) -> MemberResponse: ...
    @overload
    def has(
        self,
        name: Literal["MemberResponse"],
        field: Literal["member_id", "group_instance_id", "error_code"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["LeaveGroupResponse"], field: Literal["throttle_time", "members"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        members: tuple[MemberResponse, ...] = ...,
    ) -> LeaveGroupResponse: ...
