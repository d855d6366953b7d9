"""Connections from this node to other nodes through sockets, on the event loop.

    connecting   a call connects if there is no connection, at the earliest RECONNECT_BACKOFF_S after the last attempt;
                 calls wait for the attempt, and raise Unanswered if it fails
    handshake    the TLS handshake, if the other node's listener has TLS
    hello        one ApiVersions request per connection: the versions that the other node speaks
    login        by SASL, if the listener requires it (outbound.py)
    ready        requests are sent as calls are made; responses are matched to them by correlation id

If TLS or the login fails, the delay before the next attempt doubles each time, up to REFUSED_BACKOFF_MAX_S. In
LOG_AGAIN_S one line is logged for each address and reason, whatever the number of channels. When a session is about to
end, the next call first logs in again on the same connection, and the calls after it wait for that login.

A request that times out ends the connection, since this node cannot know whether the other node has handled the
request. A response that needs more than one read is read into a buffer of its own size, and the records of a Fetch
response stay views of that buffer. Source: NetworkClient, Selector.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.network.outbound import IN_THE_CLEAR, Outbound, log_in
from kcli.broker.network.outgoing import Outgoing
from kcli.broker.network.peers import (
    LoginFailed,
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
from kcli.broker.network.tls_handshake import HandshakeFailed, Handshakes
from kcli.broker.network.tls_socket import TlsBuffers, TlsSocket
from kcli.broker.wire import fetch_request
from kcli.broker.wire.messages import API_VERSIONS, Message, Messages, messages
from kcli.protocol.error_code import ErrorCode
from kcli.tls.failures import failure_text

if TYPE_CHECKING:
    from kcli.broker.wire.types.api_versions import ApiVersionsResponse

log = logging.getLogger("kcli.broker")
SIZE_BYTES: Final = 4
SCRATCH_BYTES: Final = 64 << 10
READS_AT_ONCE: Final = 16
RECONNECT_BACKOFF_S: Final = 0.05
REFUSED_BACKOFF_MAX_S: Final = 1.0
LOG_AGAIN_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
HELLO_VERSION: Final = 3
UNKNOWN_BYTES_MAX: Final = 1 << 20
"""The size, in bytes, of the largest response that is accepted before the other node is authenticated."""
LAID_OUT: Final = ("fetch", fetch_request.VERSION)
HELLO: Final = {"client_software_name": "kcli", "client_software_version": "4.3"}


class SocketNetwork:
    """The Network that opens SocketChannels, and closes them when it is closed. outbound: how this node connects to
    other nodes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outbound: Outbound = IN_THE_CLEAR) -> None:
        self.loop = loop
        self._outbound = outbound
        self._handshakes = Handshakes(loop, TlsBuffers()) if outbound.tls is not None else None
        self._channels: set[SocketChannel] = set()
        self._refusals: dict[str, tuple[str, float]] = {}  # address -> the reason that was logged last, and when

    def channel(self, host: str, port: int, client_id: str) -> SocketChannel:
        """Return a new channel to an address; no other caller shares it."""
        channel = SocketChannel(self, host, port, client_id)
        self._channels.add(channel)
        return channel

    async def secured(self, sock: socket.socket, host: str) -> socket.socket | TlsSocket:
        """Make the TLS handshake on a connection to another node, if the node's listener has TLS. Return the TlsSocket,
        or `sock` without TLS. Raises LoginFailed."""
        if self._outbound.tls is None:
            return sock
        assert self._handshakes is not None, "made with the context"
        try:
            return await self._handshakes.connect(sock, self._outbound.tls, host)
        except HandshakeFailed as error:
            raise LoginFailed(f"TLS: {error}") from None

    async def log_in(self, connection: _Connection, deadline: float) -> None:
        """Log in on a connection, if the other node requires SASL. Raises Unanswered. deadline: in seconds of the event
        loop's clock."""
        if self._outbound.login is None:
            return

        async def ask(api: str, **fields: object) -> Any:
            known = api_named(api)
            kind = messages(known.key, newest_version(known, connection.versions))
            return await connection.call(kind, new_request(kind, fields), deadline)

        again_s = await log_in(self._outbound.login, ask)
        connection.login_due = None if again_s is None else self.loop.time() + again_s

    def refused(self, address: str, reason: str) -> None:
        """Log that another node refuses this node's login, or that this node does not trust the other's certificate.
        For each address the same reason is logged only once in LOG_AGAIN_S."""
        known, logged_at = self._refusals.get(address, ("", 0.0))
        now = self.loop.time()
        if reason != known or now - logged_at >= LOG_AGAIN_S:
            self._refusals[address] = reason, now
            log.warning("this node cannot log in to the one at %s: %s", address, reason)

    def let_in(self, address: str) -> None:
        """Note a successful login at an address, so that the next refusal there is logged at once."""
        self._refusals.pop(address, None)

    def forget(self, channel: SocketChannel) -> None:
        """Remove a closed channel from the channels that `close` closes."""
        self._channels.discard(channel)

    def close(self) -> None:
        """Close all channels."""
        for channel in list(self._channels):
            channel.close()


