"""DescribeLogDirs (35), versions 1 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribableLogDirTopic:
    topic: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None

@dataclass(frozen=True)
class DescribeLogDirsPartition:
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool

@dataclass(frozen=True)
class DescribeLogDirsTopic:
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]

@dataclass(frozen=True)
class DescribeLogDirsResult:
    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int  # versions 4 to 5
    usable_bytes: int  # versions 4 to 5
    is_cordoned: bool  # version 5

@dataclass(frozen=True)
class DescribeLogDirsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode  # versions 3 to 5
    results: tuple[DescribeLogDirsResult, ...]

class DescribeLogDirsCall(Call):
    request: DescribeLogDirsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeLogDirsPartition"],
        /,
        *,
        partition_index: int,
        partition_size: int,
        offset_lag: int,
        is_future_key: bool,
    ) -> DescribeLogDirsPartition: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeLogDirsTopic"],
        /,
        *,
        name: str,
        partitions: tuple[DescribeLogDirsPartition, ...],
    ) -> DescribeLogDirsTopic: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeLogDirsResult"],
        /,
        *,
        error_code: ErrorCode,
        log_dir: str,
        topics: tuple[DescribeLogDirsTopic, ...],
        total_bytes: int = ...,
        usable_bytes: int = ...,
        is_cordoned: bool = ...,
    ) -> DescribeLogDirsResult: ...
    @overload
    def has(
        self,
        name: Literal["DescribeLogDirsResult"],
        field: Literal["total_bytes", "usable_bytes", "is_cordoned"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["DescribeLogDirsResponse"], field: Literal["error_code"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode = ...,
        results: tuple[DescribeLogDirsResult, ...],
    ) -> DescribeLogDirsResponse: ...
