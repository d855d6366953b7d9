"""AssignReplicasToDirs (73), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestPartitionData:
    partition_index: int

@dataclass(frozen=True)
class RequestTopicData:
    topic_id: UUID | None
    partitions: tuple[RequestPartitionData, ...]

@dataclass(frozen=True)
class RequestDirectoryData:
    id_: UUID | None
    topics: tuple[RequestTopicData, ...]

@dataclass(frozen=True)
class AssignReplicasToDirsRequest:
    broker_id: int
    broker_epoch: int
    directories: tuple[RequestDirectoryData, ...]

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class TopicData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

@dataclass(frozen=True)
class DirectoryData:
    id_: UUID | None
    topics: tuple[TopicData, ...]

@dataclass(frozen=True)
class AssignReplicasToDirsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    directories: tuple[DirectoryData, ...]

class AssignReplicasToDirsCall(Call):
    request: AssignReplicasToDirsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionData"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> PartitionData: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicData"],
        /,
        *,
        topic_id: UUID | None,
        partitions: tuple[PartitionData, ...],
    ) -> TopicData: ...
    @overload
    def new(
        self,
        _struct: Literal["DirectoryData"],
        /,
        *,
        id_: UUID | None,
        topics: tuple[TopicData, ...],
    ) -> DirectoryData: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        directories: tuple[DirectoryData, ...],
    ) -> AssignReplicasToDirsResponse: ...
