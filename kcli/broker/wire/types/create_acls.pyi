"""CreateAcls (30), versions 1 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AclCreation:
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

@dataclass(frozen=True)
class CreateAclsRequest:
    creations: tuple[AclCreation, ...]

@dataclass(frozen=True)
class AclCreationResult:
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class CreateAclsResponse:
    throttle_time: dt.timedelta
    results: tuple[AclCreationResult, ...]

class CreateAclsCall(Call):
    request: CreateAclsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["AclCreationResult"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> AclCreationResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[AclCreationResult, ...],
    ) -> CreateAclsResponse: ...
