"""CreatePartitions (37), versions 0 to 3. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...]

@dataclass(frozen=True)
class CreatePartitionsTopic:
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None

@dataclass(frozen=True)
class CreatePartitionsRequest:
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: dt.timedelta
    validate_only: bool

@dataclass(frozen=True)
class CreatePartitionsTopicResult:
    name: str
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True)
class CreatePartitionsResponse:
    throttle_time: dt.timedelta
    results: tuple[CreatePartitionsTopicResult, ...]

class CreatePartitionsCall(Call):
    request: CreatePartitionsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["CreatePartitionsTopicResult"],
        /,
        *,
        name: str,
        error_code: ErrorCode,
        error_message: str | None = ...,
    ) -> CreatePartitionsTopicResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        results: tuple[CreatePartitionsTopicResult, ...],
    ) -> CreatePartitionsResponse: ...
