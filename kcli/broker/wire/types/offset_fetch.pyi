"""OffsetFetch (9), versions 1 to 10. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class OffsetFetchRequestTopics:
    topic_id: UUID | None  # version 10
    partition_indexes: tuple[int, ...]
    name: str  # versions 8 to 9

@dataclass(frozen=True)
class OffsetFetchRequestGroup:
    group_id: str
    member_id: str | None  # versions 9 to 10
    member_epoch: int  # versions 9 to 10
    topics: tuple[OffsetFetchRequestTopics, ...] | None

@dataclass(frozen=True)
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: tuple[int, ...]

@dataclass(frozen=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]  # versions 8 to 10
    require_stable: bool  # versions 7 to 10
    group_id: str  # versions 1 to 7
    topics: tuple[OffsetFetchRequestTopic, ...] | None  # versions 1 to 7

@dataclass(frozen=True)
class OffsetFetchResponsePartitions:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: ErrorCode

@dataclass(frozen=True)
class OffsetFetchResponseTopics:
    topic_id: UUID | None  # version 10
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    name: str  # versions 8 to 9

@dataclass(frozen=True)
class OffsetFetchResponseGroup:
    group_id: str
    topics: tuple[OffsetFetchResponseTopics, ...]
    error_code: ErrorCode

@dataclass(frozen=True)
class OffsetFetchResponsePartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int  # versions 5 to 7
    metadata: str | None
    error_code: ErrorCode

@dataclass(frozen=True)
class OffsetFetchResponseTopic:
    name: str
    partitions: tuple[OffsetFetchResponsePartition, ...]

@dataclass(frozen=True)
class OffsetFetchResponse:
    throttle_time: dt.timedelta  # versions 3 to 10
    groups: tuple[OffsetFetchResponseGroup, ...]  # versions 8 to 10
    topics: tuple[OffsetFetchResponseTopic, ...]  # versions 1 to 7
    error_code: ErrorCode  # versions 2 to 7

class OffsetFetchCall(Call):
    request: OffsetFetchRequest
    @overload
    def get(
        self,
        name: Literal["groups"],
        default: tuple[OffsetFetchRequestGroup, ...],
    ) -> tuple[OffsetFetchRequestGroup, ...]: ...
    @overload
    def get(self, name: Literal["groups"], default: None) -> tuple[OffsetFetchRequestGroup, ...] | None: ...
    @overload
    def get(self, name: Literal["require_stable"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["require_stable"], default: None) -> bool | None: ...
    @overload
    def get(self, name: Literal["group_id"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["group_id"], default: None) -> str | None: ...
    @overload
    def get(
        self,
        name: Literal["topics"],
        default: tuple[OffsetFetchRequestTopic, ...] | None,
    ) -> tuple[OffsetFetchRequestTopic, ...] | None: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetFetchResponsePartitions"],
        /,
        *,
        partition_index: int,
        committed_offset: int,
        committed_leader_epoch: int = ...,
        metadata: str | None,
        error_code: ErrorCode,
    ) -> OffsetFetchResponsePartitions: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetFetchResponseTopics"],
        /,
        *,
        topic_id: UUID | None = ...,
        partitions: tuple[OffsetFetchResponsePartitions, ...],
        name: str = ...,
    ) -> OffsetFetchResponseTopics: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetFetchResponseGroup"],
        /,
        *,
        group_id: str,
        topics: tuple[OffsetFetchResponseTopics, ...],
        error_code: ErrorCode = ...,
    ) -> OffsetFetchResponseGroup: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetFetchResponsePartition"],
        /,
        *,
        partition_index: int,
        committed_offset: int,
        committed_leader_epoch: int = ...,
        metadata: str | None,
        error_code: ErrorCode,
    ) -> OffsetFetchResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["OffsetFetchResponseTopic"],
        /,
        *,
        name: str,
        partitions: tuple[OffsetFetchResponsePartition, ...],
    ) -> OffsetFetchResponseTopic: ...
    @overload
    def has(
        self,
        name: Literal["OffsetFetchResponsePartitions"],
        field: Literal["partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["OffsetFetchResponseTopics"],
        field: Literal["topic_id", "partitions", "name"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["OffsetFetchResponseGroup"],
        field: Literal["group_id", "topics", "error_code"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["OffsetFetchResponsePartition"],
        field: Literal["partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code"],
    ) -> bool: ...
    @overload
    def has(self, name: Literal["OffsetFetchResponseTopic"], field: Literal["name", "partitions"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["OffsetFetchResponse"],
        field: Literal["throttle_time", "groups", "topics", "error_code"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        groups: tuple[OffsetFetchResponseGroup, ...] = ...,
        topics: tuple[OffsetFetchResponseTopic, ...] = ...,
        error_code: ErrorCode = ...,
    ) -> OffsetFetchResponse: ...
