"""UpdateFeatures (57), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class FeatureUpdateKey:
    feature: str
    max_version_level: int
    upgrade_type: int  # versions 1 to 2
    allow_downgrade: bool  # version 0

@dataclass(frozen=True)
class UpdateFeaturesRequest:
    timeout: dt.timedelta
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool  # versions 1 to 2

@dataclass(frozen=True)
class UpdatableFeatureResult:
    feature: str
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class UpdateFeaturesResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...]  # versions 0 to 1

class UpdateFeaturesCall(Call):
    request: UpdateFeaturesRequest
    @overload
    def get(self, name: Literal["validate_only"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["validate_only"], default: None) -> bool | None: ...
    def new(
        self,
        _struct: Literal["UpdatableFeatureResult"],
        /,
        *,
        feature: str,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> UpdatableFeatureResult: ...
    @overload
    def has(
        self,
        name: Literal["UpdatableFeatureResult"],
        field: Literal["feature", "error_code", "error_message"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["UpdateFeaturesResponse"], field: Literal["results"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
        results: tuple[UpdatableFeatureResult, ...] = ...,
    ) -> UpdateFeaturesResponse: ...
