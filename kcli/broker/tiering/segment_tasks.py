"""Copies a segment to the tier, or deletes one there, and appends the records about it.

    copy     COPY_SEGMENT_STARTED, the objects, COPY_SEGMENT_FINISHED
    delete   DELETE_SEGMENT_STARTED, the objects, DELETE_SEGMENT_FINISHED

The first record is in `__remote_log_metadata` before the first object is written, and DELETE_SEGMENT_FINISHED follows
when no object is left: so after a crash there is no object that no record names. A copy that fails is deleted at once;
if that fails, too, expiry deletes it (kcli.tier.expiry). If the append of COPY_SEGMENT_FINISHED gets no response, the
copy is not deleted, as the record may be in the topic. Source: RemoteLogManager.copyLogSegment, deleteRemoteLogSegment.
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
    """A segment lacks something that the tier needs: the producer snapshot at its end, or its leader epochs; or the
    records about it were refused when they were replayed."""


class BrokenOff(KcliError):
    """The copy of a segment was cancelled, as this broker leads the partition no longer, or stops."""


class SegmentTasks:
    """Copies and deletes segments. copiers, deleters: the threads in which the store is called."""

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
        """The ids of the segments whose COPY_SEGMENT_FINISHED got no response, so that it is unknown whether it is
        in the topic. They must not be deleted as failed copies, as a leader may count them as copied."""
        self._copies: dict[asyncio.Future[None], TieredPartition] = {}

    async def copy(self, whose: TieredPartition, opened: PartitionLog, closed: ClosedSegment) -> None:
        """Copy a segment of a log. Raises CannotCopy, MetadataFailed, KcliError and OSError of the store or the log.

        A cancelled copy continues until the record or the window of bytes that it is writing is written. Wait for this
        with `copies_ended` before you delete the segment: no object may be written after its deletion.
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
            work.exception()  # retrieved, as nothing awaits a cancelled copy

    async def copies_ended(self, whose: TieredPartition | None = None, timeout_s: float | None = None) -> None:
        """Wait until the cancelled copies of a partition (None: of all partitions) have ended; at most timeout_s
        seconds."""
        copies = [work for work, of in self._copies.items() if whose in (None, of)]
        if copies:
            await asyncio.wait(copies, timeout=timeout_s)

    async def _copy(self, segment: RemoteSegment, closed: ClosedSegment, epochs: bytes, broken_off: Event) -> None:
        self.being_copied.add(segment.id)
        try:
            with await self._copiers.run(closed.open) as files:
                _check(broken_off)
                await self._metadata.append(segment.partition, segment_value(segment), SEGMENT)
                self._check_taken(segment, SegmentState.COPY_SEGMENT_STARTED)
                try:
                    await self._copiers.run(self._write, segment, files, epochs, broken_off)
                except (KcliError, OSError):
                    if not broken_off.is_set():
                        await self._undo(segment)
                    raise
            self.unsettled.add(segment.id)
            await self._update(segment, SegmentState.COPY_SEGMENT_FINISHED)
            self.unsettled.discard(segment.id)
            self._check_taken(segment, SegmentState.COPY_SEGMENT_FINISHED)
        finally:
            self.being_copied.discard(segment.id)

    def _check_taken(self, segment: RemoteSegment, state: SegmentState) -> None:
        """Raise CannotCopy unless the segment is in `state` after the replay of its records: otherwise no read finds
        the segment in the tier, and local retention must not delete it here."""
        if (found := self._metadata.state_of(segment)) is not state:
            name = "unknown" if found is None else found.name
            raise CannotCopy(f"{segment.partition}: segment {segment.id} is {name} behind its record {state.name}")

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
        """Write the objects of a segment, its .log last, so that an interrupted copy has few bytes to remove.

        epochs: the bytes of its leader_epoch_checkpoint. Raises BrokenOff, between two windows, once broken_off is set.
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
        """Delete a segment from the tier. Raises MetadataFailed, KcliError and OSError of the store."""
        if segment.state is not SegmentState.DELETE_SEGMENT_STARTED:
            await self._update(segment, SegmentState.DELETE_SEGMENT_STARTED)
        await self._deleters.run(self._remove, segment)
        await self._update(segment, SegmentState.DELETE_SEGMENT_FINISHED)

    async def delete_partition(self, whose: TieredPartition, state: PartitionDeleteState) -> None:
        """Append the record that the deletion of a partition is in `state`; for DELETE_PARTITION_FINISHED, first remove
        what the store has of the partition besides objects. Raises MetadataFailed, OSError."""
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
    """Yield the first `size` bytes of a file, a window at a time. Raises BrokenOff, between two windows, once
    broken_off is set."""
    for start in range(0, size, WINDOW_BYTES):
        _check(broken_off)
        yield FilePart(file.fileno(), start, min(WINDOW_BYTES, size - start))
