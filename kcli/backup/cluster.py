"""A run of a backup over the network: what the leaders of a cluster's partitions have, as one log directory.

    1  read the high watermarks of all partitions: the records below them were appended before the run
    2  copy the batches of __transaction_state, then of __consumer_offsets, that the store does not have yet
    3  copy all other partitions, up to their present high watermarks: so no group has committed an offset above them
    4  make the metadata log: a snapshot with the topics, and with the other settings that a cluster tells a client
    5  write the manifest

What was restored lies in local segments alone. Topics therefore lose the configurations of tiered storage, and
__remote_log_metadata is left out: a second cluster with these records would delete the first one's segments.

This is the order of a run of log directories (kcli.backup.backup), and `kcli restore` treats both alike: it makes the
log directory of a single node that has all partitions.

A partition is copied from the last batch of the previous run on, if the leader still has this batch, with the same CRC
and leader epoch. Else it is copied anew, also if its log now begins above that batch. So is a compacted topic if the
previous run is older than delete.retention.ms: the cleaner may have removed tombstones since, and the records that they
delete would come back. Segments begin at segment.bytes, not where the leader has begun its own.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from formats import properties
from formats.checkpoint import EpochEntry
from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, FileKind
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH, PRODUCER_ID, SIZE, START, BatchRow
from formats.message import uuid_text
from kcli.backup.backup import HEADER_BYTES, OFFSETS_TOPIC, Advance, Result, last_sound
from kcli.backup.manifest import (
    BackedDirectory,
    BackedPartition,
    BackedSegment,
    ClusterState,
    Manifest,
    Piece,
    Tail,
    build,
)
from kcli.backup.uploads import Uploads
from kcli.client.cluster_settings import Settings, records, without_tier
from kcli.client.leaders import Described
from kcli.client.log_reading import EARLIEST, LATEST, LogReader, OffsetOutOfRange
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import UsageError
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_directory import METADATA_TOPIC_ID
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import BytesSource
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid, sole_replica_record
from kcli.metadata.producer_ids import LONG_MAX, skipping_record
from kcli.metadata_log.quorum_records import QuorumRecords
from kcli.metadata_log.snapshot_file import SnapshotId, image_bytes
from kcli.protocol.topic_partition import TopicPartition
from kcli.tier.metadata import TOPIC as REMOTE_LOG_METADATA
from kcli.tier.store import Store

FETCH_BYTES = 8 << 20
PART_BYTES = 32 << 20
"""About how many bytes an object gets, and how many are kept in memory."""
SEGMENT_BYTES_DEFAULT = 1 << 30
COUNT = BatchRow._fields.index("count")
COLUMNS = len(BatchRow._fields)
RELATIVE_OFFSET_MAX = (1 << 31) - 1
PASSES = 50
COORDINATORS = (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
"""In the order in which they are copied, before all others."""


def back_up_cluster(
    reader: LogReader,
    settings: Callable[[Collection[str]], Settings],
    store: Store,
    now_ms: Callable[[], int],
    advance: Advance = lambda _: None,
) -> Result:
    """Add a run of a cluster to a store. settings: returns the configurations of topics, by their names. advance:
    called with the number of bytes of each object.

    `troubles` of the result has a text for each partition without a leader, of which the run has what the previous run
    had, and for each batch that is damaged on its leader. Raises UnreadableInput; UsageError if the store has the
    backup of log directories, or of another cluster; NobodyAnswers, ErrorAnswer, OSError.
    """
    previous, passed_over = last_sound(store)
    described = reader.describe()
    if previous is not None and previous.cluster is None:
        raise UsageError(f"{store.address} has the backup of log directories: give another --to")
    known = (
        None if previous is None else properties.parse((previous.directories[0].meta_properties or "").encode()).entries
    )
    if known is not None and known.get("cluster.id") != described.cluster_id:
        raise UsageError(
            f"{store.address} has the backup of cluster {known.get('cluster.id')}, and this is {described.cluster_id}: "
            "give another --to"
        )
    meta = known or {
        "version": "1",
        "cluster.id": described.cluster_id,
        "node.id": str(min(described.brokers, default=1)),
        "directory.id": uuid_text(uuid.uuid4().bytes),
    }
    result = _Run(reader, settings, store, previous, meta, now_ms, advance).run(described)
    result.troubles += (f"{each.path}: {each.reason}" for each in passed_over)
    return result


class _Run:
    def __init__(
        self,
        reader: LogReader,
        settings: Callable[[Collection[str]], Settings],
        store: Store,
        previous: Manifest | None,
        meta: Mapping[str, str],
        now_ms: Callable[[], int],
        advance: Advance,
    ) -> None:
        self._reader, self._read_settings, self._store = reader, settings, store
        self._meta = dict(meta)
        self._now_ms, self._advance = now_ms, advance
        self._previous = previous
        self._uploads = Uploads(store, previous)
        self._before = (
            {} if previous is None else {(each.partition, each.topic_id): each for each in previous.partitions}
        )
        known = None if previous is None else previous.cluster
        self._next_producer_id = 0 if known is None else known.next_producer_id
        self._settled: Mapping[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._at_ms = 0
        self._troubles: list[str] = []

    def run(self, described: Described) -> Result:
        started_ms = self._now_ms()
        self._settled = self._reader.offsets(list(described.leaders), LATEST)
        settings = self._read_settings([each for each in COORDINATORS if each in described.topic_ids])
        partitions: list[BackedPartition] = []
        for topic in COORDINATORS:
            partitions += self._partitions(described, lambda each, topic=topic: each == topic, settings)  # type: ignore[misc]
        described = self._reader.describe()
        topics = set(described.topic_ids) - {REMOTE_LOG_METADATA}
        settings = self._read_settings(topics)
        without_tier(settings)
        partitions += self._partitions(described, lambda each: each in topics and each not in COORDINATORS, settings)
        described = self._reader.describe()
        partitions = [each for each in partitions if _is_still(each, described)]
        here = {each.partition for each in partitions}
        image = self._image(described, here, settings)
        checkpoints = {
            str(FileKind.LOG_START_OFFSETS): {each: self._starts[each] for each in here if self._starts.get(each)},
            str(FileKind.REPLICATION_OFFSETS): {each: self._ends[each] for each in here if each in self._ends},
        }
        meta = properties.build(properties.Properties(self._meta)).decode()
        directory = BackedDirectory("", meta, checkpoints, {})
        partitions.append(self._metadata_log(image, self._at_ms))
        state = ClusterState(self._next_producer_id)
        manifest = Manifest(started_ms, self._at_ms, (directory,), tuple(partitions), state)
        name, data = build(manifest)
        self._store.write(name, [data])
        uploads = self._uploads
        return Result(name, manifest, uploads.copied, uploads.objects, self._troubles, settings.left_out)

    # partitions

    def _partitions(
        self, described: Described, is_chosen: Callable[[str], bool], settings: Settings
    ) -> Iterator[BackedPartition]:
        """Copy the partitions of the topics for which `is_chosen` is true, up to their present high watermarks."""
        chosen = sorted(each for each in described.leaders if is_chosen(each.topic))
        self._ends |= self._reader.offsets(chosen, LATEST)
        self._at_ms = self._now_ms()
        self._starts |= self._reader.offsets(chosen, EARLIEST)
        for each in chosen:
            topic_id = from_uuid(described.topic_ids[each.topic])
            before = self._before.get((each, topic_id))
            copied = None
            if each in self._ends and each in self._starts:
                copied = self._partition(each, topic_id, before, settings)
            elif described.leaders[each] is None:
                what = "has nothing of it" if before is None else "has what the one before had"
                self._troubles.append(f"{each}: it has no leader; the run {what}")
                copied = BackedPartition(each, topic_id, (), (0, 0), ()) if before is None else before
            if copied is not None:
                yield copied

    def _partition(
        self, each: TopicPartition, topic_id: str, before: BackedPartition | None, settings: Settings
    ) -> BackedPartition | None:
        """Copy a partition; None if it was deleted meanwhile.

        The cleaner may remove a record before it is read, because a later record has its key; if that is above the end,
        the copy lacks the key. So a compacted log is read on to its new end, again and again, until the range read last
        has a record at each offset. The copy then has the later record of each removed one.
        """
        log = _Log(
            f"{each.topic}-{each.partition}-{topic_id}",
            settings.segment_bytes.get(each.topic) or SEGMENT_BYTES_DEFAULT,
            self._settled.get(each, 0),
        )
        if before is not None and self._goes_on(each, before, settings):
            log.resume(before, self._starts[each])
        begin = max(log.end, self._starts[each])
        for left in reversed(range(PASSES)):
            records = log.records
            reached = self._copy(each, log, begin)
            if reached is None:
                return None
            is_whole = log.records - records == reached - begin
            if each.topic not in settings.tombstones_ms or is_whole or reached < self._ends[each]:
                break
            self._ends |= self._reader.offsets([each], LATEST)
            self._at_ms = self._now_ms()
            begin = reached
            if not left:
                self._troubles.append(f"{each}: cleaned faster than it is read: keys may be missing")
        self._store_parts(log)
        segments = tuple(log.finish(self._starts[each]))
        epochs = _epochs_from(log.epochs, max(segments[0].base, self._starts[each]))
        return BackedPartition(each, topic_id, epochs, log.settled, segments)

    def _copy(self, each: TopicPartition, log: _Log, begin: int) -> int | None:
        """Read from offset `begin` up to the partition's end. Returns the end offset of what was read, which is below
        the partition's end if damage is in the way; None if the partition was deleted meanwhile."""
        while begin < self._ends[each]:
            try:
                fetched = self._reader.fetch(each, begin, FETCH_BYTES)
            except OffsetOutOfRange:  # retention has deleted the offset, or the log was truncated
                start = self._reader.offsets([each], EARLIEST).get(each, 0)
                if start <= begin:
                    self._troubles.append(f"{each}: its leader has no offset {begin:,} any more")
                    return begin
                begin = self._starts[each] = start
                log.restart()
                continue
            if fetched is None:
                return None
            following = self._take(each, log, fetched, begin)
            if following is None:
                return begin
            begin = following
        return begin

    def _goes_on(self, each: TopicPartition, before: BackedPartition, settings: Settings) -> bool:
        """Whether the run can append to what the previous run has (`before`): the leader still has the last batch of
        the previous run, the store has its objects, and no tombstone after that batch can be gone."""
        last = before.segments[-1] if before.segments else None
        if last is None or last.last is None or last.tail is None:
            return False
        if not self._starts[each] <= last.last < self._ends[each]:
            return False
        if not self._uploads.are_known(piece for one in before.segments for piece in one.parts):
            return False
        elapsed_ms = self._now_ms() - (self._previous.started_ms if self._previous is not None else 0)
        tombstones_ms = settings.tombstones_ms.get(each.topic)
        if tombstones_ms is not None and elapsed_ms >= tombstones_ms:
            return False
        try:
            fetched = self._reader.fetch(each, last.last, 1)
        except OffsetOutOfRange:
            return False
        header = bytes.fromhex(last.tail.header)
        return fetched is not None and fetched[: len(header)] == header

    def _take(self, each: TopicPartition, log: _Log, data: bytes, begin: int) -> int | None:
        """Add to `log` the batches of a Fetch response (`data`) that lie below the partition's end. Returns the next
        offset to fetch; None if the response has no sound batch from offset `begin` on."""
        following, end = None, self._ends[each]
        for part in read_segment(BytesSource(data, str(each)), resync=False, window_bytes=max(1, len(data))):
            if isinstance(part, Damage):  # the response cuts its last batch, or the leader's log is damaged
                break
            batches, view = part.batches, memoryview(part.data)
            fault = batches.first_fault()
            count = batches.count if fault < 0 else fault
            first = bisect_left(range(count), begin, key=lambda i: batches.field(i, LAST_OFFSET))
            stop = bisect_left(range(count), end, key=lambda i: batches.field(i, BASE_OFFSET))
            while first < stop:
                until = log.room_until(batches, first, stop)
                if until == first:
                    self._store_parts(log)
                    log.roll()
                    continue
                log.add(batches, view, first, until)
                first = until
            if stop:
                producers = _column(batches, PRODUCER_ID, 0, stop)
                self._next_producer_id = max(self._next_producer_id, min(max(producers) + 1, LONG_MAX))
                behind = batches.field(stop - 1, LAST_OFFSET) + 1
                following = behind if behind > begin else None
            if stop < count:
                following = end
            if fault >= 0:
                break
        if log.unstored >= PART_BYTES:
            self._store_parts(log)
        if following is None:
            where = f"no sound batch at offset {begin:,} of its leader"
            self._troubles.append(f"{each}: {where}; the run ends there")
        return following

    # objects

    def _store_parts(self, log: _Log) -> None:
        data = log.take()
        if data:
            digest = hashlib.sha256()
            for each in data:
                digest.update(each)
            size = sum(map(len, data))
            name = f"{log.home}/{log.base:020}-{log.position - size:010}-{digest.hexdigest()[:32]}{FileKind.LOG}"
            log.parts.append(self._put(Piece(name, size, digest.hexdigest()), data))

    def _put(self, piece: Piece, data: Sequence[bytes]) -> Piece:
        self._uploads.put(piece, data)
        self._advance(piece.size)
        return piece

    # the metadata log

    def _image(self, described: Described, here: Collection[TopicPartition], settings: Settings) -> MetadataImage:
        """Return the metadata of a single node that has the partitions `here`."""
        image, node_id = MetadataImage(), int(self._meta["node.id"])
        for name, record in records(settings):
            image.apply(name, record, 0)
        topics = sorted({each.topic for each in here})
        for topic in topics:
            image.apply("TopicRecord", {"name": topic, "topicId": from_uuid(described.topic_ids[topic])}, 0)
        for each in sorted(here):
            topic_id, epoch = from_uuid(described.topic_ids[each.topic]), max(0, described.leader_epochs[each])
            directory_id = self._meta["directory.id"]
            record = sole_replica_record(topic_id, each.partition, node_id, directory_id, epoch)
            image.apply("PartitionRecord", record, 0)
        image.apply("ProducerIdsRecord", skipping_record(self._next_producer_id), 0)
        return image

    def _metadata_log(self, image: MetadataImage, at_ms: int) -> BackedPartition:
        """Return the metadata log: only a snapshot, after which Kafka begins the log."""
        which = SnapshotId(1, 1)
        data = image_bytes(image, which, at_ms, QuorumRecords().controls())
        digest = hashlib.sha256(data).hexdigest()
        home = f"{METADATA_DIRECTORY}-{METADATA_TOPIC_ID}"
        name = f"{home}/{which.file_name[:-11]}-{digest[:32]}.checkpoint"
        piece = self._put(Piece(name, len(data), digest), [data])
        partition = TopicPartition(METADATA_TOPIC, 0)
        return BackedPartition(partition, METADATA_TOPIC_ID, (), (0, 0), (), snapshots={which.file_name: piece})


