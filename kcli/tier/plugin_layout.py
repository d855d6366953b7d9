"""The names of a segment's objects, as the tiered-storage plugin of Aiven makes them (RemoteStorageManager).

    <key.prefix><topic>-<topic id>/<partition>/<start offset, 20 digits>-<segment id><suffix>

    .rsm-manifest   describes the content of the other two (formats.segment_manifest); written last
    .log            the segment in chunks, each of them compressed, encrypted, both or neither
    .indexes        its indexes, the producers at its end and its leader epochs, one behind another

`key.prefix` is a configuration of the plugin, by default empty, and need not end in a slash: only a manifest shows
where in a key the prefix ends and the topic's name begins. Source: ObjectKeyFactory.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from formats.file_name import DirectoryName, FileKind, build_directory, parse_directory
from kcli.tier.layout import object_name, parse_name
from kcli.tier.segment import TieredPartition

MANIFEST, LOG, INDEXES = ".rsm-manifest", ".log", ".indexes"
SUFFIXES = (MANIFEST, LOG, INDEXES)
SECTIONS = {
    FileKind.OFFSET_INDEX: "offset",
    FileKind.TIME_INDEX: "timestamp",
    FileKind.TXN_INDEX: "transaction",
    FileKind.PRODUCER_SNAPSHOT: "producerSnapshot",
    FileKind.REMOTE_LEADER_EPOCHS: "leaderEpoch",
}
"""The section of the .indexes object that has each file of a segment, by the manifest's names."""
_KEY = re.compile(
    r"(?P<head>.+)-(?P<topic_id>[A-Za-z0-9_-]{22})/(?P<partition>0|[1-9][0-9]{0,9})/"
    r"(?P<offset>[0-9]{20})-(?P<id>[A-Za-z0-9_-]{22})(?P<suffix>\.(?:rsm-manifest|log|indexes))",
    re.DOTALL,
)


class Key(NamedTuple):
    """The parts of an object's key. head: key.prefix and the topic's name."""

    head: str
    topic_id: str
    partition: int
    start_offset: int
    segment_id: str
    suffix: str


class SegmentName(NamedTuple):
    """The segment to which an object belongs."""

    partition: TieredPartition
    start_offset: int
    id: str

    def file(self, kind: FileKind) -> str:
        """The name of one of the segment's files, as LocalTieredStorage would name its object."""
        return object_name(self.partition, self.start_offset, self.id, kind)


def parse_key(key: str) -> Key | None:
    """Return the parts of a key; None for a key that no object of the plugin has."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    head, topic_id, partition, offset, segment_id, suffix = found.groups()
    return Key(head, topic_id, int(partition), int(offset), segment_id, suffix)


def segment_name(key: Key, prefix: str) -> SegmentName | None:
    """Return the segment of a key. prefix: key.prefix of the plugin. None if the key does not begin with the prefix, or
    if the text between the prefix and the topic id is no name of a topic."""
    topic = key.head.removeprefix(prefix)
    name = SegmentName(TieredPartition(topic, key.partition, key.topic_id), key.start_offset, key.segment_id)
    is_below = key.head.startswith(prefix) and parse_name(name.file(FileKind.LOG)) == (*name, FileKind.LOG)
    return name if is_below else None


def object_key(prefix: str, name: SegmentName, suffix: str) -> str:
    """Return the key of an object of a segment. suffix: one of SUFFIXES."""
    return f"{directory_key(prefix, name.partition)}{name.start_offset:020}-{name.id}{suffix}"


def directory_key(prefix: str, partition: TieredPartition) -> str:
    """Return the text with which the keys of a partition's objects begin; it ends in a slash."""
    return f"{prefix}{partition.topic}-{partition.topic_id}/{partition.partition}/"


def parse_file(name: str) -> tuple[SegmentName, FileKind] | None:
    """Return segment and kind of a file that is named as LocalTieredStorage names its objects; None for another
    name."""
    parsed = parse_name(name)
    return None if parsed is None else (SegmentName(*parsed[:3]), parsed[3])


def partition_of(directory: str) -> TieredPartition | None:
    """Return the partition of a directory that is named as LocalTieredStorage names it; None for another name."""
    found = parse_directory(directory)
    if found is None or found.state != "remote" or found.unique is None:
        return None
    partition = TieredPartition(found.topic, found.partition, found.unique)
    whole = build_directory(DirectoryName(found.topic, found.partition, "remote", found.unique))
    return partition if whole == directory else None
