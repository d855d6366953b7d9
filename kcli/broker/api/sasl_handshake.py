"""SaslHandshake (17) on a connection that is authenticated already, or needs no authentication: the request is refused.

While a client authenticates or re-authenticates, network/authentication.py handles the request instead. v0: bare SASL
messages follow. v1: SaslAuthenticate follows. KIP-43, KIP-152.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types import sasl_handshake as types


def sasl_handshake(_: Broker, call: types.SaslHandshakeCall) -> types.SaslHandshakeResponse:
    """Refuse every SaslHandshake: return the error ILLEGAL_SASL_STATE and no mechanisms."""
    return call.respond(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=())
