"""Envelope (58): a client's request that a broker passes on to the active controller. v0: flexible. KIP-590.

The request is there with its header, the answer goes back with its own. Whether this node is the active controller is
said of the envelope, so that the broker asks the next one. All of a broker's clients share its connection: whatever one
of them has sent, it is answered, and only that client's own connection is closed, by the broker.
"""

from __future__ import annotations

import logging
import socket
from inspect import isawaitable
from typing import Any

from kcli.broker.api import APIS, handler, is_flexible
from kcli.broker.metadata.errors import NotController
from kcli.broker.network.messages import (
    BadRequest,
    Call,
    Entity,
    ErrorCode,
    HangUp,
    messages,
    read_header,
    read_request,
    with_throttle,
)
from kcli.broker.turns import LONG_BYTES, apart

log = logging.getLogger("kcli.broker")

ADDRESS_BYTES = {4: socket.AF_INET, 16: socket.AF_INET6}


async def envelope(call: Call) -> Entity:
    """Errors: NOT_CONTROLLER; UNSUPPORTED_VERSION for a request that cannot be read; INVALID_REQUEST for one that is
    not to be forwarded, or that only a closed connection answers, or a client's address that is none;
    UNKNOWN_SERVER_ERROR for a bug."""
    try:
        is_long = len(call.request.request_data) > LONG_BYTES
        inner = await apart(_inner, call) if is_long else _inner(call)
    except BadRequest:
        return _refused(call, ErrorCode.unsupported_version)
    if inner is None:
        return _refused(call, ErrorCode.invalid_request)
    try:
        answer: Any = handler(inner.messages.api_key)(inner)
        response = await answer if isawaitable(answer) else answer
        return _enclosed(call, inner, response)
    except NotController:
        return _refused(call, ErrorCode.not_controller)
    except HangUp as reason:
        log.info("%s through a broker is refused: %s", inner.messages.request_type.__name__, reason)
        return _refused(call, ErrorCode.invalid_request)
    except Exception:
        log.exception("%s through a broker failed", inner.messages.request_type.__name__)
        return _refused(call, ErrorCode.unknown_server_error)


def _enclosed(call: Call, inner: Call, response: Entity) -> Entity:
    frame = inner.messages.encode(inner.header.correlation_id, with_throttle(response, inner.throttle_ms))
    return call.respond(response_data=frame[4:], error_code=ErrorCode.none)


def _inner(call: Call) -> Call | None:
    """The client's request. Raises BadRequest."""
    frame = memoryview(call.request.request_data)
    family = ADDRESS_BYTES.get(len(call.request.client_host_address))
    header = read_header(frame, is_flexible)
    api = APIS.get(header.api_key)
    if api is None or not api.least <= header.version <= api.most:
        raise BadRequest(f"API key {header.api_key} version {header.version}")
    if not api.forwards or family is None:
        return None
    kind = messages(header.api_key, header.version)
    host = socket.inet_ntop(family, call.request.client_host_address)
    request = read_request(kind, frame, header.position)
    return Call(call.broker, kind, header, request, call.now_ms, host, call.listener)


def _refused(call: Call, code: ErrorCode) -> Entity:
    return call.respond(response_data=None, error_code=code)
