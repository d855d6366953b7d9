"""ListTransactions (66), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ListTransactionsRequest:
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int, ...]
    duration_filter: int  # versions 1 to 2
    transactional_id_pattern: str | None  # version 2

@dataclass(frozen=True)
class TransactionState:
    transactional_id: str
    producer_id: int
    transaction_state: str

@dataclass(frozen=True)
class ListTransactionsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[TransactionState, ...]

class ListTransactionsCall(Call):
    request: ListTransactionsRequest
    @overload
    def get(self, name: Literal["duration_filter"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["duration_filter"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["transactional_id_pattern"], default: str | None) -> str | None: ...
    def new(
        self,
        _struct: Literal["TransactionState"],
        /,
        *,
        transactional_id: str,
        producer_id: int,
        transaction_state: str,
    ) -> TransactionState: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        unknown_state_filters: tuple[str, ...] = ...,
        transaction_states: tuple[TransactionState, ...],
    ) -> ListTransactionsResponse: ...
