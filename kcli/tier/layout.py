"""The names of a segment's objects, as Kafka's LocalTieredStorage makes them.

    <topic>-<partition>-<topic id>/<start offset, 20 digits>-<segment id><suffix>

    .log  .index  .timeindex     the segment's files
    .txnindex                    only if the segment has aborted transactions
    .snapshot                    producers at the *end* of the segment: locally named by the next segment's base offset
    .leader_epoch_checkpoint     the leader epochs of the log up to the end of the segment

Ids are UUIDs in 22 characters of base64. Source: RemoteLogSegmentFileset, RemoteTopicPartitionDirectory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from formats.file_name import DirectoryName, FileKind, FileName, build, build_directory, parse, parse_directory
from kcli.tier.segment import RemoteSegment, TieredPartition
from kcli.tier.store import StoredObject, Told

KINDS = (
    FileKind.LOG,
    FileKind.OFFSET_INDEX,
    FileKind.TIME_INDEX,
    FileKind.TXN_INDEX,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.REMOTE_LEADER_EPOCHS,
)
"""The kinds of a segment's objects, in the order in which Kafka copies them."""


@dataclass(slots=True)
class SegmentObjects:
    """The objects of one segment by kind, with their sizes in bytes. start_offset, id: those in the names. told: the
    content of the segment's manifest, in a store with manifests; else None."""

    partition: TieredPartition
    start_offset: int
    id: str
    sizes: dict[FileKind, int] = field(default_factory=dict)
    told: Told | None = None

    def name(self, kind: FileKind) -> str:
        """The name of the object of this kind, whether or not it exists."""
        return object_name(self.partition, self.start_offset, self.id, kind)

    @property
    def stored(self) -> Mapping[str, int]:
        """The names that the existing objects have in the store, with their sizes in bytes."""
        if self.told is not None:
            return self.told.stored
        return {self.name(kind): self.sizes[kind] for kind in KINDS if kind in self.sizes}

    @property
    def names(self) -> list[str]:
        """The names that the existing objects have in the store."""
        return list(self.stored)

    def missing(self, *, has_txn_index: bool) -> list[FileKind]:
        """The kinds of the missing objects. has_txn_index: whether the segment should have a transaction index."""
        optional = () if has_txn_index else (FileKind.TXN_INDEX,)
        return [kind for kind in KINDS if kind not in self.sizes and kind not in optional]


Key = tuple[int, str]
"""Start offset and id of a segment: what the names of its objects have."""


@dataclass(slots=True)
class Inventory:
    """The content of a store: the objects by partition and segment. others: entries without the name of an object."""

    partitions: dict[TieredPartition, dict[Key, SegmentObjects]] = field(default_factory=dict)
    others: list[StoredObject] = field(default_factory=list)

    def in_place_of(self, name: str) -> str | None:
        """Return, in words, what the store has under the name of an object that it does not have; None if nothing."""
        return next((each.odd for each in self.others if each.name == name), None)

    def objects_of(self, segment: RemoteSegment) -> SegmentObjects:
        """Return the objects of a segment; the result lists none if the store has none."""
        key = segment.start_offset, segment.id
        found = self.partitions.get(segment.partition, {}).get(key)
        return SegmentObjects(segment.partition, *key) if found is None else found


def inventory(objects: Iterable[StoredObject]) -> Inventory:
    """Sort the objects of a store by partition and segment."""
    found = Inventory()
    for each in objects:
        parsed = None if each.odd else parse_name(each.name)
        if parsed is None:
            found.others.append(each)
            continue
        partition, start_offset, segment_id, kind = parsed
        segments = found.partitions.setdefault(partition, {})
        of_segment = segments.setdefault(
            (start_offset, segment_id), SegmentObjects(partition, start_offset, segment_id)
        )
        if each.told is not None:
            of_segment.told = each.told
            if each.told.damage is not None:
                continue
        of_segment.sizes[kind] = each.size
    return found


def object_name(partition: TieredPartition, start_offset: int, segment_id: str, kind: FileKind) -> str:
    """Return the name of a segment's object."""
    file = build(FileName(kind, start_offset, remote_id=segment_id))
    return f"{directory_name(partition)}/{file}"


def directory_name(partition: TieredPartition) -> str:
    """Return the name of a partition's directory in the store."""
    return build_directory(DirectoryName(partition.topic, partition.partition, "remote", partition.topic_id))


def parse_name(name: str) -> tuple[TieredPartition, int, str, FileKind] | None:
    """Return partition, start offset, segment id and kind of an object; None for a name that no object has."""
    directory, _, last = name.partition("/")
    whose, file = parse_directory(directory), parse(last)
    if whose is None or whose.state != "remote" or whose.unique is None:
        return None
    if file is None or file.base_offset is None or file.remote_id is None or file.kind not in KINDS:
        return None
    partition = TieredPartition(whose.topic, whose.partition, whose.unique)
    parsed = partition, file.base_offset, file.remote_id, file.kind
    return parsed if object_name(*parsed) == name else None
