"""Metadata (3), versions 0 to 13. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class MetadataRequestTopic:
    topic_id: UUID | None  # versions 10 to 13
    name: str | None

@dataclass(frozen=True)
class MetadataRequest:
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool  # versions 4 to 13
    include_topic_authorized_operations: bool  # versions 8 to 13
    include_cluster_authorized_operations: bool  # versions 8 to 10

@dataclass(frozen=True)
class MetadataResponseBroker:
    node_id: int
    host: str
    port: int
    rack: str | None  # versions 1 to 13

@dataclass(frozen=True)
class MetadataResponsePartition:
    error_code: ErrorCode
    partition_index: int
    leader_id: int
    leader_epoch: int  # versions 7 to 13
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]  # versions 5 to 13

@dataclass(frozen=True)
class MetadataResponseTopic:
    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None  # versions 10 to 13
    is_internal: bool  # versions 1 to 13
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: int  # versions 8 to 13

@dataclass(frozen=True)
class MetadataResponse:
    throttle_time: dt.timedelta  # versions 3 to 13
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None  # versions 2 to 13
    controller_id: int  # versions 1 to 13
    topics: tuple[MetadataResponseTopic, ...]
    error_code: ErrorCode  # version 13
    cluster_authorized_operations: int  # versions 8 to 10

class MetadataCall(Call):
    request: MetadataRequest
    @overload
    def get(self, name: Literal["allow_auto_topic_creation"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["allow_auto_topic_creation"], default: None) -> bool | None: ...
    @overload
    def get(self, name: Literal["include_topic_authorized_operations"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["include_topic_authorized_operations"], default: None) -> bool | None: ...
    @overload
    def get(self, name: Literal["include_cluster_authorized_operations"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["include_cluster_authorized_operations"], default: None) -> bool | None: ...
    @overload
    def new(
        self,
        _struct: Literal["MetadataResponseBroker"],
        /,
        *,
        node_id: int,
        host: str,
        port: int,
        rack: str | None = ...,
    ) -> MetadataResponseBroker: ...
    @overload
    def new(
        self,
        _struct: Literal["MetadataResponsePartition"],
        /,
        *,
        error_code: ErrorCode,
        partition_index: int,
        leader_id: int,
        leader_epoch: int = ...,
        replica_nodes: tuple[int, ...] = ...,
        isr_nodes: tuple[int, ...] = ...,
        offline_replicas: tuple[int, ...] = ...,
    ) -> MetadataResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["MetadataResponseTopic"],
        /,
        *,
        error_code: ErrorCode,
        name: str | None,
        topic_id: UUID | None = ...,
        is_internal: bool = ...,
        partitions: tuple[MetadataResponsePartition, ...],
        topic_authorized_operations: int = ...,
    ) -> MetadataResponseTopic: ...
    @overload
    def has(self, name: Literal["MetadataResponseBroker"], field: Literal["rack"]) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["MetadataResponsePartition"],
        field: Literal["leader_epoch", "offline_replicas"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["MetadataResponseTopic"],
        field: Literal["topic_id", "is_internal", "topic_authorized_operations"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["MetadataResponse"],
        field: Literal["throttle_time", "cluster_id", "controller_id", "error_code", "cluster_authorized_operations"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        brokers: tuple[MetadataResponseBroker, ...],
        cluster_id: str | None = ...,
        controller_id: int = ...,
        topics: tuple[MetadataResponseTopic, ...],
        error_code: ErrorCode = ...,
        cluster_authorized_operations: int = ...,
    ) -> MetadataResponse: ...
