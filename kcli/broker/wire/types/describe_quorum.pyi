"""DescribeQuorum (55), versions 0 to 2. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestPartitionData:
    partition_index: int

@dataclass(frozen=True)
class RequestTopicData:
    topic_name: str
    partitions: tuple[RequestPartitionData, ...]

@dataclass(frozen=True)
class DescribeQuorumRequest:
    topics: tuple[RequestTopicData, ...]

@dataclass(frozen=True)
class ReplicaState:
    replica_id: int
    replica_directory_id: UUID | None  # version 2
    log_end_offset: int
    last_fetch_timestamp: int  # versions 1 to 2
    last_caught_up_timestamp: int  # versions 1 to 2

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    error_message: str | None  # version 2
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: tuple[ReplicaState, ...]
    observers: tuple[ReplicaState, ...]

@dataclass(frozen=True)
class TopicData:
    topic_name: str
    partitions: tuple[PartitionData, ...]

@dataclass(frozen=True)
class Listener:
    name: str
    host: str
    port: int

@dataclass(frozen=True)
class Node:
    node_id: int
    listeners: tuple[Listener, ...]

@dataclass(frozen=True)
class DescribeQuorumResponse:
    error_code: ErrorCode
    error_message: str | None  # version 2
    topics: tuple[TopicData, ...]
    nodes: tuple[Node, ...]  # version 2

class DescribeQuorumCall(Call):
    request: DescribeQuorumRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["ReplicaState"],
        /,
        *,
        replica_id: int,
        replica_directory_id: UUID | None = ...,
        log_end_offset: int,
        last_fetch_timestamp: int = ...,
        last_caught_up_timestamp: int = ...,
    ) -> ReplicaState: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionData"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        error_message: str | None = ...,
        leader_id: int,
        leader_epoch: int,
        high_watermark: int,
        current_voters: tuple[ReplicaState, ...],
        observers: tuple[ReplicaState, ...],
    ) -> PartitionData: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicData"],
        /,
        *,
        topic_name: str,
        partitions: tuple[PartitionData, ...],
    ) -> TopicData: ...
    @overload
    def new(self, _struct: Literal["Listener"], /, *, name: str, host: str, port: int) -> Listener: ...
    @overload
    def new(self, _struct: Literal["Node"], /, *, node_id: int, listeners: tuple[Listener, ...]) -> Node: ...
    @overload
    def has(
        self,
        name: Literal["ReplicaState"],
        field: Literal["replica_directory_id", "last_fetch_timestamp", "last_caught_up_timestamp"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["PartitionData"], field: Literal["error_message"]) -> bool: ...
    @overload
    def has(self, name: Literal["Listener"], field: Literal["name", "host", "port"]) -> bool: ...
    @overload
    def has(self, name: Literal["Node"], field: Literal["node_id", "listeners"]) -> bool: ...
    @overload
    def has(self, name: Literal["DescribeQuorumResponse"], field: Literal["error_message", "nodes"]) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        error_message: str | None = ...,
        topics: tuple[TopicData, ...],
        nodes: tuple[Node, ...] = ...,
    ) -> DescribeQuorumResponse: ...
