"""FetchSnapshot (59), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestSnapshotId:
    end_offset: int
    epoch: int

@dataclass(frozen=True)
class RequestPartitionSnapshot:
    partition: int
    current_leader_epoch: int
    snapshot_id: RequestSnapshotId
    position: int
    replica_directory_id: UUID | None  # version 1

@dataclass(frozen=True)
class RequestTopicSnapshot:
    name: str
    partitions: tuple[RequestPartitionSnapshot, ...]

@dataclass(frozen=True)
class FetchSnapshotRequest:
    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: tuple[RequestTopicSnapshot, ...]

@dataclass(frozen=True)
class SnapshotId:
    end_offset: int
    epoch: int

@dataclass(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int
    leader_epoch: int

@dataclass(frozen=True)
class PartitionSnapshot:
    index: int
    error_code: ErrorCode
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch
    size: int
    position: int
    unaligned_records: bytes

@dataclass(frozen=True)
class TopicSnapshot:
    name: str
    partitions: tuple[PartitionSnapshot, ...]

@dataclass(frozen=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int

@dataclass(frozen=True)
class FetchSnapshotResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    topics: tuple[TopicSnapshot, ...]
    node_endpoints: tuple[NodeEndpoint, ...]  # version 1

class FetchSnapshotCall(Call):
    request: FetchSnapshotRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(self, _struct: Literal["SnapshotId"], /, *, end_offset: int, epoch: int) -> SnapshotId: ...
    @overload
    def new(
        self,
        _struct: Literal["LeaderIdAndEpoch"],
        /,
        *,
        leader_id: int,
        leader_epoch: int,
    ) -> LeaderIdAndEpoch: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionSnapshot"],
        /,
        *,
        index: int,
        error_code: ErrorCode,
        snapshot_id: SnapshotId,
        current_leader: LeaderIdAndEpoch,
        size: int,
        position: int,
        unaligned_records: bytes,
    ) -> PartitionSnapshot: ...
    @overload
    def new(
        self,
        _struct: Literal["TopicSnapshot"],
        /,
        *,
        name: str,
        partitions: tuple[PartitionSnapshot, ...],
    ) -> TopicSnapshot: ...
    @overload
    def new(self, _struct: Literal["NodeEndpoint"], /, *, node_id: int, host: str, port: int) -> NodeEndpoint: ...
    @overload
    def has(self, name: Literal["NodeEndpoint"], field: Literal["node_id", "host", "port"]) -> bool: ...
    @overload
    def has(self, name: Literal["FetchSnapshotResponse"], field: Literal["node_endpoints"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        topics: tuple[TopicSnapshot, ...],
        node_endpoints: tuple[NodeEndpoint, ...] = ...,
    ) -> FetchSnapshotResponse: ...
