"""The sockets of a broker: it listens, accepts as many connections as its configuration allows, and closes idle ones.

On a TLS listener, a client's connection begins with a TLS handshake, which runs in its own task; it counts as a
connection as soon as it is accepted.

The module connection_limits.py decides which connections wait or are refused. Names of configurations are Kafka's:
connections.max.idle.ms, socket.request.max.bytes, queued.max.request.bytes, socket.listen.backlog.size,
socket.send.buffer.bytes. The last one matters: on two busy cores, a consumer that reads as fast as the broker sends
got, with a send buffer that the operating system sizes, only a fifth to a half of the bytes per second that it got with
Kafka's default of socket.send.buffer.bytes. Source: SocketServer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from formats.kernels.wire import room
from kcli.broker.config.served import CannotServe
from kcli.broker.network.authentication import REASON_MAX, Authentication
from kcli.broker.network.complaints import Complaints
from kcli.broker.network.connection import Connection
from kcli.broker.network.connection_limits import ConnectionLimits
from kcli.broker.network.data_plane import DataPlane
from kcli.broker.network.request_memory import RequestMemory, Reserved
from kcli.broker.network.secured import SecuredListener
from kcli.broker.network.tls_handshake import Handshakes
from kcli.broker.network.tls_socket import TlsBuffers, TlsSocket
from kcli.broker.process.descriptors import limit, may_connect
from kcli.broker.process.turns import LONG_BYTES, Turns
from kcli.broker.process.unattended import begin, report
from kcli.errors import KcliError, error_text
from kcli.java.addresses import host_address
from kcli.security.principals import ANONYMOUS

if TYPE_CHECKING:
    from formats.kernels.produce import ProduceLanes
    from kcli.broker.config import BrokerConfig
    from kcli.broker.quotas.client import Quotas
    from kcli.broker.wire.answers import Answer, Laid, Later, Served
    from kcli.broker.wire.apis import Api
    from kcli.broker.wire.call import Call, Client
    from kcli.metadata.changes import QuotaEntity
    from kcli.tls.contexts import TlsContext

    Handle = Callable[[Api, Call], Answer | Awaitable[Answer]]

log = logging.getLogger("kcli.broker")
SCRATCH_BYTES = 256 << 10
ROOM_BYTES_MIN = 16 << 10
ROOM_BYTES_MAX = 2 << 20
ROOMS_MAX = 4
"""The sizes of the buffers that Rooms keeps, and how many it keeps."""
ACCEPT_NS = 10_000_000
"""The longest time, in nanoseconds, for which waiting connections are accepted without a break. It is long because the
listen backlog (socket.listen.backlog.size) is small, and a client that finds it full tries again only after a
second."""
RETRY_ACCEPT_S = 0.1
IDLE_CHECK_S = 5.0
REFUSED_MAX = 1000
"""The greatest number of refused connections that wait to be closed. When so many wait, further ones are closed at
once."""
LOGIN_BYTES = 64 << 20
"""The memory, in bytes, for the requests above LONG_BYTES (16 KiB) of all clients that have not logged in."""


DECODED_BYTES = 4 << 20
"""The bytes of long requests of one API that are decoded at the same time. Decoded, a request that lists many small
items takes some forty times its bytes, and so does the response to it."""


class Requests(Protocol):
    """Handles the requests that come through a server's connections: the Router of dispatch/routing.py."""

    @property
    def quotas(self) -> Quotas:
        """The client quotas, and how much of them each client has used."""

    def now_ms(self) -> int:
        """The current time in ms since 1970: the time at which a request is received."""

    def at_once(self, frame: memoryview, client: Client) -> Laid | Later | None:
        """Return the response to a plain request, which can be handled from its bytes without decoding. Return None,
        and change nothing, for a request that has to be decoded. frame: the request without its length."""

    def serve(
        self,
        fd: int,
        buffer: memoryview,
        kept_bytes: int,
        client: Client,
        request_max_bytes: int,
        turn_ns: int,
        *,
        lanes: ProduceLanes[Any] | None = None,
    ) -> Served | None:
        """Receive from a client's socket, answer the plain requests at the front of the received bytes that wait for
        nothing, and send the responses. Return None, with nothing received, if the client has no such requests now.
        buffer: for the received bytes; its first kept_bytes bytes are received already. turn_ns: the time, in ns, after
        which no further request is answered. lanes: what `lanes_beside` has returned, in a data-plane thread. Raises
        HangUp, OSError."""

    def lanes_beside(self) -> ProduceLanes[Any]:
        """Return the partitions to which another thread may append plain requests by `serve`."""

    def handle(self, api: Api, call: Call) -> Answer | Awaitable[Answer]:
        """Return the response to a request, or an awaitable of it. wire/answers.py lists the types that a response may
        have besides kio's classes."""

    def load(self, api_key: int) -> None:
        """Import the handler of the API with this key. Called in a thread."""

    def is_split(self, api: Api) -> bool:
        """Whether the long requests of an API are handled in parts."""


