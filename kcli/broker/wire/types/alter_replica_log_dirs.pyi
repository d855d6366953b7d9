"""AlterReplicaLogDirs (34), versions 1 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AlterReplicaLogDirTopic:
    name: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class AlterReplicaLogDir:
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]

@dataclass(frozen=True)
class AlterReplicaLogDirsRequest:
    dirs: tuple[AlterReplicaLogDir, ...]

@dataclass(frozen=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]

@dataclass(frozen=True)
class AlterReplicaLogDirsResponse:
    throttle_time: dt.timedelta
    results: tuple[AlterReplicaLogDirTopicResult, ...]

class AlterReplicaLogDirsCall(Call):
    request: AlterReplicaLogDirsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["AlterReplicaLogDirPartitionResult"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> AlterReplicaLogDirPartitionResult: ...
    @overload
    def new(
        self,
        _struct: Literal["AlterReplicaLogDirTopicResult"],
        /,
        *,
        topic_name: str,
        partitions: tuple[AlterReplicaLogDirPartitionResult, ...],
    ) -> AlterReplicaLogDirTopicResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[AlterReplicaLogDirTopicResult, ...],
    ) -> AlterReplicaLogDirsResponse: ...
