"""BrokerRegistration (62), versions 0 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
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
class BrokerRegistrationRequest:
    broker_id: int
    cluster_id: str
    incarnation_id: UUID | None
    listeners: tuple[Listener, ...]
    features: tuple[Feature, ...]
    rack: str | None
    is_migrating_zk_broker: bool  # versions 1 to 4
    log_dirs: tuple[UUID | None, ...]  # versions 2 to 4
    previous_broker_epoch: int  # versions 3 to 4

@dataclass(frozen=True)
class BrokerRegistrationResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    broker_epoch: int

class BrokerRegistrationCall(Call):
    request: BrokerRegistrationRequest
    @overload
    def get(self, name: Literal["is_migrating_zk_broker"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["is_migrating_zk_broker"], default: None) -> bool | None: ...
    @overload
    def get(self, name: Literal["log_dirs"], default: tuple[UUID | None, ...]) -> tuple[UUID | None, ...]: ...
    @overload
    def get(self, name: Literal["log_dirs"], default: None) -> tuple[UUID | None, ...] | None: ...
    @overload
    def get(self, name: Literal["previous_broker_epoch"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["previous_broker_epoch"], default: None) -> int | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        broker_epoch: int = ...,
    ) -> BrokerRegistrationResponse: ...
