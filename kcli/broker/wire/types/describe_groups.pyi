"""DescribeGroups (15), versions 0 to 6. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool  # versions 3 to 6

@dataclass(frozen=True)
class DescribedGroupMember:
    member_id: str
    group_instance_id: str | None  # versions 4 to 6
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes

@dataclass(frozen=True)
class DescribedGroup:
    error_code: ErrorCode
    error_message: str | None  # version 6
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: int  # versions 3 to 6

@dataclass(frozen=True)
class DescribeGroupsResponse:
    throttle_time: dt.timedelta  # versions 1 to 6
    groups: tuple[DescribedGroup, ...]

class DescribeGroupsCall(Call):
    request: DescribeGroupsRequest
    @overload
    def get(self, name: Literal["include_authorized_operations"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["include_authorized_operations"], default: None) -> bool | None: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribedGroupMember"],
        /,
        *,
        member_id: str,
        group_instance_id: str | None = ...,
        client_id: str,
        client_host: str,
        member_metadata: bytes,
        member_assignment: bytes,
    ) -> DescribedGroupMember: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribedGroup"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None = ...,
        group_id: str,
        group_state: str,
        protocol_type: str,
        protocol_data: str,
        members: tuple[DescribedGroupMember, ...],
        authorized_operations: int = ...,
    ) -> DescribedGroup: ...
    @overload
    def has(self, name: Literal["DescribedGroupMember"], field: Literal["group_instance_id"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["DescribedGroup"],
        field: Literal["error_message", "authorized_operations"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["DescribeGroupsResponse"], field: Literal["throttle_time"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        groups: tuple[DescribedGroup, ...],
    ) -> DescribeGroupsResponse: ...
