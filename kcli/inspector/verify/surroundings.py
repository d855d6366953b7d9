"""What a log directory says of the partitions in it: its checkpoints, its node, the cluster's metadata log.

The metadata log is the directory's own, or that of `metadata.log.dir`: another directory of the same node. It says
which topics there are, with which ids, on which nodes, and how each was cleaned up for as long as the log goes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError
from formats.file_name import INTERNAL_TOPICS, METADATA_DIRECTORY, METADATA_TOPIC, FileKind, parse
from kcli.errors import KcliError
from kcli.log.log_directory import LogDirectory, Partition, read_meta_properties

if TYPE_CHECKING:
    from formats.properties import MetaProperties
    from kcli.metadata.image import MetadataImage

COMPACT = "compact"
POLICY, BROKER_POLICY, TIERED = "cleanup.policy", "log.cleanup.policy", "remote.storage.enable"

BROKER_FILES = (
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
    FileKind.CLEAN_SHUTDOWN,
)
"""Only a broker writes these, not a controller alone."""


class Gaps(Enum):
    """What a gap between offsets means in a topic."""

    NORMAL = "the topic is, or was, compacted"
    LOSS = "the topic was never compacted"
    UNKNOWN = "nothing says whether the topic was ever compacted"


@dataclass
class ClusterMetadata:
    """What a metadata log says now, and what it has ever said: topics that were compacted, or had a part in tiered
    storage; whether brokers compacted by default; names of topics that were removed."""

    image: MetadataImage
    compacted: set[str] = field(default_factory=set)
    all_compacted: bool = False
    tiered: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, log_directory: Path) -> ClusterMetadata | None:
        """Of the metadata log in a log directory, up to its first damage; None where there is none, or where it makes
        no sense: that is told with its files."""
        from kcli.inspector.cluster_metadata import read_image
        from kcli.metadata_replay import read_records

        try:
            image = read_image(log_directory)
            if image is None:
                return None
            metadata = cls(image)
            names: dict[str, str] = {}
            for path in sorted((log_directory / METADATA_DIRECTORY).iterdir()):
                file = parse(path.name)
                if file is not None and file.kind in (FileKind.LOG, FileKind.KRAFT_SNAPSHOT) and not file.state:
                    for _, name, value in read_records(path):
                        metadata._remember(name, value, names)
        except (KcliError, FormatError, OSError):
            return None
        return metadata

    def _remember(self, name: str, value: Mapping[str, Any], names: dict[str, str]) -> None:
        """One record; names: those of topics, by id."""
        from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE

        if name == "TopicRecord":
            names[value["topicId"]] = value["name"]
        elif name == "RemoveTopicRecord":
            self.removed.add(names.get(value["topicId"], ""))
        elif name == "ConfigRecord" and value["value"] is not None:
            setting = value["resourceType"], value["name"]
            if setting == (TOPIC_RESOURCE, POLICY) and COMPACT in value["value"]:
                self.compacted.add(value["resourceName"])
            elif setting == (TOPIC_RESOURCE, TIERED) and value["value"].strip().lower() == "true":
                self.tiered.add(value["resourceName"])
            elif setting == (BROKER_RESOURCE, BROKER_POLICY) and COMPACT in value["value"]:
                self.all_compacted = True


class Surroundings:
    """What is known around the partitions of one log directory. server: the broker's own properties."""

    def __init__(self, path: Path, server: Mapping[str, str], others: Sequence[Path] = ()) -> None:
        self.path = path
        self._server = server
        self.properties = _properties(path)
        self.is_broker = any((path / name).is_file() for name in BROKER_FILES)
        self.is_clean = LogDirectory(path).was_shut_down_cleanly
        self.metadata = self._find_metadata(others)
        self.recovery_points = self._offsets(FileKind.RECOVERY_POINTS)
        self.high_watermarks = self._offsets(FileKind.REPLICATION_OFFSETS)
        self._cleaned = self._offsets(FileKind.CLEANER_OFFSETS)

    @property
    def node_id(self) -> int | None:
        """The node that the directory belongs to."""
        return None if self.properties is None else self.properties.node_id

    @property
    def image(self) -> MetadataImage | None:
        """The cluster as the metadata log has it."""
        return None if self.metadata is None else self.metadata.image

    def gaps(self, partition: Partition) -> Gaps:
        """What a gap in this partition's log means."""
        topic = partition[0]
        if topic in INTERNAL_TOPICS or partition in self._cleaned or COMPACT in self._server.get(BROKER_POLICY, ""):
            return Gaps.NORMAL
        if topic == METADATA_TOPIC:
            return Gaps.LOSS
        if self.metadata is None or self.metadata.image.topic(topic) is None:
            return Gaps.UNKNOWN
        own = self.metadata.image.topic_configs(topic).get(POLICY)
        if topic in self.metadata.compacted or (own is None and self.metadata.all_compacted):
            return Gaps.NORMAL
        return Gaps.LOSS

    def topic_id(self, topic: str) -> str | None:
        """The id of a topic, as the metadata log has it."""
        from kcli.metadata.partition import from_uuid

        known = None if self.image is None else self.image.topic(topic)
        return None if known is None else from_uuid(known.id)

    def topic_of(self, topic_id: str) -> str | None:
        """The topic that has an id. Raises BadValue where it is none."""
        from kcli.metadata.partition import to_uuid

        known = None if self.image is None else self.image.topic_by_id(to_uuid(topic_id))
        return None if known is None else known.name

    def is_tiered(self, topic: str) -> bool | None:
        """Has the topic a part in tiered storage, and so a log that begins before its first segment here?"""
        return None if self.metadata is None else topic in self.metadata.tiered

    def _offsets(self, kind: FileKind) -> dict[Partition, int]:
        """A checkpoint that cannot be read says nothing: it is a finding of its own."""
        try:
            return LogDirectory(self.path).offsets(kind)
        except KcliError:
            return {}

    def _find_metadata(self, others: Sequence[Path]) -> ClusterMetadata | None:
        configured = self._server.get("metadata.log.dir")
        same = [other for other in others if self.properties is not None and self._is_same_node(_properties(other))]
        for directory in (self.path, *([Path(configured)] if configured else []), *same):
            if (directory / METADATA_DIRECTORY).is_dir():
                return ClusterMetadata.read(directory)
        return None

    def _is_same_node(self, other: MetaProperties | None) -> bool:
        mine = self.properties
        return (
            other is not None
            and mine is not None
            and ((other.cluster_id, other.node_id) == (mine.cluster_id, mine.node_id))
        )


def _properties(path: Path) -> MetaProperties | None:
    try:
        return read_meta_properties(path)
    except (FormatError, KcliError):
        return None
