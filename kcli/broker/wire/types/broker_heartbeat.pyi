"""BrokerHeartbeat (63), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class BrokerHeartbeatRequest:
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[UUID | None, ...]  # versions 1 to 2
    cordoned_log_dirs: tuple[UUID | None, ...] | None  # version 2

@dataclass(frozen=True)
class BrokerHeartbeatResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool

class BrokerHeartbeatCall(Call):
    request: BrokerHeartbeatRequest
    @overload
    def get(self, name: Literal["offline_log_dirs"], default: tuple[UUID | None, ...]) -> tuple[UUID | None, ...]: ...
    @overload
    def get(self, name: Literal["offline_log_dirs"], default: None) -> tuple[UUID | None, ...] | None: ...
    @overload
    def get(
        self,
        name: Literal["cordoned_log_dirs"],
        default: tuple[UUID | None, ...] | None,
    ) -> tuple[UUID | None, ...] | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        is_caught_up: bool = ...,
        is_fenced: bool = ...,
        should_shut_down: bool,
    ) -> BrokerHeartbeatResponse: ...
