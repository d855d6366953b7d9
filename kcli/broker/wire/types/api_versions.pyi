"""ApiVersions (18), versions 0 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ApiVersionsRequest:
    client_software_name: str  # versions 3 to 4
    client_software_version: str  # versions 3 to 4

@dataclass(frozen=True)
class ApiVersion:
    api_key: int
    min_version: int
    max_version: int

@dataclass(frozen=True)
class SupportedFeatureKey:
    name: str
    min_version: int
    max_version: int

@dataclass(frozen=True)
class FinalizedFeatureKey:
    name: str
    max_version_level: int
    min_version_level: int

@dataclass(frozen=True)
class ApiVersionsResponse:
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: dt.timedelta  # versions 1 to 4
    supported_features: tuple[SupportedFeatureKey, ...]  # versions 3 to 4
    finalized_features_epoch: int  # versions 3 to 4
    finalized_features: tuple[FinalizedFeatureKey, ...]  # versions 3 to 4
    zk_migration_ready: bool  # versions 3 to 4

class ApiVersionsCall(Call):
    request: ApiVersionsRequest | None
    @overload
    def get(self, name: Literal["client_software_name"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["client_software_name"], default: None) -> str | None: ...
    @overload
    def get(self, name: Literal["client_software_version"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["client_software_version"], default: None) -> str | None: ...
    @overload
    def new(
        self,
        _struct: Literal["ApiVersion"],
        /,
        *,
        api_key: int,
        min_version: int,
        max_version: int,
    ) -> ApiVersion: ...
    @overload
    def new(
        self,
        _struct: Literal["SupportedFeatureKey"],
        /,
        *,
        name: str,
        min_version: int,
        max_version: int,
    ) -> SupportedFeatureKey: ...
    @overload
    def new(
        self,
        _struct: Literal["FinalizedFeatureKey"],
        /,
        *,
        name: str,
        max_version_level: int,
        min_version_level: int,
    ) -> FinalizedFeatureKey: ...
    @overload
    def has(
        self,
        name: Literal["SupportedFeatureKey"],
        field: Literal["name", "min_version", "max_version"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["FinalizedFeatureKey"],
        field: Literal["name", "max_version_level", "min_version_level"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["ApiVersionsResponse"],
        field: Literal[
            "throttle_time",
            "supported_features",
            "finalized_features_epoch",
            "finalized_features",
            "zk_migration_ready",
        ],
    ) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        api_keys: tuple[ApiVersion, ...],
        throttle_time: dt.timedelta = ...,
        supported_features: tuple[SupportedFeatureKey, ...] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: tuple[FinalizedFeatureKey, ...] = ...,
        zk_migration_ready: bool = ...,
    ) -> ApiVersionsResponse: ...
