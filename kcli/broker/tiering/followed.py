"""Replays one partition of `__remote_log_metadata`: the records about the user partitions that this broker follows.

    record       value: frame 1, api key, version; then, in each kind of record, the user partition that it is about:
                 topic name as a compact string, topic id, number int32
    position     the offset of the next record to read
    replayed_to  of a followed partition: the offset after its last replayed record

A partition that is followed later than others needs the records from the topic's start: the position goes back to 0,
and the others skip the records that they have replayed. A followed partition is ready once the position has reached the
end offset that the topic's partition had when it was followed. The leader of a partition of the topic also keeps the
unfinished deletions of user partitions (`keep_deletions`), as the broker that has begun a deletion may have crashed. A
record that cannot be decoded, that contradicts earlier ones, or that no broker writes (kcli.tier.metadata), is logged
and skipped; Kafka 4.3 ends its reader of the topic at such a record, or acts on it. Records about other partitions are
not decoded. Source: ConsumerTask, RemotePartitionMetadataStore.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from formats import internal_topic
from formats.errors import FormatError, Truncated
from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.message import read_uvarint, uuid_bytes
from formats.varint import uvarint
from kcli.errors import KcliError
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import BytesSource
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.metadata import TOPIC, VALUE_BYTES_MAX, RemoteLogMetadata, metadata_partition
from kcli.tier.records import API_KEYS, PARTITION_DELETE
from kcli.tier.segment import PartitionDeleteState, TieredPartition, partition_of

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.process.turns import Parts

log = logging.getLogger("kcli.broker")

RECORDS_AT_ONCE: Final = 50
"""The greatest number of records that one turn of the event loop replays; a record of a broker takes up to 50 us."""
AT_ONCE_S: Final = 0.005
"""The time, in seconds, after which a turn ends behind the current record: records that no broker writes may take
longer."""
TABLE_RECORDS: Final = 1024
HEAD_BYTES: Final = 3
DAMAGED: Final = UNREADABLE | FAULT_BAD_CRC
ID_AND_NUMBER_BYTES: Final = 20
DELETIONS_MAX: Final = 100_000
"""The greatest number of unfinished deletions that are kept in memory, however many the topic has."""


class NotReady(KcliError):
    """The records about a partition are not all replayed yet, or the partition is not followed."""


class MetadataFailed(KcliError):
    """A record was not appended in time, or not replayed here after that. It may be in the topic nevertheless, now or
    later."""


class Followed:
    """A user partition whose records are replayed. topic_name: see RemoteLogMetadata. replayed_to: the offset after its
    last replayed record. end_offset: the position at which the partition is ready; None until it is known."""

    __slots__ = ("_metadata", "_ready", "_topic_name", "_waits", "end_offset", "is_ready", "partition", "replayed_to")

    def __init__(self, partition: TieredPartition, topic_name: Callable[[str], str | None]) -> None:
        self.partition, self._topic_name = partition, topic_name
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits: list[tuple[int, asyncio.Future[None]]] = []
        self.restart()

    def restart(self) -> None:
        """Forget the replayed records. The partition is not ready until they are replayed again."""
        self._metadata = RemoteLogMetadata(self._topic_name)
        self.replayed_to = 0
        self.end_offset: int | None = None
        self.is_ready = False
        if self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()

    @property
    def cache(self) -> SegmentCache:
        """The partition's segments in the tier. Raises NotReady."""
        self._check()
        return self._metadata.caches.setdefault(self.partition, SegmentCache())

    @property
    def deletion(self) -> PartitionDeleteState | None:
        """How far the deletion of the partition has come; None if none has begun. Raises NotReady."""
        self._check()
        return self._metadata.deleting.get(self.partition)

    def _check(self) -> None:
        if not self.is_ready:
            raise NotReady(f"{self.partition}: the records of {TOPIC} are not all read yet")

    def replay(self, offset: int, value: bytes) -> None:
        """Replay the record at an offset, unless it was replayed before. Raises Refused, FormatError."""
        if offset < self.replayed_to:
            return
        self.replayed_to = offset + 1
        self._metadata.replay(value)

    def reached(self, position: int) -> None:
        """Note that all records below `position` are read, and end the waits that this satisfies."""
        if not self.is_ready and self.end_offset is not None and position >= self.end_offset:
            self.is_ready = True
            if not self._ready.done():
                self._ready.set_result(None)
        if self._waits:
            for offset, future in self._waits:
                if offset < self.replayed_to and not future.done():
                    future.set_result(None)
            self._waits = [each for each in self._waits if not each[1].done()]

    async def wait_ready(self) -> None:
        """Wait until the partition is ready. Raises NotReady if it is forgotten."""
        while not self.is_ready:
            await asyncio.shield(self._ready)

    async def wait_replayed(self, offset: int, timeout_s: float) -> None:
        """Wait until the partition's record at an offset is replayed. Raises MetadataFailed after timeout_s, or if the
        partition is forgotten."""
        if offset < self.replayed_to:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits.append((offset, future))
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            reason = f"{self.partition}: the record at offset {offset} of {TOPIC} is not read within {timeout_s:g} s"
            raise MetadataFailed(reason) from None

    def end(self, reason: str) -> None:
        """End all waits with NotReady or MetadataFailed, as the partition is no longer followed."""
        if not self._ready.done():
            self._ready.set_exception(NotReady(f"{self.partition}: {reason}"))
            self._ready.exception()  # retrieved, as perhaps nothing awaits it
        for _, future in self._waits:
            if not future.done():
                future.set_exception(MetadataFailed(f"{self.partition}: {reason}"))
        self._waits.clear()


