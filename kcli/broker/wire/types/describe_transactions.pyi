"""DescribeTransactions (65), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]

@dataclass(frozen=True)
class TopicData:
    topic: str
    partitions: tuple[int, ...]

@dataclass(frozen=True)
class TransactionState:
    error_code: ErrorCode
    transactional_id: str
    transaction_state: str
    transaction_timeout: dt.timedelta
    transaction_start_time: dt.datetime
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicData, ...]

@dataclass(frozen=True)
class DescribeTransactionsResponse:
    throttle_time: dt.timedelta
    transaction_states: tuple[TransactionState, ...]

class DescribeTransactionsCall(Call):
    request: DescribeTransactionsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(self, _struct: Literal["TopicData"], /, *, topic: str, partitions: tuple[int, ...] = ...) -> TopicData: ...
    @overload
    def new(
        self,
        _struct: Literal["TransactionState"],
        /,
        *,
        error_code: ErrorCode,
        transactional_id: str,
        transaction_state: str,
        transaction_timeout: dt.timedelta,
        transaction_start_time: dt.datetime,
        producer_id: int,
        producer_epoch: int,
        topics: tuple[TopicData, ...],
    ) -> TransactionState: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        transaction_states: tuple[TransactionState, ...],
    ) -> DescribeTransactionsResponse: ...
