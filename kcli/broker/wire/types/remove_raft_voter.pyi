"""RemoveRaftVoter (81), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Never
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RemoveRaftVoterRequest:
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID | None

@dataclass(frozen=True)
class RemoveRaftVoterResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None

class RemoveRaftVoterCall(Call):
    request: RemoveRaftVoterRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> RemoveRaftVoterResponse: ...
