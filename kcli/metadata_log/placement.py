"""The partitions that the metadata log places in a log directory, and those of them whose directory is missing in it.
"Here" is this log directory.

    directory.id   a broker registers the directory.id of each meta.properties. If another id was registered for the
                   directory before, and partitions are placed in that id, Kafka leaves these partitions offline after a
                   clean stop, and assigns them to the new id after a crash (outcome_of_other_id)
    missing        if a partition that is placed here has no directory, Kafka creates an empty one, though a directory
                   of another name may have the records: Kafka deletes <topic>-<partition>.<unique>-delete, and leaves a
                   directory with -stray or with the name of a partition that is not placed here
    future         a partition that is placed here and has a directory with -future here is not missing: Kafka's start
                   renames that directory to the plain name, and deletes the current log in another log directory
                   (kcli.metadata_log.promotion). If the only directory of a partition that is placed here is one with
                   -future in another log directory, to which the partition was being moved, the partition is missing:
                   Kafka's start deletes that directory, and creates an empty one here
    set aside      the directory of a missing partition with -delete or -stray may lie in another log directory of the
                   node, where it was before somebody moved it there or an earlier start renamed it: Kafka does not look
                   for it
    emptied        if a partition's directory has no batch, another directory may have the records: somebody moved that
                   directory aside, and then somebody made the empty one; or Kafka's start did both, as the topic id in
                   partition.metadata was missing or damaged
    elsewhere      a partition whose directory lies in another log directory of the node is not missing: Kafka opens it
                   there, and reports that log directory to the controller
    absent         if all log directories of the node are known, and partitions are placed in an id that none of them
                   has, such as the id of a lost disk, Kafka starts and creates an empty directory for each of these
                   partitions; those without other replicas have no leader
    flat           the files of a missing partition may lie in the log directory itself, with the name of the partition
                   in their names: Kafka does not see them
    deleted topic  a directory of the partition's name with the id of a deleted topic is not the partition's: Kafka
                   renames it to -stray, and creates an empty one

A directory of another name belongs to a partition if it has the topic's id, and its name has the number of the
partition: `orders-0.bak` and `orders-0_old`, with which Kafka does not start, begin with the partition's name. A topic
that was deleted and created again has another id. A directory whose name says nothing, such as lost+found/#131077,
or has a wrong number, belongs to the only missing partition with its topic id, or with its log end offset in the
checkpoints. Source:
LogManager, BrokerRegistration; KIP-858 (directories), KIP-516 (topic ids).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from formats.errors import FormatError
from formats.file_name import METADATA_TOPIC, DirectoryName, FileKind, build_directory, parse
from formats.properties import parse_partition_metadata
from kcli.errors import KcliError, UnreadableInput
from kcli.log.flat_files import flat_files
from kcli.log.log_directory import LogDirectory, PartitionDirectory, partition_named
from kcli.log.partition_directory import is_garbled, legible_topic_id
from kcli.log.recovery.identity import end_offset
from kcli.log.recovery.node_directories import meta_of
from kcli.log.source import read_whole
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import LOST, MIGRATING, UNASSIGNED, from_uuid, to_uuid
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.metadata_log.promotion import Promotion

SET_ASIDE = ("delete", "stray")
"""The suffixes of the directories that Kafka does not serve, and does not complete by a move."""
HEAD_BYTES = 4_096
"""The number of bytes at a segment's beginning by which a copy of it is known."""


