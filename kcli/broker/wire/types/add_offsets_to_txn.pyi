"""AddOffsetsToTxn (25), versions 0 to 4. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str

@dataclass(frozen=True)
class AddOffsetsToTxnResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode

class AddOffsetsToTxnCall(Call):
    request: AddOffsetsToTxnRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(self, *, throttle_time: dt.timedelta = ..., error_code: ErrorCode) -> AddOffsetsToTxnResponse: ...