def _is_still(each: BackedPartition, described: Described) -> bool:
    """Whether a partition's topic still exists. If it was deleted, the records may be those of a new topic with its
    name."""
    topic_id = described.topic_ids.get(each.partition.topic)
    return topic_id is not None and from_uuid(topic_id) == each.topic_id


def _epochs_from(epochs: Iterable[tuple[int, int]], start: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs (epoch, start offset) of a log whose log start offset is `start`, without those that end
    below it."""
    known = LeaderEpochCache(EpochEntry(*each) for each in epochs)
    known.truncate_from_start(start)
    return tuple((each.epoch, each.start_offset) for each in known.entries)


def _column(batches: BatchTable, column: int, first: int, stop: int) -> memoryview:
    """Return the values of a column in the rows [first, stop) of a batch table."""
    return memoryview(batches).cast("B").cast("q")[first * COLUMNS + column : stop * COLUMNS : COLUMNS]


@dataclass(slots=True)
class _Log:
    """A partition's log in the run: closed segments, and the active one, to which batches are added.

    home: the beginning of its objects' names. settled_offset: the offset below which all was appended before the run.
    base, position, last, tail, parts: base offset, bytes, last offset, Tail and objects of the active segment. settled:
    see BackedPartition. unstored: the number of bytes not yet in an object. records: the number of records added.
    """

    home: str
    segment_bytes: int
    settled_offset: int
    closed: list[BackedSegment] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    settled: tuple[int, int] = (0, 0)
    base: int | None = None
    position: int = 0
    last: int | None = None
    tail: Tail | None = None
    parts: list[Piece] = field(default_factory=list)
    unstored: int = 0
    records: int = 0
    _data: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset after the last batch; 0 without one."""
        if self.last is not None:
            return self.last + 1
        return next((each.last + 1 for each in reversed(self.closed) if each.last is not None), 0)

    def resume(self, before: BackedPartition, start: int) -> None:
        """Begin with the segments of the previous run (`before`), except those that end below the log start offset,
        `start`."""
        kept = [
            each
            for each, following in zip(before.segments, [*before.segments[1:], None], strict=True)
            if following is None or following.base > start
        ]
        self.closed, last = list(kept[:-1]), kept[-1]
        self.epochs = list(before.epochs)
        self.base, self.position, self.last, self.tail = last.base, last.size, last.last, last.tail
        self.parts = list(last.parts)
        self.settled = last.base, last.size

    def restart(self) -> None:
        """Forget all batches."""
        self.closed, self.epochs, self.settled, self.records = [], [], (0, 0), 0
        self.base, self.position, self.last, self.tail, self.parts = None, 0, None, None, []
        self.take()

    def room_until(self, batches: BatchTable, first: int, stop: int) -> int:
        """Return the row up to which (exclusive) the batches [first, stop) have room in the active segment; `first` if
        batch `first` has to begin a new one."""
        if self.base is None:
            self.base = batches.field(first, BASE_OFFSET)
        base, origin = self.base, self.position - batches.field(first, START)
        rows = range(first, stop)
        by_bytes = bisect_right(
            rows, self.segment_bytes, key=lambda i: origin + batches.field(i, START) + batches.field(i, SIZE)
        )
        by_offset = bisect_right(rows, base + RELATIVE_OFFSET_MAX, key=lambda i: batches.field(i, LAST_OFFSET))
        until = first + min(by_bytes, by_offset)
        return first + 1 if until == first and self.position == 0 else until

    def roll(self) -> None:
        """Close the active segment, whose batches must be stored; the next batch begins a new one."""
        self._close()
        self.base, self.position, self.last, self.tail, self.parts = None, 0, None, None, []

    def add(self, batches: BatchTable, data: memoryview, first: int, stop: int) -> None:
        """Append the batches [first, stop) of the table to the segment, which has room for them. data: the bytes that
        the table describes: column START has the position of each batch in them."""
        assert self.base is not None, "room_until is called before"
        known = self.epochs[-1][0] if self.epochs else -1
        if batches.field(stop - 1, LEADER_EPOCH) > known:
            for i in range(first, stop):
                if (epoch := batches.field(i, LEADER_EPOCH)) > known:
                    self.epochs.append((epoch, batches.field(i, BASE_OFFSET)))
                    known = epoch
        begin, last = batches.field(first, START), batches.field(stop - 1, START)
        behind = last + batches.field(stop - 1, SIZE)
        unsettled = bisect_left(range(first, stop), self.settled_offset, key=lambda i: batches.field(i, BASE_OFFSET))
        if unsettled:
            row = first + unsettled - 1
            self.settled = self.base, self.position + batches.field(row, START) + batches.field(row, SIZE) - begin
        header = bytes(data[last : last + HEADER_BYTES])
        self.tail = Tail(self.position + last - begin, header.hex())
        self._data.append(bytes(data[begin:behind]))
        self.records += sum(_column(batches, COUNT, first, stop))
        self.position += behind - begin
        self.unstored += behind - begin
        self.last = batches.field(stop - 1, LAST_OFFSET)

    def take(self) -> list[bytes]:
        """Remove and return the bytes that are not in an object yet."""
        data, self._data, self.unstored = self._data, [], 0
        return data

    def finish(self, start: int) -> list[BackedSegment]:
        """Return all segments. start: the log start offset, which is the base offset of an empty log's segment."""
        if self.base is None:
            self.base = start
        self._close()
        return self.closed

    def _close(self) -> None:
        if self.base is not None:
            self.closed.append(BackedSegment(self.base, self.last, tuple(self.parts), self.tail))
