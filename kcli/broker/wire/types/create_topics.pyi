"""CreateTopics (19), versions 2 to 7. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class CreatableReplicaAssignment:
    partition_index: int
    broker_ids: tuple[int, ...]

@dataclass(frozen=True)
class CreatableTopicConfig:
    name: str
    value: str | None

@dataclass(frozen=True)
class CreatableTopic:
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]

@dataclass(frozen=True)
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout: dt.timedelta
    validate_only: bool

@dataclass(frozen=True)
class CreatableTopicConfigs:
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

@dataclass(frozen=True)
class CreatableTopicResult:
    name: str
    topic_id: UUID | None  # version 7
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: int  # versions 5 to 7
    num_partitions: int  # versions 5 to 7
    replication_factor: int  # versions 5 to 7
    configs: tuple[CreatableTopicConfigs, ...] | None  # versions 5 to 7

@dataclass(frozen=True)
class CreateTopicsResponse:
    throttle_time: dt.timedelta
    topics: tuple[CreatableTopicResult, ...]

class CreateTopicsCall(Call):
    request: CreateTopicsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["CreatableTopicConfigs"],
        /,
        *,
        name: str,
        value: str | None,
        read_only: bool,
        config_source: int = ...,
        is_sensitive: bool,
    ) -> CreatableTopicConfigs: ...
    @overload
    def new(
        self,
        _struct: Literal["CreatableTopicResult"],
        /,
        *,
        name: str,
        topic_id: UUID | None = ...,
        error_code: ErrorCode,
        error_message: str | None,
        topic_config_error_code: int = ...,
        num_partitions: int = ...,
        replication_factor: int = ...,
        configs: tuple[CreatableTopicConfigs, ...] | None = ...,
    ) -> CreatableTopicResult: ...
    @overload
    def has(
        self,
        name: Literal["CreatableTopicConfigs"],
        field: Literal["name", "value", "read_only", "config_source", "is_sensitive"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["CreatableTopicResult"],
        field: Literal["topic_id", "topic_config_error_code", "num_partitions", "replication_factor", "configs"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[CreatableTopicResult, ...],
    ) -> CreateTopicsResponse: ...
