"""Envelope (58): a client's request that a broker forwards to the active controller. v0: flexible. KIP-590.

The envelope holds the request with its header, and its response holds the response with its header. NOT_CONTROLLER is
an error of the envelope, after which the broker tries the new active controller. All clients of a broker share its
connection to the controller. So this handler answers even a malformed request, in place of closing that connection; the
broker then closes the connection of the client that has sent the request.
"""

from __future__ import annotations

import logging
import socket
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from kcli.broker.broker import Broker
from kcli.broker.dispatch.handlers import answer
from kcli.broker.metadata.errors import NotController
from kcli.broker.process.turns import LONG_BYTES, apart
from kcli.broker.wire.answers import HangUp, with_throttle
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import BadRequest, Message, messages, read_body, read_header
from kcli.broker.wire.principal import BadPrincipal, principal_of
from kcli.java.addresses import host_address
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import envelope as types

log = logging.getLogger("kcli.broker")

ADDRESS_BYTES = {4: socket.AF_INET, 16: socket.AF_INET6}


async def envelope(broker: Broker, call: types.EnvelopeCall) -> types.EnvelopeResponse:
    """Errors: NOT_CONTROLLER; UNSUPPORTED_VERSION for a request that cannot be decoded; INVALID_REQUEST for an API
    that is not forwarded, for a request for which the handler raises HangUp, and for a malformed client address;
    PRINCIPAL_DESERIALIZATION_FAILURE; UNKNOWN_SERVER_ERROR for a bug; CLUSTER_AUTHORIZATION_FAILED."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    try:
        is_long = len(call.request.request_data) > LONG_BYTES
        inner = await apart(_inner, call) if is_long else _inner(call)
    except BadRequest:
        return _refused(call, ErrorCode.UNSUPPORTED_VERSION)
    except BadPrincipal:
        return _refused(call, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if inner is None:
        return _refused(call, ErrorCode.INVALID_REQUEST)
    try:
        found: Any = answer(broker, inner)
        response = await found if isawaitable(found) else found
        return _enclosed(call, inner, response)
    except NotController:
        return _refused(call, ErrorCode.NOT_CONTROLLER)
    except HangUp as reason:
        log.info("%s through a broker is refused: %s", inner.messages.request_type.__name__, reason)
        return _refused(call, ErrorCode.INVALID_REQUEST)
    except Exception:
        log.exception("%s through a broker failed", inner.messages.request_type.__name__)
        return _refused(call, ErrorCode.UNKNOWN_SERVER_ERROR)


def _enclosed(call: types.EnvelopeCall, inner: Call, response: Message) -> types.EnvelopeResponse:
    frame = inner.messages.encode(inner.header.correlation_id, with_throttle(response, inner.throttle_ms))
    return call.respond(response_data=frame[4:], error_code=ErrorCode.NONE)


def _inner(call: types.EnvelopeCall) -> Call | None:
    """Return the client's request, decoded; None if its API is not one that brokers forward, or if the client's address
    is malformed. Raises BadRequest, BadPrincipal."""
    frame = memoryview(call.request.request_data)
    family = ADDRESS_BYTES.get(len(call.request.client_host_address))
    header = read_header(frame)
    api = APIS.get(header.api_key)
    if api is None or not api.least <= header.version <= api.most:
        raise BadRequest(f"API key {header.api_key} version {header.version}")
    if not api.forwards or family is None:
        return None
    kind = messages(header.api_key, header.version)
    host = host_address(socket.inet_ntop(family, call.request.client_host_address))
    request = read_body(kind, frame, header)
    principal = principal_of(call.request.request_principal or b"")
    return Call(kind, header, request, call.now_ms, host, call.listener, principal=principal)


def _refused(call: types.EnvelopeCall, code: ErrorCode) -> types.EnvelopeResponse:
    return call.respond(response_data=None, error_code=code)
