"""What a new cluster must know to go on with a topic of which only the tier is left, by the objects alone.

    segments      those from which the offsets of the lineage are read, in an order in which the metadata cache keeps
                  all of them; any other segment of the store was superseded, and stays an orphan
    start, end    the log start offset, and the offset at which the new local log begins, empty
    epochs        the lineage of leader epochs up to the end: the new leader's epoch must be greater than all of them
    snapshot      the producers at the end: the .snapshot object of the last segment

A transaction whose end marker was not copied to the tier stays open, as nothing tells whether it was committed. The
last stable offset stays at its first record until an operator aborts it.

A partition with gaps, or with a segment that lacks objects, is not attached: a consumer would fail in the middle of it.
A partition with offsets that no read would return is not attached either, nor one with damage in its last segment, at
whose end the local log would begin.
The greatest timestamp of a segment is in the last entry of its time index, which Kafka writes when it rolls the
segment. Source: RemoteLogSegmentMetadata, TierStateMachine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from formats import producer_snapshot, time_index
from formats.checkpoint import EpochEntry
from formats.errors import FormatError
from formats.file_name import FileKind
from formats.kernels.columns import MAX_TIMESTAMP
from kcli.errors import KcliError
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.segment_reader import Window, read_segment
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.lineage import plan
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.records import SEGMENT, SEGMENT_UPDATE, record_bytes, segment_value, update_value
from kcli.tier.segment import RemoteSegment, SegmentState, TieredPartition
from kcli.tier.store import StoreFailed
from kcli.tier.stored_segment import INDEX_BYTES_MAX, epochs_in, has_epochs_of, read_object, survey, too_large
from kcli.tier.unread import unread

if TYPE_CHECKING:
    from kcli.tier.layout import SegmentObjects
    from kcli.tier.store import Store
    from kcli.tier.tier import PartitionTier, Tier

SNAPSHOT_BYTES_MAX = 64 << 20
LEADER_EPOCH_MAX = 2**30
"""The greatest leader epoch that is believed. Each election takes the next one, and an int32 has them."""


@dataclass(slots=True)
class Attachment:
    """What is attached of one partition. left_out: segments whose offsets other segments have, too. last_producer_id:
    the greatest in `snapshot`; -1 if there is none. open_transactions: producer id and first offset of each transaction
    that does not end in the tier. troubles: the reasons, in words, why the partition cannot be attached."""

    partition: TieredPartition
    segments: list[RemoteSegment] = field(default_factory=list)
    left_out: list[RemoteSegment] = field(default_factory=list)
    start: int = 0
    end: int = 0
    epochs: tuple[EpochEntry, ...] = ()
    snapshot: bytes | None = None
    last_producer_id: int = -1
    open_transactions: list[tuple[int, int]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of the segments' .log objects."""
        return sum(each.size for each in self.segments)

    @property
    def last_epoch(self) -> int:
        """The greatest leader epoch; -1 if there is none."""
        return max((each.epoch for each in self.epochs), default=-1)

    def missing_records(self, known: SegmentCache, broker_id: int, now_ms: int) -> list[bytes]:
        """Return the values of the metadata records after which the cache `known` has all of `segments` as copied; no
        records for those that it has already. Raises NotAttached if `known` has one of them as being deleted."""
        records = []
        for each in self.segments:
            begun = replace(each, broker_id=broker_id, event_timestamp_ms=now_ms)
            found = known.segment(each.id)
            if found is not None and found.state is SegmentState.DELETE_SEGMENT_STARTED:
                raise NotAttached(f"{self.partition}: the metadata says that segment {each.id} is being deleted")
            if found is None:
                records.append(record_bytes(SEGMENT, segment_value(begun)))
            if found is None or found.state is SegmentState.COPY_SEGMENT_STARTED:
                copied = update_value(begun, SegmentState.COPY_SEGMENT_FINISHED, broker_id, now_ms)
                records.append(record_bytes(SEGMENT_UPDATE, copied))
        return records


class NotAttached(KcliError):
    """A topic of the tier cannot be attached to the cluster."""


