"""ConsumerGroupHeartbeat (68), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestTopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: dt.timedelta
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None  # version 1
    server_assignor: str | None
    topic_partitions: tuple[RequestTopicPartitions, ...] | None

@dataclass(frozen=True)
class TopicPartitions:
    topic_id: UUID | None
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]

@dataclass(frozen=True)
class ConsumerGroupHeartbeatResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval: dt.timedelta
    assignment: Assignment | None

class ConsumerGroupHeartbeatCall(Call):
    request: ConsumerGroupHeartbeatRequest
    def get(self, name: Literal["subscribed_topic_regex"], default: str | None) -> str | None: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicPartitions"],
        /,
        *,
        topic_id: UUID | None,
        partitions: tuple[int, ...] = ...,
    ) -> TopicPartitions: ...
    @overload
    def new(
        self,
        _struct: Literal["Assignment"],
        /,
        *,
        topic_partitions: tuple[TopicPartitions, ...],
    ) -> Assignment: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int,
        heartbeat_interval: dt.timedelta,
        assignment: Assignment | None = ...,
    ) -> ConsumerGroupHeartbeatResponse: ...