@dataclass(eq=False, slots=True)
class _Held:
    """An accepted connection that waits because the creation rate or the number of connections is at its limit.
    listening: the listener's socket. is_due: whether the wait for the creation rate is over, so that the connection
    waits only for max.connections."""

    listening: socket.socket
    client: socket.socket
    peer: tuple[str, int]
    listener: str
    is_due: bool = False


def _not_at_once(_frame: memoryview, _client: Client) -> Laid | Later | None:
    return None


def _not_served(*_: object) -> Served | None:
    return None


class Rooms:
    """Buffers for requests that arrive in several pieces. Some are kept for further requests, as new memory costs more
    time than the copy of the bytes."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, size_bytes: int) -> bytearray:
        """Return a buffer of at least this size, with any bytes in it."""
        free = self._free
        if free and ROOM_BYTES_MIN <= size_bytes <= len(free[-1]):
            return free.pop()
        return room(size_bytes)

    def give(self, buffer: bytearray) -> None:
        """Take back a buffer of which there is no view any more."""
        if len(self._free) < ROOMS_MAX and ROOM_BYTES_MIN <= len(buffer) <= ROOM_BYTES_MAX:
            self._free.append(buffer)


class Server:
    """Listening sockets and the connections that came through them. Used in the event loop's thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        secured: Mapping[str, SecuredListener] | None = None,
    ) -> None:
        """secured: listener name -> SecuredListener, for the listeners that are not PLAINTEXT."""
        self.loop = loop
        self.config = config
        self._secured = dict(secured or {})
        self._handshakes = Handshakes(loop, TlsBuffers()) if self._secured else None
        self._shaking: dict[asyncio.Task[None], str] = {}  # task of a TLS handshake -> its listener
        self.renew_scratch()
        self.memory = RequestMemory(config.queued_max_request_bytes)
        self.login_memory = RequestMemory(LOGIN_BYTES)
        """The memory for the long requests of clients that have to log in by SASL, and have not logged in yet."""
        self.login_turns = Turns()
        """The turns in which the long requests of such clients are handled: one request in each iteration of the event
        loop."""
        self._decoded: dict[str, RequestMemory] = {}  # by API
        self.rooms = Rooms()
        self.connections: set[Connection] = set()
        self.yielding = 0
        """The number of connections that wait for their next turn."""
        self.at_once: Callable[[memoryview, Client], Laid | Later | None] = _not_at_once
        self.serve_plain: Callable[[int, memoryview, int, Client, int, int], Served | None] = _not_served
        self._handle: Handle
        self._requests: Requests | None = None
        self._data_plane: DataPlane | None = None
        self._listening: list[tuple[socket.socket, str]] = []
        self.limits = ConnectionLimits(config)
        self._held: list[_Held] = []
        self._refused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self.files_to_come: Callable[[], int] = lambda: 0
        """Returns the number of file descriptors that will be needed for log files that are not open yet; see
        process/descriptors.py."""
        self._complaints = Complaints(loop.time)

    def renew_scratch(self) -> None:
        """Replace the scratch buffer, into which the connections receive bytes one after another, by a new one. Called
        if a waiting request has views of the current buffer."""
        self.scratch = memoryview(room(SCRATCH_BYTES))

    @property
    def tls_listeners(self) -> dict[str, TlsContext]:
        """Return the contexts with which TLS listeners make handshakes, by the listener's name."""
        return {name: each.tls for name, each in self._secured.items() if each.tls is not None}

    def replace_tls(self, listener: str, context: TlsContext) -> None:
        """Use another context for the listener's TLS handshakes from now on."""
        self._secured[listener] = replace(self._secured[listener], tls=context)

    @property
    def requests(self) -> Requests:
        """The object that handles the requests; set by `serve`."""
        assert self._requests is not None, "no connection is accepted before"
        return self._requests

    @property
    def handle(self) -> Handle:
        """The function that returns the response to a request: `requests.handle`, unless kcli.testing has replaced it.
        While it is replaced, every request is decoded and goes through the replacement."""
        return self._handle

    @handle.setter
    def handle(self, handle: Handle) -> None:
        self._handle, self.at_once, self.serve_plain = handle, _not_at_once, _not_served
        for connection in self.connections:
            connection.recall()

    @property
    def data_plane(self) -> DataPlane:
        """The threads to which connections are lent; set by `serve`."""
        assert self._data_plane is not None, "no connection is accepted before"
        return self._data_plane

    def bind(self, host: str, port: int, listener: str) -> tuple[str, int]:
        """Listen on an address, and return the host and port bound. port: 0 for a free port. host: "" for all
        addresses, those of IPv6 too if the system has them. The address :: accepts IPv4 connections, too, as in Java.

        Clients that connect wait in the listen backlog until `serve`. Raises OSError.
        """
        is_6 = ":" in host or (not host and socket.has_dualstack_ipv6())
        sock = socket.socket(socket.AF_INET6 if is_6 else socket.AF_INET, socket.SOCK_STREAM)
        try:
            if is_6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            sock.listen(self.config.socket_listen_backlog_size)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        self._listening.append((sock, listener))
        bound_host, bound_port = sock.getsockname()[:2]
        return bound_host, bound_port

    def serve(self, requests: Requests, listeners: Collection[str] | None = None) -> None:
        """Accept connections through `listeners`, None for all. Called once for each listener. requests: handles the
        clients' requests."""
        if self._requests is not requests:
            self._requests, self._handle = requests, requests.handle
            self.at_once, self.serve_plain = requests.at_once, requests.serve
            self._data_plane = DataPlane(self.config, self.loop, requests)
        for sock, listener in self._listening:
            if listeners is None or listener in listeners:
                self.loop.add_reader(sock.fileno(), self._accept, sock, listener)
        if self._idle_timer is None:
            self._drop_idle()

    def _accept(self, sock: socket.socket, listener: str) -> None:
        until = perf_counter_ns() + ACCEPT_NS
        while perf_counter_ns() < until:
            try:
                client, peer = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # accept again after a pause, as the socket stays readable
                self._complaints.add("connections are not accepted", error_text(error), f", at {listener}")
                self.loop.remove_reader(sock.fileno())
                self.loop.call_later(RETRY_ACCEPT_S, self._accept_again, sock, listener)
                return
            wait_ms = self.limits.wait_ms(listener, self.requests.now_ms())
            if wait_ms or not self.limits.has_room(listener):
                self._hold(_Held(sock, client, peer, listener), wait_ms)
                return
            self._connect(client, peer, listener)

    def _connect(self, client: socket.socket, peer: tuple[str, int], listener: str) -> None:
        """Begin to read from an accepted connection, on a TLS listener after the handshake. Close the connection
        instead if its address has too many connections or opens them too fast, or if the process lacks descriptors. For
        a new connection to the inter-broker listener, another connection may have to be closed (`_close_idle`)."""
        host = host_address(peer[0])
        peer = host, peer[1]
        refusal_ms = self.limits.refusal_ms(host, self.requests.now_ms())
        if refusal_ms:
            self._refuse(client, "connection_creation_rate", f" of {host}", refusal_ms)
            return
        if not self.limits.may_have(host):
            self._refuse(client, "max.connections.per.ip", f", from {host}")
            return
        if not may_connect(client.fileno(), self.files_to_come):
            reason = f"too many for the limit of {limit()} open files (ulimit -n), the rest are held back for logs"
            self._refuse(client, reason, f"; {len(self.connections)} connections are there")
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.config.socket_send_buffer_bytes > 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.config.socket_send_buffer_bytes)
        if self.limits.add(listener, host):
            self._close_idle(listener)
        secured = self._secured.get(listener)
        if secured is None or secured.tls is None:
            self._begin(client, peer, listener, ANONYMOUS)
            return
        shaking = self.loop.create_task(self._shake(client, peer, listener, secured))
        self._shaking[shaking] = listener
        shaking.add_done_callback(lambda task: self._shaken(task, client, host))

    def _refuse(self, client: socket.socket, reason: str, detail: str, after_ms: int = 0) -> None:
        """Close an accepted connection without reading from it. after_ms: the delay, which slows down a client that
        connects too often."""
        self._complaints.add("connections are refused", reason, detail)
        if not after_ms or len(self._refused) >= REFUSED_MAX:
            client.close()
            return

        def close() -> None:
            del self._refused[client]
            client.close()

        self._refused[client] = self.loop.call_later(after_ms / 1000, close)

    def _hold(self, held: _Held, wait_ms: int) -> None:
        """Let an accepted connection wait, and accept no further connection of its listener, so that those stay in the
        backlog. wait_ms: the time, in ms, until the creation rate allows the connection; 0 if only the number of
        connections is at its limit."""
        self._complaints.add("connections wait", f"max.connections or max.connection.creation.rate, at {held.listener}")
        self._held.append(held)
        self.loop.remove_reader(held.listening.fileno())

        def is_due() -> None:  # sets a flag: comparing times could fail, as the timer may run a little early
            held.is_due = True
            self._admit()

        self.loop.call_later(wait_ms / 1000, is_due)

    def _admit(self) -> None:
        """Begin to read from the connections that have waited, as far as there is room for them now."""
        for held in [each for each in self._held if each.is_due and self.limits.has_room(each.listener)]:
            if self.limits.has_room(held.listener):
                self._held.remove(held)
                self._connect(held.client, held.peer, held.listener)
                self._accept_again(held.listening, held.listener)

    def _close_idle(self, listener: str) -> None:
        """Close the connection that was idle for the longest time, among those of the client listeners other than
        `listener`, which has a new connection. If there is no such connection, abort the oldest TLS handshake on one of
        those listeners."""
        spared = (listener, *self.config.controller_listener_names)
        others = [each for each in self.connections if each.listener not in spared]
        shaking = next((task for task, of in self._shaking.items() if of not in spared), None)
        if others:
            min(others, key=lambda each: each.last_active).close("max.connections: another node takes its place")
        elif shaking is not None:
            shaking.cancel()

    def take_quotas(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Apply the quotas of IP addresses in the metadata image, and the limits in the configuration. Look up the
        addresses of the host names in both."""
        self.limits.update(quotas)
        if self._held:
            self.loop.call_soon(self._admit)
        if unresolved := self.limits.unresolved():
            _ = begin(self._resolve(unresolved), "hosts of connection limits are not looked up")

    async def look_up_hosts(self) -> None:
        """Look up the hosts that max.connections.per.ip.overrides names, as Kafka does before it starts. Raises
        CannotServe."""
        for name in self.limits.unresolved():
            try:
                await self._look_up(name)
            except (OSError, UnicodeError) as error:
                raise CannotServe(f"max.connections.per.ip.overrides: {name}: {error_text(error)}") from None

    async def _resolve(self, names: Collection[str]) -> None:
        for name in names:
            try:
                await self._look_up(name)
            except (OSError, UnicodeError) as error:
                log.warning("%s: has no connection limit of its own: %s", name, error_text(error))

    async def _look_up(self, name: str) -> None:
        found = await self.loop.getaddrinfo(name, None)
        self.limits.resolved(name, {host_address(str(each[4][0])) for each in found})

    def _begin(self, sock: socket.socket | TlsSocket, peer: tuple[str, int], listener: str, principal: str) -> None:
        secured = self._secured.get(listener)
        sasl = None if secured is None else secured.sasl
        authentication = None if sasl is None else Authentication(sasl)
        connection = Connection(self, sock, peer, listener, principal=principal, authentication=authentication)
        self.connections.add(connection)
        connection.poll()  # usually the first request has arrived already

    async def _shake(self, sock: socket.socket, peer: tuple[str, int], listener: str, secured: SecuredListener) -> None:
        """Make the TLS handshake of a client's connection, then begin to read. Raises HandshakeFailed, NoMatchingRule,
        InvalidDer."""
        assert secured.tls is not None, "a listener of TLS"
        assert self._handshakes is not None, "made with the listeners"
        shaken = await self._handshakes.accept(sock, secured.tls)
        try:
            principal = secured.principal_of(shaken)
        except Exception:
            shaken.close()
            raise
        self._begin(shaken, peer, listener, principal)

    def _shaken(self, task: asyncio.Task[None], sock: socket.socket, host: str) -> None:
        """Called when a TLS handshake has ended. If it has failed, close the socket, log the reason, and subtract the
        connection from the counts."""
        listener = self._shaking.pop(task)
        error = None if task.cancelled() else task.exception()
        if error is None and not task.cancelled():
            return
        sock.close()
        self._uncount(listener, host)
        if isinstance(error, KcliError):
            self._complaints.add("TLS handshakes fail", f"{str(error)[:REASON_MAX]}, at {listener}", f", from {host}")
        elif error is not None:
            report(f"the TLS handshake of {host} failed", error)

    def _accept_again(self, sock: socket.socket, listener: str) -> None:
        if (sock, listener) in self._listening:
            self.loop.add_reader(sock.fileno(), self._accept, sock, listener)

    def decoding(self, api: Api, size_bytes: int) -> Reserved:
        """Return the context in which a request of this size is decoded and handled: if the API's long requests are
        handled in parts, a long one waits until others have ended. Requests of other APIs may wait for each other, as
        those of a group's members do, and do not wait here."""
        if size_bytes <= LONG_BYTES or not self.requests.is_split(api):
            return Reserved(None, 0)
        return Reserved(self._decoded.setdefault(api.name, RequestMemory(DECODED_BYTES)), size_bytes)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection from the counts."""
        self.connections.discard(connection)
        self._uncount(connection.listener, connection.client_host)

    def _uncount(self, listener: str, host: str) -> None:
        self.limits.remove(listener, host)
        if self._held:
            self.loop.call_soon(self._admit)

    def _drop_idle(self) -> None:
        now, idle_s = self.loop.time(), self.config.connections_max_idle_ms / 1000
        oldest = now - idle_s if idle_s > 0 else 0.0
        for connection in [each for each in self.connections if each.last_active < now - IDLE_CHECK_S]:
            connection.poll()
            if connection.last_active < oldest and not connection.is_busy:
                connection.close("idle for connections.max.idle.ms")
        self._complaints.report()
        self._idle_timer = self.loop.call_later(IDLE_CHECK_S, self._drop_idle)

    def stop_listening(self) -> None:
        """Close the listening sockets, and the accepted connections from which nothing is read yet, because they wait
        for a limit or are refused; other connections stay open."""
        for sock, _ in self._listening:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listening.clear()
        self._drop_held(None)
        for client, timer in self._refused.items():
            timer.cancel()
            client.close()
        self._refused.clear()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
            self._complaints.report(at_end=True)

    def _drop_held(self, listeners: Collection[str] | None) -> None:
        """Close the connections that wait at `listeners`, None for all listeners."""
        for held in [each for each in self._held if listeners is None or each.listener in listeners]:
            self._held.remove(held)
            held.client.close()

    def drain(self, listeners: Collection[str]) -> None:
        """Handle no further request that comes through `listeners`. The responses to earlier requests are still
        sent."""
        for connection in self.connections:
            if connection.listener in listeners:
                connection.drain()

    def close_listeners(self, listeners: Collection[str]) -> None:
        """Stop listening on those listeners, and close the connections that came through them."""
        for each in [each for each in self._listening if each[1] in listeners]:
            self.loop.remove_reader(each[0].fileno())
            each[0].close()
            self._listening.remove(each)
        self._drop_held(listeners)
        for shaking in [each for each, listener in self._shaking.items() if listener in listeners]:
            shaking.cancel()
        for connection in [each for each in self.connections if each.listener in listeners]:
            connection.close("the broker stops")

    def close(self) -> None:
        """Stop listening, and close all connections."""
        self.stop_listening()
        for shaking in self._shaking:
            shaking.cancel()
        for connection in list(self.connections):
            connection.close("the broker stops")
        if self._data_plane is not None:
            self._data_plane.close()
