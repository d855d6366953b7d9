"""Groups from the files of log directories: `__consumer_offsets` replayed, without a broker.

    record                                          content
    offset, group metadata (types 0 to 2)           committed offsets; a classic group, its members, their assignments
    ConsumerGroup...                                a consumer group: see kcli.group.consumer.records
    <kind>Metadata, ...TargetAssignmentMetadata     the group epoch; the epoch of the target assignment
    <kind>MemberMetadata, ...TargetAssignmentMember a member; the partitions that the target assignment gives it
    <kind>CurrentMemberAssignment                   the partitions that a member has, its member epoch and its state
    transaction marker                              the offset commits of the transaction count, or are dropped

kind: ShareGroup, StreamsGroup; the tasks of a streams group are not shown. A group's state is the one in which a
coordinator loads it: a classic group is never in the middle of a rebalance. Records above the high watermark and
expired offsets count too: the files do not say which these are. Damaged bytes are skipped and reported in
`GroupFiles.trouble`. Source: GroupMetadataManager (replay), ConsumerGroup, ShareGroup (state); KIP-848, KIP-932.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import Any
from uuid import UUID

from formats import internal_topic
from formats.errors import FormatError, UnknownType
from formats.kernels.columns import BatchRow
from kcli.coordinator.machine import Pair
from kcli.errors import KcliError, UnreadableInput
from kcli.group import committed as replayed
from kcli.group import records
from kcli.group.consumer import records as consumer_records
from kcli.group.consumer.group import ConsumerGroup
from kcli.group.consumer.member import NO_PARTITIONS, ConsumerMember
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.home_partition import is_home, unserved_lines
from kcli.inspector.partition_paths import PartitionPaths
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import CoordinatorRecord, ErrorHandler, read_records, segments
from kcli.log.partition_directory import topic_id_of
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import Committed, Group, Listing, Member, NoSuchGroup

TOPIC = records.TOPIC
NONE = replayed.NONE
DEFAULT_ASSIGNOR = "uniform"
ENTRY = struct.Struct(">ii")
"""An entry of an offset index: relative offset, position in bytes."""
RECORDS_IN_BATCH = 100
"""The largest number of records of one batch that `records_to_copy` yields: it stays below max.message.bytes, as an
offset's metadata is at most 4 KiB."""
STABLE = 0
"""The state of a member that has its target assignment, in CurrentMemberAssignment records."""

Names = Callable[[str], str]
"""Returns the name of a topic by its id."""


