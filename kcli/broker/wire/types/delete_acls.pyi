"""DeleteAcls (31), versions 1 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DeleteAclsFilter:
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

@dataclass(frozen=True)
class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...]

@dataclass(frozen=True)
class DeleteAclsMatchingAcl:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

@dataclass(frozen=True)
class DeleteAclsFilterResult:
    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]

@dataclass(frozen=True)
class DeleteAclsResponse:
    throttle_time: dt.timedelta
    filter_results: tuple[DeleteAclsFilterResult, ...]

class DeleteAclsCall(Call):
    request: DeleteAclsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["DeleteAclsMatchingAcl"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
        pattern_type: int = ...,
        principal: str,
        host: str,
        operation: int,
        permission_type: int,
    ) -> DeleteAclsMatchingAcl: ...
    @overload
    def new(
        self,
        _struct: Literal["DeleteAclsFilterResult"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        matching_acls: tuple[DeleteAclsMatchingAcl, ...],
    ) -> DeleteAclsFilterResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        filter_results: tuple[DeleteAclsFilterResult, ...],
    ) -> DeleteAclsResponse: ...
