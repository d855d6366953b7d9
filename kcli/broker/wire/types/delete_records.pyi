"""DeleteRecords (21), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DeleteRecordsPartition:
    partition_index: int
    offset: int

@dataclass(frozen=True)
class DeleteRecordsTopic:
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]

@dataclass(frozen=True)
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: dt.timedelta

@dataclass(frozen=True)
class DeleteRecordsPartitionResult:
    partition_index: int
    low_watermark: int
    error_code: ErrorCode

@dataclass(frozen=True)
class DeleteRecordsTopicResult:
    name: str
    partitions: tuple[DeleteRecordsPartitionResult, ...]

@dataclass(frozen=True)
class DeleteRecordsResponse:
    throttle_time: dt.timedelta
    topics: tuple[DeleteRecordsTopicResult, ...]

class DeleteRecordsCall(Call):
    request: DeleteRecordsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["DeleteRecordsPartitionResult"],
        /,
        *,
        partition_index: int,
        low_watermark: int,
        error_code: ErrorCode,
    ) -> DeleteRecordsPartitionResult: ...
    @overload
    def new(
        self,
        _struct: Literal["DeleteRecordsTopicResult"],
        /,
        *,
        name: str,
        partitions: tuple[DeleteRecordsPartitionResult, ...],
    ) -> DeleteRecordsTopicResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[DeleteRecordsTopicResult, ...],
    ) -> DeleteRecordsResponse: ...
