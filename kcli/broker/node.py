"""A node's life: from its log directories to the sockets, and back in order.

    start   bind (a taken port is found out before a byte is written), lock and format directories, replay the metadata
            log, open all logs, register as controller and broker, unfence, then answer clients
    run     what the metadata log commits reaches logs, quotas and the configuration at once
    stop    no new clients, controlled shutdown, logs closed, fenced, metadata log closed, locks given back

Source: KafkaRaftServer, BrokerServer, ControllerServer, BrokerLifecycleManager.
"""

from __future__ import annotations

import asyncio
import logging
import random
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable
from uuid import UUID

from formats.file_name import FileKind
from kcli.broker.addresses import Addresses, CannotServe, bind
from kcli.broker.broker import Broker
from kcli.broker.clock import Clock
from kcli.broker.config import BrokerConfig
from kcli.broker.config.served import check_served, check_topics, unserved
from kcli.broker.controller.active import ActiveController
from kcli.broker.controller.registration import register_controller
from kcli.broker.fetch_sessions import FetchSessions
from kcli.broker.lifecycle import BrokerLifecycle
from kcli.broker.logs.checkpoints import previous_epoch
from kcli.broker.logs.directories import LogDir, LogDirs, open_log_dirs
from kcli.broker.logs.lost_metadata import check_metadata
from kcli.broker.logs.manager import Listeners, LogManager
from kcli.broker.logs.partitions import Partitions
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.network.peers import Network, NoNetwork
from kcli.broker.network.server import Server
from kcli.broker.quorum_config import is_only_voter, metadata_config, own_endpoints, raft_config
from kcli.broker.quotas import Quotas
from kcli.broker.unattended import Steps, begin
from kcli.errors import KcliError, error_text
from kcli.log.config import InvalidConfig
from kcli.log.disk import Disk
from kcli.metadata.image import BROKER_RESOURCE, Record
from kcli.metadata.partition import from_uuid

if TYPE_CHECKING:
    from kcli.broker.metadata.replicated import ReplicatedMetadataLog

log = logging.getLogger("kcli.broker")

TELL_S = 10.0
"""How often a node that waits for its quorum says so."""
FETCH_SESSION_EVICTION_MS = 120_000
OTHERS_GO_S = 3.0
LOOK_S = 0.02


class NotInOrder(KcliError):
    """A step of an orderly stop has failed."""


@runtime_checkable
class SupportsClose(Protocol):
    """A network that has something to close."""

    def close(self) -> None:
        """End all channels."""


