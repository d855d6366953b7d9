"""A node's life: from its log directories to the sockets, and back in order.

    start   bind (a taken port is found out before a byte is written), lock and format directories, replay the metadata
            log, open all logs, register as controller and broker, unfence, then answer clients
    run     what the metadata log commits reaches logs, quotas and the configuration at once
    stop    no new clients, controlled shutdown, logs closed, fenced, metadata log closed, locks given back

Source: KafkaRaftServer, BrokerServer, ControllerServer, BrokerLifecycleManager.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import UUID

from formats.file_name import FileKind
from kcli.broker.broker import Broker
from kcli.broker.clock import Clock
from kcli.broker.config import BrokerConfig
from kcli.broker.controller.active import ActiveController
from kcli.broker.controller.registration import register_controller
from kcli.broker.fetch_sessions import FetchSessions
from kcli.broker.lifecycle import BrokerLifecycle
from kcli.broker.logs.directories import LogDir, LogDirs, open_log_dirs
from kcli.broker.logs.manager import Listeners, LogManager
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.log import MetadataLog
from kcli.broker.network.server import Server
from kcli.broker.quotas import Quotas
from kcli.errors import KcliError
from kcli.log.config import InvalidConfig
from kcli.log.disk import Disk
from kcli.metadata.image import BROKER_RESOURCE, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata.registration_control import NO_EPOCH

log = logging.getLogger("kcli.broker")

PLAINTEXT = "PLAINTEXT"
FETCH_SESSION_EVICTION_MS = 120_000


class CannotServe(KcliError):
    """A configuration that is Kafka's, and more than this broker can do; or an address that cannot be had."""


