"""DeleteGroups (42), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...]

@dataclass(frozen=True)
class DeletableGroupResult:
    group_id: str
    error_code: ErrorCode

@dataclass(frozen=True)
class DeleteGroupsResponse:
    throttle_time: dt.timedelta
    results: tuple[DeletableGroupResult, ...]

class DeleteGroupsCall(Call):
    request: DeleteGroupsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["DeletableGroupResult"],
        /,
        *,
        group_id: str,
        error_code: ErrorCode,
    ) -> DeletableGroupResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[DeletableGroupResult, ...],
    ) -> DeleteGroupsResponse: ...
