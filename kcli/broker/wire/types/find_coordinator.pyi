"""FindCoordinator (10), versions 0 to 6. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class FindCoordinatorRequest:
    key_type: int  # versions 1 to 6
    coordinator_keys: tuple[str, ...]  # versions 4 to 6
    key: str  # versions 0 to 3

@dataclass(frozen=True)
class Coordinator:
    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class FindCoordinatorResponse:
    throttle_time: dt.timedelta  # versions 1 to 6
    coordinators: tuple[Coordinator, ...]  # versions 4 to 6
    error_code: ErrorCode  # versions 0 to 3
    error_message: str | None  # versions 1 to 3
    node_id: int  # versions 0 to 3
    host: str  # versions 0 to 3
    port: int  # versions 0 to 3

class FindCoordinatorCall(Call):
    request: FindCoordinatorRequest
    @overload
    def get(self, name: Literal["key_type"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["key_type"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["coordinator_keys"], default: tuple[str, ...]) -> tuple[str, ...]: ...
    @overload
    def get(self, name: Literal["coordinator_keys"], default: None) -> tuple[str, ...] | None: ...
    @overload
    def get(self, name: Literal["key"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["key"], default: None) -> str | None: ...
    def new(
        self,
        _struct: Literal["Coordinator"],
        /,
        *,
        key: str,
        node_id: int,
        host: str,
        port: int,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> Coordinator: ...
    @overload
    def has(
        self,
        name: Literal["Coordinator"],
        field: Literal["key", "node_id", "host", "port", "error_code", "error_message"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["FindCoordinatorResponse"],
        field: Literal["throttle_time", "coordinators", "error_code", "error_message", "node_id", "host", "port"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        coordinators: tuple[Coordinator, ...] = ...,
        error_code: ErrorCode = ...,
        error_message: str | None = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
    ) -> FindCoordinatorResponse: ...