class SocketChannel:
    """A channel through a socket. It connects at the first call, and again at the next call after the connection was
    lost."""

    def __init__(self, network: SocketNetwork, host: str, port: int, client_id: str) -> None:
        self.address = f"{host}:{port}"
        self._host, self._port, self._client_id = host, port, client_id
        self._loop = network.loop
        self._network = network
        self._is_closed = False
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[_Connection] | None = None
        self._last_attempt = -RECONNECT_BACKOFF_S
        self._backoff_s = RECONNECT_BACKOFF_S

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Any:
        """Send a request, after connecting if necessary, and return the response. Raises Unanswered.

        version: None for the newest version that both nodes speak.
        """
        known = api_named(api)
        deadline = self._loop.time() + timeout_s
        connection = self._connection
        if connection is None or connection.is_closed or connection.must_log_in:
            connection = await self._connected(timeout_s)
        if version is None:
            version = newest_version(known, connection.versions)
        else:
            check_version(known, version, connection.versions)
        kind = messages(known.key, version)
        laid = fetch_request.lay_out(fields) if (api, version) == LAID_OUT else None
        return await connection.call(kind, laid or new_request(kind, fields), deadline)

    async def _connected(self, timeout_s: float) -> _Connection:
        if self._is_closed:
            raise Unanswered(f"{self.address}: closed")
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._attempt())
            self._connecting.add_done_callback(_retrieve_exception)
        attempt = self._connecting
        done, _ = await asyncio.wait([attempt], timeout=timeout_s)
        if not done:
            raise Unanswered(f"{self.address}: not connected within {timeout_s:g} s")
        if attempt.cancelled():
            raise Unanswered(f"{self.address}: closed")
        error = attempt.exception()
        # a new exception for each caller: each raise would lengthen the traceback of a shared exception
        if error is not None:
            kind = LoginFailed if isinstance(error, LoginFailed) else Unanswered
            raise kind(f"{self.address}: {self._without_address(error)}") from error
        return attempt.result()

    def _without_address(self, error: BaseException) -> str:
        return _reason(error).removeprefix(f"{self.address}: ")

    async def _attempt(self) -> _Connection:
        """Connect and log in; or log in again on an open connection. Raises Unanswered, OSError, TimeoutError."""
        try:
            connection = self._connection
            if connection is None or connection.is_closed:
                connection = await self._connect()
            else:
                await self._log_in_again(connection)
        except LoginFailed as error:
            self._backoff_s = min(2 * self._backoff_s, REFUSED_BACKOFF_MAX_S)
            self._network.refused(self.address, self._without_address(error))
            raise
        finally:
            self._connecting = None
        self._backoff_s = RECONNECT_BACKOFF_S
        self._network.let_in(self.address)
        self._connection = connection
        return connection

    async def _connect(self) -> _Connection:
        connection = None
        wait_s = self._last_attempt + self._backoff_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._last_attempt = self._loop.time()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = await self._network.secured(await self._open(), self._host)
                connection = _Connection(self._loop, sock, self._client_id, self.address)
                deadline = self._loop.time() + CONNECT_TIMEOUT_S
                await connection.hello(deadline)
                await self._network.log_in(connection, deadline)
        except BaseException:
            if connection is not None:
                connection.close("not greeted")
            raise
        connection.is_known = True
        return connection

    async def _log_in_again(self, connection: _Connection) -> None:
        try:
            await self._network.log_in(connection, self._loop.time() + CONNECT_TIMEOUT_S)
        except BaseException:
            connection.close("not logged in again")
            raise

    async def _open(self) -> socket.socket:
        found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        last: OSError | None = None
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)  # noqa: FBT003  (the signature of the socket module)
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
        """Close the channel. Calls that wait for a response raise Unanswered."""
        self._is_closed = True
        self._network.forget(self)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close("closed")
            self._connection = None


