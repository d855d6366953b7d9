"""The sockets of a broker: it listens, accepts as many connections as its configuration allows, drops idle ones.

Names of configurations are Kafka's: max.connections, max.connections.per.ip, connections.max.idle.ms,
socket.request.max.bytes, socket.listen.backlog.size. Source: SocketServer, ConnectionQuotas.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.kernels.wire import room
from kcli.broker.logs.descriptors import limit, may_connect
from kcli.broker.network.connection import Connection, handle
from kcli.errors import error_text

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.config import BrokerConfig

log = logging.getLogger("kcli.broker")
SCRATCH_BYTES = 256 << 10
ACCEPT_AT_ONCE = 64
RETRY_ACCEPT_S = 0.1
COMPLAINT_S = 30.0
IDLE_CHECK_S = 5.0


@dataclass(slots=True)
class _Complaint:
    told_at: float = -math.inf
    count: int = 0


class Server:
    """Listening sockets and the connections that came through them. All in the event loop's thread."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.config = config
        self.renew_scratch()
        self.connections: set[Connection] = set()
        self.handle = handle
        """Who answers requests; kcli.testing puts itself in between."""
        self._broker: Broker | None = None
        self._listening: list[tuple[socket.socket, str]] = []
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._idle_timer: asyncio.TimerHandle | None = None
        self.files_to_come: Callable[[], int] = lambda: 0
        """How many descriptors files need that are not open yet; see descriptors."""
        self._complaints: dict[str, _Complaint] = {}

    def renew_scratch(self) -> None:
        """Requests are read one at a time, into this; one that waits may keep what it was read into."""
        self.scratch = memoryview(room(SCRATCH_BYTES))

    @property
    def broker(self) -> Broker:
        """Who answers."""
        assert self._broker is not None, "nobody is accepted before"
        return self._broker

    def bind(self, host: str, port: int, listener: str) -> tuple[str, int]:
        """Take an address; port 0 takes a free one, host "" all addresses. Clients wait until `serve`.

        Returns the address. Raises OSError.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
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

    def serve(self, broker: Broker, listeners: Collection[str] | None = None) -> None:
        """Let clients in, through those listeners, once each; None: through all."""
        self._broker = broker
        for sock, listener in self._listening:
            if listeners is None or listener in listeners:
                self.loop.add_reader(sock.fileno(), self._accept, sock, listener)
        if self._idle_timer is None:
            self._drop_idle()

    def _accept(self, sock: socket.socket, listener: str) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                client, peer = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # while it lasts, the socket would be ready again and again
                self._complain("connections are not accepted", error_text(error))
                self.loop.remove_reader(sock.fileno())
                self.loop.call_later(RETRY_ACCEPT_S, self._accept_again, sock, listener)
                return
            host = peer[0]
            if (
                len(self.connections) >= self.config.max_connections
                or self._per_listener[listener] >= self.config.max_connections_of(listener)
                or self._per_ip[host] >= self._most_from(host)
            ):
                client.close()
                self._complain("connections are refused", f"max.connections or max.connections.per.ip, from {host}")
                continue
            if not may_connect(client.fileno(), self.files_to_come):
                client.close()
                reason = f"of {limit()} open files (ulimit -n), the rest are held back for logs"
                self._complain("connections are refused", f"{len(self.connections)} are there; {reason}")
                continue
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._per_ip[host] += 1
            self._per_listener[listener] += 1
            self.connections.add(Connection(self, client, (host, peer[1]), listener))

    def _complain(self, what: str, why: str) -> None:
        """In a line of the log, not more often than every COMPLAINT_S; those in between are counted."""
        now = self.loop.time()
        last = self._complaints.setdefault(what, _Complaint())
        last.count += 1
        if now - last.told_at >= COMPLAINT_S:
            log.warning("%s: %s (%d since the last such line)", what, why, last.count)
            last.told_at, last.count = now, 0

    def _accept_again(self, sock: socket.socket, listener: str) -> None:
        if (sock, listener) in self._listening:
            self.loop.add_reader(sock.fileno(), self._accept, sock, listener)

    def _most_from(self, host: str) -> int:
        return self.config.max_connections_per_ip_overrides.get(host, self.config.max_connections_per_ip)

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        self.connections.discard(connection)
        self._per_listener[connection.listener] -= 1
        self._per_ip[connection.client_host] -= 1
        if not self._per_ip[connection.client_host]:
            del self._per_ip[connection.client_host]

    def _drop_idle(self) -> None:
        now, idle_s = self.loop.time(), self.config.connections_max_idle_ms / 1000
        oldest = now - idle_s if idle_s > 0 else 0.0
        for connection in [each for each in self.connections if each.last_active < now - IDLE_CHECK_S]:
            connection.look()
            if connection.last_active < oldest and not connection.is_busy:
                connection.close("idle for connections.max.idle.ms")
        self._idle_timer = self.loop.call_later(IDLE_CHECK_S, self._drop_idle)

    def stop_listening(self) -> None:
        """Accept nobody any more."""
        for sock, _ in self._listening:
            self.loop.remove_reader(sock.fileno())
            sock.close()
        self._listening.clear()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def drain(self, listeners: Collection[str]) -> None:
        """Look at no request any more that comes through those; answers to those before still go out."""
        for connection in self.connections:
            if connection.listener in listeners:
                connection.drain()

    def close_listeners(self, listeners: Collection[str]) -> None:
        """Accept nobody through those any more, and end the connections that came through them."""
        for each in [each for each in self._listening if each[1] in listeners]:
            self.loop.remove_reader(each[0].fileno())
            each[0].close()
            self._listening.remove(each)
        for connection in [each for each in self.connections if each.listener in listeners]:
            connection.close("the broker stops")

    def close(self) -> None:
        """Stop, and end all connections."""
        self.stop_listening()
        for connection in list(self.connections):
            connection.close("the broker stops")
