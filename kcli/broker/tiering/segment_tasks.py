"""Copies one segment to the tier, or deletes one there, with the records that say so.

    copy     COPY_SEGMENT_STARTED, the objects, COPY_SEGMENT_FINISHED
    delete   DELETE_SEGMENT_STARTED, the objects, DELETE_SEGMENT_FINISHED

A record is in `__remote_log_metadata` before the first object is written, and the last one follows when no object is
left: after a crash no object is there that no record names. A copy that fails is deleted at once; if that fails, too,
expiry does it (kcli.tier.expiry). Source: RemoteLogManager.copyLogSegment, deleteRemoteLogSegment.
"""

from __future__ import annotations

import logging
import os
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from formats.file_name import FileKind
from kcli.errors import KcliError
from kcli.tier.layout import KINDS, object_name
from kcli.tier.records import SEGMENT, SEGMENT_UPDATE, segment_value, update_value
from kcli.tier.segment import RemoteSegment, SegmentState

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

    async def copy(self, whose: TieredPartition, opened: PartitionLog, closed: ClosedSegment) -> None:
        """Copy a segment of a log. Raises CannotCopy, MetadataFailed, KcliError and OSError of the store or the log."""
        segment = self._begun(whose, opened, closed)
        epochs = opened.epochs_to(closed.next_offset)
        self.being_copied.add(segment.id)
        try:
            with await self._copiers.run(closed.open) as files:
                await self._metadata.append(whose, segment_value(segment), SEGMENT)
                try:
                    await self._copiers.run(self._write, segment, files, epochs)
                    await self._update(segment, SegmentState.COPY_SEGMENT_FINISHED)
                except (KcliError, OSError):
                    await self._undo(segment)
                    raise
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
            id=new_segment_id(),
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

    def _write(self, segment: RemoteSegment, files: OpenSegment, epochs: bytes) -> None:
        """Write the objects of a segment, its .log last of all: a copy that breaks off has the least bytes to remove.

        epochs: the bytes of its leader_epoch_checkpoint.
        """
        sources: dict[FileKind, BinaryIO | None] = {
            FileKind.LOG: files.log,
            FileKind.OFFSET_INDEX: files.offset_index,
            FileKind.TIME_INDEX: files.time_index,
            FileKind.TXN_INDEX: files.txn_index,
            FileKind.PRODUCER_SNAPSHOT: files.producer_snapshot,
        }
        for kind in reversed(KINDS):
            if kind is FileKind.REMOTE_LEADER_EPOCHS:
                self._store.write(self._name(segment, kind), [epochs])
            elif (file := sources[kind]) is not None:
                size = segment.size if kind is FileKind.LOG else os.fstat(file.fileno()).st_size
                self._store.write(self._name(segment, kind), _windows(file, size))

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


def new_segment_id() -> str:
    """Return a random id as Kafka's Uuid.randomUuid makes them: none begins with a dash."""
    while True:
        data = bytearray(os.urandom(16))
        data[6], data[8] = data[6] & 0x0F | 0x40, data[8] & 0x3F | 0x80
        text = urlsafe_b64encode(data).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _windows(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the first `size` bytes of a file. Raises OSError if the file is shorter."""
    done = 0
    while done < size:
        data = os.pread(file.fileno(), min(WINDOW_BYTES, size - done), done)
        if not data:
            raise OSError(f"{file.name}: ends at byte {done:,} of {size:,}")
        done += len(data)
        yield data
