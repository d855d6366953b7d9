"""AddPartitionsToTxn (24), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AddPartitionsToTxnTopic:
    name: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    topics: tuple[AddPartitionsToTxnTopic, ...]

@dataclass(frozen=True)
class AddPartitionsToTxnRequest:
    transactions: tuple[AddPartitionsToTxnTransaction, ...]  # versions 4 to 5
    v3_and_below_transactional_id: str  # versions 0 to 3
    v3_and_below_producer_id: int  # versions 0 to 3
    v3_and_below_producer_epoch: int  # versions 0 to 3
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]  # versions 0 to 3

@dataclass(frozen=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int
    partition_error_code: ErrorCode

@dataclass(frozen=True)
class AddPartitionsToTxnTopicResult:
    name: str
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]

@dataclass(frozen=True)
class AddPartitionsToTxnResult:
    transactional_id: str
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]

@dataclass(frozen=True)
class AddPartitionsToTxnResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode  # versions 4 to 5
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]  # versions 4 to 5
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]  # versions 0 to 3

class AddPartitionsToTxnCall(Call):
    request: AddPartitionsToTxnRequest
    @overload
    def get(
        self,
        name: Literal["transactions"],
        default: tuple[AddPartitionsToTxnTransaction, ...],
    ) -> tuple[AddPartitionsToTxnTransaction, ...]: ...
    @overload
    def get(self, name: Literal["transactions"], default: None) -> tuple[AddPartitionsToTxnTransaction, ...] | None: ...
    @overload
    def get(self, name: Literal["v3_and_below_transactional_id"], default: str) -> str: ...
    @overload
    def get(self, name: Literal["v3_and_below_transactional_id"], default: None) -> str | None: ...
    @overload
    def get(self, name: Literal["v3_and_below_producer_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["v3_and_below_producer_id"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["v3_and_below_producer_epoch"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["v3_and_below_producer_epoch"], default: None) -> int | None: ...
    @overload
    def get(
        self,
        name: Literal["v3_and_below_topics"],
        default: tuple[AddPartitionsToTxnTopic, ...],
    ) -> tuple[AddPartitionsToTxnTopic, ...]: ...
    @overload
    def get(
        self,
        name: Literal["v3_and_below_topics"],
        default: None,
    ) -> tuple[AddPartitionsToTxnTopic, ...] | None: ...
    @overload
    def new(
        self,
        _struct: Literal["AddPartitionsToTxnPartitionResult"],
        /,
        *,
        partition_index: int,
        partition_error_code: ErrorCode,
    ) -> AddPartitionsToTxnPartitionResult: ...
    @overload
    def new(
        self,
        _struct: Literal["AddPartitionsToTxnTopicResult"],
        /,
        *,
        name: str,
        results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...],
    ) -> AddPartitionsToTxnTopicResult: ...
    @overload
    def new(
        self,
        _struct: Literal["AddPartitionsToTxnResult"],
        /,
        *,
        transactional_id: str,
        topic_results: tuple[AddPartitionsToTxnTopicResult, ...],
    ) -> AddPartitionsToTxnResult: ...
    @overload
    def has(
        self,
        name: Literal["AddPartitionsToTxnResult"],
        field: Literal["transactional_id", "topic_results"],
    ) -> bool: ...
    @overload
    def has(
        self,
        name: Literal["AddPartitionsToTxnResponse"],
        field: Literal["error_code", "results_by_transaction", "results_by_topic_v3_and_below"],
    ) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode = ...,
        results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ...,
        results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ...,
    ) -> AddPartitionsToTxnResponse: ...
