"""AlterClientQuotas (49), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class RequestEntityData:
    entity_type: str
    entity_name: str | None

@dataclass(frozen=True)
class OpData:
    key: str
    value: float
    remove: bool

@dataclass(frozen=True)
class RequestEntryData:
    entity: tuple[RequestEntityData, ...]
    ops: tuple[OpData, ...]

@dataclass(frozen=True)
class AlterClientQuotasRequest:
    entries: tuple[RequestEntryData, ...]
    validate_only: bool

@dataclass(frozen=True)
class EntityData:
    entity_type: str
    entity_name: str | None

@dataclass(frozen=True)
class EntryData:
    error_code: ErrorCode
    error_message: str | None
    entity: tuple[EntityData, ...]

@dataclass(frozen=True)
class AlterClientQuotasResponse:
    throttle_time: dt.timedelta
    entries: tuple[EntryData, ...]

class AlterClientQuotasCall(Call):
    request: AlterClientQuotasRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(self, _struct: Literal["EntityData"], /, *, entity_type: str, entity_name: str | None) -> EntityData: ...
    @overload
    def new(
        self,
        _struct: Literal["EntryData"],
        /,
        *,
        error_code: ErrorCode,
        error_message: str | None,
        entity: tuple[EntityData, ...],
    ) -> EntryData: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        entries: tuple[EntryData, ...],
    ) -> AlterClientQuotasResponse: ...
