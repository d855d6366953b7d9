"""EndTxn (26), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool

@dataclass(frozen=True)
class EndTxnResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    producer_id: int  # version 5
    producer_epoch: int  # version 5

class EndTxnCall(Call):
    request: EndTxnRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Literal["EndTxnResponse"], field: Literal["producer_id", "producer_epoch"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        producer_id: int = ...,
        producer_epoch: int = ...,
    ) -> EndTxnResponse: ...
