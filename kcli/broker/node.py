"""The start, the run and the orderly stop of a node, from its log directories to its sockets.

    start   bind the listeners (a port in use is reported before a byte is written), lock and format the log
            directories, replay the metadata log, open all logs, register as controller and broker, wait until the
            broker is unfenced, then serve clients
    run     apply committed metadata records to logs, quotas and the configuration at once
    stop    shut the broker down in a controlled way, close the client listeners, the metadata log and the logs, release
            the locks

Source: KafkaRaftServer, BrokerServer, ControllerServer, BrokerLifecycleManager.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import random
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable
from uuid import UUID

from formats.file_name import FileKind
from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.config.security import outgoing_problem, to_brokers, to_controllers
from kcli.broker.config.served import CannotServe, check_served, check_topics, unserved
from kcli.broker.controller.active import ActiveController
from kcli.broker.controller.channel import ControllerChannel
from kcli.broker.controller.lifecycle import BrokerLifecycle
from kcli.broker.controller.registration import register_controller
from kcli.broker.controller.requests import ControllerRequests
from kcli.broker.dispatch.handlers import answer
from kcli.broker.dispatch.routing import Router
from kcli.broker.fetching.sessions import FetchSessions
from kcli.broker.log_dirs.checkpoints import previous_epoch
from kcli.broker.log_dirs.directories import LogDir, LogDirs, open_log_dirs
from kcli.broker.log_dirs.lost_metadata import check_metadata, check_partition_metadata
from kcli.broker.logs.manager import Listeners, LogManager
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.metadata.quorum_config import is_only_voter, metadata_config, own_endpoints, raft_config
from kcli.broker.network.addresses import Addresses, bind
from kcli.broker.network.certificates import Certificates
from kcli.broker.network.outbound import Outbound, outbound
from kcli.broker.network.peers import Network, NoNetwork
from kcli.broker.network.secured import SecuredListener, Users, cluster_key, secured_listeners
from kcli.broker.network.server import Server
from kcli.broker.partition.partitions import Partitions
from kcli.broker.process.clock import Clock
from kcli.broker.process.unattended import Steps, begin
from kcli.broker.quotas.client import Quotas
from kcli.errors import KcliError, error_text
from kcli.log.config import InvalidConfig
from kcli.log.disk import Disk
from kcli.metadata.image import BROKER_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.bootstrap import read_bootstrap

if TYPE_CHECKING:
    from kcli.broker.metadata.replicated import ReplicatedMetadataLog
    from kcli.broker.network.token_keys import KeyEndpoint
    from kcli.broker.tiering.manager import Tiering
    from kcli.broker.wire.answers import Answer
    from kcli.broker.wire.call import Call
    from kcli.security.authorizer import Authorizer
    from kcli.security.delegation_tokens import DelegationTokens

log = logging.getLogger("kcli.broker")

WAITING_LOG_S = 10.0
"""The interval, in seconds, at which a waiting node logs that it waits for its quorum."""
FETCH_SESSION_EVICTION_MS = 120_000
OTHERS_SHUTDOWN_S = 3.0
LOOK_S = 0.02


class NotInOrder(KcliError):
    """A step of stopping the node has failed."""


@runtime_checkable
class SupportsClose(Protocol):
    """A Network whose channels must be closed when the node stops; NoNetwork has none."""

    def close(self) -> None:
        """Close all channels."""


class Node:
    """One node: a broker, a controller, or both (process.roles). Call `start`, wait for `ended` or a signal, then call
    `stop`; all on the running event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        joinable: bool = False,
        allow_strays: bool = False,
        users: Sequence[Record] = (),
    ) -> None:
        """joinable: whether other brokers may join this node's cluster although this node is the only voter. If so, the
        node opens its controller listeners, too, unless its configuration does not let it connect to other nodes
        (outgoing_problem).
        allow_strays: whether to start although a damaged metadata log no longer names partitions that the log
        directories contain.
        users: UserScramCredentialRecords to write to the metadata log before the listeners serve, except those for
        whose user and mechanism the log has a record. Only for a node that is the only one of its cluster.
        disk, clock, chance: file operations, time and random numbers; the real ones by default."""
        self.config = config
        self._is_only_voter = is_only_voter(config)
        may_be_joined = joinable and outgoing_problem(config) is None
        self._is_alone = self._is_only_voter and config.is_broker and not may_be_joined
        self._allow_strays, self._new_users = allow_strays, users
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when an error keeps the node from serving; the result is the reason. The node must be stopped then."""
        self._disk = disk or Disk()
        self._clock = clock or Clock()
        self._users = Users(self._clock.now_ms)
        self._dirs: LogDirs | None = None
        self._broker: Broker | None = None
        self._router: Router | None = None
        self._networks: list[Network] = []
        self._outbound: dict[str, Outbound] = {}
        self._life: BrokerLifecycle | None = None
        self._server: Server | None = None
        self._certificates: Certificates | None = None
        self._key_endpoints: list[KeyEndpoint] = []
        self._chance = chance
        self._quorum: ReplicatedMetadataLog | None = None
        self._tiering: Tiering | None = None
        self._registering: asyncio.Task[None] | None = None
        self._stopping = Steps()
        self._follows = self._is_broker_stopped = False
        self._controllers: Addresses = {}
        self.is_waiting = False
        """Whether `start` is waiting for other nodes of the cluster."""
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when this node serves the other nodes of the quorum."""

    @property
    def _lifecycle(self) -> BrokerLifecycle:
        assert self._life is not None, "made with the broker"
        return self._life

    @property
    def _controller_requests(self) -> ControllerRequests:
        broker = self.broker
        return ControllerRequests(broker.cluster_id, broker.metadata, broker.active, broker.controller)

    def _broker_epoch(self) -> int | None:
        """The epoch of this broker's registration, NO_EPOCH before it has registered; None if this node is not a
        broker."""
        return None if self._life is None else self._life.epoch

    @property
    def broker(self) -> Broker:
        """The object that the node passes to request handlers: its logs, metadata, coordinators and other parts."""
        assert self._broker is not None, "started"
        return self._broker

    @property
    def router(self) -> Router:
        """The router, which handles the requests that arrive at the listeners."""
        assert self._router is not None, "started"
        return self._router

    @property
    def server(self) -> Server:
        """The server, which owns the sockets of the listeners."""
        assert self._server is not None, "started"
        return self._server

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Listener -> the advertised host and port. On a node that is only a controller the listeners are its
        controller listeners."""
        return self.broker.advertised or self._controllers

    async def start(self) -> None:
        """Start the node. If that fails, all locks are released.

        Raises CannotServe, LogDirsRefused, DirectoryLocked, StartRefused, OSError.
        """
        try:
            await self._start()
        except BaseException:
            self.is_waiting = False
            if self._broker is not None:
                await self._leave(self._broker)
            if self._server is not None:
                self._server.close()
            if self._dirs is not None:
                self._dirs.unlock()
            raise

    async def _leave(self, broker: Broker) -> None:
        """Close the parts of a node whose start has failed, except for the client listeners and the log directories,
        which the caller closes."""
        if self._registering is not None:
            self._registering.cancel()
        if self._life is not None:
            self._life.stop()
            broker.replicas.stop()
        if broker.active is not None:
            broker.active.stop()
        with self._stopping.step("the metadata log is not closed"):
            await broker.metadata.close()
        self._close_networks()

    def _close_networks(self) -> None:
        for network in self._networks:
            if isinstance(network, SupportsClose):
                network.close()

    async def _start(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        check_served(config)
        alone = self._is_alone
        secured = secured_listeners(config, self._users)
        self._key_endpoints = [each.endpoint for each in secured.values() if each.endpoint is not None]
        for endpoint in self._key_endpoints:
            await endpoint.fetch_first()
        self._server = server = self._new_server(loop, secured)
        await server.look_up_hosts()
        controller_network, broker_network = self._new_networks(loop)
        self._certificates = certificates = Certificates(config, server, self._outbound, self._clock)
        advertised, controllers = bind(server, config, alone=alone)
        self._controllers = controllers
        data, metadata = [Path(each) for each in config.log_dirs], Path(config.metadata_log_dir)
        if not self._is_only_voter:
            _check_formatted(metadata)
        self._dirs = dirs = open_log_dirs(data, metadata, config.node_id, self._disk, self._clock)
        # as in Kafka, a damaged bootstrap.checkpoint prevents the start, even if its records are not needed
        read_bootstrap(dirs.metadata.path)
        if not self._allow_strays:
            if self._is_only_voter:
                check_metadata(dirs, self._clock.now_ms())
            check_partition_metadata(dirs)
        journal = self._new_lone_log(dirs) if alone else self._new_replicated_log(dirs, controllers, controller_network)
        self._users.credentials = lambda: journal.image.scram_credentials
        self._users.decoy_key = cluster_key(dirs.cluster_id, str(config.get("delegation.token.secret.key") or ""))
        self._users.tokens = tokens = _delegation_tokens(config, journal)
        journal.on_failure = lambda error: self._must_stop(f"the metadata log has failed: {error_text(error)}")
        self._take_dynamic_config(journal)
        logs = self._new_logs(dirs, journal) if config.is_broker else None
        if logs is not None:
            server.files_to_come = logs.files_to_come
        quotas = Quotas(
            config.quota_window_num,
            config.quota_window_size_seconds,
            config.controller_quota_window_num,
            config.controller_quota_window_size_seconds,
        )
        quotas.update(journal.image.client_quotas)
        server.take_quotas(journal.image.client_quotas)
        self._broker = broker = Broker(
            config=config,
            clock=self._clock,
            cluster_id=dirs.cluster_id,
            image=journal.image,
            metadata=journal,
            logs=cast("LogManager", logs),  # None on a node that is only a controller, whose APIs use no logs
            partitions=Partitions(journal.image) if logs is None else logs.partitions,
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, FETCH_SESSION_EVICTION_MS),
            quotas=quotas,
            advertised=advertised,
            controller=ControllerChannel(config.node_id, self._clock, journal, controller_network, self._answer),
            network=broker_network,
            broker_epoch=lambda: self._lifecycle.epoch,
            active=ActiveController(config, journal, self._broker_epoch, self._clock) if config.is_controller else None,
            is_alone=alone,
            authorizer=_new_authorizer(config),
            tokens=tokens,
            certificates=certificates,
        )
        self._router = Router(broker)
        if logs is not None:
            logs.host = broker.replicas
            await self._open_tier(broker)
            self._life = BrokerLifecycle(
                config,
                journal.image,
                logs,
                self._controller_requests,
                advertised,
                is_alone=alone,
                must_stop=self._must_stop,
            )
        if isinstance(journal, LoneMetadataLog):
            await self._start_alone(journal, previous_epoch(dirs))
        else:
            await self._start_in_quorum(journal, previous_epoch(dirs))
        server.serve(self.router)
        certificates.start()
        certificates.configured()
        for endpoint in self._key_endpoints:
            endpoint.start()
        journal.start_background()

    async def _open_tier(self, broker: Broker) -> None:
        """Open the broker's tiered storage, if it has some. Raises CannotServe."""
        if not self.config.remote_log_storage_system_enable:
            return
        from kcli.broker.tiering.manager import Tiering  # imported late: most brokers have no tiered storage

        try:
            self._tiering = tiering = await Tiering.open(broker.context, broker.controller, self._disk)
        except (KcliError, OSError) as error:
            raise CannotServe(f"tiered storage is not there: {error_text(error)}") from error
        if tiering is not None:
            broker.tier, broker.replicas.tier = tiering.reading.reader, tiering.reading.states

    def _answer(self, call: Call) -> Answer | Awaitable[Answer]:
        """Return the response to a request that this node makes to the active controller while it is the active
        controller itself."""
        return answer(self.broker, call)

    async def _start_alone(self, journal: LoneMetadataLog, broker_epoch: int) -> None:
        broker = self.broker
        try:
            self._check_metadata(journal)
        except CannotServe:
            await journal.close()
            raise
        await broker.logs.start()
        self._load_acls(broker)
        journal.image.take_changes()
        journal.listeners.append(self._committed)
        self._follows = True
        assert broker.active is not None, "it is a controller"
        broker.active.start()
        await self._unless_ended(register_controller(self.config, self._controller_requests, self._controllers))
        known = journal.image.scram_credentials
        if new := [each for each in self._new_users if (each[2]["mechanism"], each[2]["name"]) not in known]:
            await self._unless_ended(journal.append(new))
        await self._unless_ended(self._lifecycle.start(broker_epoch))
        self._start_coordinators(broker)

    def _start_coordinators(self, broker: Broker) -> None:
        """Start the coordinators and the tasks of tiered storage, now that the broker is unfenced."""
        broker.groups.start()
        broker.transactions.start()
        if self._tiering is not None:
            self._tiering.start()

    async def _start_in_quorum(self, journal: MetadataLog, broker_epoch: int) -> None:
        from kcli.broker.metadata.replicated import ReplicatedMetadataLog

        assert isinstance(journal, ReplicatedMetadataLog), "it has voters"
        broker, config = self.broker, self.config
        if broker.active is not None:
            broker.active.start()
        journal.on_leader.append(broker.controller.leader_changed)
        self._quorum = journal
        is_early = config.early_start_listeners if broker.authorizer is not None else config.controller_listener_names
        self.server.serve(self.router, [each for each in config.controller_listener_names if each in is_early])
        journal.start()
        if not self.listening.done():
            self.listening.set_result(None)
        self.is_waiting = True
        await self._caught_up(journal)
        self._take_dynamic_config(journal)
        self._check_metadata(journal)
        broker.quotas.update(broker.image.client_quotas)
        self.server.take_quotas(broker.image.client_quotas)
        self._load_acls(broker)
        if self._is_only_voter and config.is_broker and broker.authorizer is not None:
            _check_principal(config, broker.authorizer, broker.image)
        journal.image.take_changes()
        journal.listeners.append(self._committed)
        if config.is_controller:
            registering = register_controller(self.config, self._controller_requests, self._controllers)
            self._registering = begin(registering, "the controller is not registered")
        if config.is_broker:
            self.is_waiting = False
            await broker.logs.start()
            self._follows = True
            broker.replicas.start()
            self.is_waiting = True
            await self._unless_ended(self._lifecycle.start(broker_epoch))
            self._start_coordinators(broker)
        self._follows = True
        self.is_waiting = False

    async def _caught_up(self, journal: ReplicatedMetadataLog) -> None:
        """Wait until the quorum has a leader and the image has all committed records. Meanwhile log the state every
        WAITING_LOG_S seconds."""

        def log_state() -> None:
            known = journal.leader_id
            state = "no leader" if known is None else f"leader {known} has not answered"
            voters = ", ".join(map(str, journal.raft.voters.ids)) or "not known yet"
            log.warning("no quorum yet: epoch %d, %s; voters: %s", journal.epoch, state, voters)

        await self._unless_ended(journal.caught_up(), log_state)

    async def _unless_ended(self, work: Awaitable[object], log_state: Callable[[], None] = lambda: None) -> None:
        """Await `work`, and call `log_state` every WAITING_LOG_S seconds meanwhile. Raises CannotServe if the node's
        future `ended` is done before `work`."""
        waiting = asyncio.ensure_future(work)
        either: list[asyncio.Future[Any]] = [waiting, self.ended]
        try:
            while not (await asyncio.wait(either, timeout=WAITING_LOG_S, return_when=FIRST_COMPLETED))[0]:
                log_state()
        finally:
            if not waiting.done():
                waiting.cancel()
        if self.ended.done():
            # `work` may have failed for the same reason; gather takes its exception, which asyncio would else log as
            # never retrieved
            await asyncio.gather(waiting, return_exceptions=True)
            raise CannotServe(self.ended.result())
        waiting.result()

    def _new_server(self, loop: asyncio.AbstractEventLoop, secured: Mapping[str, SecuredListener]) -> Server:
        return Server(self.config, loop, secured)

    def _new_networks(self, loop: asyncio.AbstractEventLoop) -> tuple[Network, Network]:
        """Return the Network for connections to controllers, and the one for connections to brokers; both are NoNetwork
        on a node that is the only one of its cluster. Raises CannotServe."""
        if self._is_alone:
            return NoNetwork(), NoNetwork()
        config, now = self.config, dt.datetime.fromtimestamp(self._clock.now_ms() / 1000, dt.UTC)
        ways = [to_controllers(config), *([to_brokers(config)] if config.is_broker else [])]
        self._outbound = {each.security.listener: outbound(each, now) for each in ways}
        self._networks = [self._new_network(loop, how) for how in self._outbound.values()]
        return self._networks[0], self._networks[1] if config.is_broker else NoNetwork()

    def _new_network(self, loop: asyncio.AbstractEventLoop, how: Outbound) -> Network:
        from kcli.broker.network.client import SocketNetwork

        return SocketNetwork(loop, how)

    def _new_lone_log(self, dirs: LogDirs) -> LoneMetadataLog:
        return LoneMetadataLog(
            dirs.metadata.path,
            node_id=self.config.node_id,
            directory_id=from_uuid(dirs.metadata.id),
            endpoints=own_endpoints(self.config),
            config=metadata_config(self.config),
            disk=self._disk,
            clock=self._clock,
        )

    def _new_replicated_log(self, dirs: LogDirs, controllers: Addresses, network: Network) -> MetadataLog:
        from kcli.broker.metadata.replicated import ReplicatedMetadataLog

        return ReplicatedMetadataLog(
            dirs.metadata.path,
            raft_config(self.config, dirs.metadata.id, dirs.cluster_id, controllers),
            network,
            config=metadata_config(self.config),
            disk=self._disk,
            clock=self._clock,
            chance=self._chance,
        )

    def _new_logs(self, dirs: LogDirs, journal: MetadataLog) -> LogManager:
        listeners = Listeners(self._directory_failed, self._assigned, self._must_stop)
        return LogManager(self.config, dirs, journal.image, self._disk, self._clock, listeners)

    # the metadata

    def _take_dynamic_config(self, journal: MetadataLog) -> None:
        image = journal.image
        cluster = image.configs(BROKER_RESOURCE, "")
        own = image.configs(BROKER_RESOURCE, str(self.config.node_id))
        try:
            for problem in self.config.update(cluster, own):
                log.warning("dynamic configuration passed over: %s", problem)
        except InvalidConfig as error:
            log.error("dynamic configuration passed over: %s", error)  # noqa: TRY400  (the message names the reason)

    def _check_metadata(self, journal: MetadataLog) -> None:
        """Raise CannotServe if the configuration or a topic requires a feature that this node does not have."""
        check_served(self.config)
        check_topics(self.config, journal.image)

    def _load_acls(self, broker: Broker) -> None:
        """Pass the ACLs of the image to the authorizer, which from now on allows or denies requests by them. Do nothing
        without an authorizer."""
        if broker.authorizer is not None:
            broker.authorizer.follow(broker.image.acls, broker.image.acls.keys())
            broker.authorizer.loaded = True

    def _committed(self, _: Sequence[Record]) -> None:
        """Apply committed metadata records to the parts of this node: configuration, quotas, ACLs, logs, replicas and
        coordinators. The records themselves are not used, as the image has them already: its `take_changes` tells what
        they changed."""
        broker = self.broker
        changes = broker.image.take_changes()
        is_configured = any(kind == BROKER_RESOURCE for kind, _ in changes.configs)
        if is_configured:
            self._take_dynamic_config(broker.metadata)
            assert self._certificates is not None, "made with the server"
            self._certificates.configured()
            if (reason := unserved(self.config)) is not None:
                log.error("dynamic configuration not honoured: %s", reason)
        if changes.client_quotas:
            broker.quotas.update(broker.image.client_quotas)
        if changes.client_quotas or is_configured:
            self.server.take_quotas(broker.image.client_quotas)
        if changes.acls and broker.authorizer is not None:
            broker.authorizer.follow(broker.image.acls, changes.acls)
        if not self.config.is_broker:
            return
        if is_configured:
            self._lifecycle.configured()
            if self._tiering is not None:
                self._tiering.reconfigured()
        broker.logs.apply(changes)
        if self._follows:
            broker.replicas.apply(changes)
            if self._tiering is not None:
                self._tiering.apply(changes)
            broker.groups.apply(changes)
            broker.transactions.apply(changes)
        if changes.brokers:
            self._lifecycle.brokers_changed(changes.brokers)
            if self._is_broker_stopped and all(each.fenced for each in broker.image.brokers.values()):
                # Clients get no further response once all brokers are fenced: a Metadata response without brokers would
                # make librdkafka (from 2.10 on) drop all brokers, and hang.
                self.server.drain(self._client_listeners)

    def _assigned(self, topic_id: UUID, number: int, directory_id: UUID) -> None:
        self._lifecycle.assigned(topic_id, number, directory_id)

    def _directory_failed(self, directory: LogDir) -> None:
        self._lifecycle.directory_failed(directory.id)

    def _must_stop(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    # stopping

    @property
    def _client_listeners(self) -> list[str]:
        config = self.config
        return [each.listener for each in config.listeners if each.listener not in config.controller_listener_names]

    async def stop_broker(self) -> None:
        """Stop the broker but not the controller, so that the quorum keeps running. Do nothing if the broker is not
        running. A step that fails is logged."""
        config = self.config
        if self._broker is None or not config.is_broker or self._is_broker_stopped:
            return
        broker = self._broker
        self._is_broker_stopped = True
        broker.logs.stop_making()
        assert self._server is not None, "started"
        clients = self._client_listeners
        if broker.is_alone:
            self._server.stop_listening()
        step = self._stopping.step
        if self._tiering is not None:
            with step("segments of deleted topics are left in tiered storage"):
                await self._tiering.finish_deletions()
        with step("controlled shutdown"):
            if not self.ended.done():
                await self._unless_ended(self._lifecycle.shut_down())
            self._lifecycle.stop()
        with step("replication is not stopped in order"):
            broker.replicas.stop()
        self._server.close_listeners(clients)
        with step("tiered storage is not stopped in order"):
            if self._tiering is not None:
                await self._tiering.stop()
        with step("coordinators are not stopped in order"):
            broker.groups.stop()
            broker.transactions.stop()

    async def stop(self) -> None:
        """Stop the node in an orderly way, so that no log needs recovery at the next start. A step that fails is
        logged, and the steps after it are still taken. Raises NotInOrder at the end if a step has failed."""
        broker = self.broker
        assert self._server is not None, "started"
        if self._certificates is not None:
            self._certificates.stop()
        for endpoint in self._key_endpoints:
            endpoint.stop()
        journal = broker.metadata
        step = self._stopping.step
        with step("the broker is not stopped in order"):
            await self.stop_broker()
        if self._quorum is not None and not self.ended.done():
            with step("others are not waited for"):
                await self._await_other_shutdowns(self._quorum)
        journal.listeners.remove(self._committed)
        if broker.active is not None:
            broker.active.stop()
        if self._registering is not None:
            self._registering.cancel()
        # if this node is not the active controller, close its sockets first: requests of other nodes fail at once,
        # instead of timing out while the metadata log is closed
        if not journal.is_leader:
            self._server.close()
        with step("the metadata log is not closed"):
            await journal.close()
        self._server.close()
        self._close_networks()
        if self.config.is_broker:
            with step("logs are not closed"):
                await broker.logs.stop(self._lifecycle.epoch)
        elif self._dirs is not None:
            self._dirs.unlock()
        if self._stopping.failures:
            raise NotInOrder("not stopped in order: the next start recovers what is on the disk")

    async def _await_other_shutdowns(self, journal: ReplicatedMetadataLog) -> None:
        """Wait until the other brokers have finished their controlled shutdown, for at most OTHERS_SHUTDOWN_S seconds,
        and only while the quorum has a leader. If all nodes of a cluster stop at once, the shutdown of each broker
        needs the quorum, so this controller has to run until then."""
        until = asyncio.get_running_loop().time() + OTHERS_SHUTDOWN_S
        while (  # noqa: ASYNC110  (a few times, and for many reasons)
            self._is_another_shutting_down()
            and (journal.is_leader or journal.raft.is_following)
            and asyncio.get_running_loop().time() < until
        ):
            await asyncio.sleep(LOOK_S)

    def _is_another_shutting_down(self) -> bool:
        """Whether another broker is in controlled shutdown, and not fenced yet."""
        others = (each for each in self.broker.image.brokers.values() if each.id != self.config.node_id)
        return any(each.in_controlled_shutdown and not each.fenced for each in others)

    # For the launcher, the process that starts several nodes of one cluster (kcli/broker/startup/supervised.py).

    @property
    def leads_quorum(self) -> bool:
        """Whether this node is the active controller."""
        return self._broker is not None and self._broker.metadata.is_leader

    def stand_for_election(self) -> None:
        """Stand for election at once if no leader of the quorum is known."""
        if self._quorum is not None:
            self._quorum.stand_for_election()

    def peer_died(self, node_id: int) -> None:
        """Report to the quorum and the controller that the process of node `node_id` has ended, so that both react at
        once instead of after a timeout."""
        if self._quorum is not None:
            self._quorum.peer_died(node_id)
        if self._broker is not None and self._broker.active is not None:
            self._broker.active.report_death(node_id)

    def peer_started(self, node_id: int) -> None:
        """Report to the controller that the launcher has started a new process of node `node_id`."""
        if self._broker is not None and self._broker.active is not None:
            self._broker.active.report_start(node_id)


def _check_principal(config: BrokerConfig, authorizer: Authorizer, image: MetadataImage) -> None:
    """Check this node's principal. Raises CannotServe if the only controller, which is this node, would refuse this
    node's registration as a broker for lack of CLUSTER_ACTION. (A broker on another node would get that refusal as a
    response.) An ACL for any host is enough, as the node's own address is not known."""
    from kcli.security.acls import CLUSTER_NAME, Operation, ResourceType
    from kcli.security.authorizer import Access

    principal, resource = to_controllers(config).principal, (ResourceType.CLUSTER, CLUSTER_NAME)
    hosts = {"", *(each["host"] for each in image.acls.values())}
    if principal is not None and not any(
        authorizer.authorize(Access(principal, each, Operation.CLUSTER_ACTION, *resource)) for each in hosts
    ):
        listener = config.controller_listener_names[0]
        raise CannotServe(
            f"super.users: must name {principal}, as whom this node registers at {listener}: no ACL allows it "
            f"CLUSTER_ACTION either"
        )


def _new_authorizer(config: BrokerConfig) -> Authorizer | None:
    """Return the authorizer that authorizer.class.name names; None if that configuration is empty. Raises
    CannotServe."""
    if not config.get("authorizer.class.name"):
        return None
    from kcli.security.authorizer import CLASS_NAME, Authorizer, AuthorizerConfig
    from kcli.security.principals import InvalidPrincipal

    if config.get("authorizer.class.name") != CLASS_NAME:
        raise CannotServe(f"authorizer.class.name: only {CLASS_NAME} is there")
    try:
        return Authorizer(AuthorizerConfig.of(config.properties))
    except InvalidPrincipal as invalid:
        raise CannotServe(config.resolved.hide(f"super.users: {invalid}")) from None


def _delegation_tokens(config: BrokerConfig, journal: MetadataLog) -> DelegationTokens | None:
    """Return the delegation tokens of the metadata image; None if delegation.token.secret.key is not set."""
    secret_key = config.get("delegation.token.secret.key")
    if not isinstance(secret_key, str) or not secret_key:
        return None
    from kcli.security.delegation_tokens import DelegationTokens

    return DelegationTokens(secret_key, lambda: journal.image.delegation_tokens)


def _check_formatted(directory: Path) -> None:
    """Raise CannotServe if the directory is not formatted, as a node of a cluster with several nodes must not choose
    the cluster id itself."""
    if not (directory / FileKind.META_PROPERTIES).exists():
        raise CannotServe(f"{directory} is not formatted: run kcli format with the cluster's id first")
