"""Connections to other nodes through sockets, on the event loop.

    connecting   when first asked, and again after a loss, RECONNECT_BACKOFF_S after the last attempt; what is asked
                 meanwhile waits, and is Unanswered where the attempt fails
    hello        ApiVersions, once a connection: which versions the other node speaks
    ready        requests go out as they come, answers are matched by correlation id

A request that is not answered in its time ends the connection, as nobody can tell what became of it. A frame is read
straight into a buffer of its own size, and a fetch's records stay views of that. Source: NetworkClient, Selector.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Any, Final

from kcli.broker.network import fetch_request
from kcli.broker.network.messages import API_VERSIONS, Entity, Messages, messages
from kcli.broker.network.outgoing import Outgoing
from kcli.broker.network.peers import (
    Unanswered,
    api_named,
    check_version,
    correlation_of,
    error_of,
    new_request,
    newest_version,
    read_response,
    request_frame,
)

log = logging.getLogger("kcli.broker")
SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 << 10
READS_AT_ONCE: Final = 16
RECONNECT_BACKOFF_S: Final = 0.05
CONNECT_TIMEOUT_S: Final = 10.0
HELLO_VERSION: Final = 3
LAID_OUT: Final = ("fetch", fetch_request.VERSION)
HELLO: Final = {"client_software_name": "kcli", "client_software_version": "4.3"}


class SocketNetwork:
    """Channels through sockets. close: ends all that were given."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._channels: set[SocketChannel] = set()

    def channel(self, host: str, port: int, client_id: str) -> SocketChannel:
        """A new channel, of the caller's own."""
        channel = SocketChannel(self._loop, host, port, client_id, self._channels)
        self._channels.add(channel)
        return channel

    def close(self) -> None:
        """End all channels."""
        for channel in list(self._channels):
            channel.close()


