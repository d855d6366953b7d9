"""A reader of a tier, as a broker has it, with the partition's segments and lineage given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from formats.checkpoint import EpochEntry
from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.kernels.scan import scan
from formats.txn_index import AbortedTxn
from kcli.broker.tiering.index_cache import IndexCache
from kcli.broker.tiering.pool import ThreadPool
from kcli.broker.tiering.reader import RemoteReader
from kcli.broker.tiering.reads import RemoteRead, Wanted
from kcli.log.batch_records import decode
from kcli.log.segment_reader import Window
from kcli.metadata.partition import to_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.tier.cache import SegmentCache
from kcli.tier.segment import TieredPartition
from kcli.tier.store import Store

T = TypeVar("T")
Record = tuple[int, int, int, bytes | None, bytes | None]
"""Offset, leader epoch, timestamp (ms), key, value."""


@dataclass
class Opened:
    """What the reader needs of a partition's log. aborted: the aborted transactions of the local log."""

    leader_epochs: tuple[EpochEntry, ...]
    local_log_start_offset: int
    log_start_offset: int = 0
    aborted: list[AbortedTxn] = field(default_factory=list)

    def aborted_transactions(self, first: int, upper: int) -> list[AbortedTxn]:
        return [each for each in self.aborted if each.last_offset >= first and each.first_offset < upper]

    def offset_for_timestamp(self, _: int) -> None:
        return None


class Known:
    """The segments of partitions, all replayed."""

    def __init__(self, caches: dict[TieredPartition, SegmentCache]) -> None:
        self.caches = caches

    def follow(self, partition: TieredPartition) -> None:
        assert partition in self.caches

    async def ready(self, partition: TieredPartition) -> None:
        assert partition in self.caches

    def cache(self, partition: TieredPartition) -> SegmentCache:
        return self.caches[partition]


class Quota:
    """A fetch quota that counts. used_up: whether it says so."""

    def __init__(self) -> None:
        self.size = 0
        self.used_up = False

    def throttle_ms(self) -> int:
        return 1_000 if self.used_up else 0

    def record(self, size: int) -> None:
        self.size += size


class Reading:
    """A reader and its parts. Use it inside of a running event loop."""

    def __init__(
        self, store: Store, caches: dict[TieredPartition, SegmentCache], home: Path, *, cache_bytes: int = 1 << 30
    ) -> None:
        self.pool = ThreadPool("test-reader", lambda: 2, lambda: 10)
        self.indexes = IndexCache(home, store, lambda: cache_bytes)
        self.indexes.load()
        self.quota = Quota()
        self.reader = RemoteReader(store, Known(caches), self.indexes, self.pool, self.quota)

    async def read(
        self,
        partition: TieredPartition,
        opened: Opened,
        offset: int,
        max_bytes: int = 1 << 20,
        *,
        min_one_batch: bool = True,
        with_aborted: bool = False,
    ) -> RemoteRead | ErrorCode:
        wanted = Wanted(offset, max_bytes, min_one_batch, with_aborted)
        return await self.reader.read(replica(partition), opened, wanted)  # type: ignore[arg-type]


def replica(partition: TieredPartition) -> Any:
    """What the reader needs of a replica."""
    topic_id = to_uuid(partition.topic_id)
    return SimpleNamespace(topic=partition.topic, number=partition.partition, topic_id=topic_id)


def running(work: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine on an event loop of its own."""

    async def run() -> T:
        return await work()

    return asyncio.run(run())


def records_of(data: memoryview, *, with_markers: bool = False) -> tuple[list[Record], BatchTable]:
    """The records in whole batches, and the table of all batches."""
    table, records = BatchTable(), RecordTable(256)
    behind, _, _ = scan(data, 0, len(data), 0, table)
    assert behind == len(data), "whole batches"
    assert table.first_fault() == -1, "sound batches"
    found: list[Record] = []
    window = Window(bytearray(data), table, 0, len(data))
    for i in range(table.count):
        batch = BatchRow._make(table.row(i))
        if batch.is_control and not with_markers:
            continue
        for buffer in decode(window, records, first=i, last=i + 1):
            for each in range(records.count):
                row = RecordRow._make(records.row(each))
                found.append(
                    (
                        row.offset,
                        batch.leader_epoch,
                        row.timestamp,
                        _bytes(buffer, row.key_start, row.key_length),
                        _bytes(buffer, row.value_start, row.value_length),
                    )
                )
    return found, table


def _bytes(buffer: memoryview, start: int, length: int) -> bytes | None:
    return None if length < 0 else bytes(buffer[start : start + length])


def next_offset(table: BatchTable) -> int:
    """The offset behind the last batch."""
    return BatchRow._make(table.row(table.count - 1)).last_offset + 1


def committed(data: memoryview, aborted: tuple[AbortedTxn, ...]) -> list[Record]:
    """The records that a consumer with read_committed gets of a response: it skips a producer's batches from the first
    offset of an aborted transaction to the producer's next marker."""
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    aborting: set[int] = set()
    found: list[Record] = []
    for i in range(table.count):
        row = BatchRow._make(table.row(i))
        while waiting and waiting[0].first_offset <= row.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if row.is_control:
            aborting.discard(row.producer_id)
        elif not (row.is_transactional and row.producer_id in aborting):
            found += records_of(data[row.start : row.start + row.size])[0]
    return found
