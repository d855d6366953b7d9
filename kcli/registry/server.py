"""The listeners of a registry, and its start, run and stop: in a process of its own, or in a broker's.

start   bind the listeners (an address in use is reported before the topic is created), read the topic, serve
run     serve until a signal, or until the topic can no longer be read
stop    close connections without a request, answer the others, leave the group
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcli.broker.network.outbound import IN_THE_CLEAR, Outbound
from kcli.errors import UsageError
from kcli.registry.access import Access, FileUsers, ScramStoreUsers, Users, read_rules
from kcli.registry.config import Listener, RegistryConfig
from kcli.registry.leader import Identity
from kcli.registry.messages import V1_JSON
from kcli.registry.service import Registry
from kcli.service.cluster import Address, Cluster
from kcli.service.http import Connections
from kcli.service.serving import BACKLOG, CannotServe, listen, until_signalled
from kcli.tls.contexts import client_context, listener_context

log = logging.getLogger("kcli.registry")
HANDSHAKE_S: Final = 10.0
ANSWERS_S: Final = 5.0
"""How long a stop waits for the answers of requests, in seconds."""

ScramRecords = Callable[[], Mapping[tuple[int, str], Mapping[str, Any]]]


class RegistryServer:
    """A registry with its listeners.

    scram: the broker's SCRAM users, None outside a broker. own: the id and the address of the broker in this process,
    None outside a broker.
    """

    def __init__(
        self,
        config: RegistryConfig,
        bootstrap: Sequence[Address],
        outbound: Outbound = IN_THE_CLEAR,
        scram: ScramRecords | None = None,
        own: tuple[int, Address] | None = None,
    ) -> None:
        self.config = config
        self._own = own
        self._bootstrap, self._outbound, self._scram = bootstrap, outbound, scram
        self._sockets: list[tuple[Listener, socket.socket]] = []
        self._servers: list[asyncio.Server] = []
        self._connections: Connections | None = None
        self._cluster: Cluster | None = None
        self._registry: Registry | None = None
        self._close_network: Callable[[], None] = lambda: None

    @property
    def urls(self) -> list[str]:
        """The URLs of the listeners, as this machine reaches them."""
        return [
            Identity(each.host or "127.0.0.1", sock.getsockname()[1], each.scheme).url for each, sock in self._sockets
        ]

    @property
    def registry(self) -> Registry:
        """The registry."""
        assert self._registry is not None, "started"
        return self._registry

    async def start(self) -> None:
        """Start to serve. Raises KcliError, OSError, TimeoutError."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        from kcli.broker.network.client import SocketNetwork

        config, loop = self.config, asyncio.get_running_loop()
        now = dt.datetime.now(dt.UTC)
        tls = listener_context(config.tls, now) if config.has_tls else None
        to_leader = client_context(config.tls, now).context if config.tls else None
        for warning in () if tls is None else tls.warnings:
            log.warning("%s", warning)
        access = self._access()
        for each in config.listeners:
            self._sockets.append((each, listen(each.host, each.port)))
        network = SocketNetwork(loop, self._outbound)
        self._close_network = network.close
        self._cluster = cluster = Cluster(network, self._bootstrap, own=self._own, client_id="schema-registry")
        self._registry = registry = Registry(cluster, config, self._identity(), access, to_leader)
        try:
            await registry.start()
        except TimeoutError:
            raise CannotServe(f"topic {config.log.topic} is not read in {config.init_s:g} s") from None
        self._connections = connections = Connections(
            loop, registry, config.http, frozenset() if tls is None else tls.refused_suites, V1_JSON
        )
        for listener, sock in self._sockets:
            context = tls.context if tls is not None and listener.scheme == "https" else None
            self._servers.append(await self._serve(loop, connections, sock, context))

    async def _serve(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        sock: socket.socket,
        context: ssl.SSLContext | None,
    ) -> asyncio.Server:
        if context is None:
            return await loop.create_server(connections.new, sock=sock, backlog=BACKLOG)
        return await loop.create_server(
            connections.new, sock=sock, backlog=BACKLOG, ssl=context, ssl_handshake_timeout=HANDSHAKE_S
        )

    def _access(self) -> Access:
        config = self.config
        if not config.asks_login:
            return Access()
        users: list[Users] = []
        if config.users_file is not None:
            users.append(FileUsers(config.users_file))
        if config.has_scram:
            if self._scram is None:
                raise UsageError("authentication.scram=true: only in a broker's process (kcli serve --registry)")
            users.append(ScramStoreUsers(self._scram))
        rules = None if config.acl_file is None else read_rules(config.acl_file)
        if rules is None and config.super_users:
            rules = []
        return Access(users, rules, config.super_users)

    def _identity(self) -> Identity:
        listener, sock = self._sockets[0]
        host = self.config.host_name or listener.host
        if not host:
            host = socket.getfqdn()
        return Identity(host, sock.getsockname()[1], listener.scheme, self.config.is_eligible)

    async def stop(self) -> None:
        """Stop to serve."""
        for server in self._servers:
            server.close()
        if self._connections is not None:
            self._connections.close()
            until = asyncio.get_running_loop().time() + ANSWERS_S
            while self._connections.open and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110  (a few times)
                await asyncio.sleep(0.01)
            self._connections.abort()
        if self._registry is not None:
            await self._registry.stop()
        if self._cluster is not None:
            self._cluster.close()
        self._close_network()
        for _, sock in self._sockets:
            sock.close()


def serve(
    config: RegistryConfig,
    bootstrap: Sequence[Address],
    outbound: Outbound,
    ready: Callable[[RegistryServer], None],
) -> None:
    """Run a registry until SIGTERM or SIGINT; a second signal ends the process at once. ready: called when it serves.
    Raises KcliError, OSError."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve_alone(config, bootstrap, outbound, ready))


async def _serve_alone(
    config: RegistryConfig,
    bootstrap: Sequence[Address],
    outbound: Outbound,
    ready: Callable[[RegistryServer], None],
) -> None:
    signalled = until_signalled()
    server = RegistryServer(config, bootstrap, outbound)
    starting, waiting = asyncio.ensure_future(server.start()), asyncio.ensure_future(signalled.wait())
    either: list[asyncio.Future[Any]] = [starting, waiting]
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    starting.result()
    ready(server)
    ends: list[asyncio.Future[Any]] = [waiting, server.registry.ended]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await server.stop()
    waiting.cancel()
    if server.registry.ended.done():
        raise CannotServe(server.registry.ended.result())
