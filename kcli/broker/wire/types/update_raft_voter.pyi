"""UpdateRaftVoter (82), version 0. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never
from uuid import UUID

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class Listener:
    name: str
    host: str
    port: int

@dataclass(frozen=True)
class KRaftVersionFeature:
    min_supported_version: int
    max_supported_version: int

@dataclass(frozen=True)
class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID | None
    listeners: tuple[Listener, ...]
    k_raft_version_feature: KRaftVersionFeature

@dataclass(frozen=True)
class CurrentLeader:
    leader_id: int
    leader_epoch: int
    host: str
    port: int

@dataclass(frozen=True)
class UpdateRaftVoterResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    current_leader: CurrentLeader

class UpdateRaftVoterCall(Call):
    request: UpdateRaftVoterRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(
        self,
        _struct: Literal["CurrentLeader"],
        /,
        *,
        leader_id: int = ...,
        leader_epoch: int = ...,
        host: str,
        port: int,
    ) -> CurrentLeader: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        current_leader: CurrentLeader,
    ) -> UpdateRaftVoterResponse: ...