class Deletion(NamedTuple):
    """An unfinished deletion of a user partition from the tier. broker_id: the broker that deletes the segments.
    since_ms: the time of the deletion's last record, in ms since 1970."""

    partition: TieredPartition
    broker_id: int
    since_ms: int


class _Deletions:
    """The unfinished deletions of which one partition of `__remote_log_metadata` has the records. end_offset: as in
    Followed."""

    def __init__(self, number: int, count: int) -> None:
        """number: the partition of `__remote_log_metadata`, which has `count` partitions."""
        self._number, self._count = number, count
        self._begun: dict[TieredPartition, Deletion] = {}
        self._read_to = 0
        self.end_offset: int | None = None
        self.is_ready = False

    def replay(self, offset: int, value: bytes) -> None:
        """Replay a PARTITION_DELETE record, unless it was replayed before. Raises Refused, FormatError."""
        if offset < self._read_to:
            return
        self._read_to = offset + 1
        record = internal_topic.decode(TOPIC, None, value).value
        assert record is not None, "a metadata record has a value"
        partition, state = partition_of(record["topicIdPartition"]), record["remotePartitionDeleteState"]
        if (place := metadata_partition(partition, self._count)) != self._number:  # so is its end
            raise Refused(f"records about {partition} are in {TOPIC}-{place}")
        if state not in tuple(PartitionDeleteState):
            raise Refused(f"no state of a partition's deletion has the number {state}")
        if state == PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._begun.pop(partition, None)
        elif len(self._begun) < DELETIONS_MAX:
            self._begun[partition] = Deletion(partition, record["brokerId"], record["eventTimestampMs"])

    def unfinished(self) -> list[Deletion]:
        """Return the deletions that have begun and are not finished; no deletions until all records are read."""
        return list(self._begun.values()) if self.is_ready else []

    def reached(self, position: int) -> None:
        """Note that all records below `position` are read: become ready at `end_offset`."""
        self.is_ready = self.is_ready or (self.end_offset is not None and position >= self.end_offset)


