"""Forwards a client's request to the leader of the registries.

The request is sent unchanged, with the client's login, and with `X-Forward: true`: a registry that gets this header and
does not lead answers with an error, so that requests never go round in circles. Each request has a connection of its
own, as writes are rare.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import httptools

from kcli.errors import KcliError
from kcli.registry.leader import Identity
from kcli.registry.messages import Answer, Request

HEADER: Final = "x-forward"
CONNECT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 << 20
NOT_PASSED: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        HEADER,
    }
)
"""Headers that are not forwarded: they concern one connection, or are written again."""
NOT_RETURNED: Final = NOT_PASSED | {"content-type", "date", "server"}


class NotForwarded(KcliError):
    """The leader does not answer."""


def is_forwarded(request: Request) -> bool:
    """Whether another registry has forwarded the request."""
    return request.headers.get(HEADER, "").lower() == "true"


async def forward(request: Request, leader: Identity, tls: ssl.SSLContext | None, timeout_s: float) -> Answer:
    """Return the leader's answer. tls: for a leader with https. Raises NotForwarded."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(request, leader, tls if leader.scheme == "https" else None)
    except TimeoutError:
        raise NotForwarded(f"{leader.url}: no answer in {timeout_s:g} s") from None
    except (OSError, httptools.HttpParserError) as error:
        raise NotForwarded(f"{leader.url}: {error}") from None


async def _ask(request: Request, leader: Identity, tls: ssl.SSLContext | None) -> Answer:
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(leader.host, leader.port, ssl=tls)
    try:
        writer.write(_head(request, leader) + request.body)
        await writer.drain()
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.is_whole:
            data = await reader.read(1 << 16)
            if not data:
                break
            parser.feed_data(data)
            if answer.size > ANSWER_BYTES_MAX:
                raise NotForwarded(f"{leader.url}: the answer has more than {ANSWER_BYTES_MAX:,} bytes")
        is_framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if not answer.is_whole and (is_framed or not answer.has_head):
            raise NotForwarded(f"{leader.url}: the connection was closed before the end of the answer")
        headers = {name: value for name, value in answer.headers.items() if name not in NOT_RETURNED}
        kind = answer.headers.get("content-type", "application/json")
        return Answer(parser.get_status_code(), b"".join(answer.body), kind, headers)
    finally:
        writer.close()


def _head(request: Request, leader: Identity) -> bytes:
    target = request.path + ("?" + request.query if request.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {leader.url.partition('://')[2]}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name not in NOT_PASSED]
    lines += ["X-Forward: true", f"Content-Length: {len(request.body)}", "Connection: close"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class _Answer:
    """Collects the leader's answer from the callbacks of httptools."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.size = 0
        self.is_whole = self.has_head = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        self.size += len(name) + len(value)

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self.body.append(body)
        self.size += len(body)

    def on_message_complete(self) -> None:
        self.is_whole = True
