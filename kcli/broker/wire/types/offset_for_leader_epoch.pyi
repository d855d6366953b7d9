"""OffsetForLeaderEpoch (23), versions 2 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class OffsetForLeaderPartition:
    partition: int
    current_leader_epoch: int
    leader_epoch: int

@dataclass(frozen=True)
class OffsetForLeaderTopic:
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]

@dataclass(frozen=True)
class OffsetForLeaderEpochRequest:
    replica_id: int  # versions 3 to 4
    topics: tuple[OffsetForLeaderTopic, ...]

@dataclass(frozen=True)
class EpochEndOffset:
    error_code: ErrorCode
    partition: int
    leader_epoch: int
    end_offset: int

@dataclass(frozen=True)
class OffsetForLeaderTopicResult:
    topic: str
    partitions: tuple[EpochEndOffset, ...]

@dataclass(frozen=True)
class OffsetForLeaderEpochResponse:
    throttle_time: dt.timedelta
    topics: tuple[OffsetForLeaderTopicResult, ...]

class OffsetForLeaderEpochCall(Call):
    request: OffsetForLeaderEpochRequest
    @overload
    def get(self, name: Literal["replica_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["replica_id"], default: None) -> int | None: ...
    @overload
    def new(
        self,
        _struct: Literal["EpochEndOffset"],
        /,
        *,
        error_code: ErrorCode,
        partition: int,
        leader_epoch: int = ...,
        end_offset: int = ...,
    ) -> EpochEndOffset: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetForLeaderTopicResult"],
        /,
        *,
        topic: str,
        partitions: tuple[EpochEndOffset, ...],
    ) -> OffsetForLeaderTopicResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[OffsetForLeaderTopicResult, ...],
    ) -> OffsetForLeaderEpochResponse: ...
