"""`kcli serve --read-only`: a broker that serves directories as they are, and changes not a byte in them.

    start     bind; find the partitions; replay what there is of the metadata; answer clients. No lock, no file is made
    serves    every sound batch, around damage and up to the last one; also while a running Kafka writes
    refuses   what would write: see read_only_refusals
    stop      no more clients; there is nothing to close in order

It may be another's directory, a crashed or a damaged one, or no more than some segments. What is broken is said in the
log. New partitions show after a restart, new records at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from kcli.broker.addresses import CannotServe, bind
from kcli.broker.broker import Broker
from kcli.broker.config.served import check_served
from kcli.broker.fetch_sessions import FetchSessions
from kcli.broker.logs.descriptors import raise_limit, share_in_use
from kcli.broker.logs.directories import LogDir, LogDirs
from kcli.broker.logs.partitions import Partitions
from kcli.broker.metadata.quorum_view import QuorumView, of_only_voter
from kcli.broker.network.server import Server
from kcli.broker.node import FETCH_SESSION_EVICTION_MS, Node
from kcli.broker.quotas import Quotas
from kcli.broker.read_only.coordinators import ReadOnlyCoordinator
from kcli.broker.read_only.directory import (
    DEFAULT_NODE_ID,
    METADATA_KEY,
    FoundPartition,
    Key,
    find_partitions,
    identity,
)
from kcli.broker.read_only.image import replay, show_what_is_there
from kcli.broker.read_only.partitions import Poller, ReadOnlyPartition
from kcli.log.config import InvalidConfig, LogConfig
from kcli.log.read_only_log import ReadOnlyLog
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import MetadataImage
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration import Endpoint
from kcli.metadata.snapshot import broker_record

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.logs.manager import LogManager
    from kcli.broker.metadata.log import MetadataLog

log = logging.getLogger("kcli.broker")
UNKNOWN_CLUSTER = "unknown"
PLAINTEXT_ID = 0
UPKEEP_S = 10.0
DESCRIPTORS_MAX = 0.5
"""Share of the limit in use from which on files are closed; they are opened again when they are read."""


def known_node_id(directories: Sequence[Path]) -> int:
    """Whose directories they are, by the first sound meta.properties; 1 where none says."""
    node_id, _ = identity(directories)
    return DEFAULT_NODE_ID if node_id is None or node_id < 0 else node_id


@dataclass(slots=True)
class ReadOnlyLogs:
    """What handlers ask of a LogManager, as far as they only read."""

    dirs: LogDirs
    partitions: Partitions
    futures: Mapping[Key, object] = field(default_factory=dict)

    def is_cordoned(self, _: LogDir) -> bool:
        """Nothing is placed here anyway."""
        return False

    def directory_failed(self, directory: LogDir, error: Exception) -> None:
        """It cannot be read now; that may pass."""
        log.warning("%s: %s", directory.path, error)


class ReadOnlyMetadata:
    """What handlers ask of the metadata log: how far it is, and who votes: only this node, wherever it comes from."""

    def __init__(self, metadata_log: ReadOnlyLog | None, node_id: int) -> None:
        self._log = metadata_log
        self._node_id = node_id

    @property
    def view(self) -> QuorumView:
        """For DescribeQuorum."""
        return of_only_voter(self._node_id, None, self.epoch, self.next_offset, self.high_watermark)

    @property
    def kraft_version(self) -> int:
        """The voters are none but this node, whatever the log says of them."""
        return 0

    @property
    def next_offset(self) -> int:
        """Where it ends."""
        return 0 if self._log is None else self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """All that can be read."""
        return self.next_offset

    @property
    def epoch(self) -> int:
        """The last leader epoch in it."""
        latest = None if self._log is None else self._log.latest_epoch
        return 0 if latest is None else latest


class ReadOnlyNode(Node):
    """See above. `start`, then wait for a signal, then `stop`."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._poller = Poller()
        self._upkeep: asyncio.TimerHandle | None = None

    async def _start(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        check_served(config)
        raise_limit()
        directories = [Path(each) for each in config.log_dirs]
        if Path(config.metadata_log_dir) not in directories:
            directories.append(Path(config.metadata_log_dir))
        missing = [str(each) for each in directories if not each.is_dir()]
        if missing:
            raise CannotServe(f"no such directory: {', '.join(missing)}")
        found = find_partitions(directories)
        self._server = server = Server(config, loop)
        advertised, _ = bind(server, config, alone=True)
        image = self._image(found, advertised)
        dirs = LogDirs(
            [LogDir(each) for each in directories],
            LogDir(Path(config.metadata_log_dir)),
            identity(directories)[1] or UNKNOWN_CLUSTER,
            config.node_id,
        )
        partitions = self._open(found, image, dirs)
        metadata = partitions.get(*METADATA_KEY)
        metadata_log = metadata.read_only_log if isinstance(metadata, ReadOnlyPartition) else None
        self._broker = Broker(
            config=config,
            clock=self._clock,
            node_id=config.node_id,
            cluster_id=dirs.cluster_id,
            image=image,
            metadata=cast("MetadataLog", ReadOnlyMetadata(metadata_log, config.node_id)),
            logs=cast("LogManager", ReadOnlyLogs(dirs, partitions)),
            partitions=partitions,
            sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, FETCH_SESSION_EVICTION_MS),
            quotas=Quotas(
                config.quota_window_num,
                config.quota_window_size_seconds,
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds,
            ),
            advertised=advertised,
            is_read_only=True,
        )
        self._coordinate(self._broker, has_metadata=metadata is not None)
        log.info("serving %d partitions, to be read only", len(partitions))
        server.serve(self._broker)
        self._keep_up()

    def _coordinate(self, broker: Broker, *, has_metadata: bool) -> None:
        def least(option: str) -> int:
            return 0 if has_metadata else self.config.number(option)

        groups, transactions = least("offsets.topic.num.partitions"), least("transaction.state.log.num.partitions")
        broker.groups = ReadOnlyCoordinator(broker, broker.groups, groups)
        broker.transactions = ReadOnlyCoordinator(broker, broker.transactions, transactions)

    def _image(self, found: Mapping[Key, FoundPartition], advertised: Mapping[str, tuple[str, int]]) -> MetadataImage:
        metadata = found.get(METADATA_KEY)
        image = MetadataImage(lenient=True) if metadata is None else replay(metadata.path)
        if metadata is None:
            image.apply("FeatureLevelRecord", {"name": "group.version", "featureLevel": 1}, image.offset)
        show_what_is_there(image, found, self.config.node_id)
        for broker_id in list(image.brokers):
            image.apply("UnregisterBrokerRecord", {"brokerId": broker_id}, image.offset)
        state = BrokerState(
            id=self.config.node_id,
            epoch=max(image.offset, 0),
            incarnation_id=uuid4(),
            endpoints={name: Endpoint(name, host, port, PLAINTEXT_ID) for name, (host, port) in advertised.items()},
            features=SUPPORTED_FEATURES,
            rack=self.config.broker_rack,
            fenced=False,
        )
        name, _, value = broker_record(state, image.metadata_version)
        image.apply(name, value, image.offset)
        image.take_changes()
        return image

    def _open(self, found: Mapping[Key, FoundPartition], image: MetadataImage, dirs: LogDirs) -> Partitions:
        partitions = Partitions(image)
        homes = {each.path: each for each in dirs.data}
        configs: dict[str, LogConfig] = {}
        for (name, number), each in found.items():
            topic = image.topics[name]
            if name not in configs:
                configs[name] = self._log_config(image, name)
            opened = ReadOnlyLog(each.path, configs[name], each.log_start_offset)
            state = topic.partitions[number]
            home = homes[each.log_directory]
            partitions.add(
                ReadOnlyPartition(name, number, topic.id, state, self.config.node_id, home, opened, self._poller)
            )
        return partitions

    def _log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        try:
            return self.config.log_config(image.topic_configs(topic))
        except InvalidConfig as error:
            log.warning("configuration of topic %s: %s: the broker's is used", topic, error)
            return self.config.log_config({})

    def _keep_up(self) -> None:
        if share_in_use() > DESCRIPTORS_MAX:
            for partition in self.broker.partitions:
                if isinstance(partition, ReadOnlyPartition):
                    partition.read_only_log.release_handles()
        self._upkeep = asyncio.get_running_loop().call_later(UPKEEP_S, self._keep_up)

    async def stop(self) -> None:
        """No more clients."""
        assert self._server is not None, "started"
        if self._upkeep is not None:
            self._upkeep.cancel()
        self._poller.stop()
        self._server.close()
        for partition in self.broker.partitions:
            if isinstance(partition, ReadOnlyPartition):
                partition.read_only_log.release_handles()
