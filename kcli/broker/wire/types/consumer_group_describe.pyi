"""ConsumerGroupDescribe (69), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool

@dataclass(frozen=True)
class TopicPartitions:
    topic_id: UUID | None
    topic_name: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]

@dataclass(frozen=True)
class Member:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int  # version 1

@dataclass(frozen=True)
class DescribedGroup:
    error_code: ErrorCode
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: int

@dataclass(frozen=True)
class ConsumerGroupDescribeResponse:
    throttle_time: dt.timedelta
    groups: tuple[DescribedGroup, ...]

class ConsumerGroupDescribeCall(Call):
    request: ConsumerGroupDescribeRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicPartitions"],
        /,
        *,
        topic_id: UUID | None,
        topic_name: str,
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
    @overload
    def new(
        self,
        _struct: Literal["Member"],
        /,
        *,
        member_id: str,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        member_epoch: int,
        client_id: str,
        client_host: str,
        subscribed_topic_names: tuple[str, ...] = ...,
        subscribed_topic_regex: str | None = ...,
        assignment: Assignment,
        target_assignment: Assignment,
        member_type: int = ...,
    ) -> Member: ...
    @overload
    def new(
        self,
        _struct: Literal["DescribedGroup"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None = ...,
        group_id: str,
        group_state: str,
        group_epoch: int,
        assignment_epoch: int,
        assignor_name: str,
        members: tuple[Member, ...],
        authorized_operations: int = ...,
    ) -> DescribedGroup: ...
    def has(self, name: Literal["Member"], field: Literal["member_type"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        groups: tuple[DescribedGroup, ...],
    ) -> ConsumerGroupDescribeResponse: ...
