"""Attaches a topic in the tier to a new cluster: the log directory of a node gets the topic, with its topic id in the
tier.

    1  <topic>-<n>/                   an empty log at the end of the tier: leader epochs, producers, partition.metadata
    2  __remote_log_metadata-<k>/     the records of all segments, in state COPY_SEGMENT_FINISHED
    3  checkpoints                    high watermarks and recovery points of all these logs, log start offsets of those
                                      of step 1
    4  __cluster_metadata             the topic, its configuration and its partitions, with this node as the only
                                      replica; also __remote_log_metadata, if it is new; all these records or none

The node is stopped, and is the only voter of its quorum. After a crash before step 4, the cluster does not know the
topic: a start of the node would rename its directories to -stray, and nobody reads the records. If the same command is
run again, it writes the records that are missing, and replaces logs of the topic that have no records. A topic that the
cluster already has, under the same id, gets only the missing records, and only if its log still has the tier's log
start offset and leader epochs: a leader deletes the segments in the tier that are not part of its log.

The new leader epoch is above all leader epochs in the tier, so that the log's lineage stays in order. The next producer
id is above those of the producers in the log, so that none of them is allocated again. retention.ms and retention.bytes
are -1 unless others are given: with the defaults of these configurations, brokers would delete old segments at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from formats.batch_writer import write_batch
from formats.checkpoint import EpochEntry, build_leader_epochs, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, FileKind, FileName, build
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.quorum_state import read_quorum_state
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.log.config import InvalidConfig, LogConfig, validate_topic_configs
from kcli.log.disk import Disk
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.log_directory import DirectoryLock, LogDirectory, read_meta_properties
from kcli.log.partition_directory import files_of_kind, make_partition_directory, topic_id_of
from kcli.log.partition_view import PartitionView
from kcli.log.source import read_whole
from kcli.metadata.image import TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.partition import Partition, Topic, from_uuid, to_uuid
from kcli.metadata.producer_ids import BLOCK_SIZE, LONG_MAX
from kcli.metadata.topic_control import new_partition_record, new_topic_id
from kcli.metadata.topic_names import colliding, fault
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.replay import refuse, replay
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.attachment import NotAttached
from kcli.tier.cache import SegmentCache
from kcli.tier.lineage import is_within
from kcli.tier.metadata import TOPIC, metadata_partition
from kcli.tier.metadata_log import MetadataLog, read_metadata_log

if TYPE_CHECKING:
    from kcli.tier.attachment import Attachment
    from kcli.tier.segment import RemoteSegment

RECORDS_IN_A_BATCH = 500
DEFAULTS = {"remote.storage.enable": "true", "retention.ms": "-1", "retention.bytes": "-1"}
METADATA_CONFIGS = {
    "retention.ms": "-1",
    "cleanup.policy": "delete",
    "remote.storage.enable": "false",
    "min.insync.replicas": "2",
}
"""The configuration with which Kafka creates `__remote_log_metadata`."""


@dataclass(slots=True)
class Attaching:
    """The plan of an attachment. is_new: whether the cluster does not have the topic yet. count: the number of
    partitions of `__remote_log_metadata`. has_metadata_topic: whether the cluster has that topic. partitions: the
    number of partitions of the attached topic. configs: its configurations. records: the values of the missing records,
    by its partition. troubles: the reasons why the topic cannot be attached; empty if it can."""

    log_directory: Path
    topic: str
    topic_id: str
    attachments: Sequence[Attachment]
    is_new: bool
    count: int
    has_metadata_topic: bool
    partitions: int
    configs: Mapping[str, str]
    records: dict[int, list[bytes]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    def metadata_partition(self, each: Attachment) -> int:
        """Return the number of the partition of `__remote_log_metadata` that has the records about a partition."""
        return metadata_partition(each.partition, self.count)


def plan_attaching(
    log_directory: Path,
    attachments: Sequence[Attachment],
    *,
    configs: Mapping[str, str],
    count: int,
    now_ms: int,
) -> Attaching:
    """Return the plan of an attachment, without writing anything. attachments: the partitions of one topic, at least
    one. configs: the topic's configurations, which override DEFAULTS. count: the number of partitions of
    `__remote_log_metadata` if the cluster does not have that topic.

    Raises UsageError for an invalid configuration, or for a directory that is not the log directory, with the metadata
    log, of a formatted node; UnreadableInput, NotAttached.
    """
    topic, _, topic_id = attachments[0].partition
    node_id = _node_of(log_directory)[0]
    image = _image_of(log_directory)
    known = image.topics.get(topic)
    metadata_topic = image.topics.get(TOPIC)
    found = Attaching(
        log_directory=log_directory,
        topic=topic,
        topic_id=topic_id,
        attachments=attachments,
        is_new=known is None,
        count=count if metadata_topic is None else len(metadata_topic.partitions),
        has_metadata_topic=metadata_topic is not None,
        partitions=max(each.partition.partition for each in attachments) + 1,
        configs={**DEFAULTS, **configs},
    )
    try:
        validate_topic_configs(found.configs, remote_storage=True)
    except InvalidConfig as error:
        raise UsageError(str(error)) from None
    if found.configs["remote.storage.enable"].strip().lower() != "true":
        raise UsageError("remote.storage.enable must be true: the topic's segments are in tiered storage")
    found.troubles += [f"{each.partition}: {trouble}" for each in attachments for trouble in each.troubles]
    found.troubles += _troubles_of_quorum(log_directory, image, node_id)
    found.troubles += _troubles_of_topic(found, image, known)
    if metadata_topic is not None and any(node_id not in each.replicas for each in metadata_topic.partitions.values()):
        found.troubles.append(f"{TOPIC} has partitions that node {node_id} has no replica of")
    log = read_metadata_log(log_directory, image)
    for unread in log.unread.values():
        raise unread
    found.troubles += [f"{each.path}: {each.reason}" for each in log.troubles if each.kind != "refused"]
    if metadata_topic is None:
        found.troubles += _troubles_of_left_over(found, log)
    for each in attachments:
        if each.partition in log.metadata.deleting:
            found.troubles.append(f"{each.partition}: {TOPIC} says that it is deleted from the tier")
        elif not each.troubles:  # with troubles, its segments may be incomplete
            cache = log.metadata.caches.get(each.partition, SegmentCache())
            missing = found.records[each.partition.partition] = each.missing_records(cache, node_id, now_ms)
            if missing and known is not None:
                found.troubles += _troubles_of_known(LogDirectory(log_directory), each)
    return found


def _troubles_of_quorum(log_directory: Path, image: MetadataImage, node_id: int) -> Iterator[str]:
    """Yield why the node must not write the metadata log alone: other controllers have registered, or quorum-state has
    other voters. Before its first start, a node has the voters of a static quorum only in its configuration, which is
    not read."""
    state = read_quorum_state(log_directory / METADATA_DIRECTORY / FileKind.QUORUM_STATE)
    voters = (state and state.current_voters) or ()
    others = {*image.controllers, *voters} - {node_id}
    if others:
        names = ", ".join(map(str, sorted(others)))
        yield f"{log_directory}: other controllers have its metadata log, too: {names}; attach takes the only one"


def _troubles_of_topic(found: Attaching, image: MetadataImage, known: Topic | None) -> Iterator[str]:
    """Yield the reasons why the topic cannot be created or, if the cluster has a topic of that name (`known`), why it
    is not the topic in the tier."""
    if known is not None and from_uuid(known.id) != found.topic_id:
        yield f"the cluster has another {found.topic}, with topic id {from_uuid(known.id)}: delete or rename that first"
    elif known is not None:
        for each in found.attachments:
            if each.partition.partition not in known.partitions:
                yield f"the cluster's {found.topic} has no partition {each.partition.partition}"
    else:
        if (reason := fault(found.topic)) is not None:
            yield reason
        if (other := colliding(found.topic, image.topics)) is not None:
            yield f"{found.topic} collides with the topic {other}"
        if (other_topic := image.topics_by_id.get(to_uuid(found.topic_id))) is not None:
            yield f"the cluster has the topic id {found.topic_id} under the name {other_topic.name}"
    for each in found.attachments if known is None else ():
        path = found.log_directory / str(each.partition)
        if path.exists() and not (_is_left_over(path, found.topic_id) or _is_left_over(path, None)):
            yield f"{path}: is there already, with records, or of another topic"


def _troubles_of_known(home: LogDirectory, each: Attachment) -> Iterator[str]:
    """Yield the reasons why a partition that the cluster has does not continue the tier's offsets, or why its leader
    would delete segments from the tier: those below its log start offset, and those outside the lineage of its leader
    epochs. A leader that has run without the records about the tier has moved log start offset and lineage to the start
    of its local log."""
    key = TopicPartition(each.partition.topic, each.partition.partition)
    path = home.path / str(each.partition)
    bases = [base for base, _ in files_of_kind(path, FileKind.LOG)] if path.is_dir() else []
    if not bases:
        yield f"{path}: no log of the partition, which the cluster has"
        return
    if min(bases) > each.end:
        yield f"{path}: begins with offset {min(bases):,}, and the tier ends before {each.end:,}"
    start = home.offsets(FileKind.LOG_START_OFFSETS).get(key, 0)
    if start > each.start:
        yield f"{path}: its log start offset is {start:,}: what the tier has below, brokers would delete"
        return
    try:
        epochs = parse_leader_epochs(read_whole(path / LEADER_EPOCHS))
    except FormatError as error:
        yield f"{path / LEADER_EPOCHS}: {error}"
        return
    if any(not _has_whole(epochs, segment) for segment in each.segments):
        yield f"{path}: its leader epochs are not those of the tier: brokers would delete segments from it"


def _has_whole(epochs: Sequence[EpochEntry], segment: RemoteSegment) -> bool:
    """Whether a log with these leader epochs has all offsets of a segment, in the segment's leader epochs."""
    return bool(epochs) and epochs[0].start_offset <= segment.start_offset and is_within(segment, epochs)


