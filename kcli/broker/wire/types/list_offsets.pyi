"""ListOffsets (2), versions 1 to 11. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ListOffsetsPartition:
    partition_index: int
    current_leader_epoch: int  # versions 4 to 11
    timestamp: int

@dataclass(frozen=True)
class ListOffsetsTopic:
    name: str
    partitions: tuple[ListOffsetsPartition, ...]

@dataclass(frozen=True)
class ListOffsetsRequest:
    replica_id: int
    isolation_level: int  # versions 2 to 11
    topics: tuple[ListOffsetsTopic, ...]
    timeout: dt.timedelta  # versions 10 to 11

@dataclass(frozen=True)
class ListOffsetsPartitionResponse:
    partition_index: int
    error_code: ErrorCode
    timestamp: int
    offset: int
    leader_epoch: int  # versions 4 to 11

@dataclass(frozen=True)
class ListOffsetsTopicResponse:
    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]

@dataclass(frozen=True)
class ListOffsetsResponse:
    throttle_time: dt.timedelta  # versions 2 to 11
    topics: tuple[ListOffsetsTopicResponse, ...]

class ListOffsetsCall(Call):
    request: ListOffsetsRequest
    @overload
    def get(self, name: Literal["isolation_level"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["isolation_level"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["timeout"], default: dt.timedelta) -> dt.timedelta: ...
    @overload
    def get(self, name: Literal["timeout"], default: None) -> dt.timedelta | None: ...
    @overload
    def new(
        self,
        _struct: Literal["ListOffsetsPartitionResponse"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        timestamp: int = ...,
        offset: int = ...,
        leader_epoch: int = ...,
    ) -> ListOffsetsPartitionResponse: ...
    @overload
    def new(
        self,
        _struct: Literal["ListOffsetsTopicResponse"],
        /,
        *,
        name: str,
        partitions: tuple[ListOffsetsPartitionResponse, ...],
    ) -> ListOffsetsTopicResponse: ...
    @overload
    def has(self, name: Literal["ListOffsetsPartitionResponse"], field: Literal["leader_epoch"]) -> bool: ...
    @overload
    def has(self, name: Literal["ListOffsetsResponse"], field: Literal["throttle_time"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[ListOffsetsTopicResponse, ...],
    ) -> ListOffsetsResponse: ...
