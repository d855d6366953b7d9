"""SaslHandshake (17), versions 0 to 1. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Never

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class SaslHandshakeRequest:
    mechanism: str

@dataclass(frozen=True)
class SaslHandshakeResponse:
    error_code: ErrorCode
    mechanisms: tuple[str, ...]

class SaslHandshakeCall(Call):
    request: SaslHandshakeRequest
    def get(self, name: Never, default: Never) -> Never: ...
    def new(self, _struct: Never, /) -> Never: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(self, *, error_code: ErrorCode, mechanisms: tuple[str, ...] = ...) -> SaslHandshakeResponse: ...
