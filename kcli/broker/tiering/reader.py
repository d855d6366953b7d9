"""Reads from segments in the tier: what a consumer's Fetch asks for, and the first record at or after a timestamp.

    read       whole batches of one segment, from the batch with an offset on, and the aborted transactions among them
    find_time  the first record at or after a timestamp

Which segment has an offset follows from the records of `__remote_log_metadata` and the lineage of leader epochs; it is
looked up on the event loop. Threads read from the store, and only that part of the segment's object which the offset
index names and the Fetch asks for. A store that hangs delays only requests that read from it.

    no segment has the offset        OFFSET_OUT_OF_RANGE
    no batch of the segment has it   the next segment is read: compaction removed the records before the copy
    the store fails, bad bytes       UNKNOWN_SERVER_ERROR and a line in the log; the client tries again. Each batch's
                                     CRC is checked: a batch with wrong bytes, and what follows it, is not delivered
    a wrong index                    UNKNOWN_SERVER_ERROR, and the index is fetched anew
    too many reads wait              UNKNOWN_SERVER_ERROR
    records of the topic are not     the read waits until they are
    all replayed

Aborted transactions come from the transaction indexes of the segment and of later segments, then from the local log.
The search ends at an index that shows that later ones have no transactions with records in the batches. Source:
RemoteLogManager, RemoteLogReader, RemoteLogOffsetReader.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from formats.errors import BadChecksum, BadLength, BadValue
from formats.file_name import FileKind
from formats.kernels.batches import FAULT_BAD_CRC, BatchTable
from formats.kernels.columns import BASE_OFFSET, LAST_OFFSET, MAX_TIMESTAMP, POSITION, SIZE, START, BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.scan import SCAN_BAD_LENGTH, SCAN_END, SCAN_INCOMPLETE, scan
from formats.txn_index import AbortedTxn
from kcli.broker.process.unattended import report
from kcli.broker.tiering.read_ahead import ReadAhead
from kcli.broker.tiering.reads import RemoteRead, Wanted
from kcli.errors import UnreadableInput
from kcli.log.batch_records import decode
from kcli.log.live.partition_log import OffsetOutOfRange
from kcli.log.live.segment import FoundRecord
from kcli.log.segment_reader import MAX_BATCH_BYTES, Damage, Window, read_segment
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.tier.layout import object_name
from kcli.tier.lineage import behind_older, last_readable, segment_at, segment_from, segments_with_txn_index
from kcli.tier.segment import RemoteSegment, TieredPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kcli.broker.partition.partitions import Partition
    from kcli.broker.tiering.index_cache import IndexCache, Indexes
    from kcli.broker.tiering.pool import ThreadPool
    from kcli.log.live.partition_log import PartitionLog
    from kcli.tier.cache import SegmentCache
    from kcli.tier.store import Store

log = logging.getLogger("kcli.broker")

SKIPPED_BYTES: Final = 32 << 10
"""The number of bytes that are read in addition to those that a Fetch asks for, as the offset index names a batch some
KB before the one with the offset."""
LOOKED_AT_ONCE: Final = 200
"""The number of segments that a search for a timestamp handles before it lets other work of the event loop run."""


class Segments(Protocol):
    """The segments in the tier by the records of `__remote_log_metadata`; MetadataTopic implements this protocol."""

    def follow(self, partition: TieredPartition) -> None:
        """Begin to replay the records about a partition, unless it is followed already."""

    async def ready(self, partition: TieredPartition) -> None:
        """Wait until the records about a partition are replayed. Raises NotReady."""

    def cache(self, partition: TieredPartition) -> SegmentCache:
        """Return the segments of a partition as they are now. Raises NotReady."""


class FetchQuota(Protocol):
    """The quota remote.log.manager.fetch.max.bytes.per.second."""

    def throttle_ms(self) -> int:
        """Return the time, in ms, until Fetches may read from the tier again; 0 if the quota is not used up."""

    def record(self, size: int) -> None:
        """Count bytes that were read."""


class _Found(NamedTuple):
    """The result of reading one segment in a thread. first_offset: the base offset of the first batch. upper: an offset
    above those of all batches. aborted: the aborted transactions in the segment's own index. is_complete: whether the
    indexes of later segments have no more of them."""

    records: memoryview
    first_offset: int = -1
    upper: int = -1
    aborted: tuple[AbortedTxn, ...] = ()
    is_complete: bool = True


def tiered(partition: Partition) -> TieredPartition:
    """Return the name, number and topic id by which tiered storage knows the partition."""
    return TieredPartition(partition.topic, partition.number, from_uuid(partition.topic_id))


class RemoteReader:
    """Reads from tiered storage what clients' requests (Fetch, ListOffsets) ask for. pool: the threads that read
    (remote.log.reader.threads)."""

    def __init__(
        self, store: Store, segments: Segments, indexes: IndexCache, pool: ThreadPool, quota: FetchQuota
    ) -> None:
        self._store, self._segments, self._indexes = store, segments, indexes
        self._ahead = ReadAhead(store)
        self._pool, self._quota = pool, quota

    def stop(self) -> None:
        """Stop the threads that read ahead."""
        self._ahead.close()

    @property
    def is_throttled(self) -> bool:
        """Whether Fetches may not read from the tier now, as the quota is used up."""
        return self._quota.throttle_ms() > 0

    async def read(self, partition: Partition, opened: PartitionLog, wanted: Wanted) -> RemoteRead | ErrorCode:
        """Return the batches that a Fetch reads from the tier, or the error code for the partition. opened: the
        partition's log."""
        try:
            found = await self._read(tiered(partition), opened, wanted)
        except OffsetOutOfRange:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        except Exception as error:  # noqa: BLE001  (a client gets an answer, whatever happens)
            report(f"{partition}: nothing is read from the tier at offset {wanted.offset:,}", error)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self._quota.record(len(found.records))
        return found

    async def find_time(
        self, partition: Partition, opened: PartitionLog, timestamp: int
    ) -> FoundRecord | ErrorCode | None:
        """Return the first record of a tiered log with a timestamp (ms) of at least `timestamp`, None if there is none;
        or the error code for the partition."""
        try:
            return await self._find_in_tier(partition, opened, timestamp)
        except Exception as error:  # noqa: BLE001  (as in `read`)
            report(f"{partition}: no offset is found in the tier for timestamp {timestamp:,}", error)
            return ErrorCode.UNKNOWN_SERVER_ERROR

    # on the event loop

    async def _find_in_tier(self, partition: Partition, opened: PartitionLog, timestamp: int) -> FoundRecord | None:
        from_offset = opened.log_start_offset
        whose = tiered(partition)
        self._segments.follow(whose)
        await self._segments.ready(whose)
        offset, count = from_offset, 0
        while True:
            lineage, cache = opened.leader_epochs, self._segments.cache(whose)
            found = segment_from(cache, lineage, behind_older(cache, lineage, offset, timestamp))
            if found is None or found[1] >= opened.local_log_start_offset:
                break
            segment, first = found
            last = last_readable(segment, lineage, first)
            newest = segment.max_timestamp_ms
            if newest is None or newest >= timestamp:
                record = await self._pool.run(self._find_time, segment, timestamp, from_offset, last)
                if record is not None:
                    return record
            offset, count = last + 1, count + 1
            if not count % LOOKED_AT_ONCE:
                await asyncio.sleep(0)
        return opened.offset_for_timestamp(timestamp)

    async def _read(self, whose: TieredPartition, opened: PartitionLog, wanted: Wanted) -> RemoteRead:
        self._segments.follow(whose)
        await self._segments.ready(whose)
        offset = wanted.offset
        segment = segment_at(self._segments.cache(whose), opened.leader_epochs, offset)
        if segment is None:
            raise OffsetOutOfRange(f"no segment in the tier has offset {offset:,}")
        found: _Found | None = None
        while segment is not None:
            last = last_readable(segment, opened.leader_epochs, offset)
            found = await self._pool.run(self._from_segment, segment, last, wanted)
            if found is not None:
                break
            offset = segment.end_offset + 1
            segment = segment_at(self._segments.cache(whose), opened.leader_epochs, offset)
        if found is None or segment is None:
            return RemoteRead(memoryview(b""))
        aborted = list(found.aborted)
        if not found.is_complete:
            aborted += await self._later_aborted(whose, opened, segment, found)
        unique = {(each.producer_id, each.first_offset): each for each in aborted}
        return RemoteRead(found.records, tuple(unique.values()))

    async def _later_aborted(
        self, whose: TieredPartition, opened: PartitionLog, segment: RemoteSegment, found: _Found
    ) -> Sequence[AbortedTxn]:
        """Return the aborted transactions with records in `found` whose markers are behind `segment`: in later segments
        of the tier, or in the local log."""
        aborted: list[AbortedTxn] = []
        while True:
            behind = segment.end_offset + 1
            following = next(segments_with_txn_index(self._segments.cache(whose), opened.leader_epochs, behind), None)
            if following is None:
                break
            more, is_complete = await self._pool.run(self._aborted, following, found.first_offset, found.upper)
            aborted += more
            if is_complete:
                return aborted
            segment = following
        return aborted + opened.aborted_transactions(found.first_offset, found.upper)

    # in threads

    def _from_segment(self, segment: RemoteSegment, last_offset: int, wanted: Wanted) -> _Found | None:
        """Read the wanted batches from one segment, up to `last_offset`. Return None if the segment has no batch with
        the wanted offset or a later one."""
        try:
            return self._batches_from(segment, last_offset, wanted)
        except Exception:
            self._ahead.forget(_log_name(segment))
            raise

    def _batches_from(self, segment: RemoteSegment, last_offset: int, wanted: Wanted) -> _Found | None:
        with self._indexes.open(segment) as indexes:
            at = indexed = indexes.position_of(wanted.offset)
            most = max(wanted.max_bytes, 0) + SKIPPED_BYTES
            while at < segment.size:
                data = self._ahead.read(_log_name(segment), at, min(at + most, segment.size), segment.size)
                table = BatchTable()
                behind, how, needed = scan(data, 0, len(data), at, table)
                _check_offsets(segment, table, at)
                if 0 < at == indexed and table.count and table.field(0, BASE_OFFSET) > wanted.offset:
                    reason = f"{_log_name(segment)}: the offset index names this byte for offset {wanted.offset:,}"
                    raise BadValue(f"{reason}, but its batch begins at {table.field(0, BASE_OFFSET):,}", at)
                bad = _first_bad(table)
                sound = range(table.count if bad < 0 else bad)
                first = bisect_right(sound, wanted.offset - 1, key=lambda i: table.field(i, LAST_OFFSET))
                if first < len(sound):
                    return self._cut(
                        segment, indexes, last_offset, wanted, _Batches(data, table, first, len(sound), at)
                    )
                if bad >= 0:
                    raise _bad_crc(segment, table, bad)
                is_zero = how == SCAN_END and behind < len(data)
                if how == SCAN_BAD_LENGTH or is_zero or (how == SCAN_INCOMPLETE and needed > MAX_BATCH_BYTES):
                    raise BadLength(f"{_log_name(segment)}: no batch begins here", at + behind)
                if how == SCAN_INCOMPLETE:
                    if at + behind + needed > segment.size:
                        break  # as in a log, an incomplete batch at the end is ignored
                    if not behind and len(data) >= needed:
                        raise BadLength(f"{_log_name(segment)}: no whole batch is here", at)
                    if len(data) < min(most, segment.size - at):
                        raise UnreadableInput(_log_name(segment), f"the object ends at byte {at + len(data):,}")
                    if needed > wanted.max_bytes and not wanted.min_one_batch:
                        return _Found(memoryview(b""))
                    most = max(most, needed)
                elif not behind:
                    break
                at += behind
            return None

    def _cut(
        self, segment: RemoteSegment, indexes: Indexes, last_offset: int, wanted: Wanted, batches: _Batches
    ) -> _Found:
        """Return those of the batches that a read asks for, with the aborted transactions in the segment's own
        index."""
        data, table, first, stop, position = batches
        start, size = table.field(first, START), table.field(first, SIZE)
        if size > wanted.max_bytes and not wanted.min_one_batch:
            return _Found(memoryview(b""))
        end = start + max(size, wanted.max_bytes)
        rows = range(first + 1, stop)
        count = bisect_right(rows, end, key=lambda i: table.field(i, START) + table.field(i, SIZE))
        count = min(count, bisect_right(rows, last_offset, key=lambda i: table.field(i, LAST_OFFSET)))
        last = first + count
        records = data[start : table.field(last, START) + table.field(last, SIZE)]
        if not wanted.with_aborted:
            return _Found(records)
        first_offset = table.field(first, BASE_OFFSET)
        upper = indexes.upper_bound(position + start + len(records))
        upper = segment.end_offset + 1 if upper is None else upper
        if not segment.has_txn_index:
            return _Found(records, first_offset, upper, is_complete=False)
        return _Found(records, first_offset, upper, *_among(indexes.aborted(), first_offset, upper))

    def _aborted(self, segment: RemoteSegment, first: int, upper: int) -> tuple[tuple[AbortedTxn, ...], bool]:
        with self._indexes.open(segment) as indexes:
            return _among(indexes.aborted(), first, upper)

    def _find_time(
        self, segment: RemoteSegment, timestamp: int, from_offset: int, last_offset: int
    ) -> FoundRecord | None:
        """Return the first record of a segment at or above `from_offset`, and not above `last_offset`, with a timestamp
        of at least `timestamp`."""
        with self._indexes.open(segment) as indexes:
            at = indexes.position_of_time(timestamp, from_offset)
        source = self._store.open(_log_name(segment))
        try:
            for part in read_segment(source, start=at, resync=False):
                if isinstance(part, Damage):
                    if part.at_end and part.position + part.length >= segment.size:
                        break
                    raise part.error
                found = _first_record(segment, part, timestamp, from_offset)
                if found is not None:
                    return found if found.offset <= last_offset else None
                part.release()
        finally:
            source.close()
        return None


