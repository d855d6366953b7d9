"""DescribeTopicPartitions (75), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class TopicRequest:
    name: str

@dataclass(frozen=True)
class RequestCursor:
    topic_name: str
    partition_index: int

@dataclass(frozen=True)
class DescribeTopicPartitionsRequest:
    topics: tuple[TopicRequest, ...]
    response_partition_limit: int
    cursor: RequestCursor | None

@dataclass(frozen=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]

@dataclass(frozen=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int

@dataclass(frozen=True)
class Cursor:
    topic_name: str
    partition_index: int

@dataclass(frozen=True)
class DescribeTopicPartitionsResponse:
    throttle_time: dt.timedelta
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None

class DescribeTopicPartitionsCall(Call):
    request: DescribeTopicPartitionsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeTopicPartitionsResponsePartition"],
        /,
        *,
        error_code: ErrorCode,
        partition_index: int,
        leader_id: int,
        leader_epoch: int = ...,
        replica_nodes: tuple[int, ...] = ...,
        isr_nodes: tuple[int, ...] = ...,
        eligible_leader_replicas: tuple[int, ...] | None = ...,
        last_known_elr: tuple[int, ...] | None = ...,
        offline_replicas: tuple[int, ...] = ...,
    ) -> DescribeTopicPartitionsResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribeTopicPartitionsResponseTopic"],
        /,
        *,
        error_code: ErrorCode,
        name: str | None,
        topic_id: UUID | None,
        is_internal: bool = ...,
        partitions: tuple[DescribeTopicPartitionsResponsePartition, ...],
        topic_authorized_operations: int = ...,
    ) -> DescribeTopicPartitionsResponseTopic: ...
    @overload
    def new(self, _struct: Literal["Cursor"], /, *, topic_name: str, partition_index: int) -> Cursor: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[DescribeTopicPartitionsResponseTopic, ...],
        next_cursor: Cursor | None = ...,
    ) -> DescribeTopicPartitionsResponse: ...
