"""DescribeClientQuotas (48), versions 0 to 1. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class ComponentData:
    entity_type: str
    match_type: int
    match: str | None

@dataclass(frozen=True)
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: bool

@dataclass(frozen=True)
class EntityData:
    entity_type: str
    entity_name: str | None

@dataclass(frozen=True)
class ValueData:
    key: str
    value: float

@dataclass(frozen=True)
class EntryData:
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]

@dataclass(frozen=True)
class DescribeClientQuotasResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    entries: tuple[EntryData, ...] | None

class DescribeClientQuotasCall(Call):
    request: DescribeClientQuotasRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(self, _struct: Literal["EntityData"], /, *, entity_type: str, entity_name: str | None) -> EntityData: ...
    @overload
    def new(self, _struct: Literal["ValueData"], /, *, key: str, value: float) -> ValueData: ...
    @overload
    def new(
        self,
        _struct: Literal["EntryData"],
        /,
        *,
        entity: tuple[EntityData, ...],
        values: tuple[ValueData, ...],
    ) -> EntryData: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None,
        entries: tuple[EntryData, ...] | None,
    ) -> DescribeClientQuotasResponse: ...
