"""All that is known of a tier: the objects of its store, the records of the metadata log about them, the local logs.

    Tier.read(store, log_directory)   each partition with its segments, their objects, its local log and its lineage
    Tier.read(store)                  the same from the store alone: names, leader_epoch_checkpoint objects and batches

A broker may copy and delete meanwhile. It writes the first record of a segment before the first object, and the last
record after the last object is deleted. So the store is listed before the metadata is read, and the partitions of which
the two disagree are listed again: objects that are in both lists, and that the metadata does not name, were left behind
by a deletion, or are another cluster's; objects of a copied segment that are not in the second list are missing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from formats.checkpoint import EpochEntry, parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.log_directory import LogDirectory
from kcli.log.partition_directory import files_of_kind, topic_id_of
from kcli.log.partition_view import PartitionView
from kcli.log.source import FileSource, read_whole
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.cache import SegmentCache
from kcli.tier.layout import Inventory, SegmentObjects, directory_name, inventory
from kcli.tier.lineage import Plan, from_segment_start, plan, were_deleted
from kcli.tier.metadata_log import MetadataLog, read_metadata_log
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from kcli.tier.store import StoreFailed
from kcli.tier.stored_segment import epochs_in, has_epochs_of, segment_of, survey

if TYPE_CHECKING:
    from kcli.metadata.image import MetadataImage
    from kcli.tier.store import Store


@dataclass(frozen=True)
class LocalLog:
    """The log of a tiered partition in a broker's log directory. logs: base offset and path of each .log file. epochs:
    the entries of leader-epoch-checkpoint, None if it cannot be read."""

    directory: Path
    logs: Sequence[tuple[int, Path]]
    epochs: tuple[EpochEntry, ...] | None

    @property
    def first_offset(self) -> int | None:
        """The base offset of the first segment; None if there is none."""
        return self.logs[0][0] if self.logs else None

    def has(self, offset: int) -> bool:
        """Whether an offset lies between the first and the last offset of the log. The last segment is read only for an
        offset at or above its base offset."""
        if not self.logs or offset < self.logs[0][0]:
            return False
        return offset < self.logs[-1][0] or offset <= self._last_offset

    @cached_property
    def _last_offset(self) -> int:
        """The last offset of the last batch; if the last segment has no batch, the offset before its base offset."""
        base, path = self.logs[-1]
        try:
            last = survey(FileSource(path))[1]
        except UnreadableInput:
            last = None
        return base - 1 if last is None else last


@dataclass(slots=True)
class PartitionTier:
    """One partition in the tier. has_metadata: whether the segments in `cache` come from the metadata log; else they
    come from the store's objects. log_start_offset: the partition's entry in log-start-offset-checkpoint. lost: without
    metadata, the objects of segments whose offsets are not known, as their .log object has no batch or is missing.
    hidden: the same, as their .log object could not be read. unread: the errors of objects that could not be read."""

    partition: TieredPartition
    cache: SegmentCache
    has_metadata: bool
    local: LocalLog | None = None
    log_start_offset: int | None = None
    lineage: tuple[EpochEntry, ...] = ()
    lost: list[SegmentObjects] = field(default_factory=list)
    hidden: list[SegmentObjects] = field(default_factory=list)
    unread: list[UnreadableInput] = field(default_factory=list)

    def copied(self) -> list[RemoteSegment]:
        """Return the segments whose copy is complete, or, without metadata, all segments."""
        return [each for each in self.cache.segments() if each.state in (None, SegmentState.COPY_SEGMENT_FINISHED)]

    @property
    def first_offset(self) -> int | None:
        """The log start offset; None if it is not known. A broker writes it to its checkpoint only once a minute, but
        removes the leader epochs below it at once: so the start of the first epoch counts if it is the higher one."""
        if self.local is None or not self.local.epochs:
            return self.log_start_offset
        return max(self.local.epochs[0].start_offset, self.log_start_offset or 0)

    def plan(self, local_first: int | None = None) -> Plan:
        """Return the plan of reading the offsets that the local log does not have. local_first: the first offset of the
        local log, if the caller listed its segments before the tier was read; None: that of `local`."""
        end = local_first
        if end is None and self.local is not None:
            end = self.local.first_offset
        start = self.first_offset
        found = plan(self.cache, self.lineage, start, end)
        if start is not None and found.parts and found.parts[0].first == start:
            found.parts[0] = from_segment_start(found.parts[0], self.lineage)
        if found.gaps and found.gaps[0][0] == start and were_deleted(self.cache, self.lineage, *found.gaps[0]):
            del found.gaps[0]  # these segments have expired: the files do not have the new log start offset yet
        return found

    def local_part(self, segment: RemoteSegment) -> str:
        """Return whether the local log also has the offsets of a segment: `yes`, `part` or `no`."""
        if self.local is None:
            return "no"
        has_first, has_last = self.local.has(segment.start_offset), self.local.has(segment.end_offset)
        first = self.local.first_offset
        has_middle = first is not None and segment.start_offset < first <= segment.end_offset
        return "yes" if has_first and has_last else "part" if has_first or has_last or has_middle else "no"


@dataclass(slots=True)
class Tier:
    """A store, with its partitions. log: the replayed `__remote_log_metadata` of the log directory; None without a log
    directory. unread: the errors of files in the log directory that the system does not let kcli read."""

    store: Store
    inventory: Inventory
    log_directory: Path | None = None
    log: MetadataLog | None = None
    partitions: list[PartitionTier] = field(default_factory=list)
    unread: list[UnreadableInput] = field(default_factory=list)

    @classmethod
    def read(
        cls,
        store: Store,
        log_directory: Path | None = None,
        topic: str | None = None,
        only: TieredPartition | None = None,
    ) -> Tier:
        """Read the store, and the log directory if there is one. topic, only: read only this topic, or only this
        partition of it; None for all. Objects and files that could not be read are in `unread`, here and in
        PartitionTier.

        Raises UnreadableInput if the store or the log directory cannot be listed.
        """
        prefix = "" if topic is None else f"{topic}-"
        prefix = prefix if only is None else f"{directory_name(only)}/"
        tier = cls(store, inventory(store.list_objects(prefix)), log_directory)
        if log_directory is not None:
            for kind in (FileKind.LOG_START_OFFSETS, FileKind.REPLICATION_OFFSETS):
                _probe(log_directory / kind, tier.unread)
            tier.log = read_metadata_log(log_directory, _cluster_image(log_directory, tier.unread))
            tier.unread += tier.log.unread.values()
            tier._list_again(topic, only)
        names = {*tier.inventory.partitions, *(tier.log.metadata.caches if tier.log else ())}
        names = names if only is None else {only}
        wanted = {each for each in names if topic in (None, each.topic)}
        local = {} if log_directory is None else _local_partitions(log_directory, wanted, tier.unread)
        starts = (
            {} if log_directory is None else LogDirectory(log_directory).legible_offsets(FileKind.LOG_START_OFFSETS)
        )
        for partition in sorted({*names, *local}):
            if topic in (None, partition.topic) and only in (None, partition):
                start = starts.get(TopicPartition(*partition[:2])) if partition in local else None
                tier.partitions.append(tier._partition(partition, local.get(partition), start))
        return tier

    def objects(self, segment: RemoteSegment) -> SegmentObjects:
        """Return the objects of a segment."""
        return self.inventory.objects_of(segment)

    def all_unread(self) -> list[UnreadableInput]:
        """Return an error for each object and file that could not be read, once."""
        errors = [*self.unread, *(error for each in self.partitions for error in each.unread)]
        return list({str(error): error for error in errors}.values())

    def check_read(self, partitions: Iterable[PartitionTier]) -> None:
        """Raise the first error if something of the log directory, or of these partitions, could not be read."""
        for error in (*self.unread, *(error for each in partitions for error in each.unread)):
            raise error

    def _list_again(self, topic: str | None, only: TieredPartition | None) -> None:
        """List again the objects of partitions for which the metadata and the first list disagree. topic, only: as in
        `read`."""
        assert self.log is not None, "there is metadata"
        for partition in {*self.inventory.partitions, *self.log.metadata.caches}:
            if topic not in (None, partition.topic) or only not in (None, partition):
                continue
            cache = self.log.metadata.caches.get(partition, SegmentCache())
            first = self.inventory.partitions.get(partition, {})
            unnamed = {key for key in first if cache.segment(key[1]) is None}
            copied = (each for each in cache.segments() if each.state is SegmentState.COPY_SEGMENT_FINISHED)
            if unnamed or any(self.objects(each).missing(has_txn_index=False) for each in copied):
                second = inventory(self.store.list_objects(f"{directory_name(partition)}/"))
                listed = second.partitions.get(partition, {})
                kept = {key: each for key, each in listed.items() if key in unnamed or cache.segment(key[1])}
                self.inventory.partitions[partition] = kept

    def _partition(self, partition: TieredPartition, local: LocalLog | None, start: int | None) -> PartitionTier:
        has_metadata = self.log is not None and self.log.knows(partition)
        if self.log is not None and has_metadata:
            cache = self.log.metadata.caches.get(partition, SegmentCache())
            found = PartitionTier(partition, cache, has_metadata, local, start)
        else:
            found = PartitionTier(partition, SegmentCache(), has_metadata, local, start)
            self._add_from_objects(found)
        found.lineage = self._lineage(found)
        return found

    def _add_from_objects(self, found: PartitionTier) -> None:
        """Add the segments that the store has of a partition. Segments with higher end offsets supersede others, as if
        they had been copied later."""
        segments: list[RemoteSegment] = []
        for objects in self.inventory.partitions.get(found.partition, {}).values():
            errors: list[UnreadableInput] = []
            segment = segment_of(self.store, objects, errors.append)
            found.unread += errors
            if segment is not None:
                segments.append(segment)
            else:
                (found.hidden if errors else found.lost).append(objects)
        for segment in sorted(segments, key=lambda each: (each.end_offset, -each.start_offset, each.id)):
            found.cache.put_copied(segment)

    def _lineage(self, tier: PartitionTier) -> tuple[EpochEntry, ...]:
        """Return the leader epochs of the local log. Without a local log, return those in the leader_epoch_checkpoint
        of the last segment, which has the epochs of all earlier segments, too. If that checkpoint is damaged, or
        does not have the segment's own epochs, take that of the last earlier segment with a right one, and add the
        epochs of the segments after it."""
        if tier.local is not None and tier.local.epochs:
            return tier.local.epochs
        copied = sorted(tier.copied(), key=lambda each: (_last_epoch(each), each.end_offset))
        cache, behind, end = LeaderEpochCache(), len(copied), -1
        while behind:
            last = copied[behind - 1]
            try:
                epochs = epochs_in(self.store, self.objects(last))
            except StoreFailed:
                raise
            except UnreadableInput as error:
                epochs = None
                tier.unread.append(error)
            if epochs and has_epochs_of(epochs, last):
                cache, end = LeaderEpochCache(epochs), last.end_offset
                break
            behind -= 1
        for each in copied[behind:]:
            for epoch, start in each.leader_epochs if each.start_offset > end else ():
                if epoch >= 0 and start >= 0:
                    cache.assign(epoch, start)
        return cache.entries


def _last_epoch(segment: RemoteSegment) -> int:
    return segment.leader_epochs[-1].epoch if segment.leader_epochs else -1


def _local_partitions(
    log_directory: Path, tiered: set[TieredPartition], unread: list[UnreadableInput]
) -> dict[TieredPartition, LocalLog]:
    """Return the local logs of the topics of `tiered`. The errors of files that it cannot read go into `unread`."""
    topic_ids, topics = {each.topic_id for each in tiered}, {each.topic for each in tiered}
    found = {}
    for each in LogDirectory(log_directory).partitions():
        if each.name.state:
            continue
        try:
            topic_id = topic_id_of(each.path)
        except StartRefused:  # `kcli verify` reports this error
            continue
        except OSError as error:
            if each.name.topic in topics:
                unread.append(UnreadableInput.of(error.filename or each.path, error))
            continue
        if topic_id is not None and topic_id in topic_ids:
            found[TieredPartition(each.name.topic, each.name.partition, topic_id)] = _local_log(each.path, unread)
    return found


def _local_log(directory: Path, unread: list[UnreadableInput]) -> LocalLog:
    try:
        os.scandir(directory).close()
    except OSError as error:
        unread.append(UnreadableInput.of(directory, error))
    logs = sorted(files_of_kind(directory, FileKind.LOG))
    for path in (directory / LEADER_EPOCHS, *(path for _, path in logs[-1:])):
        _probe(path, unread)
    try:
        epochs = LeaderEpochCache(parse_leader_epochs(read_whole(directory / LEADER_EPOCHS))).entries
    except (UnreadableInput, FormatError, ValueError):
        return LocalLog(directory, logs, None)
    return LocalLog(directory, logs, epochs)


def _probe(path: Path, unread: list[UnreadableInput]) -> None:
    """Open a file, and add the error to `unread` if the file exists and the system does not let kcli read it."""
    try:
        FileSource(path).close()
    except UnreadableInput as error:
        if error.errno not in (None, errno.ENOENT):
            unread.append(error)


def _cluster_image(log_directory: Path, unread: list[UnreadableInput]) -> MetadataImage | None:
    """Return the image of the cluster's metadata log in a log directory; None if the log is missing or damaged, or
    cannot be read: then the error is added to `unread`."""
    from kcli.metadata_log.replay import refuse, replay  # imported late: it loads the schemas of metadata records

    directory = log_directory / METADATA_DIRECTORY
    if not directory.is_dir():
        return None
    try:
        return replay(directory, PartitionView(directory).original, refuse, around_damage=False)
    except UnreadableInput as error:
        if error.errno is not None:
            unread.append(error)
        return None
    except OSError as error:
        unread.append(UnreadableInput.of(error.filename or directory, error))
        return None
    except KcliError:
        return None


def chosen(partitions: Iterable[PartitionTier], topic: str, topic_id: str | None) -> list[PartitionTier]:
    """Return the partitions of the topic with this name and id. topic_id: None: the only topic of this name, or of
    several the one that has a local log. Raises UnreadableInput if no topic fits, or more than one."""
    found = [
        each for each in partitions if each.partition.topic == topic and topic_id in (None, each.partition.topic_id)
    ]
    found = [each for each in found if each.local is not None or each.cache.segments() or each.lost or each.hidden]
    local = {each.partition.topic_id for each in found if each.local is not None}
    ids = sorted({each.partition.topic_id for each in found})
    if len(ids) > 1 and len(local) == 1:
        return [each for each in found if each.partition.topic_id in local]
    if len(ids) > 1:
        raise UnreadableInput(topic, f"the tier has {len(ids)} topics of this name; give --topic-id {' or '.join(ids)}")
    if not found:
        raise UnreadableInput(topic, "the tier has no such topic")
    return found