class _Connection:
    """One socket. Sends requests, and passes each response to the caller that waits for its correlation id."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket | TlsSocket, client_id: str, address: str
    ) -> None:
        self.versions: dict[int, tuple[int, int]] = {}
        self.is_closed = False
        self.login_due: float | None = None  # when to log in again, in seconds of the event loop's clock; None: never
        self.is_known = False  # whether ApiVersions and login are done
        self._loop = loop
        self._socket = sock
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._fd = sock.fileno()
        self._client_id, self._address = client_id, address
        self._out = Outgoing(sock)
        self._is_writing = False
        self._pending: dict[int, tuple[Messages, asyncio.Future[Any]]] = {}
        self._last_id = 0
        self._rest = b""  # the first bytes of a response whose length is not yet received
        self._frame: memoryview | None = None  # a partly received response, in a buffer of its own size
        self._filled = 0
        loop.add_reader(self._fd, self._readable)
        self._read_on()

    @property
    def must_log_in(self) -> bool:
        """Whether this node must log in again, as its session ends soon."""
        return self.login_due is not None and self._loop.time() >= self.login_due

    async def hello(self, deadline: float) -> None:
        """Send ApiVersions, and store the versions that the other node speaks. Raises Unanswered. deadline: in seconds
        of the event loop's clock."""
        kind = messages(API_VERSIONS, HELLO_VERSION)
        answer: ApiVersionsResponse = await self.call(kind, new_request(kind, HELLO), deadline)
        if error_of(answer) != ErrorCode.NONE:
            raise Unanswered(f"ApiVersions: {error_of(answer).name}")
        self.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    async def call(self, kind: Messages, request: Message | bytes, deadline: float) -> Any:
        """Send a request and return its response. kind: the message classes of the request's API and version. request:
        an object of kio's, or the encoded body. deadline: in seconds of the event loop's clock; when it is over, the
        connection is closed. Raises Unanswered."""
        if self.is_closed:
            raise Unanswered(f"{self._address}: the connection was lost")
        self._last_id = number = (self._last_id + 1) & 0x7FFFFFFF
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._pending[number] = kind, answer
        timer = self._loop.call_at(deadline, self._too_late, kind)
        try:
            self._out.add([request_frame(kind, self._client_id, number, request)])
            self._flush()
            return await answer
        finally:
            timer.cancel()
            self._pending.pop(number, None)

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

    def _read_on(self) -> None:
        """Read again in the next iteration of the event loop if OpenSSL has bytes that the event loop does not see on
        the socket."""
        if self._tls is not None and self._tls.has_unread and not self.is_closed:
            self._loop.call_soon(self._readable)

    def _readable(self) -> None:
        if self.is_closed:
            return
        try:
            self._read()
        except (BlockingIOError, InterruptedError):
            pass
        except ssl.SSLError as error:
            self.close(f"TLS: {failure_text(error)}", LoginFailed)
        except OSError as error:
            self.close(str(error))
        self._read_on()

    def _read(self) -> None:
        """Read the available bytes of the socket, up to a limit. Raises BlockingIOError, OSError."""
        for _ in range(READS_AT_ONCE):
            if self._frame is None:
                data = self._socket.recv(SCRATCH_BYTES)
                count = len(data)
                if count:
                    self._take(self._rest + data if self._rest else data)
                if 0 < count < SCRATCH_BYTES and self._frame is None:
                    return  # the socket had no more bytes
            else:
                count = self._socket.recv_into(self._frame[self._filled :])
                self._fill(count)
            if count == 0:
                self.close("the other side has closed the connection")
            if self.is_closed:
                return

    def _take(self, data: bytes) -> None:
        """Pass each whole response in the bytes to its caller. The remaining bytes of an incomplete response are then
        read into a buffer of that response's size."""
        view, position = memoryview(data), 0
        while not self.is_closed:
            behind = position + SIZE_BYTES
            if behind > len(data):
                break
            size = int.from_bytes(view[position:behind], signed=True)
            if size < SIZE_BYTES or (size > UNKNOWN_BYTES_MAX and not self.is_known):
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
        kind, answer = self._pending.pop(correlation_of(frame), (None, None))
        if kind is None or answer is None or answer.done():
            return  # the response's caller does not wait for it any more
        try:
            response = read_response(kind, frame)
        except Unanswered as error:
            answer.set_exception(error)
            self.close(str(error))
        else:
            answer.set_result(response)

    def close(self, reason: str, kind: type[Unanswered] = Unanswered) -> None:
        """Close the socket. Requests that wait for a response raise an Unanswered of class `kind` with the reason."""
        if self.is_closed:
            return
        self.is_closed = True
        log.debug("connection to %s closed: %s", self._address, reason)
        self._loop.remove_reader(self._fd)
        if self._is_writing:
            self._loop.remove_writer(self._fd)
        self._out.close()
        self._socket.close()
        for _, answer in self._pending.values():
            if not answer.done():
                answer.set_exception(kind(f"{self._address}: {reason}"))


def _retrieve_exception(attempt: asyncio.Task[_Connection]) -> None:
    """Mark the failure of a connection attempt as retrieved: asyncio complains otherwise if no call waits for the
    attempt."""
    if not attempt.cancelled():
        attempt.exception()


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"not connected within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error)
