"""DescribeAcls (29), versions 1 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeAclsRequest:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

@dataclass(frozen=True)
class AclDescription:
    principal: str
    host: str
    operation: int
    permission_type: int

@dataclass(frozen=True)
class DescribeAclsResource:
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: tuple[AclDescription, ...]

@dataclass(frozen=True)
class DescribeAclsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]

class DescribeAclsCall(Call):
    request: DescribeAclsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["AclDescription"],
        /,
        *,
        principal: str,
        host: str,
        operation: int,
        permission_type: int,
    ) -> AclDescription: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeAclsResource"],
        /,
        *,
        resource_type: int,
        resource_name: str,
        pattern_type: int = ...,
        acls: tuple[AclDescription, ...],
    ) -> DescribeAclsResource: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
        resources: tuple[DescribeAclsResource, ...],
    ) -> DescribeAclsResponse: ...