@dataclass(frozen=True, slots=True)
class MissingPartition:
    """A partition that the metadata log places in a log directory, but that has no directory with its records there: no
    directory has its name, or the directory of its name belongs to a deleted topic, or has no batch while another
    directory has the records.

    topic_id: that of the partition's topic. reached: the partition's log end offset in the checkpoints; 0 if they have
    none. others: the nodes with the other replicas. renamed: the partition's directory under another name. deleted: the
    directory of its name that belongs to a deleted topic. emptied: the directory of its name that has no batch. Each of
    these three is None if there is none.

    adrift: the directories that may be the partition's by their topic ids or log end offsets, with names that are no
    partition's. future: the directory with -future, in another log directory, to which the partition was being moved,
    with the records copied so far; None if there is none, or if other nodes have replicas. flat: the partition's files,
    by Kafka's name for each, if they lie flat in the log directory (kcli.log.flat_files).
    """

    partition: TopicPartition
    topic_id: str
    reached: int
    others: Sequence[int]
    renamed: PartitionDirectory | None
    deleted: PartitionDirectory | None = None
    emptied: PartitionDirectory | None = None
    adrift: Sequence[Path] = ()
    future: PartitionDirectory | None = None
    flat: Mapping[str, Path] = field(default_factory=dict)

    @property
    def future_end(self) -> int:
        """The offset after the last record in the `future` directory; 0 if there is no such directory, or if the offset
        is not known."""
        return 0 if self.future is None else _end_of(self.future.path) or 0

    @property
    def directory_name(self) -> str:
        """The name of the directory that is missing."""
        return build_directory(DirectoryName(*self.partition))

    @property
    def lacks_topic_id(self) -> bool:
        """Whether `renamed`, the directory under another name, or `flat` lacks the topic id in partition.metadata: the
        file is missing, or damaged."""
        if self.flat:
            return _topic_id_in(self.flat) != self.topic_id
        return self.renamed is not None and legible_topic_id(self.renamed.path) != self.topic_id

    @property
    def in_its_place(self) -> PartitionDirectory | None:
        """The directory that has the partition's name, but not its records; None if there is none."""
        return self.deleted or self.emptied


