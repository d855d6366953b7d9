"""One partition of `__remote_log_metadata`, of which this broker replays the records about the partitions it follows.

    record   value: frame 1, api key, version; then in each kind of record the partition that it is about:
             name as a compact string, topic id, number int32
    position     the offset of the next record to read
    replayed_to  of a followed partition: the offset after its last replayed record

A partition that is followed later than others needs the records from the topic's start: the position goes back to 0,
and the others pass over what they have replayed. A partition is ready once the position has reached the end that the
topic's partition had when it was followed. The leader of a partition of the topic also keeps the deletions of
partitions that have begun in it and are not finished (`keep_deletions`): their broker may have crashed. A record that
cannot be decoded, or that contradicts those before it, is logged and passed over, where Kafka 4.3 ends its reader of
the topic; those about other partitions are not decoded. Source: ConsumerTask, RemotePartitionMetadataStore.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
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
from kcli.tier.metadata import TOPIC, RemoteLogMetadata
from kcli.tier.records import API_KEYS, PARTITION_DELETE
from kcli.tier.segment import PartitionDeleteState, TieredPartition, partition_of

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.process.turns import Parts

log = logging.getLogger("kcli.broker")

RECORDS_AT_ONCE: Final = 50
"""The greatest number of records that a part of the work replays; one takes up to 50 us."""
TABLE_RECORDS: Final = 1024
HEAD_BYTES: Final = 3
DAMAGED: Final = UNREADABLE | FAULT_BAD_CRC
ID_AND_NUMBER_BYTES: Final = 20
DELETIONS_MAX: Final = 100_000
"""The greatest number of deletions that are kept, whatever is in the topic."""


class NotReady(KcliError):
    """The records about a partition are not all replayed yet, or the partition is not followed."""


class MetadataFailed(KcliError):
    """A record was not appended, or not read again, in time. It may still be in the topic, or get there."""


class Followed:
    """A partition whose records are replayed. replayed_to: the offset after its last record. end_offset: the position
    at which it is ready, None before that is known."""

    __slots__ = ("_metadata", "_ready", "_waits", "end_offset", "is_ready", "partition", "replayed_to")

    def __init__(self, partition: TieredPartition) -> None:
        self.partition = partition
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits: list[tuple[int, asyncio.Future[None]]] = []
        self.restart()

    def restart(self) -> None:
        """Forget what was replayed."""
        self._metadata = RemoteLogMetadata()
        self.replayed_to = 0
        self.end_offset: int | None = None
        self.is_ready = False
        if self._ready.done():
            self._ready = asyncio.get_running_loop().create_future()

    @property
    def cache(self) -> SegmentCache:
        """The segments. Raises NotReady."""
        self._check()
        return self._metadata.caches.setdefault(self.partition, SegmentCache())

    @property
    def deletion(self) -> PartitionDeleteState | None:
        """How far the partition's deletion has come, None without one. Raises NotReady."""
        self._check()
        return self._metadata.deleting.get(self.partition)

    def _check(self) -> None:
        if not self.is_ready:
            raise NotReady(f"{self.partition}: the records of {TOPIC} are not all read yet")

    def replay(self, offset: int, value: bytes) -> None:
        """Replay the record at an offset, unless that is done. Raises Refused, FormatError."""
        if offset < self.replayed_to:
            return
        self.replayed_to = offset + 1
        self._metadata.replay(value)

    def reached(self, position: int) -> None:
        """Note that everything below `position` is read."""
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
        """End all waits, as the partition is followed no longer."""
        if not self._ready.done():
            self._ready.set_exception(NotReady(f"{self.partition}: {reason}"))
            self._ready.exception()  # nobody may wait for it
        for _, future in self._waits:
            if not future.done():
                future.set_exception(MetadataFailed(f"{self.partition}: {reason}"))
        self._waits.clear()


class Deletion(NamedTuple):
    """The deletion of a partition that has begun. broker_id: of the broker that deletes its segments. since_ms: the
    time of its last record, epoch ms."""

    partition: TieredPartition
    broker_id: int
    since_ms: int


class _Deletions:
    """The deletions that have begun in one partition of the topic. read_to: the offset after the last record that
    counts. end_offset: as in Followed."""

    def __init__(self) -> None:
        self._begun: dict[TieredPartition, Deletion] = {}
        self._read_to = 0
        self.end_offset: int | None = None
        self.is_ready = False

    def replay(self, offset: int, value: bytes) -> None:
        """Replay a PARTITION_DELETE record. Raises FormatError."""
        if offset < self._read_to:
            return
        self._read_to = offset + 1
        record = internal_topic.decode(TOPIC, None, value).value
        assert record is not None, "a metadata record has a value"
        partition = partition_of(record["topicIdPartition"])
        if record["remotePartitionDeleteState"] == PartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._begun.pop(partition, None)
        elif len(self._begun) < DELETIONS_MAX:
            self._begun[partition] = Deletion(partition, record["brokerId"], record["eventTimestampMs"])

    def unfinished(self) -> list[Deletion]:
        """Return the deletions that have begun and are not finished; none before all records are read."""
        return list(self._begun.values()) if self.is_ready else []

    def reached(self, position: int) -> None:
        """Note that everything below `position` is read."""
        self.is_ready = self.is_ready or (self.end_offset is not None and position >= self.end_offset)