class _Batches(NamedTuple):
    """Batches in memory: their bytes, and a table with a row for each. first: the row of the first batch to return.
    stop: the row behind the last batch that may be returned. position: the byte of the object where `data` begins."""

    data: memoryview
    table: BatchTable
    first: int
    stop: int
    position: int


def _check_offsets(segment: RemoteSegment, table: BatchTable, position: int) -> None:
    """Raise BadValue if batches have offsets outside of the segment's, as the object is then another segment's.
    position: the byte of the object where the batches begin."""
    if not table.count:
        return
    first, last = table.field(0, BASE_OFFSET), table.field(table.count - 1, LAST_OFFSET)
    if first < segment.start_offset or last > segment.end_offset:
        its = f"{segment.start_offset:,} to {segment.end_offset:,}"
        reason = f"{_log_name(segment)}: offsets {first:,} to {last:,}, not those of the segment ({its})"
        raise BadValue(reason, position)


def _first_bad(table: BatchTable) -> int:
    """Return the row of the first batch with a wrong CRC; -1 if there is none."""
    row = table.first_fault()
    while row >= 0 and not BatchRow._make(table.row(row)).faults & FAULT_BAD_CRC:
        row = table.first_fault(row + 1)
    return row


def _bad_crc(segment: RemoteSegment, table: BatchTable, row: int) -> BadChecksum:
    offset, position = table.field(row, BASE_OFFSET), table.field(row, POSITION)
    return BadChecksum(
        f"{_log_name(segment)}: the CRC of the batch at offset {offset:,} is not that of its bytes", position
    )


