"""HTTP/1.1 on an asyncio transport: bytes to Requests, and Answers to bytes, in their order.

    head      request line and headers; at most head_size_max bytes, else 431
    body      by Content-Length or chunked; at most body_size_max bytes, else 413 before it, or the chunk, is read;
              those of all connections together at most bodies_size_max, else 503; what stands between two chunks or
              behind the last one (extensions, trailer fields) is ignored, and has at most head_size_max bytes, else 431
    request   head and body arrive within request_s seconds of the first byte, else 408
    between   a connection without a request is closed after idle_s seconds
    answer    a client takes it within answer_s seconds, else the connection is reset
    limit     above connections_max connections, the one whose request has been incomplete the longest gives way (503),
              or else the one that has been without a request the longest is closed; if all are being answered, the new
              one has 503
    several   requests that a client sends ahead wait, and nothing more is read until the first one is answered

httptools (llhttp, the parser of Node.js) parses the bytes; it refuses what RFC 9112 forbids, such as a request with
both Content-Length and Transfer-Encoding. This module refuses a request without a Host, or with two. An Upgrade to
another protocol is declined by going on in HTTP/1.1, as RFC 9110 allows.

Why none of the larger servers, as measured with wrk, GET /schemas/ids/1 over 32 connections, on one core: a protocol
of this kind on httptools answered 65,000 requests a second and added 0.4 MB, aiohttp's low-level server 10,000 and 17
MB, its applications 7,500, uvicorn 8,200 and 6 MB, Starlette on it 3,200 and 9 MB.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol, cast

import httptools

from kcli.service.messages import JSON, Answer, Request, error_answer

log = logging.getLogger("kcli.service")
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
REASONS: Final = {each.value: each.phrase for each in HTTPStatus}
WITHOUT_BODY: Final = frozenset({204, 304})
SWEEP_S: Final = 0.5
"""The interval, in seconds, at which the deadlines of all connections are checked, which is cheaper than a timer for
each request."""
NEVER: Final = float("inf")
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]+)(?:;[^\n]*)?\r?\n")
"""The line before a chunk. No trailer field looks like it, as it has a colon."""


class HttpLimits(NamedTuple):
    """The limits of connections: bytes of a request's head and body, times in seconds, and the number of
    connections."""

    head_size_max: int = 16 << 10
    body_size_max: int = 16 << 20
    bodies_size_max: int = 64 << 20
    request_s: float = 30.0
    idle_s: float = 60.0
    answer_s: float = 30.0
    connections_max: int = 1000


class Handler(Protocol):
    """Answers requests. peer: the client's address, without the port."""

    def answer_now(self, request: Request, peer: str) -> bytes | Answer | None:
        """Return the answer if it needs hardly any time; otherwise None. Bytes are a whole encoded answer, with its
        body."""

    def answer(self, request: Request, peer: str) -> Awaitable[Answer]:
        """Return the answer."""


def encode(answer: Answer, *, with_body: bool = True, keeps: bool = True) -> bytes:
    """Return an answer as bytes. with_body: False for HEAD. keeps: whether the connection is used for further
    requests."""
    status, body = answer.status, answer.body
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"]
    if status not in WITHOUT_BODY:
        lines += [f"Content-Type: {answer.content_type}"] if body or not with_body else []
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if not keeps:
        lines.append("Connection: close")
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    return head + body if with_body and status not in WITHOUT_BODY else head


