"""TxnOffsetCommit (28), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class TxnOffsetCommitRequestPartition:
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int  # versions 2 to 5
    committed_metadata: str | None

@dataclass(frozen=True)
class TxnOffsetCommitRequestTopic:
    name: str
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]

@dataclass(frozen=True)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int  # versions 3 to 5
    member_id: str  # versions 3 to 5
    group_instance_id: str | None  # versions 3 to 5
    topics: tuple[TxnOffsetCommitRequestTopic, ...]

@dataclass(frozen=True)
class TxnOffsetCommitResponsePartition:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class TxnOffsetCommitResponseTopic:
    name: str
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]

@dataclass(frozen=True)
class TxnOffsetCommitResponse:
    throttle_time: dt.timedelta
    topics: tuple[TxnOffsetCommitResponseTopic, ...]

class TxnOffsetCommitCall(Call):
    request: TxnOffsetCommitRequest
    @overload
    def get(self, name: Literal["generation_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["generation_id"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["member_id"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["member_id"], default: None) -> str | None: ...
    @overload
    def get(self, name: Literal["group_instance_id"], default: str | None) -> str | None: ...
    @overload
    def new(
        self,
        _struct: Literal["TxnOffsetCommitResponsePartition"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> TxnOffsetCommitResponsePartition: ...
    @overload
    def new(
        self,
        _struct: Literal["TxnOffsetCommitResponseTopic"],
        /,
        *,
        name: str,
        partitions: tuple[TxnOffsetCommitResponsePartition, ...],
    ) -> TxnOffsetCommitResponseTopic: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        topics: tuple[TxnOffsetCommitResponseTopic, ...],
    ) -> TxnOffsetCommitResponse: ...
