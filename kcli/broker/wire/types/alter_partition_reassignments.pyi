"""AlterPartitionReassignments (45), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ReassignablePartition:
    partition_index: int
    replicas: tuple[int, ...] | None

@dataclass(frozen=True)
class ReassignableTopic:
    name: str
    partitions: tuple[ReassignablePartition, ...]

@dataclass(frozen=True)
class AlterPartitionReassignmentsRequest:
    timeout: dt.timedelta
    allow_replication_factor_change: bool  # version 1
    topics: tuple[ReassignableTopic, ...]

@dataclass(frozen=True)
class ReassignablePartitionResponse:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class ReassignableTopicResponse:
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]

@dataclass(frozen=True)
class AlterPartitionReassignmentsResponse:
    throttle_time: dt.timedelta
    allow_replication_factor_change: bool  # version 1
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]

class AlterPartitionReassignmentsCall(Call):
    request: AlterPartitionReassignmentsRequest
    @overload
    def get(self, name: Literal["allow_replication_factor_change"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["allow_replication_factor_change"], default: None) -> bool | None: ...
    @overload
    def new(
        self,
        _struct: Literal["ReassignablePartitionResponse"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> ReassignablePartitionResponse: ...
    @overload
    def new(
        self,
        _struct: Literal["ReassignableTopicResponse"],
        /,
        *,
        name: str,
        partitions: tuple[ReassignablePartitionResponse, ...],
    ) -> ReassignableTopicResponse: ...
    def has(
        self,
        name: Literal["AlterPartitionReassignmentsResponse"],
        field: Literal["allow_replication_factor_change"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        allow_replication_factor_change: bool = ...,
        error_code: ErrorCode,
        error_message: str | None,
        responses: tuple[ReassignableTopicResponse, ...],
    ) -> AlterPartitionReassignmentsResponse: ...