class GroupFiles:
    """The groups in log directories. trouble: a line for each damaged batch or record, and an error for each
    file that cannot be read."""

    def __init__(self, directories: Iterable[Path]) -> None:
        """Replay `__consumer_offsets`. Raises UnreadableInput if no directory can be read, or if no directory has a
        partition of this topic."""
        paths = list(directories)
        found = PartitionPaths.of(paths)
        self.trouble: list[str | UnreadableInput] = [*found.unreadable]
        self._partitions = found.paths
        offsets = found.of_topic(TOPIC)
        if not offsets:
            raise UnreadableInput(", ".join(map(str, paths)), f"no partition of {TOPIC} in it")
        self._shards = {number: _shard(path, self.trouble.append) for number, path in offsets.items()}
        self._ends: dict[TopicPartition, int] = {}
        self._unreadable: set[TopicPartition] = set()
        images = list(_images(paths, self.trouble.append))
        self._names = _topic_names(images, self._partitions, self.trouble.append)
        known = (image.topic(TOPIC) for image in images)
        self._count = max((len(topic.partitions) for topic in known if topic is not None), default=0)
        self._numbers = self._numbers_by_group()
        self.trouble += unserved_lines("group", TOPIC, self._numbers, self._count)

    def all(self) -> list[Listing]:
        """All groups, in order of their names."""
        views = (self._shards[number].groups[name].view(self._name) for name, number in self._numbers.items())
        return sorted(Listing(each.id, each.type, each.state) for each in views)

    def describe(self, names: Iterable[str]) -> Iterator[Group | KcliError]:
        """Yield these groups, in the order given; NoSuchGroup for a name that no group has."""
        for name in names:
            number = self._numbers.get(name)
            yield NoSuchGroup(name) if number is None else self._shards[number].groups[name].view(self._name)

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Return the committed offsets of a group, by partition; an empty dict if there is no such group."""
        number = self._numbers.get(group)
        shards = self._shards.values() if number is None else [self._shards[number]]
        return {
            place: Committed(each.offset, each.leader_epoch if each.leader_epoch != NONE else None, each.metadata)
            for shard in shards
            for place, each in shard.offsets.of_group(group).items()
        }

    def records_to_copy(self, names: Iterable[str]) -> Iterator[tuple[int, list[Pair]]]:
        """Yield records of the committed offsets of these groups that are to be appended to the partition of
        __consumer_offsets in which Kafka looks for a group, each list with the number of that partition. A group is
        left out if that partition has records of it."""
        for name in names:
            number = self._numbers.get(name)
            if number is None or not self._count or is_home(name, number, self._count):
                continue
            home = partition_of(name, self._count)
            offsets = sorted(self._shards[number].offsets.of_group(name).items())
            found = [records.offset_record(name, *place, each) for place, each in offsets]
            for start in range(0, len(found), RECORDS_IN_BATCH):
                yield home, found[start : start + RECORDS_IN_BATCH]

    def ends(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end offset by partition, of these partitions and of those that earlier calls asked for. A
        partition that is in none of the directories is left out. So is one whose log cannot be read; its error is added
        to `trouble`."""
        for place in places:
            if place in self._partitions and place not in self._ends and place not in self._unreadable:
                try:
                    self._ends[place] = log_end_offset(self._partitions[place])
                except UnreadableInput as error:
                    self._unreadable.add(place)
                    self.trouble.append(error)
        return self._ends

    def _numbers_by_group(self) -> dict[str, int]:
        """Return the partition that has the records of each group; of several, the one in which Kafka looks, or else
        the last."""
        numbers: dict[str, int] = {}
        for number, shard in self._shards.items():
            for name in shard.groups:
                if name not in numbers or not is_home(name, numbers[name], self._count):
                    numbers[name] = number
        return numbers

    def _name(self, topic_id: str) -> str:
        return self._names.get(topic_id, topic_id)


def log_end_offset(directory: Path) -> int:
    """Return the log end offset of a partition's directory: one above the last offset of the last sound batch in its
    last segment. Without a sound batch it is that segment's base offset; without segments, 0. Raises
    UnreadableInput."""
    found = segments(directory)
    if not found:
        return 0
    base_offset, path = found[-1]
    offset, position = _last_indexed(path)
    return _end(path, base_offset, position, base_offset + offset) or _end(path, base_offset, 0, None) or base_offset


def _end(path: Path, base_offset: int, position: int, offset: int | None) -> int | None:
    """Return the last offset plus 1 of the last batch of a segment. Batches are read from byte `position` to the first
    damage.

    offset: the last offset that the batch at `position` must have; None for any. Returns None if no sound batch with
    this last offset begins at `position`, or if the result would be below the segment's base offset.
    """
    source = FileSource(path)
    end = None
    try:
        for part in read_segment(source, start=position, resync=False):
            if not isinstance(part, Window):
                break
            if part.batches.count:
                first, last = (BatchRow._make(part.batches.row(i)) for i in (0, part.batches.count - 1))
                if end is None and offset is not None and first.last_offset != offset:
                    return None
                end = last.last_offset + 1
            part.release()
    finally:
        source.close()
    return end if end is not None and end >= base_offset else None


def _last_indexed(segment: Path) -> tuple[int, int]:
    """Relative offset and position (bytes) of the last entry in the index of a segment; zeros if the index has no
    entry.

    The index is preallocated: its entries end where zeros begin, which a binary search finds. The entry is not checked.
    """
    try:
        with segment.with_suffix(".index").open("rb") as index:
            low, high = 0, index.seek(0, SEEK_END) // ENTRY.size
            found = 0, 0
            while low < high:
                middle = (low + high) // 2
                index.seek(middle * ENTRY.size)
                entry = ENTRY.unpack(index.read(ENTRY.size))
                if any(entry):
                    low, found = middle + 1, entry
                else:
                    high = middle
            return found
    except (OSError, struct.error):
        return 0, 0


