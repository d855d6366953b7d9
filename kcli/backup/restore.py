"""Writes a run's partitions to a new log directory, with which Kafka starts as after a crash; those of a run with
several log directories to as many.

    NEW/<topic>-<partition>/   .log of each segment, from the parts in the store; .index, .timeindex made of it;
                               .txnindex, .snapshot as they were; leader-epoch-checkpoint, partition.metadata
    NEW/__cluster_metadata-0/  the metadata log, its snapshots and quorum-state
    NEW/meta.properties, bootstrap.checkpoint and the checkpoints, with no offset beyond a partition's end

Each object's bytes must have the SHA-256 of the manifest. Kafka's start recovers the active segment, and so rebuilds
its indexes: `recovery-point-offset-checkpoint` has its base offset, and there is no clean-shutdown marker. Partitions
that the metadata log does not have are left out: Kafka would rename them to -stray. NEW is complete or does not exist;
of several new directories, all are complete before the first one gets its name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from formats import producer_snapshot, txn_index
from formats.checkpoint import EpochEntry
from formats.file_name import METADATA_TOPIC, FileKind, FileName, build
from formats.kernels.columns import LAST_OFFSET, BatchRow
from formats.kernels.indexes import SegmentIndexes
from formats.kernels.producers import RECOVERY_MORE, ProducerTable, follow_producers
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from formats.properties import PartitionMetadata, Properties, build_partition_metadata
from formats.properties import build as build_properties
from formats.properties import parse as parse_properties
from formats.txn_index import AbortedTxn
from kcli.backup.cut import end_of, transactions
from kcli.backup.fencing import fence
from kcli.backup.manifest import BackedPartition, BackedSegment, Manifest, Piece
from kcli.backup.pieces import read_piece
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import UnreadableInput, UsageError
from kcli.log.coordinator_records import read_records
from kcli.log.disk import Disk
from kcli.log.index_entries import DEFAULT_INTERVAL_BYTES
from kcli.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.log_directory import LogDirectory
from kcli.log.new_directory import new_directory
from kcli.log.partition_view import PartitionView
from kcli.log.producer_state import read_control
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource
from kcli.log.synced_together import SyncedTogether
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.metadata.topic_names import fault
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.store import Store
from kcli.txn.transaction import Transaction

Advance = Callable[[int], None]
States = Mapping[int, Transaction]
"""The last state of each transactional id by its producer id."""


@dataclass(slots=True)
class Restored:
    """A restored partition. start, end: the first segment's base offset, and the log end offset; None without a
    segment. size: bytes of its .log files. left_out: the number of offsets that were cut off its end, because
    transactions there are ahead of the coordinator's records (kcli.backup.cut). troubles: texts about damage that was
    copied."""

    partition: TopicPartition
    start: int | None = None
    end: int | None = None
    size: int = 0
    left_out: int = 0
    troubles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """The new log directories. unknown: the partitions that were left out, as the run's metadata log does not have
    them. is_whole: whether they have a metadata log, so that Kafka can start with them. fenced: the number of records
    appended to that log (kcli.backup.fencing)."""

    partitions: list[Restored]
    unknown: list[TopicPartition]
    is_whole: bool
    fenced: int = 0


def restore(
    store: Store,
    manifest: Manifest,
    targets: Sequence[Path],
    *,
    disk: Disk,
    topics: Collection[str] = (),
    advance: Advance = lambda _: None,
) -> Result:
    """Write new log directories. targets: their paths, one for each log directory of the run, in its order. topics: if
    not empty, write only the partitions of these topics, to a single directory, without a metadata log. advance: called
    with the number of bytes that were written.

    Raises TargetExists, UnreadableInput, OSError; UsageError if the run does not have one of the topics, or not as many
    log directories as `targets`. No new directory is left then.
    """
    if topics and len(targets) > 1:
        raise UsageError("--topic restores to one directory: give one --out")
    if not topics and len(targets) != (count := len(manifest.directories)):
        of = "one log directory" if count == 1 else f"{count} log directories"
        paths = (
            "" if count == 1 else f" for each in this order: {', '.join(each.path for each in manifest.directories)}"
        )
        raise UsageError(f"the run has {of}: give one --out{paths}")
    names = {each.partition.topic for each in manifest.partitions}
    for topic in topics:
        if topic not in names:
            raise UsageError(f"{topic}: the run has no such topic")
    for topic in names:  # a name becomes part of a path
        if topic != METADATA_TOPIC and (reason := fault(topic)) is not None:
            raise UnreadableInput(store.address, reason)
    with ExitStack() as stack:
        homes = [stack.enter_context(new_directory(disk, target)) for target in targets]
        files = stack.enter_context(SyncedTogether(disk))
        return _Restore(store, manifest, homes, disk, files, advance).run(frozenset(topics))


class _Restore:
    def __init__(
        self,
        store: Store,
        manifest: Manifest,
        homes: Sequence[Path],
        disk: Disk,
        files: SyncedTogether,
        advance: Advance,
    ) -> None:
        self._store = store
        self._manifest = manifest
        self._homes = homes
        self._metadata_log = homes[0] / f"{METADATA_TOPIC}-0"
        self._disk = disk
        self._files = files
        self._advance = advance
        self._recovery_points: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    def run(self, topics: frozenset[str]) -> Result:
        found = [each for each in self._manifest.partitions if not topics or each.partition.topic in topics]
        metadata = [each for each in found if each.partition.topic == METADATA_TOPIC]
        for each in metadata:
            self._metadata_log = self._directory(each)
        restored = [self._partition(each, None) for each in metadata]
        image = self._image() if metadata else None
        fenced = 0 if image is None else fence(self._disk, self._metadata_log, image)
        known = [each for each in found if each not in metadata and (image is None or _has(image, each))]
        states = [each for each in known if each.partition.topic == TRANSACTIONS_TOPIC]
        restored += [self._partition(each, None) for each in states]
        by_producer = self._transactions(image, states)
        restored += [self._partition(each, by_producer) for each in known if each not in states]
        for number in range(len(self._homes)):
            self._finish(number, is_whole=not topics)
        unknown = [each.partition for each in found if each not in metadata and each not in known]
        return Result(sorted(restored, key=lambda each: each.partition), unknown, bool(metadata), fenced)

    def _image(self) -> MetadataImage:
        """Return the metadata of the metadata log that was written. Raises UnreadableInput."""
        from kcli.metadata_log.replay import refuse, replay  # imported late: it loads the schemas of metadata records

        return replay(self._metadata_log, PartitionView(self._metadata_log).original, refuse, around_damage=False)

    def _transactions(self, image: MetadataImage | None, states: Sequence[BackedPartition]) -> States | None:
        """Return the last states in __transaction_state, by producer id; None if the run does not have all partitions
        of the topic: then no partition is cut."""
        if image is None:
            return None
        topic = image.topics.get(TRANSACTIONS_TOPIC)
        if topic is not None and len(topic.partitions) != len(states):
            return None
        records = (
            (record.key, record.value, record.timestamp_ms)
            for each in states
            for _, record in read_records(self._directory(each), lambda _: None)
            if record.marker is None
        )
        return transactions(records)

    # the log directory

    def _directory(self, each: BackedPartition) -> Path:
        home = self._homes[each.directory] if len(self._homes) > 1 else self._homes[0]
        return home / str(each.partition)

    def _finish(self, number: int, *, is_whole: bool) -> None:
        """Write the files beside the partitions of a log directory. number: which of the new directories. is_whole:
        False if only some topics are restored: then a single directory has the partitions of all."""
        home, mine = self._homes[number], self._manifest.directories[number : number + 1 if is_whole else None]
        here = {each.name for each in home.iterdir()}
        offsets_here: dict[str, dict[TopicPartition, int]] = {}
        for name, offsets in ((name, offsets) for each in mine for name, offsets in each.checkpoints.items()):
            kept = {each: min(offset, self._ends[each]) for each, offset in offsets.items() if each in self._ends}
            of_name = offsets_here.setdefault(name, {})
            of_name.update((each, offset) for each, offset in kept.items() if str(each) in here)
        directory = LogDirectory(home)
        for name, kept in offsets_here.items():
            if name in set(FileKind) and name.endswith("-offset-checkpoint"):
                directory.write_offsets(self._disk, FileKind(name), kept)
        points = {each: offset for each, offset in self._recovery_points.items() if str(each) in here}
        directory.write_offsets(self._disk, FileKind.RECOVERY_POINTS, points)
        meta = mine[0].meta_properties
        if is_whole:
            for name, piece in mine[0].files.items():
                if name == FileKind.BOOTSTRAP:
                    self._piece(piece, home / name)
        elif meta is not None:  # with some topics only, it is another log directory: Kafka gives it a directory.id
            entries = parse_properties(meta.encode("latin-1")).entries
            kept_entries = {key: value for key, value in entries.items() if key != "directory.id"}
            meta = build_properties(Properties(kept_entries)).decode("latin-1")
        if meta is not None:
            self._disk.write_file(home / FileKind.META_PROPERTIES, meta.encode("latin-1"))
        self._disk.sync_directory(home)

    # partitions

    def _partition(self, each: BackedPartition, states: States | None) -> Restored:
        directory = self._directory(each)
        self._disk.make_directory(directory)
        restored = Restored(each.partition)
        if each.topic_id is not None:
            data = build_partition_metadata(PartitionMetadata(0, each.topic_id))
            self._put(directory / FileKind.PARTITION_METADATA, data)
        segments = list(each.segments)
        for segment in segments:
            self._log(directory, segment)
        if states is not None:
            segments = self._cut(each, segments, directory, states, restored)
        producers = None
        if self._manifest.cluster is not None and each.partition.topic != METADATA_TOPIC:
            producers = ProducerTable(read_control)
        for segment in segments:
            self._beside(directory, segment, restored, producers, is_last=segment is segments[-1])
        epochs = LeaderEpochCache(EpochEntry(*entry) for entry in each.epochs)
        if restored.end is not None:
            epochs.truncate_from_end(restored.end)
            self._ends[each.partition] = restored.end
        self._put(directory / LEADER_EPOCHS, epochs.to_bytes())
        if segments:
            self._recovery_points[each.partition] = segments[-1].base
        for name, piece in each.snapshots.items():
            offset = int(name.partition("-")[0])
            if not segments or offset <= (restored.end or 0):
                self._piece(piece, directory / name)
        if each.quorum_state is not None:
            self._put(directory / FileKind.QUORUM_STATE, each.quorum_state.encode("latin-1"))
        self._disk.sync_directory(directory)
        return restored

    def _log(self, directory: Path, segment: BackedSegment) -> None:
        path = directory / build(FileName(FileKind.LOG, segment.base))
        with self._files.new_file(path) as file:
            position = 0
            for piece in segment.parts:
                for chunk in read_piece(self._store, piece):
                    position += file.write([chunk], position)
                    self._advance(len(chunk))

    def _beside(
        self,
        directory: Path,
        segment: BackedSegment,
        restored: Restored,
        producers: ProducerTable | None,
        *,
        is_last: bool,
    ) -> None:
        """Write the files beside a .log file, and note its bounds and damage in `restored`. producers: the producers at
        the segment's base offset, updated by its batches; None if the run has producer snapshots and transaction
        indexes."""
        path = directory / build(FileName(FileKind.LOG, segment.base))
        aborted: list[AbortedTxn] = []
        if producers is not None and restored.start is not None:
            entries = tuple(map(ProducerEntry._make, producers.entries()))
            state = producer_snapshot.build(ProducerSnapshot(entries))
            self._put(directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, segment.base)), state)
        indexes = SegmentIndexes(segment.base, DEFAULT_INTERVAL_BYTES)
        source = FileSource(path)
        restored.start = segment.base if restored.start is None else restored.start
        restored.end = segment.base if restored.end is None else max(restored.end, segment.base)
        restored.size += source.size()
        try:
            for part in read_segment(source, resync=False):
                if isinstance(part, Damage):
                    restored.troubles.append(f"{part.error.reason} at byte {part.position:,} of {path.name}")
                    break
                restored.end = part.batches.field(part.batches.count - 1, LAST_OFFSET) + 1
                indexes.add(memoryview(part.data)[: part.stop])
                if producers is not None:
                    aborted += self._aborted(producers, part, restored)
                part.release()
        finally:
            source.close()
        if segment.snapshot is not None:
            self._piece(segment.snapshot, directory / build(FileName(FileKind.PRODUCER_SNAPSHOT, segment.base)))
        indexes.finish()
        for kind, data in ((FileKind.OFFSET_INDEX, indexes.offsets), (FileKind.TIME_INDEX, indexes.times)):
            self._put(directory / build(FileName(kind, segment.base)), bytes(data))
        if aborted:
            self._put(directory / build(FileName(FileKind.TXN_INDEX, segment.base)), txn_index.build(tuple(aborted)))
        if segment.txn_index is not None:
            path = directory / build(FileName(FileKind.TXN_INDEX, segment.base))
            if is_last:  # the index may have entries beyond the end of the .log file
                found = txn_index.parse(b"".join(map(bytes, read_piece(self._store, segment.txn_index))))
                self._put(path, txn_index.build(tuple(each for each in found if each.last_offset < restored.end)))
            else:
                self._piece(segment.txn_index, path)

    def _aborted(self, producers: ProducerTable, part: Window, restored: Restored) -> Iterator[AbortedTxn]:
        """Update `producers` by the batches of `part`. Yields the transactions that abort markers among these batches
        end, each with the last stable offset that its marker left when it was appended: transactions that began after
        the marker do not count, although `follow_producers` has seen those in `part`, too."""
        how, completed = follow_producers(producers, part.batches, memoryview(part.data))
        if how != RECOVERY_MORE:
            restored.troubles.append(f"{restored.partition}: {producers.reason}")
        for producer_id, first, marker, stable, is_aborted in completed or ():
            if is_aborted:
                yield AbortedTxn(0, producer_id, first, marker, min(stable, marker + 1))

    # the end of a partition

    def _cut(
        self,
        each: BackedPartition,
        segments: Sequence[BackedSegment],
        directory: Path,
        states: States,
        restored: Restored,
    ) -> list[BackedSegment]:
        """Cut the partition's .log files at the end that `end_of` finds. Returns the segments that are left."""
        end = end_of(each.partition, _behind(each.settled, segments, directory), states)
        if end is None:
            return list(segments)
        kept = [one for one in segments if one.base < end] or list(segments[:1])
        last = max((one.last for one in segments if one.last is not None), default=end - 1)
        restored.left_out = last + 1 - end
        for one in segments[len(kept) :]:
            self._disk.remove(directory / build(FileName(FileKind.LOG, one.base)))
        path = directory / build(FileName(FileKind.LOG, kept[-1].base))
        source = FileSource(path)
        try:
            position = next(
                (row.position for row in _rows(source, 0) if row.base_offset >= end),
                source.size(),
            )
        finally:
            source.close()
        with self._disk.open(path) as file:
            file.truncate(position)
            file.sync()
        return kept

    # objects of the backup

    def _piece(self, piece: Piece, path: Path) -> None:
        with self._files.new_file(path) as file:
            position = 0
            for chunk in read_piece(self._store, piece):
                position += file.write([chunk], position)

    def _put(self, path: Path, data: bytes) -> None:
        with self._files.new_file(path) as file:
            file.write([data], 0)


