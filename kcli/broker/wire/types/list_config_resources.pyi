"""ListConfigResources (74), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ListConfigResourcesRequest:
    resource_types: tuple[int, ...]  # version 1

@dataclass(frozen=True)
class ConfigResource:
    resource_name: str
    resource_type: int  # version 1

@dataclass(frozen=True)
class ListConfigResourcesResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    config_resources: tuple[ConfigResource, ...]

class ListConfigResourcesCall(Call):
    request: ListConfigResourcesRequest
    @overload
    def get(self, name: Literal["resource_types"], default: tuple[int, ...]) -> tuple[int, ...]: ...
    @overload
    def get(self, name: Literal["resource_types"], default: None) -> tuple[int, ...] | None: ...
    def new(
        self,
        _struct: Literal["ConfigResource"],
        /,
        *,
        resource_name: str,
        resource_type: int = ...,
    ) -> ConfigResource: ...
    def has(self, name: Literal["ConfigResource"], field: Literal["resource_type"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        config_resources: tuple[ConfigResource, ...],
    ) -> ListConfigResourcesResponse: ...