class SocketChannel:
    """See above."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int, client_id: str, known: set[SocketChannel]
    ) -> None:
        self.address = f"{host}:{port}"
        self._host, self._port, self._client_id = host, port, client_id
        self._loop = loop
        self._known = known
        self._is_closed = False
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._last_attempt = -RECONNECT_BACKOFF_S

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Entity:
        """Ask, and wait for the answer. Raises Unanswered."""
        known = api_named(api)
        deadline = self._loop.time() + timeout_s
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = await self._connected(timeout_s)
        if version is None:
            version = newest_version(known, connection.versions)
        else:
            check_version(known, version, connection.versions)
        kind = messages(known.key, version)
        laid = fetch_request.lay_out(fields) if (api, version) == LAID_OUT else None
        return await connection.ask(kind, laid or new_request(kind, fields), deadline)

    async def _connected(self, timeout_s: float) -> _Connection:
        if self._is_closed:
            raise Unanswered(f"{self.address}: closed")
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())
            self._connecting.add_done_callback(_look)
        attempt = self._connecting
        done, _ = await asyncio.wait([attempt], timeout=timeout_s)
        if not done:
            raise Unanswered(f"{self.address}: not connected within {timeout_s:g} s")
        if attempt.cancelled():
            raise Unanswered(f"{self.address}: closed")
        error = attempt.exception()
        if error is not None:  # a new one each: several may wait, and a traceback grows with each who raises it
            raise Unanswered(f"{self.address}: {_reason(error)}") from error
        return attempt.result()

    async def _connect(self) -> _Connection:
        connection = None
        try:
            wait_s = self._last_attempt + RECONNECT_BACKOFF_S - self._loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            self._last_attempt = self._loop.time()
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = await self._open()
                connection = _Connection(self._loop, sock, self._client_id, self.address)
                await connection.hello(self._loop.time() + CONNECT_TIMEOUT_S)
        except BaseException:
            if connection is not None:
                connection.close("not greeted")
            raise
        finally:
            self._connecting = None
        self._connection = connection
        return connection

    async def _open(self) -> socket.socket:
        found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        last: OSError | None = None
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)  # noqa: FBT003  (the socket module says it so)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                last = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        assert last is not None, "a name has addresses, or cannot be resolved"
        raise last

    def close(self) -> None:
        """End it; what waits is Unanswered."""
        self._is_closed = True
        self._known.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close("closed")
            self._connection = None


class _Connection:
    """One socket: requests out, answers in."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, client_id: str, address: str) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self.is_closed = False
        self._loop = loop
        self._socket = sock
        self._fd = sock.fileno()
        self._client_id, self._address = client_id, address
        self._out = Outgoing(sock)
        self._is_writing = False
        self._asked: dict[int, tuple[Messages, asyncio.Future[Entity]]] = {}
        self._last_id = 0
        self._rest = b""  # of small frames: what is not whole yet
        self._frame: memoryview | None = None  # one that is being read into its own buffer
        self._filled = 0
        loop.add_reader(self._fd, self._readable)

    async def hello(self, deadline: float) -> None:
        """Learn which versions the other node speaks. Raises Unanswered."""
        kind = messages(API_VERSIONS, HELLO_VERSION)
        answer = await self.ask(kind, new_request(kind, HELLO), deadline)
        if error_of(answer).value:
            raise Unanswered(f"ApiVersions: {error_of(answer).name}")
        self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    async def ask(self, kind: Messages, request: Entity | bytes, deadline: float) -> Entity:
        """Send a request and wait for its answer. Raises Unanswered."""
        if self.is_closed:
            raise Unanswered(f"{self._address}: the connection was lost")
        self._last_id = number = (self._last_id + 1) & 0x7FFFFFFF
        answer: asyncio.Future[Entity] = self._loop.create_future()
        self._asked[number] = kind, answer
        timer = self._loop.call_at(deadline, self._too_late, kind)
        try:
            self._out.add([request_frame(kind, self._client_id, number, request)])
            self._flush()
            return await answer
        finally:
            timer.cancel()
            self._asked.pop(number, None)

    def _too_late(self, kind: Messages) -> None:
        self.close(f"no answer to {kind.request_type.__name__} in time")

    # writing

    def _flush(self) -> None:
        if not self._out or self.is_closed:
            return
        try:
            is_sent = self._out.send()
        except OSError as error:
            self.close(str(error))
            return
        if is_sent == self._is_writing:
            self._is_writing = not is_sent
            if is_sent:
                self._loop.remove_writer(self._fd)
            else:
                self._loop.add_writer(self._fd, self._flush)

    # reading

    def _readable(self) -> None:
        try:
            for _ in range(READS_AT_ONCE):
                if self._frame is None:
                    data = self._socket.recv(SCRATCH_BYTES)
                    count = len(data)
                    if count:
                        self._take(self._rest + data if self._rest else data)
                    if 0 < count < SCRATCH_BYTES and self._frame is None:
                        return  # the socket had no more
                else:
                    count = self._socket.recv_into(self._frame[self._filled :])
                    self._fill(count)
                if count == 0:
                    self.close("by the other side")
                if self.is_closed:
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.close(str(error))

    def _take(self, data: bytes) -> None:
        """Look at whole frames; the rest of the last one is read straight into its own buffer."""
        view, position = memoryview(data), 0
        while not self.is_closed:
            behind = position + SIZE_BYTES
            if behind > len(data):
                break
            size = int.from_bytes(view[position:behind], signed=True)
            if size < SIZE_BYTES:
                self.close(f"an answer of {size:,} bytes")
                return
            if behind + size > len(data):
                self._frame = memoryview(bytearray(size))
                self._filled = len(data) - behind
                self._frame[: self._filled] = view[behind:]
                position = len(data)
                break
            position = behind + size
            self._answered(view[behind:position])
        self._rest = data[position:]

    def _fill(self, count: int) -> None:
        frame = self._frame
        assert frame is not None, "one is being read"
        self._filled += count
        if self._filled == len(frame):
            self._frame = None
            self._answered(frame)

    def _answered(self, frame: memoryview) -> None:
        kind, answer = self._asked.pop(correlation_of(frame), (None, None))
        if kind is None or answer is None or answer.done():
            return  # nobody waits any more
        try:
            response = read_response(kind, frame)
        except Unanswered as error:
            answer.set_exception(error)
            self.close(str(error))
        else:
            answer.set_result(response)

    def close(self, reason: str) -> None:
        """End it; what waits is Unanswered."""
        if self.is_closed:
            return
        self.is_closed = True
        log.debug("connection to %s closed: %s", self._address, reason)
        self._loop.remove_reader(self._fd)
        if self._is_writing:
            self._loop.remove_writer(self._fd)
        self._out.close()
        self._socket.close()
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(Unanswered(f"{self._address}: {reason}"))


def _look(attempt: asyncio.Task[_Connection]) -> None:
    """Whoever waits for an attempt hears of its failure; there may be nobody any more."""
    if not attempt.cancelled():
        attempt.exception()


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"not connected within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error)
