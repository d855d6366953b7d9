"""Requests of this node to the other nodes of its cluster, through protocols that tests implement without sockets.

    Network   opens channels: SocketNetwork (client.py) through sockets, a simulation for tests without them
    Channel   sends requests to one address, for one purpose, as a request that waits (a Fetch) delays those behind it

The fields of a request are plain values (wire/plain_values.py). Its version is the newest that both nodes speak, unless
the caller names one. Source: NetworkClient, KIP-511.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from formats.errors import FormatError
from kcli.broker.wire import fetch_response
from kcli.broker.wire.apis import APIS, Api
from kcli.broker.wire.messages import Message, Messages, entity_reader, entity_writer
from kcli.broker.wire.plain_values import message
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.kio_serial import SerialError

FETCH = 1


class Unanswered(KcliError):
    """A request got no response: connecting to the node failed, the connection was lost, or the timeout was over."""


class VersionMismatch(Unanswered):
    """The two nodes speak no common version of the API, or the other node does not speak the version that the caller
    needs."""


class LoginFailed(Unanswered):
    """The TLS handshake or the SASL login has failed, which the Network has logged."""


class Peer(Protocol):
    """A destination of this node's requests: a given node, or the active controller, whichever node that is."""

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Any:
        """Send a request and return its response (typed Any: the caller annotates its type). Raises Unanswered.

        api: its name in wire/apis.py. version: None for the newest that both nodes speak. fields: plain values
        (wire/plain_values.py).
        """
        ...


class Channel(Peer, Protocol):
    """A connection to one address over which this node sends requests. It connects at the first call, and at the next
    call after the connection was lost."""

    def close(self) -> None:
        """Close the channel. Calls that wait for a response raise Unanswered."""


class Network(Protocol):
    """Opens channels to other nodes."""

    def channel(self, host: str, port: int, client_id: str) -> Channel:
        """Return a new channel to an address; no other caller shares it."""
        ...


class NoNetwork:
    """The Network of a node that is the only one of its cluster; it opens no channel."""

    def channel(self, host: str, port: int, client_id: str) -> Channel:  # noqa: ARG002  (the signature of Network)
        """Raise Unanswered, as there is no other node."""
        raise Unanswered(f"{host}:{port}: this node is alone")


@cache
def api_named(name: str) -> Api:
    """Return the API of that name in wire/apis.py. Raises KeyError."""
    found = next((api for api in APIS.values() if api.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def newest_version(api: Api, advertised: Mapping[int, tuple[int, int]]) -> int:
    """The newest version of an API that both nodes speak. advertised: API key -> the lowest and highest version that
    the other node speaks. Raises VersionMismatch if there is none."""
    least, most = advertised.get(api.key, (0, -1))
    version = min(most, api.most)
    if version < max(least, api.least):
        spoken = f"{least} to {most}" if most >= least else "none"
        raise VersionMismatch(f"{api.name}: this node speaks versions {api.least} to {api.most}, the other {spoken}")
    return version


def check_version(api: Api, version: int, advertised: Mapping[int, tuple[int, int]]) -> None:
    """Raise VersionMismatch unless the other node speaks that version. advertised: API key -> the lowest and highest
    version that the other node speaks."""
    least, most = advertised.get(api.key, (0, -1))
    if not least <= version <= most:
        spoken = f"{least} to {most}" if most >= least else "none"
        raise VersionMismatch(f"{api.name}: this node wants version {version}, the other speaks {spoken}")


def new_request(kind: Messages, fields: Mapping[str, Any]) -> Any:
    """Return a request object made of plain values, by field name. kind: the message classes of the request's API and
    version."""
    return message(kind.request_type, fields)


def request_frame(kind: Messages, client_id: str, correlation_id: int, request: Message | bytes) -> bytes:
    """Return the frame of a request, which begins with its length. kind: the message classes of the request's API and
    version. request: an object of kio's, or the encoded body."""
    buffer = io.BytesIO()
    name = client_id.encode()
    buffer.write(struct.pack(">ihhih", 0, kind.api_key, kind.version, correlation_id, len(name)))
    buffer.write(name)
    if kind.flexible:
        buffer.write(b"\0")
    if isinstance(request, bytes):
        buffer.write(request)
    else:
        entity_writer(kind.request_type)(buffer, request)
    frame = buffer.getbuffer()
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    del frame
    return buffer.getvalue()


def correlation_of(frame: memoryview) -> int:
    """Return the correlation id of a response. frame: the response without its length."""
    return int.from_bytes(frame[:4], signed=True)


def read_response(kind: Messages, frame: memoryview) -> Any:
    """Return the decoded response. frame: the response without its length; the records of a Fetch response are views of
    the frame. Raises Unanswered if the response cannot be decoded."""
    position = 5 if kind.header_is_flexible else 4
    try:
        if kind.api_key == FETCH and kind.version >= fetch_response.LEAST:
            return fetch_response.read(frame, position)
        response, _ = entity_reader(kind.response_type)(frame.toreadonly(), position)
    except (SerialError, ValueError, OverflowError, TypeError, FormatError) as error:
        raise Unanswered(f"{kind.response_name} version {kind.version} is not to be read: {error}") from error
    return response


def error_of(response: Message) -> ErrorCode:
    """Return the top-level error code of a response; ErrorCode.NONE if the response has no such field."""
    return ErrorCode(getattr(response, "error_code", ErrorCode.NONE))