def _has(image: MetadataImage, each: BackedPartition) -> bool:
    topic = image.topics.get(each.partition.topic)
    if topic is None or each.partition.partition not in topic.partitions:
        return False
    return each.topic_id is None or from_uuid(topic.id) == each.topic_id


def _behind(settled: tuple[int, int], segments: Iterable[BackedSegment], directory: Path) -> Iterator[BatchRow]:
    """Yield the batches that may have been appended after the run read the ends of __transaction_state. settled: see
    BackedPartition."""
    base, position = settled
    for segment in segments:
        if segment.base < base or (segment.base == base and segment.size <= position):
            continue
        source = FileSource(directory / build(FileName(FileKind.LOG, segment.base)))
        try:
            yield from _rows(source, position if segment.base == base else 0)
        finally:
            source.close()


def _rows(source: FileSource, position: int) -> Iterator[BatchRow]:
    """Yield the batches that end after byte `position`, up to the first damage."""
    for part in read_segment(source, resync=False):
        if not isinstance(part, Window):
            return
        if part.position + part.stop > position:
            rows = (BatchRow._make(part.batches.row(i)) for i in range(part.batches.count))
            yield from (row for row in rows if row.position + row.size > position)
        part.release()


def whole_bytes(manifest: Manifest, topics: Collection[str]) -> int:
    """Return the bytes of the .log files that `restore` writes."""
    return sum(each.size for each in manifest.partitions if not topics or each.partition.topic in topics)
