"""SaslAuthenticate (36) on a connection that is authenticated already, or needs no authentication: the request is
refused.

While a client authenticates or re-authenticates, network/authentication.py handles the request instead. v1: the
session's lifetime. v2: flexible. KIP-152, KIP-368.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcli.broker.broker import Broker
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types import sasl_authenticate as types

AFTERWARDS: Final = "SaslAuthenticate request received after successful authentication"


def sasl_authenticate(_: Broker, call: types.SaslAuthenticateCall) -> types.SaslAuthenticateResponse:
    """Errors: ILLEGAL_SASL_STATE."""
    return call.respond(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=AFTERWARDS, auth_bytes=b"")