def _troubles_of_left_over(found: Attaching, log: MetadataLog) -> Iterator[str]:
    """Yield the reason if the directory has logs of `__remote_log_metadata`, a topic that the cluster does not have,
    and they are not what an interrupted attachment has left."""
    own = {each.partition for each in found.attachments}
    ids = {topic_id_of(path) for path in log.directories.values()} - {None}
    if len(ids) > 1 or not (log.directories.keys() <= set(range(found.count)) and log.metadata.caches.keys() <= own):
        path = next(iter(log.directories.values()))
        yield f"{path}: is there already, and the cluster does not know {TOPIC}"


def _is_left_over(path: Path, topic_id: str | None) -> bool:
    """Whether a directory is what an interrupted attachment has left: an empty log with this topic id (None: without
    partition.metadata)."""
    try:
        same = topic_id_of(path) == topic_id
    except (KcliError, OSError):
        return False
    return same and not any(log.stat().st_size for _, log in files_of_kind(path, FileKind.LOG))


def attach(plan: Attaching, *, disk: Disk, now_ms: int) -> None:
    """Carry the plan out. Raises DirectoryLocked, NotAttached if the plan has troubles, NotTheOnlyVoter, StartRefused,
    UnreadableInput, OSError."""
    if plan.troubles:
        raise NotAttached(plan.troubles[0])
    node_id, directory_id = _node_of(plan.log_directory)
    with DirectoryLock(disk, plan.log_directory):
        asyncio.run(_Writer(plan, disk, now_ms, node_id, directory_id).write())


