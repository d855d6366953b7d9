"""Salvage of a damaged metadata log whose only voter is this node: a new snapshot of all metadata that can be saved.

    readable    the metadata of all records that can be read, also after the damage; if there is none, those of .log
                files under other names
    rebuilt     topics that have partition directories but no readable record: name and topic id come from the
                directories, this node becomes the only replica. Their configuration is lost: they get unlimited
                retention until it is set again; internal topics get cleanup.policy=compact
    renewed     topics with replicas on this node only, whose directories all have an id that no readable record has:
                they were deleted and created again after the readable records. They get the id and the partitions of
                the directories, and keep the configuration
    foreign     nothing is kept of a metadata log of another cluster
    raised      leader epochs and the next producer id are raised if the partition directories have higher ones than the
                readable records. If the end of the log is missing, producer ids are skipped, as it is not known which
                of them were given to producers
    the log     is emptied and continues at the end offset of the snapshot. That offset and the snapshot's epoch are at
                least 1: of a snapshot with offset 0 and epoch 0, with which a quorum begins, Kafka reads no metadata

The readable records themselves, with a gap between them, cannot be kept: Kafka's start fails at the first record that
contradicts earlier ones, such as the change of a partition whose creation is lost. Source: MetadataLoader,
KafkaRaftLog.truncateToLatestSnapshot; KIP-630."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from formats.control_record import ControlRecord, parse
from formats.errors import FormatError
from formats.file_name import INTERNAL_TOPICS, FileKind
from formats.file_name import parse as parse_name
from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.properties import PartitionMetadata, build_partition_metadata
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.log_directory import PartitionDirectory
from kcli.log.partition_directory import METADATA_TOPIC_ID
from kcli.log.partition_view import Content, PartitionView
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import Source
from kcli.metadata.image import TOPIC_RESOURCE
from kcli.metadata.partition import UNASSIGNED, Topic, from_uuid, sole_replica_record, to_uuid
from kcli.metadata.producer_ids import skipping_record
from kcli.metadata.snapshot import partition_record
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.last_used import last_batches, last_producer_id, used_leader_epoch
from kcli.metadata_log.lost import LostMetadata, Stray
from kcli.metadata_log.quorum_records import QuorumRecords
from kcli.metadata_log.snapshot_file import SnapshotId, image_bytes

REPLACED = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.KRAFT_SNAPSHOT,
    FileKind.LEADER_EPOCHS,
)
KEPT_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact"}


class MetadataSalvage:
    """The metadata that can be saved. image: all of it. rebuilt: names of the topics known by their directories only.
    renewed: (old id, new id) by name of the topics that get the topic id of their directories."""

    def __init__(
        self,
        lost: LostMetadata,
        directories: Sequence[PartitionDirectory],
        strays: Sequence[Stray],
        node_id: int,
        directory_ids: Mapping[Path, str],
        *,
        is_foreign: bool = False,
    ) -> None:
        """lost: the losses of the metadata log. directories: the partitions' directories in all log directories of the
        node. strays: those of them that Kafka's start would rename to -stray by all readable records. directory_ids:
        the directory.id of each log directory. is_foreign: whether the log is another cluster's. Raises UnreadableInput
        if bootstrap.checkpoint cannot be read."""
        self.image = image = lost.begun_anew() if is_foreign else lost.readable.copy()
        self._is_foreign = is_foreign
        self.rebuilt: list[str] = []
        self.renewed: dict[str, tuple[str, str]] = {}
        self._node_id = node_id
        missed = {each.partition.path for each in strays if each.is_missed}
        known = [each for each in directories if not each.name.state and each.path not in missed]
        self._served = {each.name.topic for each in known}
        if not image.metadata_version:
            for name, _, value in read_bootstrap(lost.home):
                image.apply(name, value, image.offset)
        for stray in strays:
            if stray.topic_id is not None and stray.is_missed and not stray.partition.name.state:
                directory_id = directory_ids.get(stray.partition.path.parent, from_uuid(UNASSIGNED))
                self._adopt(stray, stray.topic_id, directory_id)
        for topic in [*self.image.topics.values()] if strays else ():
            # partition numbers must have no gap: a missing partition is added, empty
            for number in set(range(max(topic.partitions, default=0))) - topic.partitions.keys():
                self._add(from_uuid(topic.id), number, from_uuid(UNASSIGNED), 0)
        for each in known:
            self._raise_leader_epoch(each)
        self._raise_producer_id(directories, is_end_lost=not (lost.cuts or lost.other_logs))

    def _adopt(self, stray: Stray, topic_id: str, directory_id: str) -> None:
        """Add the partition of a stray directory to the image, unless the topic has that partition already.

        If the topic of that name has another id in the image, it gets `topic_id`, keeps its configuration and loses its
        partitions. But a topic is not changed if one of its directories is no stray, or if other nodes have replicas.
        topic_id: from partition.metadata. directory_id: that of the log directory in which the stray lies.
        """
        name, number = stray.partition.partition
        known = self.image.topic_by_id(to_uuid(topic_id))
        if known is not None and known.name != name:  # a copy of a directory of that topic, under another topic's name
            return
        if name not in self.image.topics:
            self._rebuild(name, topic_id)
        elif name not in self._served and name not in self.renewed and self._is_alone(self.image.topics[name]):
            self._renew(name, topic_id)
        topic = self.image.topics[name]
        if from_uuid(topic.id) != topic_id or number in topic.partitions:
            return
        self._add(topic_id, number, directory_id, used_leader_epoch(stray.partition.path))

    def _is_alone(self, topic: Topic) -> bool:
        """Whether no other node has a replica of a topic."""
        return all(each == self._node_id for state in topic.partitions.values() for each in state.replicas)

    def _add(self, topic_id: str, number: int, directory_id: str, leader_epoch: int) -> None:
        record = sole_replica_record(topic_id, number, self._node_id, directory_id, leader_epoch)
        self.image.apply("PartitionRecord", record, self.image.offset)

    def _rebuild(self, name: str, topic_id: str) -> None:
        image = self.image
        image.apply("TopicRecord", {"name": name, "topicId": topic_id}, image.offset)
        for config, value in (COMPACTED if name in INTERNAL_TOPICS else KEPT_FOR_EVER).items():
            record = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": config, "value": value}
            image.apply("ConfigRecord", record, image.offset)
        self.rebuilt.append(name)

    def _renew(self, name: str, topic_id: str) -> None:
        """Change the id of a topic; the topic keeps its configuration, and loses its partitions."""
        image = self.image
        before, configs = from_uuid(image.topics[name].id), dict(image.topic_configs(name))
        if before == topic_id:
            return
        image.apply("RemoveTopicRecord", {"topicId": before}, image.offset)
        image.apply("TopicRecord", {"name": name, "topicId": topic_id}, image.offset)
        for config, value in configs.items():
            record = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": config, "value": value}
            image.apply("ConfigRecord", record, image.offset)
        self.renewed[name] = before, topic_id

    def _raise_leader_epoch(self, directory: PartitionDirectory) -> None:
        """Set a partition's leader epoch to the last one of its log, if that is higher than the one in the readable
        records."""
        topic = self.image.topic(directory.name.topic)
        state = None if topic is None else topic.partitions.get(directory.name.partition)
        if topic is None or state is None or self._node_id not in state.replicas:
            return
        epoch = used_leader_epoch(directory.path)
        if epoch > state.leader_epoch:
            raised, level = replace(state, leader_epoch=epoch), self.image.metadata_version
            name, _, record = partition_record(topic, directory.name.partition, raised, level, has_elr=True)
            self.image.apply(name, record, self.image.offset)

    def _raise_producer_id(self, directories: Sequence[PartitionDirectory], *, is_end_lost: bool) -> None:
        """Let the next block of producer ids begin SKIPPED_BLOCKS blocks above the highest known id, if the end of the
        metadata log is lost, or if a producer has an id beyond the last block in the metadata log."""
        following = self.image.next_producer_id
        used = max(
            (max(last_producer_id(each.path), last_batches(each.path).producer_id) for each in directories), default=-1
        )
        if used >= following or is_end_lost:
            self.image.apply("ProducerIdsRecord", skipping_record(max(used + 1, following)), self.image.offset)

    def view(self, lost: LostMetadata, now_ms: int) -> PartitionView:
        """Return a view of the directory of the metadata log with the files that it has after salvage. now_ms: the time
        of the records that salvage writes. Raises UnreadableInput."""
        assert lost.plan is not None, "the log is there"
        view = lost.plan.view.unchanged()
        view.make_room()
        for name, content in lost.other_logs.items():
            view.put(name, content)
        quorum = QuorumRecords()
        end, epoch = _follow(view, quorum)
        for name in view.names():
            parsed = parse_name(name)
            if parsed is not None and parsed.kind in REPLACED:
                view.remove(name)
        refused = {Path(each.file).name for each in lost.refusals()}
        if FileKind.QUORUM_STATE in refused:
            view.remove(FileKind.QUORUM_STATE)
        if FileKind.PARTITION_METADATA in refused:
            data = build_partition_metadata(PartitionMetadata(0, METADATA_TOPIC_ID))
            view.put(FileKind.PARTITION_METADATA, Content((data,)))
        which = SnapshotId(max(end, lost.end_min, 1), max(epoch, 1))
        controls = (QuorumRecords() if self._is_foreign else quorum).controls()
        view.put(which.file_name, Content((image_bytes(self.image, which, now_ms, controls),)))
        return view

    def new_log(self, lost: LostMetadata, now_ms: int) -> dict[str, bytes]:
        """Return the files of a new metadata log, by name, in place of one that is missing: partition.metadata, and a
        snapshot of the image. The node must be the only voter by its configuration."""
        which = SnapshotId(max(lost.end_min, 1), 1)
        data = image_bytes(self.image, which, now_ms, QuorumRecords().controls())
        topic_id = build_partition_metadata(PartitionMetadata(0, METADATA_TOPIC_ID))
        return {FileKind.PARTITION_METADATA: topic_id, which.file_name: data}


def _follow(view: PartitionView, quorum: QuorumRecords) -> tuple[int, int]:
    """Apply all readable control records to `quorum`. Returns the end offset of the readable batches and snapshots, and
    their highest leader epoch."""
    end = epoch = 0
    for name in view.names():
        parsed = parse_name(name)
        if parsed is None or parsed.state or parsed.kind not in (FileKind.KRAFT_SNAPSHOT, FileKind.LOG):
            continue
        source = view.source(name)
        try:
            for row, controls in _controls(source):
                quorum.follow(controls, row.base_offset)
                epoch = max(epoch, row.leader_epoch)
                if parsed.kind is FileKind.LOG:
                    end = row.last_offset + 1  # the last batch decides: an earlier one may have a damaged offset
        finally:
            source.close()
        if parsed.kind is FileKind.KRAFT_SNAPSHOT:
            end, epoch = max(end, parsed.base_offset or 0), max(epoch, parsed.epoch or 0)
    return end, epoch


def _controls(source: Source) -> Iterator[tuple[BatchRow, list[ControlRecord]]]:
    """Yield each sound batch with its control records."""
    table = RecordTable(64)
    for part in read_segment(source):
        if isinstance(part, Damage):
            continue
        rows = [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
        for i, row in enumerate(rows):
            if row.faults & (UNREADABLE | FAULT_BAD_CRC):
                continue
            controls = []
            for buffer in decode(part, table, first=i, last=i + 1) if row.is_control else ():
                for k in range(table.count):
                    record = RecordRow._make(table.row(k))
                    try:
                        controls.append(parse(record.key(buffer), record.value(buffer)))
                    except FormatError:  # a type of a later Kafka changes neither kraft.version nor voters
                        continue
            yield row, controls
        part.release()
