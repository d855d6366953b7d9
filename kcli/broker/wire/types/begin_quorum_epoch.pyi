"""BeginQuorumEpoch (53), versions 0 to 1. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestPartitionData:
    partition_index: int
    voter_directory_id: UUID | None  # version 1
    leader_id: int
    leader_epoch: int

@dataclass(frozen=True)
class RequestTopicData:
    topic_name: str
    partitions: tuple[RequestPartitionData, ...]

@dataclass(frozen=True)
class LeaderEndpoint:
    name: str
    host: str
    port: int

@dataclass(frozen=True)
class BeginQuorumEpochRequest:
    cluster_id: str | None
    voter_id: int  # version 1
    topics: tuple[RequestTopicData, ...]
    leader_endpoints: tuple[LeaderEndpoint, ...]  # version 1

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int

@dataclass(frozen=True)
class TopicData:
    topic_name: str
    partitions: tuple[PartitionData, ...]

@dataclass(frozen=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int

@dataclass(frozen=True)
class BeginQuorumEpochResponse:
    error_code: ErrorCode
    topics: tuple[TopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...]  # version 1

class BeginQuorumEpochCall(Call):
    request: BeginQuorumEpochRequest
    @overload
    def get(self, name: Literal["voter_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["voter_id"], default: None) -> int | None: ...
    @overload
    def get(
        self,
        name: Literal["leader_endpoints"],
        default: tuple[LeaderEndpoint, ...],
    ) -> tuple[LeaderEndpoint, ...]: ...
    @overload
    def get(self, name: Literal["leader_endpoints"], default: None) -> tuple[LeaderEndpoint, ...] | None: ...
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
    def new(self, _struct: Literal["NodeEndpoint"], /, *, node_id: int, host: str, port: int) -> NodeEndpoint: ...
    @overload
    def has(self, name: Literal["NodeEndpoint"], field: Literal["node_id", "host", "port"]) -> bool: ...
    @overload
    def has(self, name: Literal["BeginQuorumEpochResponse"], field: Literal["node_endpoints"]) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        topics: tuple[TopicData, ...],
        node_endpoints: tuple[NodeEndpoint, ...] = ...,
    ) -> BeginQuorumEpochResponse: ...
