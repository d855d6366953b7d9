"""InitProducerId (22), versions 0 to 5. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout: dt.timedelta
    producer_id: int  # versions 3 to 5
    producer_epoch: int  # versions 3 to 5

@dataclass(frozen=True)
class InitProducerIdResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    producer_id: int
    producer_epoch: int

class InitProducerIdCall(Call):
    request: InitProducerIdRequest
    @overload
    def get(self, name: Literal["producer_id"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["producer_id"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["producer_epoch"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["producer_epoch"], default: None) -> int | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        producer_id: int = ...,
        producer_epoch: int,
    ) -> InitProducerIdResponse: ...