class Node:
    """One broker and controller. `start`, then wait for `ended`, then `stop`; all on the running event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
        joinable: bool = False,
        allow_strays: bool = False,
    ) -> None:
        """joinable: other brokers may join it though it is the only voter: it listens as a controller, too.

        allow_strays: partitions that a damaged metadata log no longer names do not stop the start.
        """
        self.config = config
        self._is_only_voter = is_only_voter(config)
        self._is_alone = self._is_only_voter and config.is_broker and not joinable
        self._allow_strays = allow_strays
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the node must stop: an error that leaves it nothing to serve with."""
        self._disk = disk or Disk()
        self._clock = clock or Clock()
        self._dirs: LogDirs | None = None
        self._broker: Broker | None = None
        self._server: Server | None = None
        self._chance = chance
        self._quorum: ReplicatedMetadataLog | None = None
        self._registering: asyncio.Task[None] | None = None
        self._stopping = Steps()
        self._follows = self._is_broker_stopped = False
        self._controllers: Addresses = {}
        self.is_waiting = False
        """`start` has opened everything, and waits for other nodes."""
        self.listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when other nodes of the quorum are answered."""

    @property
    def _lifecycle(self) -> BrokerLifecycle:
        assert self.broker.lifecycle is not None, "made with the broker"
        return self.broker.lifecycle

    @property
    def broker(self) -> Broker:
        """What handlers are given."""
        assert self._broker is not None, "started"
        return self._broker

    @property
    def server(self) -> Server:
        """Its sockets."""
        assert self._server is not None, "started"
        return self._server

    @property
    def addresses(self) -> Mapping[str, tuple[str, int]]:
        """Listener -> the address that clients are told; of a controller alone, that other nodes are told."""
        return self.broker.advertised or self._controllers

    async def start(self) -> None:
        """Come up. Raises CannotServe, LogDirsRefused, DirectoryLocked, StartRefused, OSError, and leaves no lock."""
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
        """A start that came to nothing."""
        if self._registering is not None:
            self._registering.cancel()
        if broker.lifecycle is not None:
            broker.lifecycle.stop()
            broker.replicas.stop()
        if broker.active is not None:
            broker.active.stop()
        with self._stopping.step("the metadata log is not closed"):
            await broker.metadata.close()
        if isinstance(broker.network, SupportsClose):
            broker.network.close()

    async def _start(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        check_served(config)
        self._server = server = self._new_server(loop)
        alone = self._is_alone
        advertised, controllers = bind(server, config, alone=alone)
        self._controllers = controllers
        data, metadata = [Path(each) for each in config.log_dirs], Path(config.metadata_log_dir)
        if not self._is_only_voter:
            _check_formatted(metadata)
        self._dirs = dirs = open_log_dirs(data, metadata, config.node_id, self._disk, self._clock)
        if self._is_only_voter and not self._allow_strays:
            check_metadata(dirs, self._clock.now_ms())
        network: Network = NoNetwork() if alone else self._new_network(loop)
        journal = self._new_lone_log(dirs) if alone else self._new_replicated_log(dirs, controllers, network)
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
        self._broker = broker = Broker(
            config=config,
            clock=self._clock,
            node_id=config.node_id,
            cluster_id=dirs.cluster_id,
            image=journal.image,
            metadata=journal,
            logs=cast("LogManager", logs),  # a controller alone has none, and no listener that asks for them
            partitions=Partitions(journal.image) if logs is None else logs.partitions,
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, FETCH_SESSION_EVICTION_MS),
            quotas=quotas,
            advertised=advertised,
            is_alone=alone,
            network=network,
        )
        if config.is_broker:
            broker.lifecycle = BrokerLifecycle(broker, dirs, must_stop=self._must_stop)
        if config.is_controller:
            broker.active = ActiveController(broker)
        if isinstance(journal, LoneMetadataLog):
            await self._start_alone(journal, previous_epoch(dirs))
        else:
            await self._start_in_quorum(journal, previous_epoch(dirs))
        server.serve(broker)
        journal.start_background()

    async def _start_alone(self, journal: LoneMetadataLog, broker_epoch: int) -> None:
        broker = self.broker
        try:
            self._check_metadata(journal)
        except CannotServe:
            await journal.close()
            raise
        await broker.logs.start()
        journal.image.take_changes()
        journal.listeners.append(self._committed)
        self._follows = True
        assert broker.active is not None, "it is a controller"
        broker.active.start()
        await self._unless_ended(register_controller(broker, self._controllers))
        await self._unless_ended(self._lifecycle.start(broker_epoch))
        broker.groups.start()
        broker.transactions.start()

    async def _start_in_quorum(self, journal: MetadataLog, broker_epoch: int) -> None:
        from kcli.broker.metadata.replicated import ReplicatedMetadataLog

        assert isinstance(journal, ReplicatedMetadataLog), "it has voters"
        broker, config = self.broker, self.config
        if broker.active is not None:
            broker.active.start()
        journal.on_leader.append(broker.controller.leader_changed)
        self._quorum = journal
        self.server.serve(broker, config.controller_listener_names)
        journal.start()
        if not self.listening.done():
            self.listening.set_result(None)
        self.is_waiting = True
        await self._caught_up(journal)
        self._take_dynamic_config(journal)
        self._check_metadata(journal)
        broker.quotas.update(broker.image.client_quotas)
        journal.image.take_changes()
        journal.listeners.append(self._committed)
        if config.is_controller:
            registering = register_controller(broker, self._controllers)
            self._registering = begin(registering, "the controller is not registered")
        if config.is_broker:
            self.is_waiting = False
            await broker.logs.start()
            self._follows = True
            broker.replicas.start()
            self.is_waiting = True
            await self._unless_ended(self._lifecycle.start(broker_epoch))
            broker.groups.start()
            broker.transactions.start()
        self._follows = True
        self.is_waiting = False

    async def _caught_up(self, journal: ReplicatedMetadataLog) -> None:
        """Until the quorum has a leader, and the image what it has committed. Says why that takes long."""

        def tell() -> None:
            known = journal.leader_id
            state = "no leader" if known is None else f"leader {known} has not answered"
            voters = ", ".join(map(str, journal.raft.voters.ids)) or "not known yet"
            log.warning("no quorum yet: epoch %d, %s; voters: %s", journal.epoch, state, voters)

        await self._unless_ended(journal.caught_up(), tell)

    async def _unless_ended(self, work: Coroutine[Any, Any, None], tell: Callable[[], None] = lambda: None) -> None:
        """Wait for other nodes, and `tell` that now and then. Raises CannotServe where this one must end meanwhile."""
        waiting = asyncio.ensure_future(work)
        either: list[asyncio.Future[Any]] = [waiting, self.ended]
        try:
            while not (await asyncio.wait(either, timeout=TELL_S, return_when=FIRST_COMPLETED))[0]:
                tell()
        finally:
            if not waiting.done():
                waiting.cancel()
        if self.ended.done():
            await asyncio.gather(waiting, return_exceptions=True)  # it has failed of the same
            raise CannotServe(self.ended.result())
        waiting.result()

    def _new_server(self, loop: asyncio.AbstractEventLoop) -> Server:
        return Server(self.config, loop)

    def _new_network(self, loop: asyncio.AbstractEventLoop) -> Network:
        from kcli.broker.network.client import SocketNetwork

        return SocketNetwork(loop)

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
            raft_config(self.config, dirs, controllers),
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
            log.error("dynamic configuration passed over: %s", error)  # noqa: TRY400

    def _check_metadata(self, journal: MetadataLog) -> None:
        """Does the metadata log want of this node what it does not have? Raises CannotServe."""
        check_served(self.config)
        check_topics(journal.image)

    def _committed(self, _: Sequence[Record]) -> None:
        """Records are in the image: whoever depends on them follows."""
        broker = self.broker
        changes = broker.image.take_changes()
        is_configured = any(kind == BROKER_RESOURCE for kind, _ in changes.configs)
        if is_configured:
            self._take_dynamic_config(broker.metadata)
            if (reason := unserved(self.config)) is not None:
                log.error("dynamic configuration not honoured: %s", reason)
        if changes.client_quotas:
            broker.quotas.update(broker.image.client_quotas)
        if not self.config.is_broker:
            return
        if is_configured:
            self._lifecycle.configured()
        broker.logs.apply(changes)
        if self._follows:
            broker.replicas.apply(changes)
            broker.groups.apply(changes)
            broker.transactions.apply(changes)
        if changes.brokers:
            self._lifecycle.others_changed(changes.brokers)
            if self._is_broker_stopped and all(each.fenced for each in broker.image.brokers.values()):
                # metadata without a single broker: librdkafka (from 2.10 on) would forget all it knows, and be stuck
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
        """The broker's half of `stop`: the quorum goes on. Nothing to do where it is not up. What fails is logged."""
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
        with step("controlled shutdown"):
            if not self.ended.done():
                await self._unless_ended(self._lifecycle.shut_down())
            self._lifecycle.stop()
        with step("replication is not stopped in order"):
            broker.replicas.stop()
        self._server.close_listeners(clients)
        with step("coordinators are not stopped in order"):
            broker.groups.stop()
            broker.transactions.stop()

    async def stop(self) -> None:
        """Go down in order: the next start has nothing to recover. Every step is taken, whatever became of those before
        it. Raises NotInOrder at the end, where one has failed; why is in the log."""
        broker = self.broker
        assert self._server is not None, "started"
        journal = broker.metadata
        step = self._stopping.step
        with step("the broker is not stopped in order"):
            await self.stop_broker()
        if self._quorum is not None and not self.ended.done():
            with step("others are not waited for"):
                await self._let_others_go(self._quorum)
        journal.listeners.remove(self._committed)
        if broker.active is not None:
            broker.active.stop()
        if self._registering is not None:
            self._registering.cancel()
        if not journal.is_leader:  # who asks it hears at once that it is gone
            self._server.close()
        with step("the metadata log is not closed"):
            await journal.close()
        self._server.close()
        if isinstance(broker.network, SupportsClose):
            broker.network.close()
        if self.config.is_broker:
            with step("logs are not closed"):
                await broker.logs.stop(self._lifecycle.epoch)
        elif self._dirs is not None:
            self._dirs.unlock()
        if self._stopping.failures:
            raise NotInOrder("not stopped in order: the next start recovers what is on the disk")

    async def _let_others_go(self, journal: ReplicatedMetadataLog) -> None:
        """Where all of a cluster is told to stop at once, its brokers need the quorum to be let go: do not leave it a
        moment before. Its leader goes last."""
        until = asyncio.get_running_loop().time() + OTHERS_GO_S
        while (  # noqa: ASYNC110  (a few times, and for many reasons)
            self._is_another_going()
            and (journal.is_leader or journal.raft.is_following)
            and asyncio.get_running_loop().time() < until
        ):
            await asyncio.sleep(LOOK_S)

    def _is_another_going(self) -> bool:
        """Is another broker on its way out, and not let go yet?"""
        others = (each for each in self.broker.image.brokers.values() if each.id != self.config.node_id)
        return any(each.in_controlled_shutdown and not each.fenced for each in others)

    # what a launcher knows of other nodes

    @property
    def leads_quorum(self) -> bool:
        """Is it the active controller?"""
        return self._broker is not None and self._broker.metadata.is_leader

    def stand_for_election(self) -> None:
        """Where no leader of the quorum is known, ask for votes now."""
        if self._quorum is not None:
            self._quorum.stand_for_election()

    def peer_died(self, node_id: int) -> None:
        """The process of that node is gone: it need not be waited for."""
        if self._quorum is not None:
            self._quorum.peer_died(node_id)
        if self._broker is not None and self._broker.active is not None:
            self._broker.active.report_death(node_id)

    def peer_started(self, node_id: int) -> None:
        """A new process of that node was started."""
        if self._broker is not None and self._broker.active is not None:
            self._broker.active.report_start(node_id)


def _check_formatted(directory: Path) -> None:
    """A node of a cluster cannot know by itself which one that is. Raises CannotServe."""
    if not (directory / FileKind.META_PROPERTIES).exists():
        raise CannotServe(f"{directory} is not formatted: run kcli format with the cluster's id first")
