"""OffsetDelete (47), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class OffsetDeleteRequestPartition:
    partition_index: int

@dataclass(frozen=True)
class OffsetDeleteRequestTopic:
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]

@dataclass(frozen=True)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]

@dataclass(frozen=True)
class OffsetDeleteResponsePartition:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class OffsetDeleteResponseTopic:
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]

@dataclass(frozen=True)
class OffsetDeleteResponse:
    error_code: ErrorCode
    throttle_time: dt.timedelta
    topics: tuple[OffsetDeleteResponseTopic, ...]

class OffsetDeleteCall(Call):
    request: OffsetDeleteRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetDeleteResponsePartition"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> OffsetDeleteResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetDeleteResponseTopic"],
        /,
        *,
        name: str,
        partitions: tuple[OffsetDeleteResponsePartition, ...],
    ) -> OffsetDeleteResponseTopic: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        throttle_time: dt.timedelta = ...,
        topics: tuple[OffsetDeleteResponseTopic, ...],
    ) -> OffsetDeleteResponse: ...