class Node:
    """One broker and controller. `start`, then wait for `ended`, then `stop`; all on the running event loop."""

    def __init__(self, config: BrokerConfig, *, disk: Disk | None = None, clock: Clock | None = None) -> None:
        self.config = config
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the node must stop: an error that leaves it nothing to serve with."""
        self._disk = disk or Disk()
        self._clock = clock or Clock()
        self._dirs: LogDirs | None = None
        self._broker: Broker | None = None
        self._server: Server | None = None

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
        """Listener -> the address that clients are told."""
        return self.broker.advertised

    async def start(self) -> None:
        """Come up. Raises CannotServe, LogDirsRefused, DirectoryLocked, StartRefused, OSError, and leaves no lock."""
        try:
            await self._start()
        except BaseException:
            if self._server is not None:
                self._server.close()
            if self._dirs is not None:
                self._dirs.unlock()
            raise

    async def _start(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        _check_alone(config)
        self._server = server = Server(config, loop)
        advertised = self._bind(server)
        data, metadata = [Path(each) for each in config.log_dirs], Path(config.metadata_log_dir)
        self._dirs = dirs = open_log_dirs(data, metadata, config.node_id, self._disk, self._clock)
        journal = LoneMetadataLog(
            dirs.metadata.path,
            node_id=config.node_id,
            directory_id=from_uuid(dirs.metadata.id),
            config=_metadata_config(config),
            disk=self._disk,
            clock=self._clock,
        )
        journal.on_failure = lambda error: self._must_stop(f"the metadata log has failed: {error}")
        self._take_dynamic_config(journal)
        previous_epoch = _previous_epoch(dirs)
        listeners = Listeners(self._directory_failed, self._assigned, self._must_stop)
        logs = LogManager(config, dirs, journal.image, self._disk, self._clock, listeners)
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
            logs=logs,
            partitions=logs.partitions,
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, FETCH_SESSION_EVICTION_MS),
            quotas=quotas,
            advertised=advertised,
        )
        broker.lifecycle = BrokerLifecycle(broker, dirs, must_stop=self._must_stop)
        await logs.start()
        journal.image.take_changes()
        journal.listeners.append(self._committed)
        await self._register(previous_epoch)
        broker.groups.start()
        broker.transactions.start()
        server.serve(broker)
        journal.start_background()

    def _bind(self, server: Server) -> dict[str, tuple[str, int]]:
        """Take the addresses. Returns what clients are told."""
        config = self.config
        advertised = {each.listener: (each.host, each.port) for each in config.advertised_listeners}
        told: dict[str, tuple[str, int]] = {}
        for each in config.listeners:
            if each.listener in config.controller_listener_names:
                continue
            if each.security_protocol != PLAINTEXT:
                raise CannotServe(f"listener {each.listener}: only PLAINTEXT is served, not {each.security_protocol}")
            try:
                host, port = server.bind(each.host or "", each.port, each.listener)
            except OSError as error:
                where = f"{each.host or '*'}:{each.port}"
                raise CannotServe(f"cannot listen on {where}: {error.strerror or error}") from error
            wanted_host, wanted_port = advertised.get(each.listener, (None, 0))
            told[each.listener] = wanted_host or each.host or _own_name(host), wanted_port or port
        if not told:
            raise CannotServe("no listener for clients in `listeners`")
        return told

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

    def _committed(self, _: Sequence[Record]) -> None:
        """Records are in the image: whoever depends on them follows."""
        broker = self.broker
        changes = broker.image.take_changes()
        if any(kind == BROKER_RESOURCE for kind, _ in changes.configs):
            self._take_dynamic_config(broker.metadata)
            self._lifecycle.configured()
        broker.logs.apply(changes)
        broker.replicas.apply(changes)
        broker.groups.apply(changes)
        broker.transactions.apply(changes)
        if changes.client_quotas:
            broker.quotas.update(broker.image.client_quotas)

    async def _register(self, previous_epoch: int) -> None:
        """Tell the metadata log who is here, then take the lead of partitions."""
        broker = self.broker
        broker.active = ActiveController(broker)
        broker.active.start()
        await register_controller(broker)
        await self._lifecycle.start(previous_epoch)

    def _assigned(self, topic_id: UUID, number: int, directory_id: UUID) -> None:
        self._lifecycle.assigned(topic_id, number, directory_id)

    def _directory_failed(self, directory: LogDir) -> None:
        self._lifecycle.directory_failed(directory.id)

    def _must_stop(self, reason: str) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)

    # stopping

    async def stop(self) -> None:
        """Go down in order: the next start has nothing to recover."""
        broker = self.broker
        assert self._server is not None, "started"
        journal = broker.metadata
        self._server.stop_listening()
        if not self.ended.done():
            await self._lifecycle.shut_down()
        self._lifecycle.stop()
        self._server.close()
        broker.groups.stop()
        broker.transactions.stop()
        journal.listeners.remove(self._committed)
        if broker.active is not None:
            broker.active.stop()
        await journal.close()
        await broker.logs.stop(self._lifecycle.epoch)


def _check_alone(config: BrokerConfig) -> None:
    """This node is all of its cluster. Raises CannotServe."""
    if not (config.is_broker and config.is_controller):
        raise CannotServe("process.roles: only a node that is broker and controller can be served")
    others = {each.partition("@")[0].strip() for each in config.words("controller.quorum.voters")}
    if others - {str(config.node_id)}:
        raise CannotServe("controller.quorum.voters: only a node that is its cluster's only voter can be served")


def _own_name(bound_host: str) -> str:
    """What clients are told where all addresses are listened on."""
    return socket.getfqdn() if bound_host in ("0.0.0.0", "::", "") else bound_host  # noqa: S104  (compared, not bound)


def _metadata_config(config: BrokerConfig) -> MetadataLogConfig:
    return MetadataLogConfig(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        max_retention_bytes=config.metadata_max_retention_bytes,
        max_retention_ms=config.metadata_max_retention_ms,
        max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        min_insync_replicas=config.min_insync_replicas,
    )


def _previous_epoch(dirs: LogDirs) -> int:
    """The broker's epoch at its last clean shutdown, where all directories agree on it."""
    epochs = {_epoch_in(each.path / FileKind.CLEAN_SHUTDOWN) for each in dirs.online}
    return epochs.pop() if len(epochs) == 1 else NO_EPOCH


def _epoch_in(marker: Path) -> int:
    try:
        epoch = json.loads(marker.read_bytes()).get("brokerEpoch", NO_EPOCH)
    except (OSError, ValueError, AttributeError):
        return NO_EPOCH
    return epoch if isinstance(epoch, int) else NO_EPOCH