def _log_name(segment: RemoteSegment) -> str:
    return object_name(segment.partition, segment.start_offset, segment.id, FileKind.LOG)


def _among(aborted: Sequence[AbortedTxn], first: int, upper: int) -> tuple[tuple[AbortedTxn, ...], bool]:
    """Return the aborted transactions with records in [first, upper), and whether the indexes of later segments have no
    more of them. Source: TransactionIndex.collectAbortedTxns."""
    found = []
    for each in aborted:
        if each.last_offset >= first and each.first_offset < upper:
            found.append(each)
        if each.last_stable_offset >= upper:
            return tuple(found), True
    return tuple(found), False


def _first_record(segment: RemoteSegment, window: Window, timestamp: int, from_offset: int) -> FoundRecord | None:
    table, records = window.batches, RecordTable(256)
    bad = _first_bad(table)
    for i in range(table.count):
        if i == bad:
            raise _bad_crc(segment, table, i)
        if table.field(i, MAX_TIMESTAMP) < timestamp or table.field(i, LAST_OFFSET) < from_offset:
            continue
        epoch = BatchRow._make(table.row(i)).leader_epoch
        for _ in decode(window, records, first=i, last=i + 1):
            for each in range(records.count):
                row = RecordRow._make(records.row(each))
                if row.timestamp >= timestamp and row.offset >= from_offset:
                    return FoundRecord(row.timestamp, row.offset, epoch)
    return None