class MetadataPartition:
    """One partition of `__remote_log_metadata`, which has `count` partitions. number: this partition's. topic_name: see
    RemoteLogMetadata. position: the offset of the next record to read. round: grows whenever the position is set to
    another offset; records that were read in an earlier round are not replayed."""

    def __init__(self, number: int, count: int, topic_name: Callable[[str], str | None]) -> None:
        self.number = number
        self._count, self._topic_name = count, topic_name
        self.position = 0
        self.round = 0
        self._deletions: _Deletions | None = None
        self._topic_id: UUID | None = None
        self._reported = ""
        self._followed: dict[bytes, Followed] = {}

    def __str__(self) -> str:
        return f"{TOPIC}-{self.number}"

    def __bool__(self) -> bool:
        """Whether this partition must be read: it has a followed partition, or the deletions are kept."""
        return bool(self._followed) or self._deletions is not None

    @property
    def followed(self) -> list[Followed]:
        """The user partitions that are followed."""
        return list(self._followed.values())

    @property
    def needs_end(self) -> bool:
        """Whether a user partition was followed, or the deletions kept, after the last call of `ends_at`."""
        return any(each.end_offset is None for each in self._needs)

    @property
    def _needs(self) -> Iterator[Followed | _Deletions]:
        yield from self._followed.values()
        if self._deletions is not None:
            yield self._deletions

    # which partitions

    def follow(self, partition: TieredPartition) -> Followed:
        """Begin to replay the records about a user partition, from the topic's start on, unless it is followed already.
        Return the state of the replay."""
        head = _head_of(partition)
        if head not in self._followed:
            self._followed[head] = Followed(partition, self._topic_name)
            self.move_to(0)
        return self._followed[head]

    def forget(self, partition: TieredPartition, reason: str) -> None:
        """Stop replaying the records about a user partition, and end the waits for it with this reason."""
        known = self._followed.pop(_head_of(partition), None)
        if known is not None:
            known.end(reason)

    def keep_deletions(self, *, is_leader: bool) -> None:
        """Begin to keep the unfinished deletions, which are read from the topic's start on, or keep them no longer.
        is_leader: whether this broker leads this partition of the topic, and so has to keep them."""
        if is_leader and self._deletions is None:
            self._deletions = _Deletions(self.number, self._count)
            self.move_to(0)
        elif not is_leader:
            self._deletions = None

    def unfinished(self) -> list[Deletion]:
        """Return the deletions that have begun and are not finished; no deletions until all records are read."""
        return [] if self._deletions is None else self._deletions.unfinished()

    # what was read

    def is_of(self, topic_id: UUID) -> None:
        """Note the topic's id. If it has changed, the topic was deleted and created again: forget all records, and read
        them from the start."""
        if self._topic_id not in (None, topic_id):
            log.warning("%s was deleted and created again: its records are read anew", self)
            self.restart()
        self._topic_id = topic_id

    def restart(self) -> None:
        """Forget all replayed records of this partition of __remote_log_metadata, and read it from its first offset
        on."""
        for each in self._followed.values():
            each.restart()
        if self._deletions is not None:
            self._deletions = _Deletions(self.number, self._count)
        self.move_to(0)

    def is_beyond(self, start_offset: int) -> None:
        """Note that the position is not within the leader's log, which begins at start_offset. If records were removed
        at its start, continue at start_offset. If the log ends before the position, it has lost records that were
        replayed: restart."""
        if start_offset > self.position:
            self.move_to(start_offset)
            self._moved()
        else:
            log.warning("%s ends before offset %d: its records are read anew", self, self.position)
            self.restart()

    def move_to(self, position: int) -> None:
        """Set the position at which reading continues, and begin a new round."""
        self.position = position
        self.round += 1

    def ends_at(self, end_offset: int) -> None:
        """Note the end offset of this partition of the topic: user partitions that were followed since the last call
        are ready once the position has reached it."""
        for each in self._needs:
            if each.end_offset is None:
                each.end_offset = end_offset
        self._moved()

    def replay(self, data: bytes | memoryview, reading: int) -> Parts[None]:
        """Replay batches that were read at the position in the round `reading`, and move the position after them. Stop
        if a new round has begun meanwhile."""
        troubles = _Troubles()
        table = RecordTable(TABLE_RECORDS)
        count, until = 0, time.monotonic() + AT_ONCE_S
        if self.round != reading:
            return
        for part in read_segment(BytesSource(data, str(self))):
            if isinstance(part, Damage):
                if not (part.at_end and isinstance(part.error, Truncated)):  # a Fetch may end within a batch
                    troubles.add(self.position, part.error.reason)
                continue
            for offset, value in _records(part, table):
                self._replay(offset, value, troubles)
                count += 1
                if count % RECORDS_AT_ONCE == 0 or time.monotonic() > until:
                    yield
                    until = time.monotonic() + AT_ONCE_S
                    if self.round != reading:
                        return
            self.position = max(self.position, _end_of(part, troubles))
            part.release()
            self._moved()
        self._report(troubles)

    def _report(self, troubles: _Troubles) -> None:
        """Log which records were skipped, but not the same line twice in a row: damaged bytes may be read again and
        again."""
        text = troubles.text
        if text and text != self._reported:
            log.warning("%s: %s", self, text)
        self._reported = text or self._reported

    def _moved(self) -> None:
        for each in self._needs:
            each.reached(self.position)

    def _replay(self, offset: int, value: bytes | None, troubles: _Troubles) -> None:
        if offset < self.position:
            return
        try:
            head = _head_in(value)
            followed = self._followed.get(head)
            if followed is not None and value is not None:
                followed.replay(offset, value)
            if self._deletions is not None and value is not None and value[1] == API_KEYS[PARTITION_DELETE]:
                self._deletions.replay(offset, value)
        except (Refused, FormatError) as error:
            troubles.add(offset, str(error))