class Connections:
    """The connections of a server, and the objects that they share. refused_suites: suites of TLS 1.3 that the
    configuration leaves out; a connection that has agreed on one of them is reset. content_type: of the errors that are
    found before the handler has the request."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        limits: HttpLimits,
        refused_suites: frozenset[str] = frozenset(),
        content_type: str = JSON,
    ) -> None:
        self.loop, self.handler, self.limits, self.refused_suites = loop, handler, limits, refused_suites
        self.content_type = content_type
        self.open: set[HttpConnection] = set()
        self.held_bytes = 0  # of bodies that are being received, or whose requests are being answered
        self._sweeping = loop.call_later(SWEEP_S, self._sweep)

    def new(self) -> HttpConnection:
        """Return the protocol of a new connection."""
        return HttpConnection(self)

    def has_place(self) -> bool:
        """Return whether there is a place for one more connection, for which another one may give way."""
        if len(self.open) < self.limits.connections_max:
            return True
        last = min((each for each in self.open if each.may_give_way), key=lambda each: each.patience, default=None)
        if last is not None:
            last.give_way()
        return last is not None

    def _sweep(self) -> None:
        now = self.loop.time()
        for each in list(self.open):
            if each.deadline < now:
                each.too_late()
        self._sweeping = self.loop.call_later(SWEEP_S, self._sweep)

    def close(self) -> None:
        """Close the connections without a request at once, the others after their answers."""
        for each in list(self.open):
            each.finish()

    def abort(self) -> None:
        """Reset all connections."""
        self._sweeping.cancel()
        for each in list(self.open):
            each.abort()


class HttpConnection(asyncio.Protocol):
    """One client's connection."""

    __slots__ = (
        "_answering",
        "_body",
        "_body_size",
        "_chunk_received",
        "_ends",
        "_head_size",
        "_headers",
        "_held_bytes",
        "_in_head",
        "_is_new_chunk",
        "_is_paused",
        "_is_reading",
        "_line",
        "_method",
        "_parser",
        "_peer",
        "_refusal",
        "_shared",
        "_transport",
        "_url",
        "_waiting",
        "_writable",
        "deadline",
    )

    def __init__(self, shared: Connections) -> None:
        self._shared = shared
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._peer = ""
        self.deadline = NEVER  # in seconds of the event loop's clock
        self._is_reading = False  # whether a part of a request was received
        self._waiting: deque[tuple[Request, bool]] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._is_paused = False
        self._writable = True
        self._ends = False
        self._held_bytes = 0
        self._start_of_head()

    def _start_of_head(self) -> None:
        self._method, self._url, self._head_size, self._in_head = "", b"", 0, True
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        self._chunk_received: int | None = None  # bytes of the chunk that is being received
        self._is_new_chunk = False  # whether it has begun in the data that are being parsed
        self._line = b""  # what has come of the line before the next chunk
        self._refusal: Answer | None = None

    # the transport's calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request; refuse the connection above the limit of connections."""
        self._transport = cast("asyncio.Transport", transport)
        shared = self._shared
        cipher = transport.get_extra_info("cipher")
        if cipher and cipher[0] in shared.refused_suites:
            self._abort()
            return
        name = transport.get_extra_info("peername")
        self._peer = str(name[0]) if isinstance(name, tuple) else ""
        has_place = shared.has_place()
        shared.open.add(self)
        if not has_place:
            self._close_with(self._too_many())
            return
        self.deadline = shared.loop.time() + shared.limits.idle_s

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Remove the connection. A request that is being handled is handled to its end, as it may make a change."""
        self._shared.open.discard(self)
        self._transport = None
        self._ends = True
        self._waiting.clear()
        if self._answering is None:
            self._let_go()

    def eof_received(self) -> bool:
        """Close the connection once the requests so far are answered."""
        self.finish()
        return self._answering is not None

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, and answer the requests that are complete."""
        if self._ends:
            return
        if not self._is_reading:
            self._is_reading = True
            if self._answering is None:
                self.deadline = self._shared.loop.time() + self._shared.limits.request_s
        self._head_size += len(data)
        self._feed(data)
        if not self._in_head and "transfer-encoding" in self._headers and not self._ends:
            self._check_chunk(data)
        if self._is_reading and self._head_size > self._shared.limits.head_size_max and not self._ends:
            self._close_with(self._head_too_large())

    def _feed(self, data: bytes | memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The Upgrade is declined: the request is parsed again without it, as the parser takes all bytes after the
            # head, even a body, for the other protocol.
            if not self._ends:
                self._parser = httptools.HttpRequestParser(self)
                self._feed(self._plain_head() + bytes(memoryview(data)[upgrade.args[0] :]))
        except httptools.HttpParserCallbackError as error:
            if not self._ends:
                raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            if not self._ends:
                self._close_with(self._error(400, f"HTTP 400 Bad Request: {error}"))

    def _check_chunk(self, data: bytes) -> None:
        """Refuse a chunk that is too large, as soon as its size is there. data: was parsed last. The parser does not
        tell a chunk's size; of one that has begun in the data, and is not complete, all bytes behind its line are the
        chunk's."""
        received = self._chunk_received
        if received is None:
            self._line = (self._line + data).rpartition(b"\n")[2]
        elif self._is_new_chunk:
            whole = self._line + data
            line = whole[: len(whole) - received]
            found = _CHUNK.fullmatch(line, line.rfind(b"\n", 0, -1) + 1)
            self._line, self._is_new_chunk = b"", False
            if found and self._body_size - received + int(found[1], 16) > self._shared.limits.body_size_max:
                self._close_with(self._body_too_large())

    def _plain_head(self) -> bytes:
        lines = [f"{self._method} {self._url.decode('latin-1')} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self._headers.items() if name not in ("connection", "upgrade")]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"

    def pause_writing(self) -> None:
        """Send no further answers for now: the client does not receive those that were sent."""
        self._writable = False
        self._pause()
        self.deadline = self._shared.loop.time() + self._shared.limits.answer_s

    def resume_writing(self) -> None:
        """Send answers again."""
        self._writable = True
        self._await_request()
        if self._answering is None:
            self._answer_waiting()

    # the parser's calls

    def on_message_begin(self) -> None:
        """Begin a request. The parser calls this at its first byte."""
        self._start_of_head()
        self._is_reading = True

    def on_url(self, url: bytes) -> None:
        """Append a part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, or a trailer field."""
        if not self._in_head:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Called when the head is complete: refuse a body that is too large, or answer that the client may send it."""
        self._in_head = False
        limits = self._shared.limits
        self._method = self._parser.get_method().decode("latin-1")
        headers = self._headers
        size = len(self._url) + sum(map(len, headers)) + sum(map(len, headers.values()))
        if size > limits.head_size_max:
            self._refusal = self._head_too_large()
        elif self._method == "CONNECT":
            self._refusal = self._error(405, "HTTP 405 Method Not Allowed")
        elif not self._has_one_host():
            self._refusal = self._error(400, "HTTP 400 Bad Request: a request names one host")
        elif not self._url.startswith(b"/") and self._url != b"*" and b"://" not in self._url:
            self._refusal = self._error(400, "HTTP 400 Bad Request")
        elif int(headers.get("content-length", "0") or 0) > limits.body_size_max:
            self._refusal = self._body_too_large()
        elif headers.get("expect", "").lower() == "100-continue" and not self._waiting and self._answering is None:
            self._write(CONTINUE)
        if self._refusal is not None:
            self._close_with(self._refusal)

    def _has_one_host(self) -> bool:
        """Return whether the head has exactly one Host, as RFC 9112 demands: a proxy might use another of several.
        Before HTTP/1.1 there may be none."""
        host = self._headers.get("host")
        return "," not in host if host is not None else self._parser.get_http_version() in ("0.9", "1.0")

    def on_body(self, body: bytes) -> None:
        """Append a part of the body, within the limits."""
        if self._ends:
            return
        shared, size = self._shared, len(body)
        self._head_size = 0
        self._body_size += size
        if self._chunk_received is not None:
            self._chunk_received += size
        self._held_bytes += size
        shared.held_bytes += size
        if self._body_size > shared.limits.body_size_max:
            self._close_with(self._body_too_large())
        elif shared.held_bytes > shared.limits.bodies_size_max:
            self._close_with(self._error(503, "too many large requests at a time"))
        else:
            self._body.append(body)

    def on_chunk_header(self) -> None:
        """Called when the line before a chunk is complete."""
        self._chunk_received, self._is_new_chunk = 0, True

    def on_chunk_complete(self) -> None:
        """Called when a chunk is complete."""
        self._chunk_received, self._is_new_chunk, self._line = None, False, b""

    def on_message_complete(self) -> None:
        """Called when a request is complete: answer it, unless an earlier request is still waiting for its answer."""
        if self._ends or self._parser.should_upgrade():
            return
        self._in_head, self._head_size, self._is_reading = True, 0, False
        path, _, query = self._url.decode("latin-1").partition("?")
        if not path.startswith("/"):  # a request to a proxy: with scheme and host
            path = "/" + path.partition("://")[2].partition("/")[2]
        request = Request(self._method, path, query, self._headers, b"".join(self._body))
        self._body = []
        keeps = self._parser.should_keep_alive() and self._parser.get_http_version() != "1.0"
        if self._answering is not None or self._waiting or not self._writable:
            self._waiting.append((request, keeps))
            self._pause()
            return
        self._begin(request, keeps)

    # answers

    def _error(self, code: int, message: str) -> Answer:
        return error_answer(code, message, content_type=self._shared.content_type)

    def _begin(self, request: Request, keeps: bool) -> None:
        try:
            now = self._shared.handler.answer_now(request, self._peer)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            now = self._error(500, "Internal Server Error")
        if now is None:
            self.deadline = NEVER
            self._answering = self._shared.loop.create_task(self._answer(request, keeps))
        elif isinstance(now, Answer):
            self._give(now, request, keeps)
        elif keeps:
            self._write(now)
            self._await_request()
        else:
            self._write(now.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            self._end()

    async def _answer(self, request: Request, keeps: bool) -> None:
        try:
            answer = await self._shared.handler.answer(request, self._peer)
        except Exception:
            log.exception("%s %s", request.method, request.path)
            answer = self._error(500, "Internal Server Error")
        finally:
            self._answering = None
            if self._transport is None:
                self._let_go()
        self._give(answer, request, keeps)
        self._answer_waiting()

    def _give(self, answer: Answer, request: Request, keeps: bool) -> None:
        keeps = keeps and not self._ends
        self._write(encode(answer, with_body=request.method != "HEAD", keeps=keeps))
        if keeps:
            self._await_request()
        else:
            self._end()

    def _let_go(self) -> None:
        """Subtract the bodies of answered requests from the shared total."""
        kept = self._body_size if self._is_reading and not self._ends else 0
        self._shared.held_bytes -= self._held_bytes - kept
        self._held_bytes = kept

    def _await_request(self) -> None:
        if self._held_bytes and not self._waiting:
            self._let_go()
        if self._writable and not self._ends:
            limits = self._shared.limits
            self.deadline = self._shared.loop.time() + (limits.request_s if self._is_reading else limits.idle_s)

    def _answer_waiting(self) -> None:
        while self._waiting and self._answering is None and self._writable:
            self._begin(*self._waiting.popleft())
        if self._is_paused and not self._waiting and self._writable and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    # ends

    def finish(self) -> None:
        """Close the connection now if no request is being answered, otherwise after the answers."""
        if self._answering is None and not self._waiting:
            self._end()
        elif self._waiting:
            request, _ = self._waiting.pop()
            self._waiting.append((request, False))
        else:
            self._ends = True

    @property
    def may_give_way(self) -> bool:
        """Whether no request of the connection is being answered."""
        return self._answering is None and not self._waiting and self._writable and not self._ends

    @property
    def patience(self) -> tuple[bool, float]:
        """The least one is that of the connection that is the first to give way."""
        return not self._is_reading, self.deadline

    def give_way(self) -> None:
        """Close the connection, as another one needs its place."""
        if self._is_reading:
            self._close_with(self._too_many())
        else:
            self._end()

    def abort(self) -> None:
        """Reset the connection."""
        self._ends = True
        self._abort()

    def _close_with(self, answer: Answer) -> None:
        self._write(encode(answer, keeps=False))
        self._end()

    def _end(self) -> None:
        self._ends = True
        self._waiting.clear()
        self._body = []
        self._let_go()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self.deadline = self._shared.loop.time() + self._shared.limits.answer_s

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def too_late(self) -> None:
        """The deadline has passed: close an idle connection, refuse a slow request, reset the connection of a client
        that does not receive its answer."""
        if self._ends or not self._writable:
            self.abort()
        elif self._is_reading:
            self._close_with(self._error(408, f"the request did not arrive in {self._shared.limits.request_s:g} s"))
        else:
            self._end()

    def _too_many(self) -> Answer:
        return self._error(503, f"{self._shared.limits.connections_max:,} connections are open, no more are")

    def _head_too_large(self) -> Answer:
        what = "head has" if self._in_head else "trailer fields have"
        return self._error(431, f"the request's {what} more than {self._shared.limits.head_size_max:,} bytes")

    def _body_too_large(self) -> Answer:
        return self._error(413, f"the request's body has more than {self._shared.limits.body_size_max:,} bytes")

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
