"""Envelope (58), version 0. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class EnvelopeRequest:
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes

@dataclass(frozen=True)
class EnvelopeResponse:
    response_data: bytes | None
    error_code: ErrorCode

class EnvelopeCall(Call):
    request: EnvelopeRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(self, *, response_data: bytes | None = ..., error_code: ErrorCode) -> EnvelopeResponse: ...
