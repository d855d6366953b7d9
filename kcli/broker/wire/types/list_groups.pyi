"""ListGroups (16), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ListGroupsRequest:
    states_filter: tuple[str, ...]  # versions 4 to 5
    types_filter: tuple[str, ...]  # version 5

@dataclass(frozen=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: str  # versions 4 to 5
    group_type: str  # version 5

@dataclass(frozen=True)
class ListGroupsResponse:
    throttle_time: dt.timedelta  # versions 1 to 5
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]

class ListGroupsCall(Call):
    request: ListGroupsRequest
    @overload
    def get(self, name: Literal["states_filter"], default: tuple[str, ...]) -> tuple[str, ...]: ...
    @overload
    def get(self, name: Literal["states_filter"], default: None) -> tuple[str, ...] | None: ...
    @overload
    def get(self, name: Literal["types_filter"], default: tuple[str, ...]) -> tuple[str, ...]: ...
    @overload
    def get(self, name: Literal["types_filter"], default: None) -> tuple[str, ...] | None: ...
    def new(
        self,
        _struct: Literal["ListedGroup"],
        /,
        *,
        group_id: str,
        protocol_type: str,
        group_state: str = ...,
        group_type: str = ...,
    ) -> ListedGroup: ...
    @overload
    def has(self, name: Literal["ListedGroup"], field: Literal["group_state", "group_type"]) -> bool: ...
    @overload
    def has(self, name: Literal["ListGroupsResponse"], field: Literal["throttle_time"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        groups: tuple[ListedGroup, ...],
    ) -> ListGroupsResponse: ...
