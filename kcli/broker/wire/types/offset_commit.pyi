"""OffsetCommit (8), versions 2 to 10. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class OffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int  # versions 6 to 10
    committed_metadata: str | None

@dataclass(frozen=True)
class OffsetCommitRequestTopic:
    topic_id: UUID | None  # version 10
    partitions: tuple[OffsetCommitRequestPartition, ...]
    name: str  # versions 2 to 9

@dataclass(frozen=True)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None  # versions 7 to 10
    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: dt.timedelta  # versions 2 to 4

@dataclass(frozen=True)
class OffsetCommitResponsePartition:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class OffsetCommitResponseTopic:
    topic_id: UUID | None  # version 10
    partitions: tuple[OffsetCommitResponsePartition, ...]
    name: str  # versions 2 to 9

@dataclass(frozen=True)
class OffsetCommitResponse:
    throttle_time: dt.timedelta  # versions 3 to 10
    topics: tuple[OffsetCommitResponseTopic, ...]

class OffsetCommitCall(Call):
    request: OffsetCommitRequest
    @overload
    def get(self, name: Literal["group_instance_id"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["retention_time"], default: dt.timedelta) -> dt.timedelta: ...
    @overload
    def get(self, name: Literal["retention_time"], default: None) -> dt.timedelta | None: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetCommitResponsePartition"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> OffsetCommitResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetCommitResponseTopic"],
        /,
        *,
        topic_id: UUID | None = ...,
        partitions: tuple[OffsetCommitResponsePartition, ...],
        name: str = ...,
    ) -> OffsetCommitResponseTopic: ...
    @overload
    def has(self, name: Literal["OffsetCommitResponseTopic"], field: Literal["topic_id", "name"]) -> bool: ...
    @overload
    def has(self, name: Literal["OffsetCommitResponse"], field: Literal["throttle_time"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[OffsetCommitResponseTopic, ...],
    ) -> OffsetCommitResponse: ...