def _images(directories: Iterable[Path], on_error: ErrorHandler) -> Iterator[MetadataImage]:
    """Yield the contents of the metadata logs in log directories."""
    for directory in directories:
        try:
            image = read_image(directory)
        except UnreadableInput as error:
            on_error(error)
            continue
        if image is not None:
            yield image


def _topic_names(
    images: Iterable[MetadataImage], partitions: dict[TopicPartition, Path], on_error: ErrorHandler
) -> dict[str, str]:
    """Return topic names by topic id: those of the partitions in the log directories, and all those in `images`, the
    contents of their metadata logs."""
    names = {}
    for (topic, _), path in partitions.items():
        try:
            topic_id = topic_id_of(path)
        except OSError as error:
            if topic != TOPIC:  # _shard reports the errors of partitions of TOPIC
                on_error(UnreadableInput.of(path, error))
            continue
        except KcliError as error:
            on_error(UnreadableInput(str(path), str(error)))
            continue
        if topic_id is not None:
            names[topic_id] = topic
    for image in images:
        names |= {from_uuid(topic.id): topic.name for topic in image.topics.values()}
    return names


def _shard(directory: Path, on_error: ErrorHandler) -> _Shard:
    """Replay the readable records of a partition of __consumer_offsets. on_error: called with the error of each record
    or file that cannot be read."""
    shard = _Shard()
    try:
        for path, record in read_records(directory, on_error):
            try:
                shard.replay(record)
            except UnknownType:  # a later Kafka version wrote the record; coordinators skip it too
                continue
            except FormatError as error:
                on_error(f"{path}: offset {record.offset:,}: {error}")
    except UnreadableInput as error:
        on_error(error)
    return shard