class _Writer:
    def __init__(self, plan: Attaching, disk: Disk, now_ms: int, node_id: int, directory_id: str) -> None:
        self._plan, self._disk, self._now_ms = plan, disk, now_ms
        self._node_id, self._directory_id = node_id, directory_id
        self._home = LogDirectory(plan.log_directory)
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._metadata_topic_id = ""
        self._was_clean = self._home.was_shut_down_cleanly

    async def write(self) -> None:
        """Take the steps of the module's docstring. Until all are taken, the directory has no marker of a clean
        shutdown."""
        marker = self._plan.log_directory / FileKind.CLEAN_SHUTDOWN
        content = marker.read_bytes() if self._was_clean and marker.is_file() else None
        if content is not None:
            self._home.remove_marker(self._disk)
        await self._write()
        if content is not None:
            self._disk.write_file(marker, content)

    async def _write(self) -> None:
        plan = self._plan
        journal = LoneMetadataLog(
            plan.log_directory, node_id=self._node_id, directory_id=self._directory_id, disk=self._disk
        )
        try:
            image = journal.image
            self._check_unchanged(image)
            known = image.topics.get(TOPIC)
            self._metadata_topic_id = self._left_id() or from_uuid(new_topic_id(image, uuid4))
            if known is not None:
                self._metadata_topic_id = from_uuid(known.id)
            if plan.is_new:
                for each in plan.attachments:
                    self._write_log(each)
                self._make_empty(plan.topic, plan.topic_id, plan.partitions)
            if known is None:
                self._make_empty(TOPIC, self._metadata_topic_id, plan.count)
            self._write_records({} if known is None else known.partitions)
            self._write_checkpoints()
            records = self._records(image)
            if records:
                await journal.append(records)
        finally:
            await journal.close()

    def _left_id(self) -> str | None:
        """Return the topic id of the `__remote_log_metadata` that an interrupted attachment has left; None without
        one."""
        paths = [self._plan.log_directory / f"{TOPIC}-{number}" for number in range(self._plan.count)]
        return next((found for path in paths if path.exists() and (found := topic_id_of(path)) is not None), None)

    def _check_unchanged(self, image: MetadataImage) -> None:
        plan = self._plan
        if (plan.topic in image.topics) == plan.is_new or (TOPIC in image.topics) != plan.has_metadata_topic:
            raise NotAttached(f"{plan.log_directory}: its metadata has changed meanwhile")

    # writing the partitions' directories

    def _write_log(self, each: Attachment) -> None:
        """Write an empty log of the partition, which begins at the end of the tier."""
        disk, path = self._disk, self._plan.log_directory / str(each.partition)
        if path.exists():
            disk.remove_tree(path)
        disk.make_directory(path)
        metadata = build_partition_metadata(PartitionMetadata(0, each.partition.topic_id))
        disk.write_file(path / FileKind.PARTITION_METADATA, metadata)
        disk.write_file(path / LEADER_EPOCHS, build_leader_epochs(each.epochs))
        if each.snapshot is not None:
            disk.write_file(path / build(FileName(FileKind.PRODUCER_SNAPSHOT, each.end)), each.snapshot)
        for kind in (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            with disk.open(path / build(FileName(kind, each.end)), create=True) as file:
                file.sync()
        disk.sync_directory(path)
        disk.sync_directory(path.parent)
        key = TopicPartition(each.partition.topic, each.partition.partition)
        self._starts[key], self._ends[key] = each.start, each.end

    def _make_empty(self, topic: str, topic_id: str, count: int) -> None:
        """Make an empty log for each of the topic's `count` partitions that has no directory yet."""
        for number in range(count):
            path = self._plan.log_directory / f"{topic}-{number}"
            if path.exists() and _is_left_over(path, None):  # left by an interrupted attachment
                self._disk.remove_tree(path)
            if not path.exists():
                make_partition_directory(self._disk, path, topic_id)
        self._disk.sync_directory(self._plan.log_directory)

    def _write_records(self, known: Mapping[int, Partition]) -> None:
        """Append the missing records to the partitions of `__remote_log_metadata`. known: these partitions in the
        metadata image; empty if the topic is new."""
        by_number: dict[int, list[bytes]] = {}
        for each in self._plan.attachments:
            if records := self._plan.records[each.partition.partition]:
                by_number.setdefault(self._plan.metadata_partition(each), []).extend(records)
        for number, records in by_number.items():
            state = known.get(number)
            with self._metadata_log(number) as opened:
                epoch = max(0 if state is None else state.leader_epoch, opened.latest_epoch or 0)
                opened.start_epoch(epoch)
                for begin in range(0, len(records), RECORDS_IN_A_BATCH):
                    part = records[begin : begin + RECORDS_IN_A_BATCH]
                    batch = write_batch([(None, value) for value in part], self._now_ms)
                    opened.append_as_leader(batch, epoch, self._now_ms)
                self._ends[TopicPartition(TOPIC, number)] = opened.log_end_offset

    @contextmanager
    def _metadata_log(self, number: int) -> Iterator[PartitionLog]:
        path = self._plan.log_directory / f"{TOPIC}-{number}"
        if not path.exists():  # the cluster has the partition, but its log is lost
            make_partition_directory(self._disk, path, self._metadata_topic_id)
            self._disk.sync_directory(path.parent)
        key = TopicPartition(TOPIC, number)
        start = self._home.offsets(FileKind.LOG_START_OFFSETS).get(key, 0)
        recovered = self._home.offsets(FileKind.RECOVERY_POINTS).get(key, 0)
        options = OpenOptions(clean=self._was_clean, recovery_point=recovered, log_start_offset=start)
        opened = PartitionLog(path, self._disk, LogConfig({}), self._now_ms, options)
        try:
            yield opened
        except BaseException:
            opened.close_handles()
            raise
        opened.close(self._now_ms)

    def _write_checkpoints(self) -> None:
        home = self._home
        for kind, offsets in (
            (FileKind.LOG_START_OFFSETS, self._starts),
            (FileKind.REPLICATION_OFFSETS, self._ends),
            (FileKind.RECOVERY_POINTS, self._ends),
        ):
            if offsets:
                home.write_offsets(self._disk, kind, {**home.offsets(kind), **offsets})

    # the metadata

    def _records(self, image: MetadataImage) -> list[Record]:
        """Return the metadata records that create the two topics, if they are new, and move the next producer id above
        those in the tier."""
        plan, records = self._plan, []
        if not plan.has_metadata_topic:
            records += self._topic_records(
                image, TOPIC, self._metadata_topic_id, METADATA_CONFIGS, dict.fromkeys(range(plan.count), 0)
            )
        if plan.is_new:
            epochs = dict.fromkeys(range(plan.partitions), 0)
            epochs |= {each.partition.partition: each.last_epoch + 1 for each in plan.attachments}
            records += self._topic_records(image, plan.topic, plan.topic_id, plan.configs, epochs)
            used = max(each.last_producer_id for each in plan.attachments)
            if used >= image.next_producer_id and used >= 0:
                following = min((used // BLOCK_SIZE + 1) * BLOCK_SIZE, LONG_MAX)
                record = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": following}
                records.append(("ProducerIdsRecord", 0, record))
        return records

    def _topic_records(
        self, image: MetadataImage, name: str, topic_id: str, configs: Mapping[str, str], epochs: Mapping[int, int]
    ) -> list[Record]:
        """Return the records of a topic whose only replicas are on this node. epochs: the leader epoch of each
        partition."""
        topic = Topic(name, to_uuid(topic_id), {})
        records: list[Record] = [("TopicRecord", 0, {"name": name, "topicId": topic_id})]
        for key, value in sorted(configs.items()):
            config = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": key, "value": value}
            records.append(("ConfigRecord", 0, config))
        for number, epoch in epochs.items():
            alone = (self._node_id,)
            state = Partition(
                replicas=alone,
                directories=(to_uuid(self._directory_id),),
                isr=alone,
                leader=self._node_id,
                leader_epoch=epoch,
            )
            records.append(new_partition_record(image, topic, number, state))
        return records


def _node_of(log_directory: Path) -> tuple[int, str]:
    """Return the node id and the directory id in meta.properties. Raises UsageError if one is missing,
    UnreadableInput."""
    path = log_directory / FileKind.META_PROPERTIES
    try:
        meta = read_meta_properties(log_directory)
    except FormatError as error:
        raise UnreadableInput(str(path), str(error)) from None
    if meta is None or meta.node_id is None:
        raise UsageError(f"{log_directory}: no node's log directory: kcli format makes one")
    if meta.directory_id is None:
        raise UsageError(f"{path}: no directory.id, which a node adds when it starts")
    return meta.node_id, meta.directory_id


def _image_of(log_directory: Path) -> MetadataImage:
    """Return the metadata image of the node's cluster, an empty one if the node has not started yet. Raises UsageError,
    UnreadableInput."""
    directory = log_directory / METADATA_DIRECTORY
    if directory.is_dir():
        return replay(directory, PartitionView(directory).original, refuse, around_damage=False)
    if not (log_directory / FileKind.BOOTSTRAP).exists():
        raise UsageError(f"{log_directory}: no metadata log: name the directory that has {METADATA_DIRECTORY}")
    read_bootstrap(log_directory)
    return MetadataImage()
