"""ElectLeaders (43), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class TopicPartitions:
    topic: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class ElectLeadersRequest:
    election_type: int  # versions 1 to 2
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout: dt.timedelta

@dataclass(frozen=True)
class PartitionResult:
    partition_id: int
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class ReplicaElectionResult:
    topic: str
    partition_result: tuple[PartitionResult, ...]

@dataclass(frozen=True)
class ElectLeadersResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode  # versions 1 to 2
    replica_election_results: tuple[ReplicaElectionResult, ...]

class ElectLeadersCall(Call):
    request: ElectLeadersRequest
    @overload
    def get(self, name: Literal["election_type"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["election_type"], default: None) -> int | None: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionResult"],
        /,
        *,
        partition_id: int,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> PartitionResult: ...
    @overload
    def new(
        self,
        _struct: Literal["ReplicaElectionResult"],
        /,
        *,
        topic: str,
        partition_result: tuple[PartitionResult, ...],
    ) -> ReplicaElectionResult: ...
    def has(self, name: Literal["ElectLeadersResponse"], field: Literal["error_code"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode = ...,
        replica_election_results: tuple[ReplicaElectionResult, ...],
    ) -> ElectLeadersResponse: ...
