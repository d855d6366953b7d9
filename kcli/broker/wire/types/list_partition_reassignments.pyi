"""ListPartitionReassignments (46), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: tuple[int, ...]

@dataclass(frozen=True)
class ListPartitionReassignmentsRequest:
    timeout: dt.timedelta
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

@dataclass(frozen=True)
class OngoingPartitionReassignment:
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]

@dataclass(frozen=True)
class OngoingTopicReassignment:
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]

@dataclass(frozen=True)
class ListPartitionReassignmentsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]

class ListPartitionReassignmentsCall(Call):
    request: ListPartitionReassignmentsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["OngoingPartitionReassignment"],
        /,
        *,
        partition_index: int,
        replicas: tuple[int, ...] = ...,
        adding_replicas: tuple[int, ...] = ...,
        removing_replicas: tuple[int, ...] = ...,
    ) -> OngoingPartitionReassignment: ...
    @overload
    def new(
        self,
        _struct: Literal["OngoingTopicReassignment"],
        /,
        *,
        name: str,
        partitions: tuple[OngoingPartitionReassignment, ...],
    ) -> OngoingTopicReassignment: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
        topics: tuple[OngoingTopicReassignment, ...],
    ) -> ListPartitionReassignmentsResponse: ...
