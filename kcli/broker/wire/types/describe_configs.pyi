"""DescribeConfigs (32), versions 1 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeConfigsResource:
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None

@dataclass(frozen=True)
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool  # versions 3 to 4

@dataclass(frozen=True)
class DescribeConfigsSynonym:
    name: str
    value: str | None
    source: int

@dataclass(frozen=True)
class DescribeConfigsResourceResult:
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int  # versions 3 to 4
    documentation: str | None  # versions 3 to 4

@dataclass(frozen=True)
class DescribeConfigsResult:
    error_code: ErrorCode
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]

@dataclass(frozen=True)
class DescribeConfigsResponse:
    throttle_time: dt.timedelta
    results: tuple[DescribeConfigsResult, ...]

class DescribeConfigsCall(Call):
    request: DescribeConfigsRequest
    @overload
    def get(self, name: Literal["include_documentation"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["include_documentation"], default: None) -> bool | None: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeConfigsSynonym"],
        /,
        *,
        name: str,
        value: str | None,
        source: int,
    ) -> DescribeConfigsSynonym: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeConfigsResourceResult"],
        /,
        *,
        name: str,
        value: str | None,
        read_only: bool,
        config_source: int = ...,
        is_sensitive: bool,
        synonyms: tuple[DescribeConfigsSynonym, ...],
        config_type: int = ...,
        documentation: str | None = ...,
    ) -> DescribeConfigsResourceResult: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeConfigsResult"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        resource_type: int,
        resource_name: str,
        configs: tuple[DescribeConfigsResourceResult, ...],
    ) -> DescribeConfigsResult: ...
    def has(
        self,
        name: Literal["DescribeConfigsResourceResult"],
        field: Literal["config_type", "documentation"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[DescribeConfigsResult, ...],
    ) -> DescribeConfigsResponse: ...
