"""What other files say about the partitions of a log directory: its checkpoints, the node's other log directories, and
the cluster's metadata log.

The metadata log is that of the directory itself, or of another directory of the same node, such as `metadata.log.dir`.
It has the topics, their ids and replicas, and the cleanup policies that a topic has had since the metadata log begins.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import FormatError
from formats.file_name import INTERNAL_TOPICS, METADATA_DIRECTORY, METADATA_TOPIC, FileKind, parse
from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.verify.gaps import Gaps
from kcli.log.config import InvalidConfig, LogConfig
from kcli.log.flat_files import flat_partitions
from kcli.log.log_directory import LogDirectory, PartitionDirectory
from kcli.log.partition_directory import topic_id_of
from kcli.log.recovery.identity import end_offset
from kcli.log.recovery.node_directories import (
    NONE_BESIDE,
    NodeDirectories,
    directories_beside,
    legible_meta_of,
    log_directories_of,
    meta_of,
    metadata_home_among,
    metadata_home_of,
    node_id_of,
    same_path,
    shares_partitions,
)
from kcli.log.recovery.older_topics import strays_in
from kcli.log.recovery.others_checkpoints import OthersCheckpoint, others_checkpoints
from kcli.log.recovery.retention import Retention
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from formats.properties import MetaProperties
    from kcli.log.packed_directories import PackedDirectory
    from kcli.log.recovery.exchanged_names import ExchangedNames
    from kcli.log.recovery.plan import PartitionPlan
    from kcli.metadata.image import MetadataImage
    from kcli.metadata_log.placement import MissingPartition, Placement
    from kcli.metadata_log.promotion import Compared
    from kcli.metadata_log.unserved_state import UnservedState

COMPACT = "compact"
POLICY, BROKER_POLICY, TIERED = "cleanup.policy", "log.cleanup.policy", "remote.storage.enable"

BROKER_FILES = (
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
    FileKind.CLEAN_SHUTDOWN,
)
"""Files that only a broker writes, not a controller."""
EMPTY_FILES_LEAST = 3


@dataclass
class ClusterMetadata:
    """The metadata of a metadata log: its image, and facts from all its records. home: the log directory
    that holds the metadata log.

    created: topics whose creation is in the log, not only in a snapshot. with_policy: topics that ever had a
    cleanup.policy without compact. compacted: topics whose cleanup.policy ever had compact. all_compacted: whether the
    brokers' default log.cleanup.policy ever had compact. tiered: topics that ever had remote.storage.enable=true.
    removed: names of topics that were removed, by topic id.
    """

    home: Path
    image: MetadataImage
    created: set[str] = field(default_factory=set)
    with_policy: set[str] = field(default_factory=set)
    compacted: set[str] = field(default_factory=set)
    all_compacted: bool = False
    tiered: set[str] = field(default_factory=set)
    removed: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, log_directory: Path) -> ClusterMetadata | None:
        """Read the metadata log in a log directory, up to its first damage.

        Returns None if there is no metadata log, or if a record is invalid, which the checks of the log's files report.
        """
        from kcli.inspector.cluster_metadata import read_image
        from kcli.metadata_log.replay import read_records

        try:
            image = read_image(log_directory)
            if image is None:
                return None
            metadata = cls(log_directory, image)
            names: dict[str, str] = {}
            for path in sorted((log_directory / METADATA_DIRECTORY).iterdir()):
                file = parse(path.name)
                if file is not None and file.kind in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT) and not file.state:
                    for _, name, value in read_records(path):
                        metadata._remember(name, value, names)
                        if name == "TopicRecord" and file.kind is FileKind.LOG:
                            metadata.created.add(value["name"])
        except (KcliError, FormatError, OSError):
            return None
        return metadata

    def _remember(self, name: str, value: Mapping[str, Any], names: dict[str, str]) -> None:
        """Update the facts from one record. name: the record's type. names: topic names by id, from earlier records;
        gets that of a TopicRecord."""
        from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE

        if name == "TopicRecord":
            names[value["topicId"]] = value["name"]
        elif name == "RemoveTopicRecord":
            self.removed[value["topicId"]] = names.get(value["topicId"], "")
        elif name == "ConfigRecord" and value["value"] is not None:
            setting = value["resourceType"], value["name"]
            if setting == (TOPIC_RESOURCE, POLICY):
                known = self.compacted if COMPACT in value["value"] else self.with_policy
                known.add(value["resourceName"])
            elif setting == (TOPIC_RESOURCE, TIERED) and value["value"].strip().lower() == "true":
                self.tiered.add(value["resourceName"])
            elif setting == (BROKER_RESOURCE, BROKER_POLICY) and COMPACT in value["value"]:
                self.all_compacted = True


class Surroundings:
    """The information in other files about the partitions in one log directory.

    path: the log directory. server: the entries of the broker's server.properties. others: all paths that are verified,
    in which the node's other log directories and its metadata log are looked for. is_broker: whether the directory is a
    broker's, not only a controller's. is_clean: whether the broker was shut down cleanly.
    """

    def __init__(self, path: Path, server: Mapping[str, str], others: Sequence[Path] = ()) -> None:
        self.path = path
        self._server = server
        self._others = others
        self.properties, self._legible = meta_of(path), legible_meta_of(path)
        is_named = "broker" in server.get("process.roles", "") and any(
            same_path(each, path) for each in log_directories_of(server)
        )
        self.is_broker = is_named or any((path / name).is_file() for name in BROKER_FILES)
        self.is_clean = LogDirectory(path).was_shut_down_cleanly
        self.has_metadata_log = False
        """Whether there is a metadata log, valid or not."""
        self.metadata = self._find_metadata(others)
        self.cleaned = self._offsets(FileKind.CLEANER_OFFSETS)
        """The entries of cleaner-offset-checkpoint."""

    @cached_property
    def recovery_points(self) -> Mapping[TopicPartition, int]:
        """The recovery points of the partitions; none if their checkpoint is another broker's."""
        return {} if FileKind.RECOVERY_POINTS in self.of_others else self.start_points

    @cached_property
    def start_points(self) -> Mapping[TopicPartition, int]:
        """The offsets from which on Kafka's start recovers logs after a crash: the entries of
        recovery-point-offset-checkpoint, even if another broker wrote that file."""
        return self._offsets(FileKind.RECOVERY_POINTS)

    @cached_property
    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """The high watermarks of the partitions; none if their checkpoint is another broker's."""
        return {} if FileKind.REPLICATION_OFFSETS in self.of_others else self._offsets(FileKind.REPLICATION_OFFSETS)

    @cached_property
    def of_others(self) -> Mapping[FileKind, OthersCheckpoint]:
        """The checkpoints that another broker wrote. Empty if files cannot be read, which another check reports."""
        try:
            return others_checkpoints(self.path, self.has_replica) if self.is_broker else {}
        except UnreadableInput:
            return {}

    def has_replica(self, partition: TopicPartition) -> bool | None:
        """Return whether a partition has a replica on this node; None if its topic was deleted, or if there is no
        metadata log of this cluster with all its records."""
        metadata = self.metadata
        if metadata is None or not self._knows_replicas or partition.topic in metadata.removed.values():
            return None
        topic = metadata.image.topic(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        return state is not None and self._node_in(metadata.image) in state.replicas

    @cached_property
    def _knows_replicas(self) -> bool:
        is_known = self.metadata is not None and self._node_in(self.metadata.image) is not None
        return is_known and self.has_topic_ids and not self.has_foreign_metadata_log

    @cached_property
    def missing(self) -> Sequence[MissingPartition]:
        """The partitions that the metadata log assigns to this log directory but whose directory is missing, has
        the id of a deleted topic, or has no batch while another directory has the partition's records."""
        directory_id = self.registered_directory_id if self.properties is None else None
        placement = self._placement(directory_id, self.image or self._readable_image())
        return [] if placement is None or not self.is_broker else list(placement.missing())

    @cached_property
    def packed(self) -> Mapping[str, PackedDirectory]:
        """The archives in this log directory that have the directories of missing partitions, by name."""
        from kcli.log.packed_directories import packed_directories  # only with missing partitions

        return packed_directories(self.path, {each.directory_name for each in self.missing})

    def _readable_image(self) -> MetadataImage | None:
        """Return the metadata of all records that can be read in the damaged metadata log of this log directory; None
        if it has none, or if its files cannot be read."""
        directory = self.path / METADATA_DIRECTORY
        if not directory.is_dir():
            return None
        from kcli.log.partition_view import PartitionView
        from kcli.metadata_log.replay import replay

        try:
            return replay(directory, PartitionView(directory).original, lambda _: None, around_damage=True)
        except UnreadableInput:  # another check reports this error
            return None

    @cached_property
    def emptied_files(self) -> Sequence[Path]:
        """The files of 0 bytes among those that Kafka never leaves empty, as a copy to a full disk leaves them. Empty
        if there are fewer than EMPTY_FILES_LEAST such files, or if all of them are in one directory. Raises
        UnreadableInput."""
        from kcli.inspector.verify.segment_names import first_header

        paths = [self.path / FileKind.META_PROPERTIES]
        for each in LogDirectory(self.path).partitions():
            paths += (each.path / name for name in (FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE))
            headers = () if each.name.state else map(first_header, each.path.glob(f"*{FileKind.LOG}"))
            if any(header is not None and header.leader_epoch >= 0 for header in headers):
                paths.append(each.path / FileKind.LEADER_EPOCHS)  # Kafka makes an empty one before the first epoch
            paths += sorted(each.path.glob(f"*{FileKind.PRODUCER_SNAPSHOT}"))
        empty = [path for path in paths if path.is_file() and not path.stat().st_size]
        are_many = len(empty) >= EMPTY_FILES_LEAST and len({path.parent for path in empty}) > 1
        return empty if are_many else []

    @cached_property
    def padded_to(self) -> int:
        """The block size in bytes to which a copy has padded the files with NULs; 0 if it has not, or if files cannot
        be read."""
        from kcli.inspector.verify.padded_files import padded_to

        try:
            return padded_to(self.path) if self.is_broker else 0
        except (UnreadableInput, OSError):  # another check reports this error
            return 0

    @cached_property
    def known_properties(self) -> MetaProperties | None:
        """The content that a missing or damaged meta.properties should have; None if Kafka can use the file, or if the
        ids are not known."""
        from kcli.metadata.image import MetadataImage
        from kcli.metadata_log.known_properties import known_properties
        from kcli.metadata_log.recovery import voters

        home = self.path if self.metadata is None else self.metadata.home
        image = self.image or MetadataImage(lenient=True)
        others = [each for each in voters(home / METADATA_DIRECTORY) if each not in image.brokers]
        try:
            return known_properties(self.node, self._server, image, self.registered_directory_id, others)
        except UnreadableInput:  # another check reports this error
            return None

    @cached_property
    def exchanged_names(self) -> Sequence[ExchangedNames]:
        """The directories of one topic that have, or may have, exchanged their names. Empty if files cannot be read,
        which another check reports."""
        from kcli.log.recovery.exchanged_names import exchanged_names

        try:
            return exchanged_names(LogDirectory(self.path), self._partition_counts)
        except UnreadableInput:
            return []

    @cached_property
    def exchanged_by_keys(self) -> Mapping[Path, Path]:
        """The .log files of coordinators' partitions that were exchanged, or moved to another partition's directory,
        as the keys in them show: the path at which a file belongs -> the path at which it lies. Empty if files cannot
        be read, which another check reports."""
        from kcli.log.recovery.exchanged_names import exchanged_by_keys, moved_by_keys

        home, counts = LogDirectory(self.path), self._partition_counts
        try:
            return exchanged_by_keys(home, counts) | moved_by_keys(home, counts)
        except UnreadableInput:  # another check reports this error
            return {}

    @cached_property
    def unserved(self) -> Mapping[str, UnservedState]:
        """The groups and transactional ids that Kafka does not find, by topic (see
        kcli.metadata_log.unserved_state)."""
        from kcli.metadata_log.unserved_state import unserved_state

        homes = [self.path, *self.node.others, *([] if self.metadata is None else [self.metadata.home])]
        return unserved_state(homes, self.image)

    @cached_property
    def _partition_counts(self) -> Mapping[str, int]:
        """The numbers of partitions by topic, without topics of coordinators that have grown."""
        from kcli.metadata_log.unserved_state import counts_of_keys

        return counts_of_keys(self.image, self.unserved)

    @cached_property
    def registered_directory_id(self) -> str | None:
        """The directory.id that the metadata log has for this log directory, if meta.properties has a wrong one. None
        if the id in meta.properties is right, or if the right id is not certain."""
        return self.mended_ids.get(self.path)

    @cached_property
    def directory_ids(self) -> Mapping[Path, str]:
        """The directory.id of each log directory of the node, by the metadata log; directories whose id is not certain
        are left out."""
        return self._directory_ids(self.node.directories)

    def _directory_ids(self, directories: Sequence[Path]) -> Mapping[Path, str]:
        from kcli.metadata_log.directory_ids import directory_ids

        return {} if self.image is None else directory_ids(self.image, self._node_in(self.image), directories)

    def _node_in(self, image: MetadataImage) -> int | None:
        """Return the id under which the metadata log knows the node. That is the node.id in meta.properties (None if
        that is not known); but if no broker has this id, and there is only one broker, it is the id of that broker."""
        is_other = self.node_id not in image.brokers and len(image.brokers) == 1
        return next(iter(image.brokers)) if is_other else self.node_id

    @cached_property
    def has_topic_ids(self) -> bool:
        """Whether the topic ids in the metadata log are up to date: there is no sign that its last records are lost."""
        from kcli.metadata_log.lost import LostMetadata

        planned = self._metadata_plan
        if self.metadata is None or planned is None:
            return False
        lost = LostMetadata(self.metadata.home, planned, self.node.of_one_node)
        return planned.refused is None and not lost.signs

    @property
    def metadata_log_end(self) -> int | None:
        """The log end offset of the metadata log after Kafka's start; None if it cannot be read."""
        planned = self._metadata_plan
        return None if planned is None or planned.offsets is None else planned.offsets.log_end_offset

    @cached_property
    def _metadata_plan(self) -> PartitionPlan | None:
        """The plan of Kafka's start on the metadata log; None if the log cannot be read."""
        from kcli.log.recovery.loader import LoadOptions
        from kcli.log.recovery.plan import plan

        if self.metadata is None:
            return None
        try:
            return plan(self.metadata.home / METADATA_DIRECTORY, LoadOptions(now_ms=0, is_metadata=True))
        except UnreadableInput:
            return None

    @cached_property
    def renamed_metadata_log(self) -> Path | None:
        """The path of the metadata log under another name, if it is missing under its own; None if it is not missing,
        or not found."""
        from kcli.metadata_log.renamed_log import renamed_metadata_log

        try:
            return None if self.has_metadata_log or not self.is_broker else renamed_metadata_log(self.path)
        except UnreadableInput:  # another check reports this error
            return None

    @property
    def lacks_metadata_log(self) -> bool:
        """Whether the node is a controller whose configuration places its metadata log in this log directory, which has
        no metadata log."""
        home = metadata_home_of(self._server)
        is_here = home is not None and same_path(home, self.path) and not self.has_metadata_log
        return is_here and self.is_broker and "controller" in self._server.get("process.roles", "")

    @cached_property
    def has_foreign_metadata_log(self) -> bool:
        """Whether the metadata log is that of another cluster."""
        from kcli.metadata_log.lost import is_foreign

        if self.metadata is None or not self.is_broker:
            return False
        homes = [self.path, *self.node.others]
        try:
            directories = [each for home in homes for each in LogDirectory(home).partitions()]
        except UnreadableInput:  # another check reports this error
            return False
        return is_foreign(self.metadata.image, self.metadata.removed, directories, self._known_ids)

    @cached_property
    def in_absent_directories(self) -> Mapping[str, Sequence[TopicPartition]]:
        """The node's partitions that the metadata log assigns to a log directory of the node whose path is not known,
        by the directory.id of that directory; without the partitions that lie in a known log directory."""
        placement = self._placement()
        return {} if placement is None else placement.in_absent_directories(self._known_ids)

    @cached_property
    def of_absent_here(self) -> Mapping[str, Sequence[TopicPartition]]:
        """The partitions that lie in this log directory, and that the metadata log places in one whose path is not
        known, by the directory.id of that; none for an id of which most partitions lie nowhere."""
        placement = self._placement()
        if placement is None:
            return {}
        lying = placement.placed_elsewhere(self._known_ids)
        lost = self.in_absent_directories
        return {each: found for each, found in lying.items() if len(found) > len(lost.get(each, ()))}

    @cached_property
    def without_leader(self) -> Mapping[str, Sequence[TopicPartition]]:
        """The partitions in this log directory for which Kafka has no leader after its start, because the metadata log
        places them in a directory.id that none of the node's log directories has; by that id. None if not all log
        directories are known."""
        placement = self._placement() if self.has_all_directories and not self.has_foreign_metadata_log else None
        return {} if placement is None else placement.without_leader(self._known_ids)

    @property
    def has_all_directories(self) -> bool:
        """Whether all log directories of the node are known, each with a directory.id. They are if server.properties
        names them, or if a known directory has an id that the node has not registered: that directory was then
        formatted in place of a lost one. A node that has registered no directory proves nothing: the node.id in
        meta.properties may be wrong."""
        from kcli.metadata.partition import to_uuid

        homes = [self.path, *self.node.others]
        metas = [meta_of(each) for each in homes]
        if self.node.unformatted or any(each is None or each.directory_id is None for each in metas):
            return False
        is_new = bool(self._registered) and any(
            each is not None and to_uuid(each.directory_id or "") not in self._registered for each in metas
        )
        return is_new or self.is_configured

    @property
    def is_configured(self) -> bool:
        """Whether server.properties names this log directory."""
        return self.is_listed(self.path)

    def is_listed(self, path: Path) -> bool:
        """Whether server.properties names this path as a log directory."""
        return any(same_path(each, path) for each in log_directories_of(self._server))

    @property
    def count_of_unknown(self) -> int:
        """The number of log directories that the node has registered beyond those that are known; 0 if
        server.properties names all."""
        return 0 if self.is_configured else max(len(self._registered) - 1 - len(self.node.others), 0)

    @cached_property
    def mended_ids(self) -> Mapping[Path, str]:
        """For each log directory of the node whose meta.properties has a wrong directory.id, the right directory.id."""
        metas = {each: meta_of(each) for each in self.directory_ids}
        own = {each: None if meta is None else meta.directory_id for each, meta in metas.items()}
        return {path: right for path, right in self.directory_ids.items() if right != own[path]}

    def properties_of_unknown(self) -> MetaProperties | None:
        """Return the content for a missing meta.properties, with the only directory.id that the node has registered and
        that no known log directory has. Returns None if there is no such id, or more than one."""
        from formats.properties import MetaProperties
        from kcli.metadata.partition import from_uuid, to_uuid

        unknown = self._registered - {to_uuid(each) for each in self._known_ids}
        mine = self.properties
        if mine is None or mine.cluster_id is None or mine.node_id is None or len(unknown) != 1:
            return None
        return MetaProperties(1, mine.cluster_id, mine.node_id, from_uuid(*unknown))

    @property
    def _known_ids(self) -> Collection[str]:
        """The directory.ids of the known log directories of the node."""
        own = None if self.properties is None else self.properties.directory_id
        return {*self.node.ids_elsewhere, *([own] if own else [])}

    @property
    def _registered(self) -> set[UUID]:
        """The ids of the log directories that the node has registered."""
        broker = None if self.image is None else self.image.brokers.get(self.node_id or 0)
        return set() if broker is None else set(broker.directories)

    @cached_property
    def _astray(self) -> list[Path]:
        """The directories of this log directory that may belong to missing partitions: those whose name is no
        partition's, and those that lie deeper than Kafka looks."""
        directory = LogDirectory(self.path)
        return [*directory.misnamed(), *directory.adrift()]

    def _placement(self, directory_id: str | None = None, image: MetadataImage | None = None) -> Placement | None:
        """Return which partitions the metadata log assigns to this log directory; None if no metadata log can be read.
        directory_id: the id of this log directory; None for the id in meta.properties. image: the metadata; None for
        that of a sound metadata log."""
        from kcli.metadata_log.placement import Placement, aside_in, futures_in

        image = image or self.image
        if image is None:
            return None
        points, high = self.recovery_points, self.high_watermarks
        return Placement(
            image,
            self._node_in(image),
            directory_id or (None if self.properties is None else self.properties.directory_id),
            LogDirectory(self.path).partitions(),
            {each: max(points.get(each, 0), high.get(each, 0)) for each in {*points, *high}},
            {} if self.metadata is None else self.metadata.removed,
            self._astray,
            futures=futures_in(self.node.others),
            elsewhere=self.node.elsewhere,
            aside=aside_in(self.node.of_one_node[1:]),
            flat=flat_partitions(self.path),
        )

    @cached_property
    def moved(self) -> Mapping[TopicPartition, Path]:
        """The partitions that the metadata log assigns to this log directory, but whose directory lies in another log
        directory of the node, each with the path of its directory."""
        placement = self._placement()
        return {} if placement is None or not self.is_broker else dict(placement.moved())

    @cached_property
    def missed_elsewhere(self) -> Mapping[Path, Path]:
        """The directories here, with -delete or -stray, that have the records of partitions that another log directory
        of the node lacks: the path of each, and the path at which it is missing."""
        found = {}
        for home in self.node.of_one_node[1:] if self.is_broker else ():
            for each in self.of(home).missing:
                if each.renamed is not None and same_path(each.renamed.path.parent, self.path):
                    found[self.path / each.renamed.path.name] = home / each.directory_name
        return found

    def served_beside(self, directory: PartitionDirectory) -> Path | None:
        """Return the directory from which Kafka serves the partition of a directory with -delete or -stray, if it is in
        one of the node's log directories, and both have one topic id; None if there is none."""
        topic_id = self.topic_id(directory.name.topic)
        if topic_id is None or topic_id_of(directory.path) != topic_id:
            return None
        beside = self.path / f"{directory.partition}"
        served = beside if beside.is_dir() else self.node.elsewhere.get(directory.partition)
        return served if served is not None and topic_id_of(served) == topic_id else None

    @cached_property
    def promotions(self) -> Mapping[Path, Compared]:
        """The future logs with which Kafka replaces current logs, each compared with its current log. The keys are the
        absolute paths of both logs, as far as they lie in this log directory. Logs that cannot be read are left
        out."""
        from kcli.metadata_log.placement import futures_in

        if not self.is_broker or not futures_in([self.path, *self.node.others]):
            return {}
        from kcli.metadata_log.promotion import Comparison  # imported only if there are future logs

        placement = self._placement()
        comparison = Comparison(time.time_ns() // 1_000_000, config=self.log_config)
        found: dict[Path, Compared] = {}
        for each in () if placement is None else placement.promotions():
            logs = [path for path in (each.future, each.current) if path is not None]
            here = [path for path in logs if same_path(path.parent, self.path)]
            with suppress(KcliError, OSError):  # the checks of the logs report these errors
                compared = comparison.compare(each) if here else None
                found |= {path.absolute(): compared for path in here if compared is not None}
        return found

    @cached_property
    def served_instead(self) -> Mapping[Path, Path]:
        """The future logs in this log directory of moves that Kafka's start resumes and by which it loses nothing: the
        absolute path of each, and that of the current log, which Kafka serves meanwhile. Without a metadata log, a
        future log counts as one of such a move if another known log directory has the current log. Logs that cannot be
        read are left out."""
        found = {
            path: each.promotion.current
            for path, each in self.promotions.items()
            if each.promotion.is_resumed and not each.lost and each.promotion.future.absolute() == path
        }
        served = {path: current for path, current in found.items() if current is not None}
        if self.metadata is None and self.is_broker:
            from kcli.metadata_log.promotion import Comparison, Promotion

            comparison = Comparison(time.time_ns() // 1_000_000, config=self.log_config)
            for each in self._futures:
                current = self.node.elsewhere.get(each.partition)
                if current is not None and topic_id_of(current) == topic_id_of(each.path):
                    with suppress(KcliError, OSError):  # the checks of the logs report these errors
                        if not comparison.compare(Promotion(each.partition, each.path, current, is_resumed=True)).lost:
                            served[each.path.absolute()] = current
        return served

    @cached_property
    def only_copies(self) -> Mapping[Path, int]:
        """The future logs in this log directory that are the only copies of their partitions in the log directories of
        the node, and that Kafka's start deletes, or may delete if there is no metadata log: the absolute path of each,
        and its log end offset. Empty if other log directories of the node are not known."""
        if not self.is_broker or not self.node.others or not self._futures:
            return {}
        placement = self._placement()
        if placement is not None:
            return {each.path.absolute(): end for each, end in placement.abandoned()}
        here = {each.partition for each in LogDirectory(self.path).partitions() if not each.name.state}
        alone = [each for each in self._futures if each.partition not in {*here, *self.node.elsewhere}]
        ends = {each.path.absolute(): _end_of(each.path) for each in alone}
        return {path: end for path, end in ends.items() if end}

    def may_be_alone(self, partition: TopicPartition) -> bool:
        """Whether this log directory has only a future log of a partition, and it is not known which other log
        directories the node has."""
        here = {each.partition for each in LogDirectory(self.path).partitions() if not each.name.state}
        return self.is_broker and not self.node.others and not self.is_configured and partition not in here

    @cached_property
    def _futures(self) -> Sequence[PartitionDirectory]:
        from kcli.metadata_log.placement import futures_in

        return futures_in([self.path])

    def reached_anywhere(self, partition: TopicPartition) -> int:
        """The highest log end offset that the checkpoints of the node's log directories show for a partition; 0 if they
        have no entry."""
        kinds = FileKind.RECOVERY_POINTS, FileKind.REPLICATION_OFFSETS
        homes = [LogDirectory(each) for each in (self.path, *self.node.others)]
        return max(home.legible_offsets(kind).get(partition, 0) for home in homes for kind in kinds)

    @cached_property
    def exchanged_with(self) -> Path | None:
        """The log directory that has exchanged its meta.properties with this one: by the metadata log, all partitions
        that lie in this directory belong in the other, and the other way round, except those that were being moved
        between the two. None if there is none."""
        other = next(iter(self.moved.values()), self.path).parent
        if not self.moved or any(path.parent != other for path in self.moved.values()):
            return None
        there = self.of(other)
        is_all = len(self.moved) > 1 and len(there.moved) > 1
        lying = {home: LogDirectory(home).partitions() for home in (self.path, other)}
        moving = {each.partition for has in lying.values() for each in has if each.name.state == "future"}
        for moved, home in ((self.moved, other), (there.moved, self.path)):
            stored = {each.partition for each in lying[home] if not each.name.state and each.partition not in moving}
            is_all = is_all and {each for each in stored if each.topic != METADATA_TOPIC} == {*moved} - moving
        return other if is_all else None

    def of(self, other: Path) -> Surroundings:
        """Return the Surroundings of another log directory of the node."""
        return Surroundings(other, self._server, self._others)

    def is_given(self, path: Path) -> bool:
        """Whether a path is, or lies below, one of the paths that are verified."""
        return any(path.resolve().is_relative_to(each.resolve()) for each in self._others)

    @cached_property
    def node(self) -> NodeDirectories:
        """The other log directories of the node: those that server.properties names beside this one; without
        server.properties, those of the verified directories that belong to the same node and are no copies of this log
        directory, the empty verified directories if the node has registered more log directories, and links to this
        one."""
        home, listed = metadata_home_of(self._server), log_directories_of(self._server)
        node_id, beside = node_id_of(self._server), NONE_BESIDE
        if not any(same_path(each, self.path) for each in listed):
            node_id = None
            listed = [each for each in self._others if self._is_beside(each)]
            listed += self._empty_beside(listed)
            given = [each for each in self._others if same_path(each, self.path)]
            listed += given if any(each.is_symlink() for each in given) else []
            homes = [each for each in (self.path, *listed) if (each / METADATA_DIRECTORY).is_dir()]
            home = homes[0] if len(homes) == 1 else metadata_home_among(homes)
            beside = directories_beside(self.path)
        known = self._is_left_out, self._is_placed, node_id, self.topic_id
        return NodeDirectories(self.path, listed, home, *known, beside)

    @property
    def copies_given(self) -> list[Path]:
        """The verified directories that are copies of this one, if server.properties does not name the log directories
        of the node, and the metadata log places partitions in one that is not given: a copy may be in its place."""
        if self.is_configured or not self.in_absent_directories:
            return []
        others = (each for each in self._others if not same_path(each, self.path) and self._is_same_node(each))
        return [each for each in others if not self._is_beside(each)]

    def _is_beside(self, other: Path) -> bool:
        """Return whether another directory is a log directory of the same node, and no copy of this log directory.

        The other directory counts as a copy if both have the same directory.id in meta.properties, and at least half of
        the partitions of the smaller one lie in both. It does not count as a copy if no partition lies in both, or if
        `directory_ids` finds different directory.ids for the two in the metadata log.
        """
        if same_path(other, self.path) or not self._is_same_node(other):
            return False
        is_same_id = legible_meta_of(other).directory_id == self._legible.directory_id
        if not is_same_id or not shares_partitions(self.path, other):
            return True
        return len({*self._directory_ids([self.path, other]).values()}) > 1

    def _empty_beside(self, listed: Sequence[Path]) -> list[Path]:
        """Return the empty directories among the verified ones: a log directory of the node that was lost or is not
        mounted leaves its directory empty. Return none if the node has registered no log directory other than this one
        and those in `listed`, the other log directories that are known."""
        from kcli.metadata.partition import to_uuid

        metas = [each for each in map(meta_of, [self.path, *listed]) if each is not None and each.directory_id]
        if not self._registered - {to_uuid(each.directory_id or "") for each in metas}:
            return []
        return [each for each in self._others if is_empty_directory(each)]

    def _is_left_out(self, directory: PartitionDirectory) -> bool:
        from kcli.metadata.image import MetadataImage
        from kcli.metadata_log.lost import is_left_out

        return is_left_out(self.image or MetadataImage(lenient=True), directory, self.node_id)

    def leaves_aside(self, directory: PartitionDirectory) -> bool:
        """Whether Kafka's start serves no record of a partition's directory; False if no metadata log can be read."""
        from kcli.metadata_log.lost import is_left_aside

        return self.image is not None and is_left_aside(self.image, directory, self.node_id)

    def _is_placed(self, directory: PartitionDirectory) -> bool:
        right, placement = self._directory_id(directory.path.parent), self._placement()
        return placement is not None and right is not None and right == placement.directory_id_of(directory.partition)

    def _directory_id(self, home: Path) -> str | None:
        meta = None if home in self.node.directories else meta_of(home)
        return self.directory_ids.get(home) if meta is None else meta.directory_id

    @cached_property
    def refused(self) -> Mapping[Path, str]:
        """The reasons that keep Kafka from starting with this log directory, by the path of the file or directory.
        Reasons in the logs of topics' partitions are left out. Empty if files cannot be read, which another check
        reports."""
        from kcli.log.recovery.run import Recovery
        from kcli.metadata_log.recovery import MetadataRecovery

        now_ms = time.time_ns() // 1_000_000
        metadata = MetadataRecovery(self.path, self._server, now_ms)
        try:
            of_directory = Recovery(self.path, now_ms, config=self.log_config, node=self.node)
            refused = {self.path / each.file: each.reason for each in of_directory.refusals}
            home = self.path / METADATA_DIRECTORY
            if home.is_dir():
                for planned in Recovery(home, now_ms, metadata=metadata.take).plans():
                    if planned.refused is not None:
                        refused[home / planned.refused.file] = planned.refused.reason
                refused |= {self.path / each.file: each.reason for each in metadata.refusals}
        except (KcliError, OSError):
            return {}
        return refused

    @cached_property
    def failing(self) -> Mapping[Path, str]:
        """The files of this log directory at which Kafka has an I/O error when it starts, so that it takes the
        directory offline, and starts with the others; each with what that start does, in words. Empty if Kafka cannot
        start without this directory, and also if the check of its files raises an error, which is not passed on."""
        from kcli.log.recovery.run import Recovery

        if not self.node.may_fail:
            return {}
        try:
            recovery = Recovery(self.path, time.time_ns() // 1_000_000, node=self.node)
        except (KcliError, OSError):
            return {}
        return {self.path / each.file: recovery.outcome_of(each) for each in recovery.failures}

    @cached_property
    def harmed_without_marker(self) -> frozenset[str] | None:
        """The directories of the partitions of which Kafka would lose sound batches, or at which its start would fail,
        if it started without the clean-shutdown marker. None if files cannot be read. The directory of the metadata log
        is left out, since each start recovers it."""
        starts = self._starts_without_marker
        return None if starts is None or not starts.is_readable else starts.harmed - {METADATA_DIRECTORY}

    @cached_property
    def torn_ends(self) -> frozenset[str]:
        """The directories of the partitions whose logs have damage at which a start without the clean-shutdown marker
        would cut them; a start with the marker leaves the damage where it is. Empty if files cannot be read, which
        another check reports."""
        starts = self._starts_without_marker
        return frozenset() if starts is None else starts.losses - {METADATA_DIRECTORY}

    @cached_property
    def harmed(self) -> frozenset[str] | None:
        """The directories of the partitions, and that of the metadata log, in which Kafka's next start would lose sound
        batches, or at which it would fail. All other obstacles to the start are taken as repaired. None if files cannot
        be read."""
        starts = self._starts(clean=None)
        return None if starts is None or not starts.is_readable else starts.harmed

    @cached_property
    def harmed_of_node(self) -> Mapping[Path, frozenset[str]]:
        """What `harmed` returns, for each log directory of the broker; no partitions if files cannot be read."""
        others = self.node.of_one_node[1:]
        return {self.path: self.harmed or frozenset()} | {each: self.of(each).harmed or frozenset() for each in others}

    @cached_property
    def harmed_without_points(self) -> frozenset[str] | None:
        """The directories of the partitions of which Kafka would lose sound batches, or at which it would fail, if it
        started after a crash without recovery points. None if files cannot be read."""
        starts = self._starts(clean=False, finds_points=False)
        return None if starts is None or not starts.is_readable else starts.harmed

    @cached_property
    def _starts_without_marker(self) -> _Starts | None:
        return self._starts(clean=False)

    def _starts(self, *, clean: bool | None, finds_points: bool = True) -> _Starts | None:
        """Return the effects of Kafka's start on the partitions' logs; None if the plan of the start cannot be made.
        clean: False: a start without the clean-shutdown marker; None: a start with it, if it exists. finds_points:
        whether the start has the recovery-point-offset-checkpoint."""
        from kcli.log.recovery.run import Recovery

        harmed, losses = set(), set()
        try:
            now_ms = time.time_ns() // 1_000_000
            recovery = Recovery(self.path, now_ms, clean=clean, config=self.log_config, finds_points=finds_points)
            for each in recovery.plans():
                harmed |= {each.name} if _is_harmed(each) else set()
                losses |= {each.name} if each.has_losses else set()
        except (KcliError, OSError):
            return None
        return _Starts(frozenset(harmed), frozenset(losses), not recovery.unreadable)

    @property
    def node_id(self) -> int | None:
        """The node.id in meta.properties; None if it is not known."""
        return None if self.properties is None else self.properties.node_id

    @property
    def image(self) -> MetadataImage | None:
        """The cluster's metadata; None if no metadata log can be read."""
        return None if self.metadata is None else self.metadata.image

    def gaps(self, partition: TopicPartition) -> Gaps:
        """The meaning of a gap between offsets in this partition's log."""
        topic = partition.topic
        if topic in INTERNAL_TOPICS or COMPACT in self._server.get(BROKER_POLICY, ""):
            return Gaps.NORMAL
        if topic == METADATA_TOPIC:
            return Gaps.LOSS
        is_cleaned = partition in self.cleaned
        if self.metadata is None or self.metadata.image.topic(topic) is None:
            return Gaps.NORMAL if is_cleaned else Gaps.UNKNOWN
        own = self.metadata.image.topic_configs(topic).get(POLICY)
        if topic in self.metadata.compacted or (own is None and self.metadata.all_compacted):
            return Gaps.NORMAL
        return self._despite_cleaner(topic) if is_cleaned else Gaps.LOSS

    def _despite_cleaner(self, topic: str) -> Gaps:
        """Return the meaning of missing offsets in a topic that has an entry in the log cleaner's checkpoint, although
        by the metadata log the topic was never compacted."""
        assert self.metadata is not None, "it has the topic"
        if topic not in self.metadata.created or not self.has_topic_ids:  # a lost record may have set compact
            return Gaps.NORMAL
        return Gaps.LOSS if self._server or topic in self.metadata.with_policy else Gaps.DOUBTED

    def is_replicated(self, partition: TopicPartition) -> bool:
        """Whether the metadata log has other replicas of the partition than this node's."""
        topic = None if self.image is None else self.image.topic(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return known is not None and len(known.replicas) > 1

    @cached_property
    def strays(self) -> Mapping[TopicPartition, Sequence[Path]]:
        """The strays in the log directory, by the partition in their names."""
        return strays_in(self.path)

    def leader_epoch(self, partition: TopicPartition) -> int | None:
        """The partition's leader epoch in the metadata log; None if it is not known."""
        topic = None if self.image is None else self.image.topic(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return None if known is None else known.leader_epoch

    def log_config(self, topic: str) -> LogConfig:
        """The configuration of a topic's log. Raises InvalidConfig."""
        own = {} if self.image is None else self.image.topic_configs(topic)
        return LogConfig(own, self._server)

    def retention(self, topic: str) -> Retention | None:
        """The retention of a topic's log; None if it has none, or if its configuration is not known."""
        if self.image is None or self.image.topic(topic) is None:
            return None
        try:
            return Retention.of(self.log_config(topic), [self.path, *self.node.others])
        except InvalidConfig:  # another check reports this error
            return None

    def preallocated_bytes(self, topic: str) -> int:
        """The size with which a segment of a topic's log begins; 0 without preallocate=true, or if the configuration is
        invalid."""
        try:
            return self.log_config(topic).preallocated_bytes
        except InvalidConfig:  # another check reports this error
            return 0

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic in the metadata log; None if it has no such topic."""
        from kcli.metadata.partition import from_uuid

        known = None if self.image is None else self.image.topic(topic)
        return None if known is None else from_uuid(known.id)

    def partition_count(self, topic: str) -> int:
        """The number of partitions of a topic in the metadata log; 0 if it has no such topic, or if the topic is a
        coordinator's and has grown, so that keys do not show to which partition a record belongs."""
        return self._partition_counts.get(topic, 0)

    def may_place(self, partition: TopicPartition) -> bool:
        """Whether the metadata log has the partition; True if no metadata log can be read."""
        known = None if self.image is None else self.image.topic(partition.topic)
        return self.image is None or (known is not None and partition.partition in known.partitions)

    def topic_of(self, topic_id: str) -> str | None:
        """The topic with an id; None if there is none. Raises BadValue if the text is no id."""
        from kcli.metadata.partition import to_uuid

        known = None if self.image is None else self.image.topic_by_id(to_uuid(topic_id))
        return None if known is None else known.name

    def is_tiered(self, topic: str) -> bool | None:
        """Whether a part of the topic may be in tiered storage, so that its log begins before the first local segment.

        None if that is not known.
        """
        return None if self.metadata is None else topic in self.metadata.tiered

    def _offsets(self, kind: FileKind) -> dict[TopicPartition, int]:
        """Return the offsets in a checkpoint; none if the checkpoint cannot be read, which another check reports."""
        return LogDirectory(self.path).legible_offsets(kind)

    def _find_metadata(self, others: Sequence[Path]) -> ClusterMetadata | None:
        is_listed = any(same_path(each, self.path) for each in log_directories_of(self._server))
        configured = metadata_home_of(self._server)
        same = [other for other in others if self._is_same_node(other)]
        homes = [self.path, *([configured] if configured else []), *same]
        if configured is not None and is_listed:  # Kafka does not read a second metadata log in this directory
            homes.insert(0, configured)
        for directory in homes:
            if (directory / METADATA_DIRECTORY).is_dir():
                self.has_metadata_log = True
                return ClusterMetadata.read(directory)
        return None

    def _is_same_node(self, other: Path) -> bool:
        """Return whether another path is a log directory of the same cluster and node; False if one of the ids cannot
        be read in both meta.properties."""
        theirs, owner = legible_meta_of(other), (self._legible.cluster_id, self._legible.node_id)
        return None not in owner and owner == (theirs.cluster_id, theirs.node_id)


def _end_of(directory: Path) -> int:
    """The log end offset of a partition's directory; 0 if it has no log, or if it cannot be read."""
    try:
        return end_offset(directory) or 0
    except (KcliError, OSError):
        return 0


def is_empty_directory(path: Path) -> bool:
    """Whether a path is a directory without entries; False if it cannot be listed, which another check reports."""
    try:
        return path.is_dir() and not any(path.iterdir())
    except OSError:
        return False


class _Starts(NamedTuple):
    """The effects of Kafka's start on the partitions of a log directory. harmed: the names of the directories of which
    the start loses sound batches, or at which it fails. losses: the names of the directories of which it loses records,
    or bytes of a .log file. is_readable: whether all files can be read."""

    harmed: frozenset[str]
    losses: frozenset[str]
    is_readable: bool


def _is_harmed(planned: PartitionPlan) -> bool:
    """Whether Kafka's start fails at a partition, or loses sound batches of it."""
    is_lossy = any(each.batches and not planned.is_in_snapshot(each) for each in planned.lost)
    return planned.refused is not None or planned.ends_below_start or is_lossy
