"""AllocateProducerIds (67), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int

@dataclass(frozen=True)
class AllocateProducerIdsResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    producer_id_start: int
    producer_id_len: int

class AllocateProducerIdsCall(Call):
    request: AllocateProducerIdsRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        producer_id_start: int,
        producer_id_len: int,
    ) -> AllocateProducerIdsResponse: ...