class MetadataPartition:
    """One partition of the topic. number: its number. position: the offset of the next record to read. round: counts
    how often the position was set anew, so that what was read before is not taken for what follows. deletions: those
    that have begun in it; None if they are not kept."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.position = 0
        self.round = 0
        self._deletions: _Deletions | None = None
        self._topic_id: UUID | None = None
        self._reported = ""
        self._followed: dict[bytes, Followed] = {}

    def __str__(self) -> str:
        return f"{TOPIC}-{self.number}"

    def __bool__(self) -> bool:
        """Whether anything in it is needed: a partition that is followed, or the deletions."""
        return bool(self._followed) or self._deletions is not None

    @property
    def followed(self) -> list[Followed]:
        """The followed partitions."""
        return list(self._followed.values())

    @property
    def needs_end(self) -> bool:
        """Whether a partition was followed since `ends_at` was called last."""
        return any(each.end_offset is None for each in self._needs)

    @property
    def _needs(self) -> Iterator[Followed | _Deletions]:
        yield from self._followed.values()
        if self._deletions is not None:
            yield self._deletions

    # which partitions

    def follow(self, partition: TieredPartition) -> Followed:
        """Replay the records about a partition, from the topic's start on, unless it is followed already. Return what
        is replayed."""
        head = _head_of(partition)
        if head not in self._followed:
            self._followed[head] = Followed(partition)
            self.move_to(0)
        return self._followed[head]

    def forget(self, partition: TieredPartition, reason: str) -> None:
        """Replay the records about a partition no longer, and end the waits for it."""
        known = self._followed.pop(_head_of(partition), None)
        if known is not None:
            known.end(reason)

    def keep_deletions(self, *, is_leader: bool) -> None:
        """Keep the deletions that have begun, from the topic's start on, or keep them no longer. is_leader: whether
        this broker leads the partition of the topic."""
        if is_leader and self._deletions is None:
            self._deletions = _Deletions()
            self.move_to(0)
        elif not is_leader:
            self._deletions = None

    def unfinished(self) -> list[Deletion]:
        """Return the deletions that have begun and are not finished; none before all records are read."""
        return [] if self._deletions is None else self._deletions.unfinished()

    # what was read

    def is_of(self, topic_id: UUID) -> None:
        """Begin anew if the topic has another id than before: it was deleted and created again."""
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
            self._deletions = _Deletions()
        self.move_to(0)

    def is_beyond(self, start_offset: int) -> None:
        """Note that the position is not within the leader's log, which begins at start_offset: go to that if records
        were removed there; if the log ends before the position, it has lost records that were replayed, so begin
        anew."""
        if start_offset > self.position:
            self.move_to(start_offset)
            self._moved()
        else:
            log.warning("%s ends before offset %d: its records are read anew", self, self.position)
            self.restart()

    def move_to(self, position: int) -> None:
        """Go on reading at another position."""
        self.position = position
        self.round += 1

    def ends_at(self, end_offset: int) -> None:
        """Note the end of the topic's partition: it is what partitions wait for that have been followed until now."""
        for each in self._needs:
            if each.end_offset is None:
                each.end_offset = end_offset
        self._moved()

    def replay(self, data: bytes | memoryview, reading: int) -> Parts[None]:
        """Replay batches that were read at the position in the round `reading`, and move the position after them. Stop
        if the position was set anew since."""
        troubles = _Troubles()
        table = RecordTable(TABLE_RECORDS)
        count = 0
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
                if count % RECORDS_AT_ONCE == 0:
                    yield
                    if self.round != reading:
                        return
            self.position = max(self.position, _end_of(part, troubles))
            part.release()
            self._moved()
        self._report(troubles)

    def _report(self, troubles: _Troubles) -> None:
        """Log what was passed over, but not the same twice in a row, as damaged bytes may be read again."""
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
    """The records of one read that are passed over: one line in the log tells of all of them."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def add(self, offset: int, reason: str) -> None:
        """Note a record, or a batch."""
        self._count += 1
        self._first = self._first or f"offset {offset}: {reason}"

    @property
    def text(self) -> str:
        """The line; empty if there are none."""
        if not self._count:
            return ""
        what = "a record is passed over" if self._count == 1 else f"{self._count:,} records are passed over, first"
        return f"{what}: {self._first}"


def _records(window: Window, table: RecordTable) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and value of each record, but for control records and those of damaged batches."""
    batches = window.batches
    for buffer in decode(window, table):
        for i in range(table.count):
            record = RecordRow._make(table.row(i))
            batch = BatchRow._make(batches.row(record.batch))
            if not batch.is_control and not batch.faults & DAMAGED:
                yield record.offset, record.value(buffer)


def _end_of(window: Window, troubles: _Troubles) -> int:
    """Return the offset after the last sound batch, 0 without one, and note the damaged ones, whose records were
    passed over."""
    end = 0
    for i in range(window.batches.count):
        batch = BatchRow._make(window.batches.row(i))
        if batch.faults & DAMAGED:
            troubles.add(batch.base_offset, "a damaged batch")
        else:
            end = batch.last_offset + 1
    return end


def _head_of(partition: TieredPartition) -> bytes:
    """Return what the records about a partition have after their kind."""
    name = partition.topic.encode()
    return uvarint(len(name) + 1) + name + uuid_bytes(partition.topic_id) + partition.partition.to_bytes(4)


def _head_in(value: bytes | None) -> bytes:
    """Return what a record has there, without decoding the rest. Raises Refused, FormatError for bytes that are no
    record."""
    if value is None or value[:1] != b"\1" or len(value) < HEAD_BYTES or value[1] > 2 or value[2] != 0:
        RemoteLogMetadata().replay(value)
        raise Refused("no record of this topic")
    length, at = read_uvarint(value, HEAD_BYTES, "the length of a topic's name")
    end = at + length - 1 + ID_AND_NUMBER_BYTES
    if end > len(value):
        raise Truncated("the record ends within its partition", len(value))
    return value[HEAD_BYTES:end]
