"""Fetch (1), versions 4 to 18. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ReplicaState:
    replica_id: int
    replica_epoch: int

@dataclass(frozen=True)
class FetchPartition:
    partition: int
    current_leader_epoch: int  # versions 9 to 18
    fetch_offset: int
    last_fetched_epoch: int  # versions 12 to 18
    log_start_offset: int  # versions 5 to 18
    partition_max_bytes: int
    replica_directory_id: UUID | None  # versions 17 to 18
    high_watermark: int  # version 18

@dataclass(frozen=True)
class FetchTopic:
    topic_id: UUID | None  # versions 13 to 18
    partitions: tuple[FetchPartition, ...]
    topic: str  # versions 4 to 12

@dataclass(frozen=True)
class ForgottenTopic:
    topic_id: UUID | None  # versions 13 to 18
    partitions: tuple[int, ...]
    topic: str  # versions 7 to 12

@dataclass(frozen=True)
class FetchRequest:
    cluster_id: str | None  # versions 12 to 18
    replica_state: ReplicaState  # versions 15 to 18
    max_wait: dt.timedelta
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int  # versions 7 to 18
    session_epoch: int  # versions 7 to 18
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]  # versions 7 to 18
    rack_id: str  # versions 11 to 18
    replica_id: int  # versions 4 to 14

@dataclass(frozen=True)
class EpochEndOffset:
    epoch: int
    end_offset: int

@dataclass(frozen=True)
class LeaderIdAndEpoch:
    leader_id: int
    leader_epoch: int

@dataclass(frozen=True)
class SnapshotId:
    end_offset: int
    epoch: int

@dataclass(frozen=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int

@dataclass(frozen=True)
class PartitionData:
    partition_index: int
    error_code: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int  # versions 5 to 18
    diverging_epoch: EpochEndOffset  # versions 12 to 18
    current_leader: LeaderIdAndEpoch  # versions 12 to 18
    snapshot_id: SnapshotId  # versions 12 to 18
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: int  # versions 11 to 18
    records: bytes | None

@dataclass(frozen=True)
class FetchableTopicResponse:
    topic_id: UUID | None  # versions 13 to 18
    partitions: tuple[PartitionData, ...]
    topic: str  # versions 4 to 12

@dataclass(frozen=True)
class NodeEndpoint:
    node_id: int
    host: str
    port: int
    rack: str | None

@dataclass(frozen=True)
class FetchResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode  # versions 7 to 18
    session_id: int  # versions 7 to 18
    responses: tuple[FetchableTopicResponse, ...]
    node_endpoints: tuple[NodeEndpoint, ...]  # versions 16 to 18

class FetchCall(Call):
    request: FetchRequest
    @overload
    def get(self, name: Literal["cluster_id"], default: str | None) -> str | None: ...
    @overload
    def get(self, name: Literal["replica_state"], default: ReplicaState) -> ReplicaState: ...
    @overload
    def get(self, name: Literal["replica_state"], default: None) -> ReplicaState | None: ...
    @overload
    def get(self, name: Literal["session_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["session_id"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["session_epoch"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["session_epoch"], default: None) -> int | None: ...
    @overload
    def get(
        self,
        name: Literal["forgotten_topics_data"],
        default: tuple[ForgottenTopic, ...],
    ) -> tuple[ForgottenTopic, ...]: ...
    @overload
    def get(self, name: Literal["forgotten_topics_data"], default: None) -> tuple[ForgottenTopic, ...] | None: ...
    @overload
    def get(self, name: Literal["rack_id"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["rack_id"], default: None) -> str | None: ...
    @overload
    def get(self, name: Literal["replica_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["replica_id"], default: None) -> int | None: ...
    @overload
    def new(
        self,
        _struct: Literal["EpochEndOffset"],
        /,
        *,
        epoch: int = ...,
        end_offset: int = ...,
    ) -> EpochEndOffset: ...
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
    def new(self, _struct: Literal["SnapshotId"], /, *, end_offset: int = ..., epoch: int = ...) -> SnapshotId: ...
    @overload
    def new(
        self,
        _struct: Literal["AbortedTransaction"],
        /,
        *,
        producer_id: int,
        first_offset: int,
    ) -> AbortedTransaction: ...
    @overload
    def new(
        self,
        _struct: Literal["PartitionData"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
        high_watermark: int,
        last_stable_offset: int = ...,
        log_start_offset: int = ...,
        diverging_epoch: EpochEndOffset = ...,
        current_leader: LeaderIdAndEpoch = ...,
        snapshot_id: SnapshotId = ...,
        aborted_transactions: tuple[AbortedTransaction, ...] | None,
        preferred_read_replica: int = ...,
        records: bytes | None,
    ) -> PartitionData: ...
    @overload
    def new(
        self,
        _struct: Literal["FetchableTopicResponse"],
        /,
        *,
        topic_id: UUID | None = ...,
        partitions: tuple[PartitionData, ...],
        topic: str = ...,
    ) -> FetchableTopicResponse: ...
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
    def has(self, name: Literal["EpochEndOffset"], field: Literal["epoch", "end_offset"]) -> bool: ...
    @overload
    def has(self, name: Literal["LeaderIdAndEpoch"], field: Literal["leader_id", "leader_epoch"]) -> bool: ...
    @overload
    def has(self, name: Literal["SnapshotId"], field: Literal["end_offset", "epoch"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["PartitionData"],
        field: Literal[
            "log_start_offset",
            "diverging_epoch",
            "current_leader",
            "snapshot_id",
            "preferred_read_replica",
        ],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["FetchableTopicResponse"], field: Literal["topic_id", "topic"]) -> bool: ...
    @overload
    def has(self, name: Literal["NodeEndpoint"], field: Literal["node_id", "host", "port", "rack"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["FetchResponse"],
        field: Literal["error_code", "session_id", "node_endpoints"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode = ...,
        session_id: int = ...,
        responses: tuple[FetchableTopicResponse, ...],
        node_endpoints: tuple[NodeEndpoint, ...] = ...,
    ) -> FetchResponse: ...