class _Shard:
    """The groups and committed offsets that result from the records of one partition of __consumer_offsets."""

    def __init__(self) -> None:
        self.groups: dict[str, _Classic | _Consumer | _Modern] = {}
        self.offsets = replayed.Committed()

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply the next record. Raises FormatError."""
        if record.marker is not None:
            self.offsets.end_transaction(record.producer_id, commit=record.marker)
            return
        found = internal_topic.decode(TOPIC, record.key, record.value)
        assert found.key is not None, "a coordinator's record has a key"
        assert found.key_name is not None, "likewise"
        if found.key_type <= records.OFFSET:
            group = found.key["group"]
            offset = None if found.value is None else records.committed_offset(found.value, record.offset)
            self.offsets.replay(
                group, TopicPartition(found.key["topic"], found.key["partition"]), offset, record.producer_id
            )
            if offset is not None and group not in self.groups:
                self.groups[group] = _Classic(group)
        elif found.key_type == records.CLASSIC_GROUP:
            self._classic(found.key["group"], found.value)
        elif found.key_type in consumer_records.KEYS:
            self._consumer(records.Record(found.key_type, found.key_name, found.key, found.value))
        else:
            self._modern(found.key_name.removesuffix("Key"), found.key, found.value)

    def _classic(self, group: str, value: dict[str, Any] | None) -> None:
        if value is not None:
            self.groups[group] = _Classic(group, value)
        elif isinstance(self.groups.get(group), _Classic):
            del self.groups[group]

    def _consumer(self, record: records.Record) -> None:
        group_id = record.key["groupId"]
        group = self.groups.get(group_id)
        if not isinstance(group, _Consumer):
            if record.value is None:
                return
            group = self.groups[group_id] = _Consumer(ConsumerGroup(group_id))
        if not consumer_records.replay(group.state, record):
            del self.groups[group_id]

    def _modern(self, name: str, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        type_name = name[: name.index("Group")]
        record_type = name.removeprefix(f"{type_name}Group")
        group_id = key["groupId"]
        group = self.groups.get(group_id)
        if not isinstance(group, _Modern):
            if value is None:
                return
            group = self.groups[group_id] = _Modern(group_id, type_name)
        match record_type:
            case "Metadata" if value is None:
                del self.groups[group_id]
            case "Metadata" if value is not None:
                group.epoch = value["epoch"]
            case "TargetAssignmentMetadata" if value is not None:
                group.target_epoch = value["assignmentEpoch"]
            case "MemberMetadata":
                _put(group.members, key["memberId"], value)
            case "TargetAssignmentMember":
                _put(group.targets, key["memberId"], value)
            case "CurrentMemberAssignment":
                _put(group.current, key["memberId"], value)


Values = dict[str, dict[str, Any]]


def _put(values: Values, member: str, value: dict[str, Any] | None) -> None:
    if value is None:
        values.pop(member, None)
    else:
        values[member] = value


@dataclass(frozen=True)
class _Classic:
    """A classic group. value: its last group metadata record; None if it has only committed offsets."""

    id: str
    value: dict[str, Any] | None = None

    def view(self, _name: Names) -> Group:
        """The group in the state in which a coordinator loads it."""
        value = self.value or {"members": [], "protocol": None}
        members = tuple(
            Member(
                each["memberId"],
                each.get("groupInstanceId"),
                each["clientId"],
                each["clientHost"],
                _embedded(each["assignment"]),
            )
            for each in value["members"]
        )
        return Group(self.id, "Classic", "Stable" if members else "Empty", value["protocol"] or None, None, members)


def _embedded(assignment: object) -> tuple[TopicPartition, ...]:
    """Return the partitions in the assignment of a classic member; none if the assignment is not in the format of the
    consumer protocol."""
    match assignment:
        case {"data": {"assignedPartitions": list(topics)}}:
            return tuple(
                sorted(TopicPartition(each["topic"], number) for each in topics for number in each["partitions"])
            )
    return ()


@dataclass(frozen=True)
class _Consumer:
    """A consumer group."""

    state: ConsumerGroup

    def view(self, name: Names) -> Group:
        """The group in the state in which a coordinator loads it."""
        state = self.state
        assignor = state.preferred_assignor(None, None) or DEFAULT_ASSIGNOR
        members = tuple(self._member(each, name) for each in state.members.values())
        epochs = state.epoch, state.assignment_epoch
        return Group(state.id, "Consumer", state.state_name, assignor, None, members, *epochs)

    def _member(self, member: ConsumerMember, name: Names) -> Member:
        return Member(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _places((member.assigned, member.revoking), name),
            _places((self.state.target.get(member.id, NO_PARTITIONS),), name),
            member.epoch,
        )


def _places(parts: Iterable[Mapping[UUID, Iterable[int]]], name: Names) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(name(from_uuid(topic_id)), number)
            for part in parts
            for topic_id, numbers in part.items()
            for number in numbers
        )
    )


@dataclass
class _Modern:
    """A share group or a streams group.

    epoch, target_epoch: the group epoch, and the epoch of the target assignment; 1 if no record says otherwise.
    members, targets, current: by member id, the value of the member's last record of metadata, of target assignment and
    of current assignment.
    """

    id: str
    type: str
    epoch: int = 1
    target_epoch: int = 1
    members: Values = field(default_factory=dict)
    targets: Values = field(default_factory=dict)
    current: Values = field(default_factory=dict)

    def view(self, name: Names) -> Group:
        """The group in the state in which a coordinator loads it."""
        members = tuple(self._member(member, value, name) for member, value in self.members.items())
        return Group(self.id, self.type, self._state(), None, None, members, self.epoch, self.target_epoch)

    def _member(self, member: str, value: dict[str, Any], name: Names) -> Member:
        return Member(
            member,
            value.get("instanceId"),
            value["clientId"],
            value["clientHost"],
            _partitions(self.current.get(member, {}).get("assignedPartitions", ()), name),
            _partitions(self.targets.get(member, {}).get("topicPartitions", ()), name),
            self.current.get(member, {}).get("memberEpoch"),
        )

    def _state(self) -> str:
        if not self.members:
            return "Empty"
        if self.type == "Share":
            return "Stable"
        if self.epoch > self.target_epoch:
            return "Assigning"
        return "Stable" if all(map(self._is_reconciled, self.members)) else "Reconciling"

    def _is_reconciled(self, member: str) -> bool:
        current = self.current.get(member)
        return current is not None and (current["memberEpoch"], current["state"]) == (self.target_epoch, STABLE)


def _partitions(topics: Iterable[dict[str, Any]], name: Names) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(name(each["topicId"]), number) for each in topics for number in each["partitions"])
    )