@dataclass(frozen=True, slots=True)
class Placement:
    """Compares the partitions that the metadata log places in one log directory with the directories that are there.

    image: the metadata. node_id: the node's id; None if it is not known: then no partition counts as placed in the log
    directory. directory_id: the id of the log directory; None if it is not known: then the node's partitions of which
    the checkpoints have an offset count as placed in it.

    directories: the directories in the log directory that have a partition's name, also with a suffix such as -future.
    reached: each partition's log end offset by the log directory's checkpoints: its recovery point or its high
    watermark, whichever is higher. removed: the ids of deleted topics. misnamed: the directories in the log directory
    whose names are no partition's, and directories with segments that lie deeper or in lost+found (see
    LogDirectory.adrift).

    futures: the directories with -future in the node's other log directories. elsewhere: the partitions that have a
    directory with a plain name in one of the node's other log directories, each with the path of that directory.
    aside: the directories with -delete and -stray in the node's other log directories. flat: the partitions whose files
    lie flat in the log directory, each with the path that its directory should have (kcli.log.flat_files).
    """

    image: MetadataImage
    node_id: int | None
    directory_id: str | None
    directories: Iterable[PartitionDirectory]
    reached: Mapping[TopicPartition, int]
    removed: Collection[str] = ()
    misnamed: Sequence[Path] = ()
    futures: Sequence[PartitionDirectory] = ()
    elsewhere: Mapping[TopicPartition, Path] = field(default_factory=dict)
    aside: Sequence[PartitionDirectory] = ()
    flat: Mapping[TopicPartition, Path] = field(default_factory=dict)

    def places(self) -> dict[TopicPartition, UUID]:
        """The partitions that have a directory with a plain name in this log directory, each with the id of the log
        directory in which the metadata log places the node's replica. Directories with the topic id of another topic,
        and partitions without a replica on the node, are left out."""
        found = {
            each.partition: self._directory_of(each.partition) for each in self.directories if self._is_of_topic(each)
        }
        return {partition: each for partition, each in found.items() if each is not None}

    def missing(self) -> Iterator[MissingPartition]:
        """Yield the partitions that the metadata log places in the log directory, but that have no directory with their
        records there (see MissingPartition)."""
        named = [each for each in self.directories if not each.name.state]
        deleted = {each.partition: each for each in named if self.removed and _has_topic_id(each.path, self.removed)}
        emptied = {each.partition: each for each in named if each.partition not in deleted and not _has_log(each.path)}
        present = {each.partition for each in named} - deleted.keys() | self._promoted()
        absent = {
            partition: from_uuid(topic.id)
            for topic in self.image.topics.values()
            for partition in (TopicPartition(topic.name, number) for number in topic.partitions)
            if (partition not in present or partition in emptied) and self._is_placed_here(partition)
        }
        absent = {each: topic_id for each, topic_id in absent.items() if not self._is_elsewhere(each, topic_id)}
        renamed = {partition: self._renamed(topic_id, partition) for partition, topic_id in absent.items()}
        unknown = {each: absent[each] for each, found in renamed.items() if found is None}
        adrift = self._adrift({each: unknown[each] for each in unknown if each not in emptied or each in self.reached})
        renamed |= {
            each: PartitionDirectory(paths[0], DirectoryName(*each))
            for each, paths in adrift.items()
            if len(paths) == 1
        }
        for partition, topic_id in absent.items():
            found = renamed[partition]
            if partition in emptied and (found is None or not _has_log(found.path)):
                continue
            state = self.image.topics[partition.topic].partitions[partition.partition]
            others = [each for each in state.replicas if each != self.node_id]
            reached = self.reached.get(partition, 0)
            in_place = deleted.get(partition), emptied.get(partition)
            future = None if found is not None or others else self._future(topic_id, partition)
            flat = self._flat(partition, topic_id) if found is None else {}
            astray = adrift.get(partition, ())
            yield MissingPartition(partition, topic_id, reached, others, found, *in_place, astray, future, flat)

    def _promoted(self) -> set[TopicPartition]:
        """The partitions of directories with -future that the metadata log places in this log directory: Kafka's start
        renames these to the plain name (LogManager.recoverAbandonedFutureLogs)."""
        topics = self.image.topics
        return {
            each.partition
            for each in self.directories
            if each.name.state == "future"
            and each.name.topic in topics
            and self._is_placed_here(each.partition)
            and _has_topic_id(each.path, (from_uuid(topics[each.name.topic].id),))
        }

    def promotions(self) -> Iterator[Promotion]:
        """Yield the future logs, in all log directories of the node, that Kafka puts in the place of current logs: at
        its start, if a future log lies in the log directory in which the metadata log places its partition; otherwise
        at the end of the move, which the start resumes."""
        from kcli.metadata_log.promotion import Promotion  # imported late: only -future directories need it

        mine = {each.partition: each.path for each in self.directories if not each.name.state}
        own = [(each, self.directory_id) for each in self.directories if each.name.state == "future"]
        metas = {home: meta_of(home) for home in {each.path.parent for each in self.futures}}
        ids = {home: None if meta is None else meta.directory_id for home, meta in metas.items()}
        for each, home in (*own, *((each, ids[each.path.parent]) for each in self.futures)):
            topic, placed = self.image.topic(each.name.topic), self.directory_id_of(each.partition)
            if topic is None or placed is None or not _has_topic_id(each.path, (from_uuid(topic.id),)):
                continue
            current = mine.get(each.partition) or self.elsewhere.get(each.partition)
            if current is not None and not _has_topic_id(current, (from_uuid(topic.id),)):
                current = None
            if placed == home:
                yield Promotion(each.partition, each.path, current)
            elif current is not None and home is not None and current.parent != each.path.parent:
                yield Promotion(each.partition, each.path, current, is_resumed=True)

    def abandoned(self) -> Iterator[tuple[PartitionDirectory, int]]:
        """Yield the directories with -future whose partitions lie in no log directory of the node and have no other
        replicas, each with the offset after its last record: Kafka's start deletes them. Directories that Kafka's start
        renames to the plain name are left out, and so are directories without a record that can be read."""
        kept = {each.partition for each in self.directories if not each.name.state} | self._promoted()
        for each in self.directories:
            topic = self.image.topic(each.name.topic) if each.name.state == "future" else None
            if topic is None or each.partition in kept or each.partition in self.elsewhere:
                continue
            state = topic.partitions.get(each.partition.partition)
            is_alone = state is not None and [*state.replicas] == [self.node_id]
            if is_alone and _has_topic_id(each.path, (from_uuid(topic.id),)) and (end := _end_of(each.path)):
                yield each, end

    def moved(self) -> Iterator[tuple[TopicPartition, Path]]:
        """Yield the partitions that the metadata log places in the log directory, and whose directory lies in another
        log directory of the node, with the path of that directory: Kafka opens it there, and reports this to the
        controller."""
        present = {each.partition for each in self.directories if not each.name.state} | self._promoted()
        for partition, path in sorted(self.elsewhere.items()):
            topic = self.image.topic(partition.topic)
            is_here = partition in present or not self._is_placed_here(partition)
            if topic is not None and not is_here and self._is_elsewhere(partition, from_uuid(topic.id)):
                yield partition, path

    def directory_id_of(self, partition: TopicPartition) -> str | None:
        """Return the id of the log directory in which the metadata log places the node's replica of a partition. None
        if the node has no replica, or if the metadata log has MIGRATING, UNASSIGNED or LOST in place of an id."""
        directory = self._directory_of(partition)
        return None if directory is None or directory in (MIGRATING, UNASSIGNED, LOST) else from_uuid(directory)

    def in_absent_directories(self, known: Collection[str]) -> dict[str, list[TopicPartition]]:
        """Return the node's partitions that have no directory in any of its log directories, and that the metadata log
        places in log directories with ids not in `known`. They are listed by the id of that log directory."""
        present = {each.partition for each in self.directories if not each.name.state} | self.elsewhere.keys()
        found: dict[str, list[TopicPartition]] = {}
        for topic in sorted(self.image.topics.values(), key=lambda each: each.name):
            for partition in (TopicPartition(topic.name, number) for number in sorted(topic.partitions)):
                directory_id = self.directory_id_of(partition)
                if directory_id is not None and directory_id not in known and partition not in present:
                    found.setdefault(directory_id, []).append(partition)
        return found

    def placed_elsewhere(self, known: Collection[str]) -> dict[str, list[TopicPartition]]:
        """Return the partitions that have a directory here, and that the metadata log places in log directories with
        ids not in `known`, by the id of that log directory."""
        found: dict[str, list[TopicPartition]] = {}
        for each in sorted(each.partition for each in self.directories if not each.name.state):
            directory_id = self.directory_id_of(each)
            if directory_id is not None and directory_id not in known:
                found.setdefault(directory_id, []).append(each)
        return found

    def without_leader(self, known: Collection[str]) -> dict[str, list[TopicPartition]]:
        """Return those of `placed_elsewhere` that have no leader after a start, if the log directories with ids in
        `known` are all that the node has: the controller takes the directory of each as lost.

        They have no leader in the metadata log, as after a clean stop, and no other replicas. A leader in the metadata
        log stays: Kafka assigns its partition to the directory in which it lies (outcome_of_other_id)."""
        found = self.placed_elsewhere(known)
        lost = {
            directory_id: [each for each in here if self._has_no_leader(each)] for directory_id, here in found.items()
        }
        return {directory_id: here for directory_id, here in lost.items() if here}

    def _has_no_leader(self, partition: TopicPartition) -> bool:
        topic = self.image.topic(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        return state is not None and [*state.replicas] == [self.node_id] and state.leader != self.node_id

    def _is_elsewhere(self, partition: TopicPartition, topic_id: str) -> bool:
        """Whether another log directory of the node has a directory with the partition's plain name and with
        `topic_id`, the id of its topic."""
        return partition in self.elsewhere and _has_topic_id(self.elsewhere[partition], (topic_id,))

    def _is_placed_here(self, partition: TopicPartition) -> bool:
        """Whether the metadata log places the node's replica of a partition in this log directory."""
        directory = self._directory_of(partition)
        return directory is not None and self._is_this(directory, partition)

    def _is_of_topic(self, each: PartitionDirectory) -> bool:
        """Whether a directory belongs to the topic in its name: it has no suffix such as -future, and its
        partition.metadata has the id of that topic, or no id that can be read."""
        topic = self.image.topic(each.name.topic)
        topic_id = None if topic is None or each.name.state else legible_topic_id(each.path)
        return topic is not None and not each.name.state and topic_id in (None, from_uuid(topic.id))

    def _directory_of(self, partition: TopicPartition) -> UUID | None:
        """Return the id of the log directory in which the metadata log places the node's replica of a partition, also
        MIGRATING, UNASSIGNED or LOST; None if the node has no replica."""
        topic = self.image.topic(partition[0])
        state = None if topic is None else topic.partitions.get(partition[1])
        if state is None or self.node_id is None or self.node_id not in state.replicas:
            return None
        return state.directory(self.node_id)

    def _is_this(self, directory: UUID, partition: TopicPartition) -> bool:
        """Whether `directory`, the id in which the metadata log places a partition, stands for this log directory.

        If the node has a single log directory, MIGRATING and UNASSIGNED stand for it too. If the id of this log
        directory is not known, the partition counts as placed here if the checkpoints have an offset of it.
        """
        if self.directory_id is None:
            return self.reached.get(partition, 0) > 0
        if directory not in (MIGRATING, UNASSIGNED, LOST):
            return directory == to_uuid(self.directory_id)
        broker = self.image.brokers.get(self.node_id or 0)
        return directory != LOST and broker is not None and len(broker.directories) == 1

    def _renamed(self, topic_id: str, partition: TopicPartition) -> PartitionDirectory | None:
        """Return the directory of this partition that has another name, by topic id and partition number: a directory
        with -delete or -stray, also in another log directory of the node; one with the name of a partition that has no
        replica on this node; or one whose name begins with that of this partition, and is no partition's or that of one
        without a replica on this node, as orders-0-20261128 is. If there are several, return the one whose last segment
        has the highest base offset, of equal ones that in this log directory. Returns None if there is none."""
        name, number = DirectoryName(*partition), partition.partition
        begins = re.compile(f"{re.escape(build_directory(name))}(?:[^0-9]|$)")
        others = [PartitionDirectory(path, name) for path in self.misnamed if begins.match(path.name)]
        found = [each for each in others if _has_topic_id(each.path, (topic_id,))]
        found += [
            each
            for each in (*self.directories, *self.aside)
            if (each.name.state in SET_ASIDE or self._is_unknown(each))
            and (each.name.partition == number or (not each.name.state and begins.match(each.path.name)))
            and each.name.topic != METADATA_TOPIC
            and (_has_topic_id(each.path, (topic_id,)) or _has_lost_id(each, partition, topic_id))
        ]
        return max(found, key=lambda each: _last_log(each.path), default=None)

    def _flat(self, partition: TopicPartition, topic_id: str) -> Mapping[str, Path]:
        """Return the files of a partition that lie flat in the log directory, unless their partition.metadata has
        another topic id than `topic_id`, that of its topic."""
        files = flat_files(self.flat[partition]) if partition in self.flat else {}
        return files if _topic_id_in(files) in (None, topic_id) else {}

    def _future(self, topic_id: str, partition: TopicPartition) -> PartitionDirectory | None:
        """Return the directory with -future, in one of the node's other log directories, that has the partition's name
        and `topic_id`, the id of its topic, and that has or had records; None if there is none."""
        fits = (each for each in self.futures if each.partition == partition and _has_log(each.path))
        return next((each for each in fits if _has_topic_id(each.path, (topic_id,))), None)

    def _adrift(self, absent: Mapping[TopicPartition, str]) -> dict[TopicPartition, list[Path]]:
        """Return, by missing partition, the directories that may be the partition's although their names say nothing
        (as in lost+found), or have a wrong number: one directory if it is certain which one, else several. Partitions
        without any are left out.

        absent: the missing partitions, with the ids of their topics. A directory with a topic id fits each partition of
        that topic, one with another partition's name only if it reaches the partition's log end offset in the
        checkpoints; a directory without a topic id fits each partition whose log end offset in the checkpoints equals
        the directory's. A directory is certainly a partition's if it fits only this partition, and no other directory
        fits the partition. This is decided first for those whose log end offsets are equal, then for the rest.
        """
        fits: list[tuple[Path, TopicPartition, bool]] = []
        nameless = [path for path in self.misnamed if absent and _has_log(path) and partition_named(path.name) is None]
        for path in (*nameless, *(self._misnumbered() if absent else ())):
            topic_id, end = legible_topic_id(path), _end_of(path)
            for partition, expected in absent.items():
                reached = self.reached.get(partition, 0)
                is_at_end = end == reached > 0
                is_long_enough = path in nameless or (end or 0) >= reached > 0
                if (topic_id == expected and is_long_enough) or (topic_id is None and is_at_end):
                    fits.append((path, partition, is_at_end))
        found: dict[TopicPartition, Path] = {}
        free = fits
        for chosen in ([each for each in fits if each[2]], fits):
            free = [each for each in chosen if each[1] not in found and each[0] not in found.values()]
            paths, partitions = Counter(each[0] for each in free), Counter(each[1] for each in free)
            found |= {each[1]: each[0] for each in free if paths[each[0]] == partitions[each[1]] == 1}
        possible = {partition: [path] for partition, path in found.items()}
        for path, partition, _ in free:
            if partition not in found and path not in found.values():
                possible.setdefault(partition, []).append(path)
        return {partition: paths for partition, paths in possible.items() if partition in found or len(paths) > 1}

    def _misnumbered(self) -> list[Path]:
        """The directories with records whose name is that of a partition of which the metadata log has no replica on
        this node, or was so before Kafka's start renamed them to -stray. Copies of another partition are left out."""
        known = [each.path for each in self.directories if not each.name.state and not self._is_unknown(each)]
        heads = {_head(path) for path in known}
        return [
            each.path
            for each in self.directories
            if each.name.state in ("", "stray")
            and self._directory_of(each.partition) is None
            and each.name.topic != METADATA_TOPIC
            and _has_log(each.path)
            and _head(each.path) not in heads
        ]

    def _is_unknown(self, each: PartitionDirectory) -> bool:
        """Whether a directory has the plain name of a partition of which the metadata log has no replica on this
        node."""
        return not each.name.state and self._directory_of(each.partition) is None


def outcome_of_other_id(image: MetadataImage, node_id: int | None, registered: str) -> str:
    """Return, in words, what Kafka's start does to the node's partitions that the metadata log places in the
    directory.id `registered`, if meta.properties no longer has this id.

    A clean stop leaves them without a leader, and they stay offline. A crash leaves the leader in the metadata log:
    Kafka 4.3 then assigns them to the new id, and elects their last known leader, an unclean election."""
    home = to_uuid(registered)
    states = [state for topic in image.topics.values() for state in topic.partitions.values()]
    mine = [each for each in states if node_id in each.replicas and each.directory(node_id or 0) == home]
    led = [each for each in mine if each.leader == node_id]
    if not led:
        return "leaves the partitions offline"
    assigned = "assigns the partitions to the new id and serves them (unclean election of the last known leader)"
    rest = len(mine) - len(led)
    return assigned + (f"; {rest:,} without a leader in the metadata log may stay offline" if rest else "")


def _has_lost_id(each: PartitionDirectory, partition: TopicPartition, topic_id: str) -> bool:
    """Whether a directory with -stray is a partition's whose topic id, `topic_id`, is missing in it or damaged: Kafka's
    start renamed it for that. That of an older topic of the name has the id of that one."""
    if each.name.state != "stray" or each.partition != partition or not _has_log(each.path):
        return False
    found = legible_topic_id(each.path)
    return found is None or is_garbled(found, topic_id)


def futures_in(log_directories: Iterable[Path]) -> list[PartitionDirectory]:
    """The directories with -future in log directories, without those that cannot be read."""
    return _with_suffix(log_directories, ("future",))


def aside_in(log_directories: Iterable[Path]) -> list[PartitionDirectory]:
    """The directories with -delete and -stray in log directories, without those that cannot be read."""
    return _with_suffix(log_directories, SET_ASIDE)


def _with_suffix(log_directories: Iterable[Path], suffixes: Collection[str]) -> list[PartitionDirectory]:
    found: list[PartitionDirectory] = []
    for path in log_directories:
        with suppress(KcliError, OSError):
            found += [each for each in LogDirectory(path).partitions() if each.name.state in suffixes]
    return found


def _topic_id_in(files: Mapping[str, Path]) -> str | None:
    """The topic id in the partition.metadata among these files, by Kafka's names; None if it cannot be read."""
    path = files.get(FileKind.PARTITION_METADATA)
    try:
        return None if path is None else parse_partition_metadata(read_whole(path)).topic_id
    except (FormatError, UnreadableInput):
        return None


def _end_of(path: Path) -> int | None:
    """The log end offset of a directory; None if it cannot be read."""
    try:
        return end_offset(path)
    except (KcliError, OSError):
        return None


def _has_topic_id(path: Path, topic_ids: Collection[str]) -> bool:
    return legible_topic_id(path) in topic_ids


def _has_log(path: Path) -> bool:
    """Whether a directory has a .log file with bytes, or one whose base offset is above 0: that log had records,
    too."""
    return _last_log(path) > (0, 0)


def _head(path: Path) -> bytes:
    """The first bytes of a partition's first segment, which no other partition has; b"" if they cannot be read."""
    try:
        first = min(each for each in path.glob("*.log") if parse(each.name) is not None)
        with first.open("rb") as file:
            return file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return b""


def _last_log(path: Path) -> tuple[int, int]:
    """Return base offset and size in bytes of the last .log file in a directory; -1 and 0 if there is none, or if the
    directory cannot be read."""
    try:
        names = [(each, parse(each.name)) for each in path.iterdir()]
        return max(
            (name.base_offset or 0, each.stat().st_size)
            for each, name in names
            if name is not None and name.kind is FileKind.LOG and not name.state
        )
    except (OSError, ValueError):
        return -1, 0
