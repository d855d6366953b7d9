"""AlterConfigs (33), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AlterableConfig:
    name: str
    value: str | None

@dataclass(frozen=True)
class AlterConfigsResource:
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]

@dataclass(frozen=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool

@dataclass(frozen=True)
class AlterConfigsResourceResponse:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str

@dataclass(frozen=True)
class AlterConfigsResponse:
    throttle_time: dt.timedelta
    responses: tuple[AlterConfigsResourceResponse, ...]

class AlterConfigsCall(Call):
    request: AlterConfigsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["AlterConfigsResourceResponse"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
    ) -> AlterConfigsResourceResponse: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        responses: tuple[AlterConfigsResourceResponse, ...],
    ) -> AlterConfigsResponse: ...
