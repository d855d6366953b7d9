"""How a follower begins its log at the end of what the leader has in tiered storage alone: it fetches none of that.

    asked of the leader   log start offset; earliest local offset (or with follower.fetch.last.tiered.offset.enable the
                          earliest one that is not in the tier yet, KIP-1023), with its epoch; where the epoch before
                          that one ends
    read from the tier    of the segment that has the offset before: the leader epochs and the producer snapshot
    then                  the log is emptied, begins at the end of that segment, and has these epochs and producers

Source: AbstractFetcherThread.handleOffsetsMovedToTieredStorage, TierStateMachine; KIP-405.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError
from kcli.log.live.partition_log import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD

if TYPE_CHECKING:
    from formats.checkpoint import EpochEntry
    from kcli.broker.partition.partitions import Partition

UNKNOWN = -1


class NotInTier(KcliError):
    """The state of a log is not in the tier, or not yet: the follower tries again."""


class TierState(NamedTuple):
    """The state of a log below next_offset, from the tier. snapshot: the bytes of the producer snapshot, None if there
    is none."""

    next_offset: int
    epochs: tuple[EpochEntry, ...]
    snapshot: bytes | None


class TierStates(Protocol):
    """Reads the state of logs from the tier."""

    async def state_behind(self, partition: Partition, epoch: int, offset: int) -> TierState:
        """Return the state of the log at the end of the tiered segment that has this offset in this leader epoch.
        Raises NotInTier; what the store raises, OSError and FormatError."""


class Leader(Protocol):
    """Requests to the leader of one partition. They raise Unanswered, or an error for a response with one."""

    async def offset(self, timestamp: int) -> tuple[int, int]:
        """Return the offset that ListOffsets answers for EARLIEST or the like, and its leader epoch."""

    async def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch that is not above `epoch`, and its end offset (OffsetForLeaderEpoch)."""


class Start(NamedTuple):
    """Where a follower begins. state: None if the log has nothing below its start."""

    log_start: int
    state: TierState | None


async def find_start(
    leader: Leader, tier: TierStates | None, partition: Partition, *, behind_last_tiered: bool
) -> Start:
    """Return where a follower begins. behind_last_tiered: after all that is in the tier, not only after what is there
    alone. tier: None if this broker has none. Raises NotInTier, and what `leader` and `tier` raise."""
    if tier is None or not partition.log.is_tiered:
        raise NotInTier(f"{partition}: this broker has no tiered storage for it")
    log_start, _ = await leader.offset(EARLIEST)
    start, epoch = UNKNOWN, UNKNOWN
    if behind_last_tiered:
        start, epoch = await leader.offset(EARLIEST_PENDING_UPLOAD)
    if start == UNKNOWN:
        start, epoch = await leader.offset(EARLIEST_LOCAL)
        if behind_last_tiered and start != log_start:
            raise NotInTier(f"{partition}: the leader does not know yet what is in the tier")
    if start <= log_start:
        return Start(log_start, None)
    if epoch > 0:
        earlier, end = await leader.end_of_epoch(epoch - 1)
        epoch = earlier if end >= start else epoch
    return Start(log_start, await tier.state_behind(partition, epoch, start - 1))
