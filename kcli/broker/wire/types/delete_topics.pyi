"""DeleteTopics (20), versions 1 to 6. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DeleteTopicState:
    name: str | None
    topic_id: UUID | None

@dataclass(frozen=True)
class DeleteTopicsRequest:
    topics: tuple[DeleteTopicState, ...]  # version 6
    timeout: dt.timedelta
    topic_names: tuple[str, ...]  # versions 1 to 5

@dataclass(frozen=True)
class DeletableTopicResult:
    name: str | None
    topic_id: UUID | None  # version 6
    error_code: ErrorCode
    error_message: str | None  # versions 5 to 6

@dataclass(frozen=True)
class DeleteTopicsResponse:
    throttle_time: dt.timedelta
    responses: tuple[DeletableTopicResult, ...]

class DeleteTopicsCall(Call):
    request: DeleteTopicsRequest
    @overload
    def get(self, name: Literal["topics"], default: tuple[DeleteTopicState, ...]) -> tuple[DeleteTopicState, ...]: ...
    @overload
    def get(self, name: Literal["topics"], default: None) -> tuple[DeleteTopicState, ...] | None: ...
    @overload
    def get(self, name: Literal["topic_names"], default: tuple[str, ...]) -> tuple[str, ...]: ...
    @overload
    def get(self, name: Literal["topic_names"], default: None) -> tuple[str, ...] | None: ...
    def new(
        self,
        _struct: Literal["DeletableTopicResult"],
        /,
        *,
        name: str | None,
        topic_id: UUID | None = ...,
        error_code: ErrorCode,
        error_message: str | None = ...,
    ) -> DeletableTopicResult: ...
    def has(self, name: Literal["DeletableTopicResult"], field: Literal["topic_id", "error_message"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        responses: tuple[DeletableTopicResult, ...],
    ) -> DeleteTopicsResponse: ...
