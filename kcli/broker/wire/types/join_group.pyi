"""JoinGroup (11), versions 0 to 9. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class JoinGroupRequestProtocol:
    name: str
    metadata: bytes

@dataclass(frozen=True)
class JoinGroupRequest:
    group_id: str
    session_timeout: dt.timedelta
    rebalance_timeout: dt.timedelta  # versions 1 to 9
    member_id: str
    group_instance_id: str | None  # versions 5 to 9
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None  # versions 8 to 9

@dataclass(frozen=True)
class JoinGroupResponseMember:
    member_id: str
    group_instance_id: str | None  # versions 5 to 9
    metadata: bytes

@dataclass(frozen=True)
class JoinGroupResponse:
    throttle_time: dt.timedelta  # versions 2 to 9
    error_code: ErrorCode
    generation_id: int
    protocol_type: str | None  # versions 7 to 9
    protocol_name: str | None
    leader: str
    skip_assignment: bool  # version 9
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]

class JoinGroupCall(Call):
    request: JoinGroupRequest
    @overload
    def get(self, name: Literal["rebalance_timeout"], default: dt.timedelta) -> dt.timedelta: ...
    @overload
    def get(self, name: Literal["rebalance_timeout"], default: None) -> dt.timedelta | None: ...
    @overload
    def get(self, name: Literal["group_instance_id"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["reason"], default: str | None) -> str | None: ...
    def new(
        self,
        _struct: Literal["JoinGroupResponseMember"],
        /,
        *,
        member_id: str,
        group_instance_id: str | None = ...,
        metadata: bytes,
    ) -> JoinGroupResponseMember: ...
    @overload
    def has(self, name: Literal["JoinGroupResponseMember"], field: Literal["group_instance_id"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["JoinGroupResponse"],
        field: Literal["throttle_time", "protocol_type", "skip_assignment"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        generation_id: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None,
        leader: str,
        skip_assignment: bool = ...,
        member_id: str,
        members: tuple[JoinGroupResponseMember, ...],
    ) -> JoinGroupResponse: ...
