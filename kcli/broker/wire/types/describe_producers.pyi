"""DescribeProducers (61), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class TopicRequest:
    name: str
    partition_indexes: tuple[int, ...]

@dataclass(frozen=True)
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]

@dataclass(frozen=True)
class ProducerState:
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

@dataclass(frozen=True)
class PartitionResponse:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None
    active_producers: tuple[ProducerState, ...]

@dataclass(frozen=True)
class TopicResponse:
    name: str
    partitions: tuple[PartitionResponse, ...]

@dataclass(frozen=True)
class DescribeProducersResponse:
    throttle_time: dt.timedelta
    topics: tuple[TopicResponse, ...]

class DescribeProducersCall(Call):
    request: DescribeProducersRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["ProducerState"],
        /,
        *,
        producer_id: int,
        producer_epoch: int,
        last_sequence: int = ...,
        last_timestamp: int = ...,
        coordinator_epoch: int,
        current_txn_start_offset: int = ...,
    ) -> ProducerState: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionResponse"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        error_message: str | None = ...,
        active_producers: tuple[ProducerState, ...],
    ) -> PartitionResponse: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicResponse"],
        /,
        *,
        name: str,
        partitions: tuple[PartitionResponse, ...],
    ) -> TopicResponse: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[TopicResponse, ...],
    ) -> DescribeProducersResponse: ...
