"""Reads from the tier the state of a log at the end of a segment, for a follower whose log begins there.

    leader_epoch_checkpoint   the leader epochs of the log up to the end of the segment
    .snapshot                 the log's producers at the end of the segment

Source: TierStateMachine.buildRemoteLogAuxState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.checkpoint import parse_leader_epochs
from formats.file_name import FileKind
from kcli.broker.replication.tier_state import NotInTier, TierState
from kcli.broker.tiering.reader import tiered
from kcli.tier.layout import object_name
from kcli.tier.store import ObjectMissing
from kcli.tier.stored_segment import CHECKPOINT_BYTES_MAX, read_object

if TYPE_CHECKING:
    from kcli.broker.partition.partitions import Partition
    from kcli.broker.tiering.pool import ThreadPool
    from kcli.broker.tiering.reader import Segments
    from kcli.tier.segment import RemoteSegment
    from kcli.tier.store import Store

SNAPSHOT_BYTES_MAX = 256 << 20
"""The size, in bytes, of the largest producer snapshot that is read: it has more than a million producers."""


class StatesInTier:
    """Reads the state of logs from the tier, in threads."""

    def __init__(self, store: Store, segments: Segments, pool: ThreadPool) -> None:
        self._store, self._segments, self._pool = store, segments, pool

    async def state_behind(self, partition: Partition, epoch: int, offset: int) -> TierState:
        """Return the state of the log at the end of the tiered segment that has `offset` in leader epoch `epoch`. Waits
        until the records about the partition are replayed. Raises NotInTier, KcliError, OSError, FormatError."""
        whose = tiered(partition)
        self._segments.follow(whose)
        await self._segments.ready(whose)
        segment = self._segments.cache(whose).segment_at(epoch, offset)
        if segment is None:
            raise NotInTier(f"{partition}: no segment in the tier has offset {offset:,} of leader epoch {epoch}")
        return await self._pool.run(self._read, segment)

    def _read(self, segment: RemoteSegment) -> TierState:
        epochs = parse_leader_epochs(self._object(segment, FileKind.REMOTE_LEADER_EPOCHS, CHECKPOINT_BYTES_MAX))
        try:
            snapshot = self._object(segment, FileKind.PRODUCER_SNAPSHOT, SNAPSHOT_BYTES_MAX)
        except ObjectMissing:
            snapshot = None
        return TierState(segment.end_offset + 1, tuple(epochs), snapshot)

    def _object(self, segment: RemoteSegment, kind: FileKind, limit_bytes: int) -> bytes:
        return read_object(
            self._store, object_name(segment.partition, segment.start_offset, segment.id, kind), limit_bytes
        )
