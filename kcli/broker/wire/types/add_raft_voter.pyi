"""AddRaftVoter (80), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class Listener:
    name: str
    host: str
    port: int

@dataclass(frozen=True)
class AddRaftVoterRequest:
    cluster_id: str | None
    timeout: dt.timedelta
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[Listener, ...]
    ack_when_committed: bool  # version 1

@dataclass(frozen=True)
class AddRaftVoterResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None

class AddRaftVoterCall(Call):
    request: AddRaftVoterRequest
    @overload
    def get(self, name: Literal["ack_when_committed"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["ack_when_committed"], default: None) -> bool | None: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
    ) -> AddRaftVoterResponse: ...