def attachment(tier: Tier, each: PartitionTier) -> Attachment:
    """Return what is to be attached of a partition (`each`) of a tier that was read without a log directory. Raises
    UnreadableInput, StoreFailed."""
    found = Attachment(each.partition)
    planned = each.plan()
    for first, last in planned.gaps:
        found.troubles.append(f"no segment has offsets {first:,}..{last:,}")
    for lost in unread(tier, each, planned):
        offsets = f"from {lost.first:,} on" if lost.last is None else f"{lost.first:,}..{lost.last:,}"
        found.troubles.append(f"offsets {offsets} would be missing: {lost.reason}")
    if not planned.parts:
        found.troubles.append("no segment can be read")
        return found
    used = {part.segment.id for part in planned.parts}
    for segment in sorted(each.copied(), key=lambda one: (one.end_offset, -one.start_offset, one.id)):
        if segment.id not in used:
            found.left_out.append(segment)
            continue
        objects = tier.objects(segment)
        if missing := objects.missing(has_txn_index=segment.has_txn_index):
            found.troubles.append(f"{objects.name(missing[0])} is missing")
        elif not has_epochs_of(epochs_in(tier.store, objects) or (), segment):
            name = objects.name(FileKind.REMOTE_LEADER_EPOCHS)
            found.troubles.append(f"{name} does not have the leader epochs of the segment's batches")
        elif (reason := too_large(segment.size)) is not None:
            found.troubles.append(f"{objects.name(FileKind.LOG)}: {reason}")
        found.segments.append(segment if found.troubles else _complete(tier.store, objects, segment))
    last_part = planned.parts[-1]
    found.start, found.end = planned.parts[0].first, last_part.last + 1
    epochs = LeaderEpochCache(each.lineage)
    epochs.truncate_from_end(found.end)
    epochs.truncate_from_start(found.start)
    found.epochs = epochs.entries
    if found.last_epoch > LEADER_EPOCH_MAX:
        found.troubles.append(
            f"leader epoch {found.last_epoch:,}: no log has had as many leaders, and brokers would run out of epochs"
        )
    if not found.troubles:
        _check_batches(found, tier.store, tier.objects(last_part.segment).name(FileKind.LOG), last_part.segment)
    if last_part.last == last_part.segment.end_offset and not found.troubles:
        _read_snapshot(found, tier.store, tier.objects(last_part.segment).name(FileKind.PRODUCER_SNAPSHOT))
    if not found.troubles:
        _check_replayed(found, each.lineage)
    return found


def _check_batches(found: Attachment, store: Store, name: str, last: RemoteSegment) -> None:
    """Add a trouble if the segment at whose end the log will begin is damaged."""
    _, end, damage = survey(store.open(name))
    if damage is not None:
        found.troubles.append(f"{store.place(name)}: {damage}")
    elif end != last.end_offset:
        found.troubles.append(f"{store.place(name)}: ends with offset {end:,}, not {last.end_offset:,}")


def _read_snapshot(found: Attachment, store: Store, name: str) -> None:
    try:
        data = read_object(store, name, SNAPSHOT_BYTES_MAX)
        entries = producer_snapshot.parse(data).entries
    except FormatError as error:
        found.troubles.append(f"{name}: {error}")
        return
    found.snapshot = data
    found.last_producer_id = max((each.producer_id for each in entries), default=-1)
    begun = [(each.producer_id, each.current_txn_first_offset) for each in entries]
    found.open_transactions = [(producer_id, first) for producer_id, first in begun if first >= 0]


def _complete(store: Store, objects: SegmentObjects, segment: RemoteSegment) -> RemoteSegment:
    """Return the segment as COPY_SEGMENT_STARTED, with its greatest timestamp: only broker and time are then missing
    for its metadata records."""
    greatest = _greatest_timestamp(store, objects)
    return replace(segment, state=SegmentState.COPY_SEGMENT_STARTED, max_timestamp_ms=greatest)


def _greatest_timestamp(store: Store, objects: SegmentObjects) -> int:
    if 0 < objects.sizes.get(FileKind.TIME_INDEX, 0) <= INDEX_BYTES_MAX:
        try:
            data = read_object(store, objects.name(FileKind.TIME_INDEX), INDEX_BYTES_MAX)
            if entries := time_index.parse(data).entries:
                return entries[-1].timestamp
        except StoreFailed:
            raise
        except (KcliError, FormatError):
            pass
    greatest = -1
    source = store.open(objects.name(FileKind.LOG))
    try:
        for part in read_segment(source, check_crc=False):
            if isinstance(part, Window):
                times = (part.batches.field(i, MAX_TIMESTAMP) for i in range(part.batches.count))
                greatest = max(greatest, *times)
                part.release()
    finally:
        source.close()
    return greatest


def _check_replayed(found: Attachment, lineage: Sequence[EpochEntry]) -> None:
    """Add a trouble unless brokers that replay the metadata records find a segment for each offset."""
    metadata = RemoteLogMetadata()
    try:
        for value in found.missing_records(SegmentCache(), 0, 0):
            metadata.replay(value)
    except (Refused, FormatError) as error:
        found.troubles.append(f"brokers would not take the records of its segments: {error}")
        return
    replayed = plan(metadata.caches[found.partition], lineage, found.start, found.end)
    if replayed.gaps:
        first, last = replayed.gaps[0]
        found.troubles.append(f"brokers would not find offsets {first:,}..{last:,}, which overlapping segments have")
