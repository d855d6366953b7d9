"""AlterPartition (56), versions 2 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class BrokerState:
    broker_id: int
    broker_epoch: int

@dataclass(frozen=True)
class RequestPartitionData:
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...]  # version 3
    leader_recovery_state: int
    partition_epoch: int
    new_isr: tuple[int, ...]  # version 2

@dataclass(frozen=True)
class RequestTopicData:
    topic_id: UUID | None
    partitions: tuple[RequestPartitionData, ...]

@dataclass(frozen=True)
class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    topics: tuple[RequestTopicData, ...]

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int

@dataclass(frozen=True)
class TopicData:
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]

@dataclass(frozen=True)
class AlterPartitionResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    topics: tuple[TopicData, ...]

class AlterPartitionCall(Call):
    request: AlterPartitionRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionData"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        leader_id: int,
        leader_epoch: int,
        isr: tuple[int, ...] = ...,
        leader_recovery_state: int = ...,
        partition_epoch: int,
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
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        topics: tuple[TopicData, ...],
    ) -> AlterPartitionResponse: ...
