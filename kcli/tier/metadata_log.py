"""The `__remote_log_metadata` of a broker's log directory, read from its files: what a broker knows of the tier.

The topic's partitions are spread over the brokers. A user partition's records are in one partition of the topic: a log
directory without a replica of that one says nothing about the user partition, see `knows`. Damage is reported, and
reading goes on after it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from formats.errors import FormatError, UnknownType, UnknownVersion
from formats.file_name import FileKind
from formats.message import uuid_bytes
from kcli.errors import UnreadableInput
from kcli.log.coordinator_records import read_records
from kcli.log.log_directory import LogDirectory
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.cache import Implausible, Refused
from kcli.tier.metadata import TOPIC, RemoteLogMetadata, metadata_partition
from kcli.tier.segment import TieredPartition

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage


class Trouble(NamedTuple):
    """A range of bytes or a record of the metadata log that cannot be read, or a record that contradicts earlier ones.

    kind: `unreadable`, `unknown` (a record of a newer version), `refused` or `implausible`. offset: that of the record;
    None for bytes.
    """

    path: Path
    kind: str
    reason: str
    offset: int | None = None


@dataclass(slots=True)
class MetadataLog:
    """The content of the topic __remote_log_metadata. directories: the directories of the topic's partitions in the log
    directory, by partition number. count: the number of the topic's partitions; topic_ids: the ids of all topics of the
    cluster; both are None if they are not known. troubles: the records and bytes that could not be replayed. unread: by
    partition number, the error of a directory or file of the topic that the system does not let kcli read."""

    metadata: RemoteLogMetadata = field(default_factory=RemoteLogMetadata)
    directories: dict[int, Path] = field(default_factory=dict)
    count: int | None = None
    topic_ids: Collection[UUID] | None = None
    troubles: list[Trouble] = field(default_factory=list)
    unread: dict[int, UnreadableInput] = field(default_factory=dict)

    def knows(self, partition: TieredPartition) -> bool:
        """Whether the log directory has the metadata of a partition: it has records of it, or it has the partition of
        `__remote_log_metadata` to which brokers write such records, and all of that could be read."""
        metadata = self.metadata
        if self.unread and (self.count is None or metadata_partition(partition, self.count) in self.unread):
            return False
        if partition in metadata.caches or partition in metadata.deleting:
            return True
        return self.count is not None and metadata_partition(partition, self.count) in self.directories

    def is_left_behind(self, partition: TieredPartition) -> bool:
        """Whether the cluster does not have the topic of a partition, and no record says that the partition is being
        deleted: the leader was down when the topic was deleted, or crashed at that moment. Then no broker deletes the
        partition's segments."""
        if self.topic_ids is None or partition in self.metadata.deleting:
            return False
        return _uuid(partition.topic_id) not in self.topic_ids

    @property
    def is_whole(self) -> bool:
        """Whether every record was read, and replayed as Kafka does it: then a segment that the metadata does not name
        is not in the tier."""
        return not self.unread and all(each.kind == "refused" for each in self.troubles)


def read_metadata_log(log_directory: Path, image: MetadataImage | None = None) -> MetadataLog:
    """Read `__remote_log_metadata` in a log directory. image: the cluster's metadata; None if it is not known. Raises
    UnreadableInput if the directory cannot be read."""
    found = MetadataLog()
    if image is not None:
        topics = image.topics_by_id
        topic = image.topics.get(TOPIC)
        found.count = len(topic.partitions) or None if topic else None
        found.topic_ids = frozenset(topics)
        names = {topic_id: each.name for topic_id, each in topics.items()}
        found.metadata = RemoteLogMetadata(lambda topic_id: names.get(_uuid(topic_id)))
    directory = LogDirectory(log_directory)
    for each in directory.partitions():
        if each.name.topic == TOPIC and not each.name.state:
            found.directories[each.name.partition] = each.path
    committed = directory.legible_offsets(FileKind.REPLICATION_OFFSETS)
    for number, path in found.directories.items():
        _replay(path, number, committed.get(TopicPartition(TOPIC, number), 0), found)
    return found


def _replay(directory: Path, number: int, high_watermark: int, found: MetadataLog) -> None:
    """Replay a partition of the topic, of this number, into `found`. A missing offset is a trouble, as the topic is not
    compacted and has no transactions."""
    damages: list[Trouble] = []

    def damaged(error: str | UnreadableInput) -> None:
        if isinstance(error, UnreadableInput) and error.errno is not None:
            found.unread.setdefault(number, error)
        else:
            damages.append(Trouble(directory, "unreadable", str(error).removeprefix(f"{directory}/")))

    def is_explained() -> bool:
        return bool(damages) or number in found.unread

    expected = 0
    try:
        for path, record in read_records(directory, damaged):
            if record.offset > expected and not is_explained():
                damages.append(Trouble(path, "unreadable", f"no records of {_range_text(expected, record.offset - 1)}"))
            expected = record.offset + 1
            if record.marker is None:
                found.troubles += _apply(found.metadata, path, record.offset, record.value)
    except UnreadableInput as error:
        damaged(error)
    if expected < high_watermark and not is_explained():
        lost = _range_text(expected, high_watermark - 1)
        reason = f"no records of {lost}, which are below the high watermark"
        damages.append(Trouble(directory, "unreadable", reason))
    found.troubles += damages


def _range_text(first: int, last: int) -> str:
    """Return a range of offsets, both inclusive, in words."""
    return f"offset {first:,}" if first == last else f"offsets {first:,}..{last:,}"


def _apply(metadata: RemoteLogMetadata, path: Path, offset: int, value: bytes | None) -> list[Trouble]:
    try:
        metadata.replay(value)
    except Refused as refused:
        kind = "implausible" if isinstance(refused, Implausible) else "refused"
        return [Trouble(path, kind, str(refused), offset)]
    except FormatError as error:
        kind = "unknown" if isinstance(error, UnknownVersion | UnknownType) else "unreadable"
        return [Trouble(path, kind, error.reason, offset)]
    return []


def _uuid(topic_id: str) -> UUID:
    return UUID(bytes=uuid_bytes(topic_id))