class _Troubles:
    """The records and batches of one read that were skipped, as one line for the log."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def add(self, offset: int, reason: str) -> None:
        """Note a skipped record or batch, and its offset."""
        self._count += 1
        self._first = self._first or f"offset {offset}: {reason}"

    @property
    def text(self) -> str:
        """The line for the log; empty if nothing was skipped."""
        if not self._count:
            return ""
        what = "a record is passed over" if self._count == 1 else f"{self._count:,} records are passed over, first"
        return f"{what}: {self._first}"


def _records(window: Window, table: RecordTable) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of each record of the window, without control batches and damaged batches."""
    batches = window.batches
    for buffer in decode(window, table):
        for i in range(table.count):
            record = RecordRow._make(table.row(i))
            batch = BatchRow._make(batches.row(record.batch))
            if not batch.is_control and not batch.faults & DAMAGED:
                yield record.offset, record.value(buffer)


def _end_of(window: Window, troubles: _Troubles) -> int:
    """Return the offset after the last batch with a right CRC, 0 if there is none, and note the damaged batches, whose
    records were skipped. Batches with a wrong CRC at the end are read again, as their bytes may be right later."""
    end = 0
    for i in range(window.batches.count):
        batch = BatchRow._make(window.batches.row(i))
        if batch.faults & DAMAGED:
            troubles.add(batch.base_offset, "a damaged batch")
        if not batch.faults & FAULT_BAD_CRC:
            end = batch.last_offset + 1
    return end


def _head_of(partition: TieredPartition) -> bytes:
    """Return the bytes that name a user partition in each record about it: those after the first HEAD_BYTES."""
    name = partition.topic.encode()
    return uvarint(len(name) + 1) + name + uuid_bytes(partition.topic_id) + partition.partition.to_bytes(4)


def _head_in(value: bytes | None) -> bytes:
    """Return the bytes that name the user partition of a record, see `_head_of`. Raises Refused, FormatError for bytes
    that are no record of the topic."""
    if value is not None and len(value) > VALUE_BYTES_MAX:
        raise Refused(f"a record of {len(value):,} bytes")
    if value is None or value[:1] != b"\1" or len(value) < HEAD_BYTES or value[1] > 2 or value[2] != 0:
        internal_topic.decode(TOPIC, None, value)
        raise Refused("no record of this topic")
    length, at = read_uvarint(value, HEAD_BYTES, "the length of a topic's name")
    end = at + length - 1 + ID_AND_NUMBER_BYTES
    if end > len(value):
        raise Truncated("the record ends within its partition", len(value))
    return value[HEAD_BYTES:end]
