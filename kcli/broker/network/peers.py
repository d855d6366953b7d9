"""The other nodes of a cluster, as a node asks them: requests out, answers in, through a seam that tests replace.

    Network   gives channels; SocketNetwork (client.py) through sockets, a simulation through nothing but a loop
    Channel   to one address, for one purpose: what waits on one (a fetch) holds up what is asked behind it

A request is said in plain values (wire.py). Its version is, unless told, the newest that both sides speak. Source:
NetworkClient, KIP-511.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

from formats.errors import FormatError
from kcli.broker.api import APIS, Api
from kcli.broker.network import fetch_response
from kcli.broker.network.messages import Entity, ErrorCode, Messages, entity_reader, entity_writer
from kcli.broker.network.wire import message
from kcli.errors import KcliError
from kcli.kio_serial import SerialError

FETCH = 1


class Unanswered(KcliError):
    """No answer: not connected, the connection was lost, or it took too long."""


class VersionMismatch(Unanswered):
    """The other node speaks no version of that request that this one does."""


class Channel(Protocol):
    """To one address; connects when first used, and again after a loss."""

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Entity:
        """Ask, and wait for the answer. api: its name in the table of APIs; version None: the newest of both sides.

        Raises Unanswered.
        """
        ...

    def close(self) -> None:
        """End it; what waits is Unanswered."""


class Network(Protocol):
    """Where channels come from."""

    def channel(self, host: str, port: int, client_id: str) -> Channel:
        """A new channel, of the caller's own."""
        ...


class NoNetwork:
    """Of a node that is all of its cluster."""

    def channel(self, host: str, port: int, client_id: str) -> Channel:  # noqa: ARG002
        """Raises Unanswered."""
        raise Unanswered(f"{host}:{port}: this node is alone")


@cache
def api_named(name: str) -> Api:
    """The API with a handler of that name. Raises KeyError."""
    found = next((api for api in APIS.values() if api.name == name), None)
    if found is None:
        raise KeyError(name)
    return found


def newest_version(api: Api, advertised: Mapping[int, tuple[int, int]]) -> int:
    """The newest that both speak. advertised: API key -> least and most. Raises VersionMismatch."""
    least, most = advertised.get(api.key, (0, -1))
    version = min(most, api.most)
    if version < max(least, api.least):
        said = f"{least} to {most}" if most >= least else "none"
        raise VersionMismatch(f"{api.name}: this node speaks versions {api.least} to {api.most}, the other {said}")
    return version


def check_version(api: Api, version: int, advertised: Mapping[int, tuple[int, int]]) -> None:
    """Does the other node speak it? Raises VersionMismatch."""
    least, most = advertised.get(api.key, (0, -1))
    if not least <= version <= most:
        said = f"{least} to {most}" if most >= least else "none"
        raise VersionMismatch(f"{api.name}: this node wants version {version}, the other speaks {said}")


def new_request(kind: Messages, fields: Mapping[str, Any]) -> Entity:
    """A request of its plain values."""
    return message(kind.request_type, fields)


def request_frame(kind: Messages, client_id: str, correlation_id: int, request: Entity | bytes) -> bytes:
    """A request's frame, its size in front. request: an object of kio's, or the bytes that were laid out for it."""
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
    """Which request an answer is to. frame: without the size in front."""
    return int.from_bytes(frame[:4], signed=True)


def read_response(kind: Messages, frame: memoryview) -> Entity:
    """An answer. frame: without the size in front; Fetch's records are views of it. Raises Unanswered."""
    position = 5 if kind.header_is_flexible else 4
    try:
        if kind.api_key == FETCH and kind.version >= fetch_response.LEAST:
            return fetch_response.read(frame, position)
        response, _ = entity_reader(kind.response_type)(frame.toreadonly(), position)
    except (SerialError, ValueError, OverflowError, TypeError, FormatError) as error:
        raise Unanswered(f"{kind.response_name} version {kind.version} is not to be read: {error}") from error
    return response


def error_of(response: Entity) -> ErrorCode:
    """The error of a response as a whole; none where it has no such field."""
    found: ErrorCode = getattr(response, "error_code", ErrorCode.none)
    return found
