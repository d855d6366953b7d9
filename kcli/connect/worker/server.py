"""A worker from its start to its end: its listener, its stores, its group, and what runs on it.

start   bind the listener, read the stores, serve; a distributed worker joins its group then
run     serve until a signal, or until an error ends the worker
stop    answer the requests that wait, stop all tasks, leave the group
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kcli.connect.plugins import Engine, Plugins
from kcli.connect.worker.errors import Forbidden
from kcli.connect.worker.group import Alone, Group
from kcli.connect.worker.herder import Herder
from kcli.connect.worker.internal import InternalRequests
from kcli.connect.worker.leading import Leading
from kcli.connect.worker.peers import Peers
from kcli.connect.worker.rest import COMMIT, VERSION, Api
from kcli.connect.worker.settings import Clients, Settings
from kcli.connect.worker.stores import MemoryStores, Stores
from kcli.connect.worker.variables import Variables
from kcli.connect.worker.work import Parts, Work
from kcli.service.http import Connections, HttpLimits
from kcli.service.json_text import dumps
from kcli.service.messages import ERROR_STATUS, JSON, Answer, Request
from kcli.service.serving import BACKLOG, CannotServe, listen, until_signalled
from kcli.tls.contexts import listener_context

if TYPE_CHECKING:
    from kcli.connect.worker.distributed import DistributedGroup
    from kcli.service.cluster import Cluster

log = logging.getLogger("kcli.connect")
ANSWERS_S: Final = 5.0
HANDSHAKE_S: Final = 10.0
FORWARD_S: Final = 90.0
BODY_MAX: Final = 4 << 20
"""A body is parsed at once; none that a record of connect-configs can hold is a quarter as large."""
THREADS: Final = 16


class WorkerServer:
    """A worker. engine: runs its tasks, and is closed with it."""

    def __init__(self, settings: Settings, plugins: Plugins, engine: Engine) -> None:
        self.settings = settings
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The reason why an error ends the worker, once one does."""
        self._plugins, self._engine, self._resolve = plugins, engine, Variables(settings.properties)
        self._executor = ThreadPoolExecutor(THREADS, "kcli-connect")
        self._cluster: Cluster | None = None
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: Connections | None = None
        self._stores: Stores | None = None
        self._work: Work | None = None
        self._api: Api | None = None
        self._membership: DistributedGroup | None = None
        self._internal: InternalRequests | None = None
        self._close_network: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """The address at which other workers reach this one."""
        return f"{self.settings.scheme}://{self.worker_id}/"

    @property
    def worker_id(self) -> str:
        """The host and the port of the REST API, which name the worker in statuses."""
        assert self._socket is not None, "started"
        host = self.settings.values["rest.advertised.host.name"] or self.settings.host or socket.getfqdn()
        port = self.settings.values["rest.advertised.port"] or self._socket.getsockname()[1]
        return f"{host}:{port}"

    async def start(self) -> None:
        """Start to serve. Raises KcliError, OSError."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        tls, refused_suites = self._tls()
        self._socket = listen(self.settings.host, self.settings.port)
        peers = Peers(self.settings.tls)
        stores, group = self._made()
        parts = Parts(stores, self._plugins, Clients(self.settings), self._resolve, self._executor)
        leading = Leading(parts, group)
        if self._membership is not None:
            ttl_ms = self.settings.values["inter.worker.key.ttl.ms"]
            self._internal = InternalRequests(self._membership, leading, stores, peers, ttl_ms)
        self._work = work = Work(parts, group, self._engine, self._internal or leading, self.worker_id)
        herder = Herder(parts, group, work, leading)
        work.tracks_topics = self.settings.values["topic.tracking.enable"]
        herder.waits_for_tasks = self._membership is None
        tracking = work.tracks_topics, self.settings.values["topic.tracking.allow.reset"]
        forward = partial(peers.ask, timeout_s=FORWARD_S)
        self._api = Api(
            herder, self._plugins, self._about, forward, self._check_signature, self.settings.scheme, tracking
        )
        await stores.start(herder.replayed)
        loop = asyncio.get_running_loop()
        self._connections = connections = Connections(loop, self, HttpLimits(body_size_max=BODY_MAX), refused_suites)
        self._server = await loop.create_server(
            connections.new,
            sock=self._socket,
            backlog=BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else HANDSHAKE_S,
        )
        if self._membership is not None and self._internal is not None:
            await self._membership.start(herder, work, self._internal)

    def _tls(self) -> tuple[ssl.SSLContext | None, frozenset[str]]:
        """Return the context of https, None for http, and the suites that it refuses. Raises InvalidTlsSetting."""
        if self.settings.scheme != "https":
            return None, frozenset()
        found = listener_context(self.settings.tls, dt.datetime.now(dt.UTC))
        for warning in found.warnings:
            log.warning("%s", warning)
        return found.context, found.refused_suites

    def _made(self) -> tuple[Stores, Group]:
        """Make the stores and the group of this worker's mode."""
        if self.settings.group_id is None:
            stores = self._stores = MemoryStores(self.settings.offsets_file)
            return stores, Alone(stores.configs, self.url)
        from kcli.broker.network.client import SocketNetwork
        from kcli.client.security import security_of
        from kcli.connect.worker.distributed import DistributedGroup
        from kcli.connect.worker.kafka_stores import KafkaStores
        from kcli.service.cluster import Cluster
        from kcli.service.outbound import outbound_of

        network = SocketNetwork(asyncio.get_running_loop(), outbound_of(security_of(self.settings.security)))
        self._close_network = network.close
        self._cluster = Cluster(network, self.settings.bootstrap, client_id=f"connect-{self.worker_id}")
        kafka = self._stores = KafkaStores(self._cluster, self.settings, self.ended)
        group = self._membership = DistributedGroup(self._cluster, self.settings, kafka, self.url)
        return kafka, group

    def _about(self) -> Mapping[str, str]:
        cluster_id = "" if self._cluster is None else self._cluster.id
        return {"version": VERSION, "commit": COMMIT, "kafka_cluster_id": cluster_id}

    def _check_signature(self, request: Request) -> None:
        if self._internal is None:
            raise Forbidden("A standalone worker takes no requests of other workers.")
        self._internal.check_signature(request)

    # the HTTP server's handler

    def answer_now(self, request: Request, peer: str) -> None:
        """Every answer may need time."""

    async def answer(self, request: Request, peer: str) -> Answer:  # noqa: ARG002
        """Return the answer to a request."""
        assert self._api is not None, "started"
        return await self._api.answer(request)

    async def create(self, name: str, properties: Mapping[str, str]) -> None:
        """Create a connector, as a standalone worker does with those of its command line. Raises KcliError."""
        if not name:
            raise CannotServe("a connector of the command line has no name")
        path, body = f"/connectors/{quote(name, safe='')}/config", dumps(dict(properties))
        answer = await self.answer(Request("PUT", path, "", {"content-type": JSON}, body), "")
        if answer.status >= ERROR_STATUS:
            raise CannotServe(f"connector {name}: {json.loads(answer.body)['message']}")

    async def stop(self) -> None:
        """Stop to serve."""
        if self._server is not None:
            self._server.close()
        if self._connections is not None:
            self._connections.close()
            until = asyncio.get_running_loop().time() + ANSWERS_S
            while self._connections.open and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            self._connections.abort()
        if self._work is not None:
            await self._work.close()
        if self._membership is not None:
            await self._membership.leave()
        if self._stores is not None:
            await self._stores.close()
        if self._cluster is not None:
            self._cluster.close()
        self._close_network()
        if self._socket is not None:
            self._socket.close()
        self._executor.shutdown(wait=False, cancel_futures=True)


def serve(
    settings: Settings,
    plugins: Plugins,
    engine: Engine,
    connectors: Sequence[Mapping[str, str]],
    ready: Callable[[WorkerServer], None],
) -> None:
    """Run a worker until SIGTERM or SIGINT; a second signal ends the process at once. connectors: created at the start.
    ready: called when it serves. Raises KcliError, OSError."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, plugins, engine, connectors, ready))


async def _serve(
    settings: Settings,
    plugins: Plugins,
    engine: Engine,
    connectors: Sequence[Mapping[str, str]],
    ready: Callable[[WorkerServer], None],
) -> None:
    signalled = until_signalled()
    server = WorkerServer(settings, plugins, engine)
    await server.start()
    try:
        for each in connectors:
            await server.create(each.get("name", ""), each)
        ready(server)
        waiting = asyncio.ensure_future(signalled.wait())
        ends: list[asyncio.Future[Any]] = [waiting, server.ended]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
    finally:
        await server.stop()
    if server.ended.done():
        raise CannotServe(server.ended.result())
