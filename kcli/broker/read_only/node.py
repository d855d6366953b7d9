"""`kcli serve --read-only`: a broker that serves directories as they are, and changes not a byte in them.

    start     bind the listeners; find the partitions; replay the metadata log, if there is one; serve clients. No lock
              and no file is made
    serves    every sound batch, skipping damage, up to the last one; also while a running Kafka writes
    refuses   requests that write: see refusals.py
    stop      close the connections; no file needs an orderly close

The directory may belong to another broker, which may run, have crashed or be damaged, or it may have just a few
segments. Damage is logged. New partitions appear after a restart, new records at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from kcli.broker.broker import Broker
from kcli.broker.config.served import check_open, check_served
from kcli.broker.controller.channel import ControllerChannel
from kcli.broker.fetching.sessions import FetchSessions
from kcli.broker.log_dirs.directories import LogDir, LogDirs
from kcli.broker.metadata.quorum_view import QuorumView, of_only_voter
from kcli.broker.network.addresses import bind
from kcli.broker.network.peers import NoNetwork
from kcli.broker.network.server import Server
from kcli.broker.node import FETCH_SESSION_EVICTION_MS, Node
from kcli.broker.partition.partitions import Partitions
from kcli.broker.process.descriptors import raise_limit, share_in_use
from kcli.broker.quotas.client import Quotas
from kcli.broker.read_only.coordinators import ReadOnlyCoordinator
from kcli.broker.read_only.directory import DEFAULT_NODE_ID, METADATA_KEY, FoundPartition, find_partitions, identity
from kcli.broker.read_only.image import replay, show_what_is_there
from kcli.broker.read_only.partitions import Poller, ReadOnlyPartition
from kcli.broker.read_only.requests import ReadOnlyRouter
from kcli.errors import UnreadableInput
from kcli.log.config import InvalidConfig, LogConfig
from kcli.log.read_only.log import ReadOnlyLog
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import MetadataImage
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration import Endpoint
from kcli.metadata.snapshot import broker_record
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.logs.manager import LogManager
    from kcli.broker.metadata.log import MetadataLog

log = logging.getLogger("kcli.broker")
UNKNOWN_CLUSTER = "unknown"
PLAINTEXT_ID = 0
UPKEEP_S = 10.0
DESCRIPTORS_MAX = 0.5
"""The share of the limit of open files above which files are closed; a later read opens them again."""


def known_node_id(directories: Sequence[Path]) -> int:
    """Return the node id in the first undamaged meta.properties of the directories; DEFAULT_NODE_ID if there is
    none."""
    node_id, _ = identity(directories)
    return DEFAULT_NODE_ID if node_id is None or node_id < 0 else node_id


@dataclass(slots=True)
class ReadOnlyLogs:
    """The part of LogManager that the handlers of reading requests use."""

    dirs: LogDirs
    partitions: Partitions
    futures: Mapping[TopicPartition, object] = field(default_factory=dict)

    def is_cordoned(self, _: LogDir) -> bool:
        """Return False, as no new partitions are placed here."""
        return False

    def directory_failed(self, directory: LogDir, error: Exception) -> None:
        """Log an I/O error. The directory stays in use, as a later request may be able to read the files."""
        log.warning("%s: %s", directory.path, error)


class ReadOnlyMetadata:
    """The part of MetadataLog that the handlers of reading requests use. The only voter is this node."""

    def __init__(self, metadata_log: ReadOnlyLog | None, node_id: int) -> None:
        self._log = metadata_log
        self._node_id = node_id

    @property
    def view(self) -> QuorumView:
        """The state of the quorum for DescribeQuorum."""
        return of_only_voter(self._node_id, None, self.epoch, self.next_offset, self.high_watermark)

    @property
    def kraft_version(self) -> int:
        """0, the level of kraft.version with static voters, even if the metadata log has a higher level."""
        return 0

    @property
    def next_offset(self) -> int:
        """The offset after the last record of the metadata log; 0 without a metadata log."""
        return 0 if self._log is None else self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """The offset after the last readable record of the metadata log, all of whose records count as committed; 0
        without a metadata log."""
        return self.next_offset

    @property
    def epoch(self) -> int:
        """The last leader epoch in the metadata log; 0 without a metadata log, or if the log has no leader epochs."""
        latest = None if self._log is None else self._log.latest_epoch
        return 0 if latest is None else latest


class ReadOnlyNode(Node):
    """A read-only node. Call `start`, wait for a signal, then call `stop`."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self._poller = Poller()
        self._upkeep: asyncio.TimerHandle | None = None

    async def _start(self) -> None:
        config, loop = self.config, asyncio.get_running_loop()
        check_served(config)
        check_open(config)
        raise_limit()
        directories = [Path(each) for each in config.log_dirs]
        if Path(config.metadata_log_dir) not in directories:
            directories.append(Path(config.metadata_log_dir))
        missing = [str(each) for each in directories if not each.is_dir()]
        if missing:
            raise UnreadableInput(", ".join(missing), "no such directory")
        found = find_partitions(directories)
        if not found:
            raise UnreadableInput(
                ", ".join(map(str, directories)),
                "nothing to serve: no directory of a partition (such as orders-0) and no segment "
                "(such as 00000000000000000000.log) is in it",
            )
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
        journal = cast("MetadataLog", ReadOnlyMetadata(metadata_log, config.node_id))
        self._broker = Broker(
            controller=ControllerChannel(config.node_id, self._clock, journal, NoNetwork(), self._answer),
            config=config,
            clock=self._clock,
            cluster_id=dirs.cluster_id,
            image=image,
            metadata=journal,
            logs=cast("LogManager", ReadOnlyLogs(dirs, partitions)),
            partitions=partitions,
            sessions=FetchSessions(0, FETCH_SESSION_EVICTION_MS),  # no sessions, as each Fetch reads the files again
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
        self._router = ReadOnlyRouter(self._broker)
        server.serve(self._router)
        self._keep_up()

    def _coordinate(self, broker: Broker, *, has_metadata: bool) -> None:
        def least(option: str) -> int:
            return 0 if has_metadata else self.config.number(option)

        groups, transactions = least("offsets.topic.num.partitions"), least("transaction.state.log.num.partitions")
        broker.groups = ReadOnlyCoordinator(broker.groups, groups)
        broker.transactions = ReadOnlyCoordinator(broker.transactions, transactions)

    def _image(
        self, found: Mapping[TopicPartition, FoundPartition], advertised: Mapping[str, tuple[str, int]]
    ) -> MetadataImage:
        metadata = found.get(METADATA_KEY)
        image = MetadataImage(lenient=True) if metadata is None else replay(metadata.path)
        if metadata is None:
            image.apply("FeatureLevelRecord", {"name": "group.version", "featureLevel": 1}, image.offset)
        show_what_is_there(image, found, self.config.node_id)
        for each in list(image.brokers.values()):
            image.apply("UnregisterBrokerRecord", {"brokerId": each.id, "brokerEpoch": each.epoch}, image.offset)
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

    def _open(self, found: Mapping[TopicPartition, FoundPartition], image: MetadataImage, dirs: LogDirs) -> Partitions:
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
        """Close the listeners and connections."""
        assert self._server is not None, "started"
        if self._upkeep is not None:
            self._upkeep.cancel()
        self._poller.stop()
        self._server.close()
        for partition in self.broker.partitions:
            if isinstance(partition, ReadOnlyPartition):
                partition.read_only_log.release_handles()
