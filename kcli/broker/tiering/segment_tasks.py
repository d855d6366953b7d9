"""Copies one segment to the tier, or deletes one there, with the records that say so.

    copy     COPY_SEGMENT_STARTED, the objects, COPY_SEGMENT_FINISHED
    delete   DELETE_SEGMENT_STARTED, the objects, DELETE_SEGMENT_FINISHED

A record is in `__remote_log_metadata` before the first object is written, and the last one follows when no object is
left: after a crash no object is there that no record names. A copy that fails is deleted at once; if that fails, too,
expiry does it (kcli.tier.expiry). A copy whose last record gets no answer stays: the record may be in the topic.
Source: RemoteLogManager.copyLogSegment, deleteRemoteLogSegment.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING, BinaryIO, Final

from formats.file_name import FileKind
from kcli.broker.metadata.format import random_id
from kcli.errors import KcliError
from kcli.tier.layout import KINDS, directory_name, object_name
from kcli.tier.records import (
    PARTITION_DELETE,
    SEGMENT,
    SEGMENT_UPDATE,
    partition_delete_value,
    segment_value,
    update_value,
)
from kcli.tier.segment import PartitionDeleteState, RemoteSegment, SegmentState
from kcli.tier.store import FilePart

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcli.broker.tiering.index_cache import IndexCache
    from kcli.broker.tiering.metadata_topic import MetadataTopic
    from kcli.broker.tiering.pool import ThreadPool
    from kcli.log.live.closed_segments import ClosedSegment, OpenSegment
    from kcli.log.live.partition_log import PartitionLog
    from kcli.tier.segment import TieredPartition
    from kcli.tier.store import Store

log = logging.getLogger("kcli.broker")

WINDOW_BYTES: Final = 1 << 20


class CannotCopy(KcliError):
    """A segment lacks something that the tier needs: the producer snapshot at its end, or its leader epochs."""


class BrokenOff(KcliError):
    """The copy of a segment was cancelled, as this broker leads the partition no longer, or stops."""


class SegmentTasks:
    """Copies and deletes segments. copiers, deleters: the threads that wait for the store."""

    def __init__(
        self,
        store: Store,
        metadata: MetadataTopic,
        indexes: IndexCache,
        copiers: ThreadPool,
        deleters: ThreadPool,
        broker_id: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._store, self._metadata, self._indexes = store, metadata, indexes
        self._copiers, self._deleters = copiers, deleters
        self._broker_id, self._now_ms = broker_id, now_ms
        self.being_copied: set[str] = set()
        """The ids of the segments whose copy has begun and not ended."""
        self.unsettled: set[str] = set()
        """The ids of those of which nobody knows whether COPY_SEGMENT_FINISHED is in the topic, as no answer came: the
        record may follow. They must not be deleted as failed copies, for a leader may take them for copied then."""
        self._copies: dict[asyncio.Future[None], TieredPartition] = {}

    async def copy(self, whose: TieredPartition, opened: PartitionLog, closed: ClosedSegment) -> None:
        """Copy a segment of a log. Raises CannotCopy, MetadataFailed, KcliError and OSError of the store or the log.

        A copy that is cancelled breaks off after the record or the window that it is writing, see `copies_ended`: no
        object may be written after the deletion of its segment.
        """
        segment = self._begun(whose, opened, closed)
        broken_off = Event()
        work = asyncio.ensure_future(self._copy(segment, closed, opened.epochs_to(closed.next_offset), broken_off))
        self._copies[work] = whose
        work.add_done_callback(self._ended)
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            broken_off.set()
            raise

    def _ended(self, work: asyncio.Future[None]) -> None:
        del self._copies[work]
        if not work.cancelled():
            work.exception()  # nobody awaits a copy that was cancelled

    async def copies_ended(self, whose: TieredPartition | None = None, timeout_s: float | None = None) -> None:
        """Wait until the cancelled copies of a partition, or all of them, have broken off; at most timeout_s."""
        copies = [work for work, of in self._copies.items() if whose in (None, of)]
        if copies:
            await asyncio.wait(copies, timeout=timeout_s)

    async def _copy(self, segment: RemoteSegment, closed: ClosedSegment, epochs: bytes, broken_off: Event) -> None:
        self.being_copied.add(segment.id)
        try:
            with await self._copiers.run(closed.open) as files:
                _check(broken_off)
                await self._metadata.append(segment.partition, segment_value(segment), SEGMENT)
                try:
                    await self._copiers.run(self._write, segment, files, epochs, broken_off)
                except (KcliError, OSError):
                    if not broken_off.is_set():
                        await self._undo(segment)
                    raise
            self.unsettled.add(segment.id)
            await self._update(segment, SegmentState.COPY_SEGMENT_FINISHED)
            self.unsettled.discard(segment.id)
        finally:
            self.being_copied.discard(segment.id)

    def _begun(self, whose: TieredPartition, opened: PartitionLog, closed: ClosedSegment) -> RemoteSegment:
        epochs = opened.epoch_starts(closed.base_offset, closed.next_offset)
        if not epochs:
            raise CannotCopy(f"{closed.log_path}: the log has no leader epoch for it")
        if closed.producer_snapshot_path is None:
            raise CannotCopy(f"{closed.log_path}: there is no producer snapshot at offset {closed.next_offset:,}")
        index = closed.txn_index_path
        return RemoteSegment(
            partition=whose,
            id=random_id(),
            start_offset=closed.base_offset,
            end_offset=closed.next_offset - 1,
            size=closed.size,
            leader_epochs=epochs,
            has_txn_index=index is not None and index.stat().st_size > 0,
            state=SegmentState.COPY_SEGMENT_STARTED,
            max_timestamp_ms=closed.max_timestamp_ms,
            event_timestamp_ms=self._now_ms(),
            broker_id=self._broker_id,
        )

    def _write(self, segment: RemoteSegment, files: OpenSegment, epochs: bytes, broken_off: Event) -> None:
        """Write the objects of a segment, its .log last of all: a copy that breaks off has the least bytes to remove.

        epochs: the bytes of its leader_epoch_checkpoint. Raises BrokenOff between two windows.
        """
        sources: dict[FileKind, BinaryIO | None] = {
            FileKind.LOG: files.log,
            FileKind.OFFSET_INDEX: files.offset_index,
            FileKind.TIME_INDEX: files.time_index,
            FileKind.TXN_INDEX: files.txn_index,
            FileKind.PRODUCER_SNAPSHOT: files.producer_snapshot,
        }
        for kind in reversed(KINDS):
            _check(broken_off)
            if kind is FileKind.REMOTE_LEADER_EPOCHS:
                self._store.write(self._name(segment, kind), [epochs])
            elif (file := sources[kind]) is not None:
                size = segment.size if kind is FileKind.LOG else os.fstat(file.fileno()).st_size
                self._store.write(self._name(segment, kind), _windows(file, size, broken_off))

    async def _undo(self, segment: RemoteSegment) -> None:
        try:
            await self.delete(segment)
        except (KcliError, OSError) as error:
            log.warning("%s: segment %s is removed from the tier later: %s", segment.partition, segment.id, error)

    async def delete(self, segment: RemoteSegment) -> None:
        """Delete a segment. Raises MetadataFailed, KcliError and OSError of the store."""
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            await self._update(segment, SegmentState.DELETE_SEGMENT_STARTED)
        await self._deleters.run(self._remove, segment)
        await self._update(segment, SegmentState.DELETE_SEGMENT_FINISHED)

    async def delete_partition(self, whose: TieredPartition, state: PartitionDeleteState) -> None:
        """Append how far the deletion of a partition has come; when it is finished, remove what the store has of the
        partition besides objects. Raises MetadataFailed, OSError."""
        if state is PartitionDeleteState.DELETE_PARTITION_FINISHED:
            await self._deleters.run(self._store.forget, directory_name(whose))
        value = partition_delete_value(whose, state, self._broker_id, self._now_ms())
        await self._metadata.append(whose, value, PARTITION_DELETE)

    def _remove(self, segment: RemoteSegment) -> None:
        for kind in KINDS:
            self._store.delete(self._name(segment, kind))
        self._indexes.remove([(segment.start_offset, segment.id)])

    async def _update(self, segment: RemoteSegment, state: SegmentState) -> None:
        value = update_value(segment, state, self._broker_id, self._now_ms(), segment.custom_metadata)
        await self._metadata.append(segment.partition, value, SEGMENT_UPDATE)

    @staticmethod
    def _name(segment: RemoteSegment, kind: FileKind) -> str:
        return object_name(segment.partition, segment.start_offset, segment.id, kind)


def _check(broken_off: Event) -> None:
    if broken_off.is_set():
        raise BrokenOff("this broker no longer copies the partition")


def _windows(file: BinaryIO, size: int, broken_off: Event) -> Iterator[FilePart]:
    """Yield the first `size` bytes of a file, a window at a time. Raises BrokenOff between two windows."""
    for start in range(0, size, WINDOW_BYTES):
        _check(broken_off)
        yield FilePart(file.fileno(), start, min(WINDOW_BYTES, size - start))
