"""ControllerRegistration (70), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class Listener:
    name: str
    host: str
    port: int
    security_protocol: int

@dataclass(frozen=True)
class Feature:
    name: str
    min_supported_version: int
    max_supported_version: int

@dataclass(frozen=True)
class ControllerRegistrationRequest:
    controller_id: int
    incarnation_id: UUID | None
    zk_migration_ready: bool
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]

@dataclass(frozen=True)
class ControllerRegistrationResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None

class ControllerRegistrationCall(Call):
    request: ControllerRegistrationRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> ControllerRegistrationResponse: ...
