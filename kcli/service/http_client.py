"""A request to another service of the same group. Each has a connection of its own, as such requests are rare."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final
from urllib.parse import urlsplit

import httptools

from kcli.errors import KcliError
from kcli.service.messages import JSON, Answer, Request

CONNECT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 64 << 20


class NoAnswer(KcliError):
    """The service does not answer."""


async def ask(url: str, request: Request, tls: ssl.SSLContext | None, timeout_s: float) -> Answer:
    """Return the answer of the service at a URL, with all headers. request: its path is sent with the query, if there
    is one. tls: None for http. Raises NoAnswer."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _ask(url, request, tls)
    except TimeoutError:
        raise NoAnswer(f"{url}: no answer in {timeout_s:g} s") from None
    except (OSError, UnicodeError, httptools.HttpParserError) as error:  # UnicodeError: of a host's name
        raise NoAnswer(f"{url}: {error}") from None


async def _ask(url: str, request: Request, tls: ssl.SSLContext | None) -> Answer:
    where = urlsplit(url)
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(
            where.hostname, where.port or (80 if tls is None else 443), ssl=tls
        )
    try:
        writer.write(_head(request, where.netloc) + request.body)
        await writer.drain()
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.is_whole:
            data = await reader.read(1 << 16)
            if not data:
                break
            parser.feed_data(data)
            if answer.size > ANSWER_BYTES_MAX:
                raise NoAnswer(f"{url}: the answer has more than {ANSWER_BYTES_MAX:,} bytes")
        is_framed = "content-length" in answer.headers or "transfer-encoding" in answer.headers
        if not answer.is_whole and (is_framed or not answer.has_head):
            raise NoAnswer(f"{url}: the connection was closed before the end of the answer")
        return Answer(
            parser.get_status_code(), b"".join(answer.body), answer.headers.get("content-type", JSON), answer.headers
        )
    finally:
        writer.close()


def _head(request: Request, host: str) -> bytes:
    target = request.path + ("?" + request.query if request.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    lines += [f"Content-Length: {len(request.body)}", "Connection: close"]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class _Answer:
    """Collects an answer from the callbacks of httptools."""

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
