"""Produce (0), versions 3 to 13. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.broker.wire.produce_request import ProduceRequest
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class BatchIndexAndErrorMessage:
    batch_index: int
    batch_index_error_message: str | None

@dataclass(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int
    leader_epoch: int

@dataclass(frozen=True)
class PartitionProduceResponse:
    index: int
    error_code: ErrorCode
    base_offset: int
    log_append_time: dt.datetime | None
    log_start_offset: int  # versions 5 to 13
    record_errors: tuple[BatchIndexAndErrorMessage, ...]  # versions 8 to 13
    error_message: str | None  # versions 8 to 13
    current_leader: LeaderIdAndEpoch  # versions 10 to 13

@dataclass(frozen=True)
class TopicProduceResponse:
    topic_id: UUID | None  # version 13
    partition_responses: tuple[PartitionProduceResponse, ...]
    name: str  # versions 3 to 12

@dataclass(frozen=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None

@dataclass(frozen=True)
class ProduceResponse:
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: dt.timedelta
    node_endpoints: tuple[NodeEndpoint, ...]  # versions 10 to 13

class ProduceCall(Call):
    request: ProduceRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["BatchIndexAndErrorMessage"],
        /,
        *,
        batch_index: int,
        batch_index_error_message: str | None = ...,
    ) -> BatchIndexAndErrorMessage: ...
    @overload
    def new(
        self,
        _struct: Literal["LeaderIdAndEpoch"],
        /,
        *,
        leader_id: int = ...,
        leader_epoch: int = ...,
    ) -> LeaderIdAndEpoch: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionProduceResponse"],
        /,
        *,
        index: int,
        error_code: ErrorCode,
        base_offset: int,
        log_append_time: dt.datetime | None = ...,
        log_start_offset: int = ...,
        record_errors: tuple[BatchIndexAndErrorMessage, ...] = ...,
        error_message: str | None = ...,
        current_leader: LeaderIdAndEpoch = ...,
    ) -> PartitionProduceResponse: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicProduceResponse"],
        /,
        *,
        topic_id: UUID | None = ...,
        partition_responses: tuple[PartitionProduceResponse, ...],
        name: str = ...,
    ) -> TopicProduceResponse: ...
    @overload
    def new(
        self,
        _struct: Literal["NodeEndpoint"],
        /,
        *,
        node_id: int,
        host: str,
        port: int,
        rack: str | None = ...,
    ) -> NodeEndpoint: ...
    @overload
    def has(
        self,
        name: Literal["BatchIndexAndErrorMessage"],
        field: Literal["batch_index", "batch_index_error_message"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["LeaderIdAndEpoch"], field: Literal["leader_id", "leader_epoch"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["PartitionProduceResponse"],
        field: Literal["log_start_offset", "record_errors", "error_message", "current_leader"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["TopicProduceResponse"], field: Literal["topic_id", "name"]) -> bool: ...
    @overload
    def has(self, name: Literal["NodeEndpoint"], field: Literal["node_id", "host", "port", "rack"]) -> bool: ...
    @overload
    def has(self, name: Literal["ProduceResponse"], field: Literal["node_endpoints"]) -> bool: ...
    def respond(
        self,
        *,
        responses: tuple[TopicProduceResponse, ...],
        throttle_time: dt.timedelta = ...,
        node_endpoints: tuple[NodeEndpoint, ...] = ...,
    ) -> ProduceResponse: ...
