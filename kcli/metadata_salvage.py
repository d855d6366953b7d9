"""A damaged metadata log of a node that is its only voter, put together anew: a snapshot of all that can be saved.

    readable    what the files still say, also behind the damage
    rebuilt     topics that no record names any more, from the directories of their partitions: name, id, numbers, this
                node as the replica. Their configuration is lost: retention deletes nothing of them until somebody sets
                it again; internal topics are compacted, as ever
    the log     goes on, empty, at the end of the snapshot

A log with a gap does not do: Kafka ends at the first record that contradicts those before it, such as the change of a
partition whose creation is lost. Source: MetadataLoader, KafkaRaftLog.truncateToLatestSnapshot; KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from formats.checkpoint import parse_leader_epochs
from formats.control_record import ControlRecord, parse
from formats.errors import FormatError
from formats.file_name import INTERNAL_TOPICS, FileKind
from formats.file_name import parse as parse_name
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import FAULT_BAD_CRC, RecordTable
from kcli.broker.metadata.activation import read_bootstrap
from kcli.broker.metadata.quorum import Quorum
from kcli.broker.metadata.snapshots import SnapshotId, snapshot_batches
from kcli.errors import UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.recovery_view import Content, PartitionView
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import Source, read_whole
from kcli.lost_metadata import LostMetadata, Stray
from kcli.metadata.image import TOPIC_RESOURCE
from kcli.metadata.partition import UNASSIGNED, from_uuid
from kcli.metadata.snapshot import snapshot

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
    """What can be saved: `image`; `rebuilt`: the names of topics that only their directories still tell of."""

    def __init__(
        self, lost: LostMetadata, strays: Iterable[Stray], node_id: int, directory_ids: Mapping[Path, str]
    ) -> None:
        """directory_ids: of the log directories that strays lie in. Raises UnreadableInput: bootstrap.checkpoint."""
        self.image = image = lost.readable.copy()
        self.rebuilt: list[str] = []
        self._node_id = node_id
        if not image.metadata_version:
            for name, _, value in read_bootstrap(lost.home):
                image.apply(name, value, image.offset)
        for stray in strays:
            if stray.topic_id is not None and stray.is_missed and not stray.partition.name.state:
                directory_id = directory_ids.get(stray.partition.path.parent, from_uuid(UNASSIGNED))
                self._adopt(stray, stray.topic_id, directory_id)
        for name in self.rebuilt:  # clients count partitions: one that is missing between others begins empty
            topic = self.image.topics[name]
            for number in set(range(max(topic.partitions, default=0))) - topic.partitions.keys():
                self._add(from_uuid(topic.id), number, from_uuid(UNASSIGNED), 0)

    def _adopt(self, stray: Stray, topic_id: str, directory_id: str) -> None:
        """Take in the partition of a directory, unless what is known speaks against it."""
        name, number = stray.partition.partition
        if name not in self.image.topics:
            self._rebuild(name, topic_id)
        topic = self.image.topics[name]
        if from_uuid(topic.id) != topic_id or number in topic.partitions:
            return
        self._add(topic_id, number, directory_id, _leader_epoch(stray.partition.path))

    def _add(self, topic_id: str, number: int, directory_id: str, leader_epoch: int) -> None:
        record = {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": [self._node_id],
            "isr": [self._node_id],
            "leader": self._node_id,
            "leaderEpoch": leader_epoch,
            "partitionEpoch": 0,
            "leaderRecoveryState": 0,
            "directories": [directory_id],
        }
        self.image.apply("PartitionRecord", record, self.image.offset)

    def _rebuild(self, name: str, topic_id: str) -> None:
        image = self.image
        image.apply("TopicRecord", {"name": name, "topicId": topic_id}, image.offset)
        for config, value in (COMPACTED if name in INTERNAL_TOPICS else KEPT_FOR_EVER).items():
            record = {"resourceType": TOPIC_RESOURCE, "resourceName": name, "name": config, "value": value}
            image.apply("ConfigRecord", record, image.offset)
        self.rebuilt.append(name)

    def view(self, lost: LostMetadata, now_ms: int) -> PartitionView:
        """The directory of the metadata log as it is to be. Raises UnreadableInput."""
        assert lost.plan is not None, "the log is there"
        view = PartitionView(lost.plan.view.directory)
        quorum = Quorum(self._node_id, "")
        end, epoch = _follow(view, quorum)
        for name in view.names():
            parsed = parse_name(name)
            if parsed is not None and parsed.kind in REPLACED:
                view.remove(name)
        if any(each.file.endswith(FileKind.QUORUM_STATE) for each in lost.refusals()):
            view.remove(FileKind.QUORUM_STATE)
        which = SnapshotId(max(end, lost.end_min), epoch)
        batches = snapshot_batches(list(snapshot(self.image)), epoch, now_ms, now_ms, quorum.controls())
        view.put(which.file_name, Content((b"".join(map(bytes, batches)),)))
        return view


def _follow(view: PartitionView, quorum: Quorum) -> tuple[int, int]:
    """Let the quorum follow the control records that can be read. Returns the end and the last epoch of what can."""
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
                    end = row.last_offset + 1  # the last batch tells, not one whose offset is damaged
        finally:
            source.close()
        if parsed.kind is FileKind.KRAFT_SNAPSHOT:
            end, epoch = max(end, parsed.base_offset or 0), max(epoch, parsed.epoch or 0)
    return end, epoch


def _controls(source: Source) -> Iterator[tuple[BatchRow, list[ControlRecord]]]:
    """Each sound batch, with its control records."""
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
                    except FormatError:  # of a later version: it changes neither version nor voters
                        continue
            yield row, controls
        part.release()


def _leader_epoch(partition: Path) -> int:
    """The last leader epoch that a partition's directory knows."""
    try:
        entries = parse_leader_epochs(read_whole(partition / LEADER_EPOCHS))
    except (FormatError, UnreadableInput):
        return 0
    return entries[-1].epoch if entries else 0
