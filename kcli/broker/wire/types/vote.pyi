"""Vote (52), versions 0 to 2. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestPartitionData:
    partition_index: int
    replica_epoch: int
    replica_id: int
    replica_directory_id: UUID | None  # versions 1 to 2
    voter_directory_id: UUID | None  # versions 1 to 2
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool  # version 2

@dataclass(frozen=True)
class RequestTopicData:
    topic_name: str
    partitions: tuple[RequestPartitionData, ...]

@dataclass(frozen=True)
class VoteRequest:
    cluster_id: str | None
    voter_id: int  # versions 1 to 2
    topics: tuple[RequestTopicData, ...]

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    leader_id: int
    leader_epoch: int
    vote_granted: bool

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
class VoteResponse:
    error_code: ErrorCode
    topics: tuple[TopicData, ...]
    node_endpoints: tuple[NodeEndpoint, ...]  # versions 1 to 2

class VoteCall(Call):
    request: VoteRequest
    @overload
    def get(self, name: Literal["voter_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["voter_id"], default: None) -> int | None: ...
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
        vote_granted: bool,
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
    def has(self, name: Literal["VoteResponse"], field: Literal["node_endpoints"]) -> bool: ...
    def respond(
        self,
        *,
        error_code: ErrorCode,
        topics: tuple[TopicData, ...],
        node_endpoints: tuple[NodeEndpoint, ...] = ...,
    ) -> VoteResponse: ...
